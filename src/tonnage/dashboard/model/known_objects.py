"""The input of rows: objects by kind and key, with indexes, the contents of a driver's pools, and refused volumes.

Objects of other kinds are kept for questions. An index returns an empty set for unknown keys.

Volumes and capacity objects name nodes by labels. A volume's affinity names either nodes (by a label that one node has)
or places (zones, regions); only the first says where the volume is. `DriverContents` exists only for the reference
driver of an embedded cluster (`follow/driver_records.py`); elsewhere rows rely on capacity objects.

`Refusals` are those that Events report: why a claim's volume cannot be made, since when, and how many refusals came. An
Event that is received again counts only by what its count grew. Both memories are bounded: the oldest entries go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from tonnage.driver.node_pools import PoolId
from tonnage.objects import apps_v1, batch_v1, requirements, selectors
from tonnage.objects.core_v1 import Event, Node, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.core_v1.pod import BETA_REGION, BETA_ZONE, REGION, ZONE
from tonnage.objects.meta import Key, Object
from tonnage.objects.storage_v1 import CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment
from tonnage.scheduling.volumes.volume_reach import affinity_of
from tonnage.whatif.shadow.signs import LIMIT_EXCEEDED, PROVISIONING_FAILED, TOLD_BY_EVENTS

Label = tuple[str, str]

_NODE_NAMES = ("hostname", "node", "nodename", "node-name", "nodeid", "node-id")
"""Last parts of labels by which drivers name a single node: topology.topolvm.io/node, openebs.io/nodename, …"""


def is_zone_key(key: str) -> bool:
    """True for a label of a zone or region: Kubernetes' own, or a driver's."""
    return key in (ZONE, REGION, BETA_ZONE, BETA_REGION) or key.endswith(("/zone", "/region"))


def names_a_node(key: str) -> bool:
    """True if the label's name suggests that its value names a single node."""
    return key.rpartition("/")[2] in _NODE_NAMES


def node_requirements(term: requirements.NodeSelectorTerm) -> list[selectors.Requirement]:
    """The requirements of a term on labels of nodes, not of zones."""
    return [each for each in term.match_expressions if each.operator == "In" and not is_zone_key(each.key)]


def labels_of_topology(topology: selectors.LabelSelector) -> Sequence[Label]:
    """Labels of which every node that the selector reaches has one; empty if no requirement allows it. Uses a single
    requirement: the one that the fewest nodes are likely to meet."""
    listed: list[tuple[str, tuple[str, ...]]] = [(key, (value,)) for key, value in topology.match_labels.items()]
    listed += [(each.key, each.values) for each in topology.match_expressions if each.operator == "In"]
    if not listed:
        return ()
    key, values = min(listed, key=lambda each: (is_zone_key(each[0]), not names_a_node(each[0]), len(each[1])))
    return [(key, value) for value in values]


KINDS: Final[tuple[type[Object], ...]] = (
    Node,
    Pod,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    VolumeAttachment,
    apps_v1.ReplicaSet,
    batch_v1.Job,
)
"""Kinds that rows are made from. ReplicaSets and Jobs only serve to find a pod's Deployment or CronJob."""


class Index(dict[Any, set[Key]]):
    """Sets of keys by lookup key."""

    def __missing__(self, at: Any) -> set[Key]:
        return set()

    def mark(self, at: Any, key: Key, *, is_there: bool) -> None:
        if is_there:
            self.setdefault(at, set()).add(key)
        elif at in self:
            self[at].discard(key)
            if not self[at]:
                del self[at]


class KnownObjects:
    def __init__(self) -> None:
        self._by_kind: dict[type[Object], dict[Key, Any]] = {kind: {} for kind in KINDS}
        self.nodes: dict[Key, Node] = self._by_kind[Node]
        self.pods: dict[Key, Pod] = self._by_kind[Pod]
        self.volumes: dict[Key, PersistentVolume] = self._by_kind[PersistentVolume]
        self.claims: dict[Key, PersistentVolumeClaim] = self._by_kind[PersistentVolumeClaim]
        self.classes: dict[Key, StorageClass] = self._by_kind[StorageClass]
        self.drivers: dict[Key, CSIDriver] = self._by_kind[CSIDriver]
        self.csi_nodes: dict[Key, CSINode] = self._by_kind[CSINode]
        self.capacities: dict[Key, CSIStorageCapacity] = self._by_kind[CSIStorageCapacity]
        self.attachments: dict[Key, VolumeAttachment] = self._by_kind[VolumeAttachment]
        self.owners: dict[str, Object] = {}
        """ReplicaSets and Jobs by uid."""
        self.nodes_by_label = Index()
        self.pods_of_claim = Index()
        self.pods_of_node = Index()
        self.pods_of_owner = Index()
        self.claims_of_volume = Index()
        self.claims_by_uid = Index()
        self.volumes_of_claim = Index()
        """Volumes by the key of the claim in their claimRef, whether or not that claim exists."""
        self.volumes_by_label = Index()
        """Volumes by labels that name their node; zone labels are left out."""
        self.volumes_by_handle = Index()
        self.attachments_of_volume = Index()
        self.attachments_of_node = Index()
        self.capacities_by_label = Index()
        """Capacity objects by one label that a reached node must have; those that need none are at None."""

    def put(self, new: Object) -> Object | None:
        """Store an object. Returns its previous version."""
        known = self._by_kind.setdefault(type(new), {})
        old: Object | None = known.get(new.key)
        if old is not None:
            self._index(old, is_there=False)
        known[new.key] = new
        self._index(new, is_there=True)
        return old

    def remove(self, old: Object) -> Object | None:
        known: Object | None = self._by_kind.get(type(old), {}).pop(old.key, None)
        if known is not None:
            self._index(known, is_there=False)
        return known

    def find(self, cls: type[Object], key: Key) -> Object | None:
        return self._by_kind.get(cls, {}).get(key)

    def snapshot(self) -> KnownObjects:
        """A copy of the objects by kind, which another thread may read; of the indexes, only attachments by volume."""
        known_objects = KnownObjects()
        for kind, known in self._by_kind.items():
            known_objects._by_kind.setdefault(kind, {}).update(known)
        known_objects.attachments_of_volume.update(self.attachments_of_volume)
        return known_objects

    def __iter__(self) -> Iterator[Object]:
        for known in self._by_kind.values():
            yield from known.values()

    def _index(self, found: Object, *, is_there: bool) -> None:
        if isinstance(found, apps_v1.ReplicaSet | batch_v1.Job):
            if is_there:
                self.owners[found.uid] = found
            else:
                self.owners.pop(found.uid, None)
        for index, at in self._entries(found):
            index.mark(at, found.key, is_there=is_there)

    def _entries(self, found: Object) -> Iterator[tuple[Index, Any]]:
        match found:
            case Node():
                yield from ((self.nodes_by_label, label) for label in found.metadata.labels.items())
            case Pod():
                yield from ((self.pods_of_claim, key) for key in found.claim_keys())
                if found.spec.node_name:
                    yield self.pods_of_node, found.spec.node_name
                owner = found.metadata.controller
                if owner is not None:
                    yield self.pods_of_owner, owner.uid
            case PersistentVolumeClaim():
                yield self.claims_by_uid, found.uid
                if found.spec.volume_name:
                    yield self.claims_of_volume, found.spec.volume_name
            case PersistentVolume():
                if found.spec.claim_ref is not None:
                    yield self.volumes_of_claim, found.spec.claim_ref.key
                if found.spec.csi is not None:
                    yield self.volumes_by_handle, (found.spec.csi.driver, found.spec.csi.volume_handle)
                required = affinity_of(found)
                for term in required.node_selector_terms if required is not None else ():
                    for wanted in node_requirements(term):
                        yield from ((self.volumes_by_label, (wanted.key, value)) for value in wanted.values)
            case VolumeAttachment():
                yield self.attachments_of_volume, found.spec.source.persistent_volume_name
                yield self.attachments_of_node, found.spec.node_name
            case CSIStorageCapacity():
                if found.node_topology is not None:
                    labels = labels_of_topology(found.node_topology)
                    yield from ((self.capacities_by_label, label) for label in labels or (None,))


class Content(NamedTuple):
    """A volume in a pool. `name` is the name in CreateVolume: pvc- and the claim's UID."""

    place: PoolId
    bytes: int
    name: str = ""
    arriving: PoolId | None = None

    def places(self) -> Iterator[PoolId]:
        yield self.place
        if self.arriving is not None and self.arriving != self.place:
            yield self.arriving


@dataclass(frozen=True, slots=True)
class DriverContents:
    """Pools and their contents. `volumes` has volume handles as keys."""

    driver: str = ""
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    volumes: Mapping[str, Content] = field(default_factory=dict)
    snapshots: Mapping[PoolId, int] = field(default_factory=dict)
    unknown: Mapping[PoolId, int] = field(default_factory=dict)
    in_pools: dict[PoolId, list[str]] = field(default_factory=dict)
    """Volume handles by pool, including volumes that are being rebuilt into it."""

    by_name: dict[str, str] = field(default_factory=dict)
    """Volume handles by the name in CreateVolume."""

    def __post_init__(self) -> None:
        for handle, content in sorted(self.volumes.items()):
            self.by_name[content.name] = handle
            for place in content.places():
                self.in_pools.setdefault(place, []).append(handle)

    def nodes(self) -> Iterable[str]:
        """Every node that has pools or contents."""
        found = dict.fromkeys(self.sizes)
        found.update(dict.fromkeys(place.node for place in (*self.in_pools, *self.snapshots, *self.unknown)))
        return found

    def pools_of(self, node: str) -> tuple[int, ...]:
        """Sizes of a node's pools in bytes; 0 where the driver no longer serves the node."""
        found = self.sizes.get(node)
        if found is not None:
            return found
        numbers = [place.pool for place in (*self.in_pools, *self.snapshots, *self.unknown) if place.node == node]
        return (0,) * (max(numbers) + 1) if numbers else ()


MOST_CLAIMS: Final = 1000
MOST_EVENTS: Final = 5000
_NOT_ANSWERED: Final = re.compile(r"rpc error: code = (Unavailable|DeadlineExceeded)\b")


class Refusal(NamedTuple):
    """The last refusal of a claim's volume. `since`: the first one, as far as Events tell."""

    message: str
    since: datetime | None = None

    @property
    def is_silence(self) -> bool:
        """True if the driver did not answer, rather than said no."""
        return _NOT_ANSWERED.search(self.message) is not None


class Refusals:
    def __init__(self) -> None:
        self.of_claim: dict[str, Refusal] = {}
        """By a claim's uid."""
        self.count = 0
        """Refusals that happened after `start`."""
        self.start: datetime | None = None
        """Earlier Events are not counted; None counts all."""
        self._counted: dict[str, int] = {}

    def put(self, uid: str, message: str, since: datetime | None = None) -> Iterator[str]:
        """Note a refusal. Yields the uids of claims that are forgotten for it."""
        known = self.of_claim.pop(uid, None)
        self.of_claim[uid] = Refusal(message, (known.since if known is not None else None) or since)
        while len(self.of_claim) > MOST_CLAIMS:
            gone = next(iter(self.of_claim))
            del self.of_claim[gone]
            yield gone

    def heard(self, event: Event, now: datetime) -> bool:
        """Count an Event that reports a refusal. True if it says that a claim's volume cannot be made."""
        if event.reason not in (*TOLD_BY_EVENTS, LIMIT_EXCEEDED):
            return False
        times = max(event.count, event.series.count if event.series is not None else 0, 1)
        before = self._counted.pop(event.uid, times - 1)
        self._counted[event.uid] = times
        if len(self._counted) > MOST_EVENTS:
            del self._counted[next(iter(self._counted))]
        if self.start is None or last_at(event, now) >= self.start:
            self.count += max(times - before, 0)
        return event.reason == PROVISIONING_FAILED and event.involved_object.kind == "PersistentVolumeClaim"


def first_at(event: Event) -> datetime | None:
    return event.first_timestamp or event.event_time or event.metadata.creation_timestamp


def last_at(event: Event, now: datetime) -> datetime:
    """When an Event last happened; `now` if it does not say."""
    observed = event.series.last_observed_time if event.series is not None else None
    return observed or event.last_timestamp or event.event_time or event.metadata.creation_timestamp or now
