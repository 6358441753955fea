"""Claims that have a volume and that no pod uses: once such a claim is deleted, the room of its volume comes back.

Which pool a driver gives the room back to is not known before: a pod is helped only if it fits whichever pool it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key, Object
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.volumes.capacity.pools import listed_pools
from tonnage.whatif.node_copies import ids_largest_first, sharing_pools, volumes_on, with_more_room

_MOST_UNUSED: Final = 16


@dataclass(frozen=True, slots=True)
class UnusedClaim:
    claim: PersistentVolumeClaim
    volume: PersistentVolume
    node: str
    """The only node that reaches the volume."""
    room: Sequence[Sequence[Object]]
    """For each pool that the room may come back to, the capacity objects as they are then."""


def unused_claims(objects: Iterable[Object], but_by: Key = "") -> Iterator[UnusedClaim]:
    """Claims that no pod uses, but for the pod `but_by`, and whose volume is deleted with them."""
    known = list(objects)
    pods = [each for each in known if isinstance(each, Pod) and not each.is_terminal and each.key != but_by]
    used = {key for each in pods for key in each.claim_keys()}
    nodes = [each for each in known if isinstance(each, Node)]
    volumes = {each.name: each for each in known if isinstance(each, PersistentVolume)}
    claims = [each for each in known if isinstance(each, PersistentVolumeClaim)]
    unused = [each for each in claims if each.spec.volume_name and each.key not in used]
    for claim in sorted(unused, key=lambda each: each.key)[:_MOST_UNUSED]:
        volume = volumes.get(claim.spec.volume_name)
        if volume is not None and volume.spec.persistent_volume_reclaim_policy == "Delete":
            homes = [node for node in nodes if volume in volumes_on(node, (node, volume))]
            if len(homes) == 1:
                yield UnusedClaim(claim, volume, homes[0].name, _room(volume, homes[0], known))


def _room(volume: PersistentVolume, node: Node, objects: Sequence[Object]) -> Sequence[Sequence[Object]]:
    for each in objects:
        if (
            isinstance(each, CSIStorageCapacity)
            and each.storage_class_name == volume.class_name
            and each.node_topology is not None
            and each.node_topology.matches(node.metadata.labels)
        ):
            sharing, size = sharing_pools(each, objects), volume.size.value()
            if ids := ids_largest_first(each):
                return [_with_more_in(pool, size, each, objects) for pool in ids]
            return [
                [with_more_room(one, size, as_pool=False, number=number) for one in sharing]
                for number in range(max(1, len(listed_pools(each))))
            ]
    return [[]]


def _with_more_in(
    pool: str, size: int, capacity: CSIStorageCapacity, objects: Sequence[Object]
) -> list[CSIStorageCapacity]:
    """All objects of the topology that have the pool of this id, with so much more in it."""
    here = [each for each in objects if isinstance(each, CSIStorageCapacity)]
    return [
        with_more_room(each, size, as_pool=False, number=ids_largest_first(each).index(pool))
        for each in here
        if each.node_topology == capacity.node_topology and pool in ids_largest_first(each)
    ]
