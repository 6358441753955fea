"""What a pod still needs of storage, read off its claims once per attempt: the same for every node, where it can be.

    bound       stays with its volume; the node must be able to reach that
    pinned      is being provisioned for a node already (selected-node); only that node will do
    loose       takes a free volume that exists, or one is made
    rebuilds    is bound, but its driver would make its volume anew on other nodes than its home (KEP-5925);
                `rebuilds.py` says which these are

A claim to be rebuilt is counted like a loose one on every node but one, with three exceptions: its old selected-node
does not pin it, its own volume is no free volume to bind, and it takes that volume's size, whatever the claim asks for.
On its home, if the pod puts up with that node, it is bound like any other: its volume is there or on its way.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.meta import Key
from tonnage.quantity import Quantity
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.storage import Storage
from tonnage.scheduling.volumes.packing import PoolPolicy, Sizes
from tonnage.scheduling.volumes.pod_claims import PodClaims
from tonnage.scheduling.volumes.rebuilds import Rebuild, rebuilds_of

_NOTHING = Quantity.from_int(0)


class ClaimGroup(NamedTuple):
    """Claims of one class, or of several that share their pools (`joint_name`), whose volumes are to be made together:
    `sizes` in bytes, descending."""

    class_name: str
    sizes: Sizes
    pool_policy: PoolPolicy = PoolPolicy.UNKNOWN
    """How their driver picks pools: answers for other groups of these sizes do not hold for this one."""


class Demand(NamedTuple):
    bound: tuple[tuple[PersistentVolumeClaim, PersistentVolume | None], ...] = ()
    """With the volume, None when it is gone. Those that may be rebuilt are here as well: their volumes are to be
    reachable all the same."""
    pinned: tuple[PersistentVolumeClaim, ...] = ()
    loose: tuple[PersistentVolumeClaim, ...] = ()
    rebuilds: tuple[Rebuild, ...] = ()
    sharers: tuple[tuple[Key, frozenset[int]], ...] = ()
    """Bound claims that others have in use, with the rows on which they do: only there will do (`shared_claims.py`)."""

    @property
    def is_settled(self) -> bool:
        """Everything is bound and stays where it is."""
        return not self.pinned and not self.loose and not self.rebuilds


def demand_of(cluster: Cluster, claims: PodClaims, *, is_joint: bool) -> Demand:
    """Sort a pod's claims. With `is_joint` (KEP-5925) one that is mounted twice is one volume, and some are rebuilt."""
    bound, delayed = claims.bound, claims.delayed
    if claims.are_new:
        return Demand(loose=_each_once(delayed) if is_joint else delayed)
    if is_joint:
        bound, delayed = _each_once(bound), _each_once(delayed)
    storage = cluster.storage
    found = tuple([(claim, storage.volumes.get(claim.spec.volume_name)) for claim in bound])
    return Demand(
        found,
        tuple([claim for claim in delayed if claim.selected_node]) if delayed else (),
        tuple([claim for claim in delayed if not claim.selected_node]) if delayed else (),
        tuple(rebuilds_of(cluster, found)) if is_joint and bound else (),
    )


def _each_once(claims: tuple[PersistentVolumeClaim, ...]) -> tuple[PersistentVolumeClaim, ...]:
    if len(claims) < 2:
        return claims
    return tuple({claim.key: claim for claim in claims}.values())


def by_size(claims: Iterable[PersistentVolumeClaim]) -> list[PersistentVolumeClaim]:
    """Smallest first, by exact quantity; equals stay in the pod's order."""
    return sorted(claims, key=lambda claim: claim.requested or _NOTHING)


def counted_bytes(claim: PersistentVolumeClaim, storage: Storage, *, is_rebuild: bool = False) -> int | None:
    """The bytes that must be free for a claim; None when nobody checks: no such driver, one that does not publish its
    capacity, or a claim that does not say how much it wants. With `is_rebuild`, those that its volume has.

    Provisioners publish nothing for Immediate classes unless they are told to (--capacity-for-immediate-binding):
    without any object of such a class nobody can check either.
    """
    size = size_to_make(claim, storage, is_rebuild=is_rebuild)
    if size is None:
        return None
    of_class = storage.classes.get(claim.class_name)
    driver = storage.drivers.get(of_class.provisioner) if of_class is not None else None
    if of_class is None or driver is None or not driver.spec.storage_capacity:
        return None
    is_published = of_class.waits_for_consumer or any(
        each.storage_class_name == of_class.name for each in storage.capacities.values()
    )
    return size.value() if is_published or not is_rebuild else None


def size_to_make(claim: PersistentVolumeClaim, storage: Storage, *, is_rebuild: bool) -> Quantity | None:
    """How large the volume of a claim is going to be: as asked for, or when it is made anew, as large as it was.

    A claim that asks for more than its volume has waits for the volume to be expanded, which is another matter.
    """
    volume = storage.volumes.get(claim.spec.volume_name) if is_rebuild else None
    return volume.size if volume is not None and volume.size.value() else claim.requested
