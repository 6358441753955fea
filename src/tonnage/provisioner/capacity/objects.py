"""The content of a capacity object: class, segment and the driver's report, and how they are written. Pure.

With pools, `capacity` is their sum. Pools are in `availableCapacities` or, on a server that drops that field, in the
annotation `tonnage.dev/available-capacities`. With the gate CSIStorageCapacityV2 off, no object gets a list of pools,
but an existing list is kept up to date (KEP-5925).

A CSINode names a driver's label keys, the Node has the values; nodes with equal values form one topology segment. A
driver without keys has one empty segment, which is everywhere. Mirrors external-provisioner's pkg/capacity/topology.

An unchanged report is not written. `tonnage.dev/included-claims` names the claims whose volumes a report includes, so
that a scheduler stops reserving for them; if there are too many, `tonnage.dev/included-until` includes every volume
whose PersistentVolume was created before that time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple, Self

from tonnage.clock import Clock, rfc3339
from tonnage.csi import csi_pb2 as csi
from tonnage.errors import TonnageError
from tonnage.objects import codec, core_v1, names, requirements, selectors, storage_v1
from tonnage.objects.document import Doc
from tonnage.objects.meta import Key, OwnerReference, StampedMeta
from tonnage.objects.storage_v1 import CSINode, CSIStorageCapacity, StorageClass
from tonnage.quantity import Quantity


@dataclass(frozen=True, order=True)
class Segment:
    """Label keys and values, sorted by key, every key once. The empty segment is everywhere."""

    entries: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, labels: Mapping[str, str]) -> Self:
        return cls(tuple(sorted(labels.items())))

    @property
    def labels(self) -> dict[str, str]:
        return dict(self.entries)

    def __str__(self) -> str:
        """`zone=a,rack=1`; labels contain neither commas nor equal signs, so equal texts are equal segments."""
        return ",".join(f"{key}={value}" for key, value in self.entries)

    def overlaps(self, other: Segment) -> bool:
        """True if a node may be in both: they share keys and agree on all of them, or one of them is everywhere."""
        ours, theirs = self.labels, other.labels
        shared = ours.keys() & theirs.keys()
        if not shared:
            return not ours or not theirs
        return all(ours[key] == theirs[key] for key in shared)


def topology_keys(csi_node: CSINode, driver_name: str) -> tuple[str, ...] | None:
    """The driver's label keys on this node, sorted; None while it is not registered there."""
    driver = csi_node.driver(driver_name)
    return None if driver is None else tuple(sorted(driver.topology_keys))


def find_segments(
    driver_name: str, csi_nodes: Iterable[CSINode], node_of: Callable[[str], core_v1.Node | None]
) -> frozenset[Segment]:
    """The segments of all nodes that have the driver. `node_of` returns the Node of a name, or None."""
    found = set()
    for csi_node in csi_nodes:
        keys = topology_keys(csi_node, driver_name)
        node = None if keys is None else node_of(csi_node.name)
        if keys is None or node is None:
            continue  # the driver is not there, or the CSINode has outlived its node
        labels = node.metadata.labels
        if all(key in labels for key in keys):
            found.add(Segment.of({key: labels[key] for key in keys}))
    return frozenset(found)


def segments_of_volume(volume: core_v1.PersistentVolume) -> tuple[Segment, ...]:
    """Where a volume can be reached; empty if its affinity is more complex than segments (`key In [value]`)."""
    required = volume.spec.node_affinity.required
    if required is None:
        return ()
    found = (_segment_of_term(term) for term in required.node_selector_terms)
    return tuple(segment for segment in found if segment is not None)


def _segment_of_term(term: requirements.NodeSelectorTerm) -> Segment | None:
    if term.match_fields or not term.match_expressions:
        return None
    labels = {}
    for requirement in term.match_expressions:
        if requirement.operator != "In" or len(requirement.values) != 1:
            return None
        labels[requirement.key] = requirement.values[0]
    return Segment.of(labels)


KEPT_S: Final = 120.0
"""Twice a scheduler's `reservationTimeoutSeconds`, after which it stops reserving anyway."""
MOST: Final = 64
"""How many claims one object names, the newest ones."""


class Included(NamedTuple):
    claims: tuple[str, ...] = ()
    """Uids of claims whose volumes were created lately."""
    until: datetime | None = None
    """If not all claims are named: PersistentVolumes created before this, by the server's clock, are included."""


NOTHING: Final = Included()


class IncludedClaims:
    """Uids of claims whose volumes a work item's capacity includes, by work item, the newest last."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._made_at_s: dict[Key, dict[str, float]] = {}
        self.newest_at: datetime | None = None
        """When the newest PersistentVolume was created."""

    def created(self, at: datetime | None) -> Iterable[Key]:
        """Note a new PersistentVolume; returns the items with too many claims to name: their `until` moves."""
        if at is None or (self.newest_at is not None and at <= self.newest_at):
            return ()
        self.newest_at = at.replace(microsecond=0)  # the precision in which it is written
        return [key for key, made in self._made_at_s.items() if len(made) >= MOST]

    def note(self, key: Key, claim_uid: str) -> None:
        """A volume was created: reports on this item include it from now on."""
        made = self._made_at_s.setdefault(key, {})
        made.pop(claim_uid, None)
        made[claim_uid] = self._clock.monotonic()
        if len(made) > MOST:
            del made[next(iter(made))]

    def moved(self, claim_uid: str) -> None:
        """A volume moved away: if it comes back, earlier reports do not include it."""
        for made in self._made_at_s.values():
            made.pop(claim_uid, None)

    def about(self, key: Key) -> Included:
        """What a report on this item includes if the driver is asked now."""
        made = self._made_at_s.get(key)
        if made is None:
            return NOTHING
        oldest_s = self._clock.monotonic() - KEPT_S
        for uid in [uid for uid, at_s in made.items() if at_s < oldest_s]:
            del made[uid]
        return Included(tuple(made), self.newest_at if len(made) >= MOST else None)


MANAGER: Final = "external-provisioner"
NAME_PREFIX: Final = "csisc-"

_MAX_LABEL: Final = 63
_MOST_BYTES: Final = (1 << 63) - 1
"""The largest number of CSI, and so the largest sum."""
_MOST_OF_IDS: Final = 100_000
"""Characters of all ids of one object, which fit into an annotation beside the pools."""
_MOST_POOLS: Final = 10_000
"""These fit into an annotation (256 KiB) whatever the numbers; of more pools the largest are published."""


@dataclass(frozen=True, order=True)
class WorkItem:
    """A class in a segment, for which the driver is asked how much capacity there is."""

    storage_class: str
    segment: Segment

    @property
    def key(self) -> Key:
        """`pools/topology.tonnage.dev/node=node-1`. Class names have no slash, so equal keys mean equal items."""
        return f"{self.storage_class}/{self.segment}"


@dataclass(frozen=True)
class ReportedCapacity:
    """The driver's report, in bytes. `maximum_bytes` None: not reported; no `pools`: the driver does not list them.
    `ids`: one for each pool, or none.

    Without `adds_pools` (the gate is off) pools are only written to objects that already list pools.
    """

    capacity_bytes: int
    maximum_bytes: int | None = None
    pools: tuple[int, ...] = ()
    included: Included = NOTHING
    adds_pools: bool = True
    ids: tuple[str, ...] = ()


class InvalidCapacity(TonnageError):
    """A driver reported a negative capacity."""

    def __init__(self, item: WorkItem, told: int) -> None:
        self.item = item
        self.told = told
        super().__init__(
            f"GetCapacity for {item.key} was answered with {told} bytes; the last good answer is kept",
            hint="a driver without room answers 0",
        )


# -- work items -----------------------------------------------------------------------------------------------------


def work_items(
    driver_name: str, classes: Iterable[StorageClass], segments: Iterable[Segment], *, for_immediate_binding: bool
) -> dict[Key, WorkItem]:
    """One item per class of the driver and segment. Immediate binding counts only with `for_immediate_binding`."""
    segments = sorted(segments)
    found = (
        WorkItem(storage_class.name, segment)
        for storage_class in classes
        if storage_class.provisioner == driver_name and (storage_class.waits_for_consumer or for_immediate_binding)
        for segment in segments
    )
    return {item.key: item for item in found}


def key_of(found: CSIStorageCapacity) -> Key:
    """The key of an object's work item; for an object that is not ours, a key that is never wanted."""
    topology = found.node_topology
    if topology is None or topology.match_expressions:
        return f"{found.storage_class_name}/object {found.key}"
    return WorkItem(found.storage_class_name, Segment.of(topology.match_labels)).key


def capacity_request(item: WorkItem, storage_class: StorageClass) -> csi.GetCapacityRequest:
    """GetCapacity as upstream asks it: without capabilities, on which capacity is assumed not to depend."""
    topology = csi.Topology(segments=item.segment.labels)
    return csi.GetCapacityRequest(parameters=dict(storage_class.parameters), accessible_topology=topology)


def read_response(
    item: WorkItem,
    response: csi.GetCapacityResponse,
    *,
    with_pools: bool,
    included: Included = NOTHING,
    ids: Sequence[str] = (),
) -> ReportedCapacity:
    """Read a response. Without the gate, capacity is the driver's own figure instead of the sum of pools."""
    pools = tuple(response.available_capacities)
    if len(pools) > _MOST_POOLS and min(pools) >= 0:
        pools = tuple(sorted(pools, reverse=True)[:_MOST_POOLS])
    if not with_pools and min(pools, default=0) < 0:
        pools = ()  # negative pools are an error only where pools are used
    maximum = response.maximum_volume_size.value if response.HasField("maximum_volume_size") else None
    capacity = min(sum(pools), _MOST_BYTES) if pools and with_pools else response.available_capacity
    impossible = next((told for told in (capacity, maximum, *pools) if told is not None and told < 0), None)
    if impossible is not None:
        raise InvalidCapacity(item, impossible)
    has_ids = with_pools and len(set(ids)) == len(ids) == len(pools) and sum(map(len, ids)) <= _MOST_OF_IDS
    return ReportedCapacity(capacity, maximum, pools, included, with_pools, tuple(ids) if has_ids else ())


# -- what is to be written --------------------------------------------------------------------------------------------


def labels_of(driver_name: str, managed_by: str) -> dict[str, str]:
    """With both, an object is ours."""
    return {storage_v1.CAPACITY_DRIVER: driver_name, storage_v1.CAPACITY_MANAGER: managed_by}


def manager_on(node: str) -> str:
    """The managed-by value of the provisioner on one node, at most 63 characters. Mirrors getNameWithMaxLength."""
    name = f"{MANAGER}-{node}"
    if len(name) <= _MAX_LABEL:
        return name
    left = _MAX_LABEL - len("-01234567-") - len(node)
    return (
        f"{MANAGER[:left]}-{names.fnv1a(MANAGER.encode()):08x}-{node}"
        if left > 0
        else f"{MANAGER}-{names.fnv1a(name.encode()):08x}"
    )


def new_object(
    item: WorkItem,
    reported: ReportedCapacity,
    *,
    namespace: str,
    labels: Mapping[str, str],
    owner: OwnerReference | None,
    is_dropped: bool,
) -> CSIStorageCapacity:
    """A new object: an empty one, with what `patch_for` adds to it."""
    empty = CSIStorageCapacity(
        metadata=StampedMeta(generate_name=NAME_PREFIX, namespace=namespace, labels=labels),
        storage_class_name=item.storage_class,
        node_topology=selectors.LabelSelector(match_labels=item.segment.labels),
    )
    patch = patch_for(empty, reported, owner=owner, is_dropped=is_dropped)
    doc: Doc = codec.to_doc(empty)
    metadata = {**doc["metadata"], **patch.get("metadata", {})}
    return codec.convert(CSIStorageCapacity, {**doc, **patch, "metadata": metadata})


def patch_for(
    found: CSIStorageCapacity, reported: ReportedCapacity, *, owner: OwnerReference | None, is_dropped: bool
) -> Doc:
    """The merge patch that brings an object to the report; empty if it matches."""
    patch: Doc = {}
    if _bytes(found.capacity) != reported.capacity_bytes:
        patch["capacity"] = _text(reported.capacity_bytes)
    if _bytes(found.maximum_volume_size) != reported.maximum_bytes:
        patch["maximumVolumeSize"] = None if reported.maximum_bytes is None else _text(reported.maximum_bytes)
    # An object that has the field keeps it, also on a server that no longer takes it for others (its gate is off).
    has_field = bool(found.available_capacities)
    in_order = list if reported.ids else sorted  # an id is that of the pool in its place
    listed = [quantity.value() for quantity in found.available_capacities]
    adds_field = reported.adds_pools and not is_dropped
    if in_order(listed) != in_order(reported.pools) and (has_field or adds_field):
        patch["availableCapacities"] = [_text(pool) for pool in reported.pools] or None
    metadata: Doc = {}
    annotated = found.metadata.annotations.get(storage_v1.AVAILABLE_CAPACITIES)
    adds_annotation = reported.adds_pools and is_dropped
    wants_annotation = bool(reported.pools) and not has_field and (adds_annotation or annotated is not None)
    annotations: Doc = {}
    # Pools kept by `tonnage pools` are not ours until the driver reports pools itself; then `tonnage pools` steps back.
    is_kept = storage_v1.POOLS_SOURCE in found.metadata.annotations
    if not wants_annotation:
        if annotated is not None and not is_kept:
            annotations[storage_v1.AVAILABLE_CAPACITIES] = None
    elif annotated is None or in_order(annotated.split(",")) != in_order(map(_text, reported.pools)):
        annotations[storage_v1.AVAILABLE_CAPACITIES] = ",".join(map(_text, reported.pools))
    if wants_annotation and is_kept:
        annotations |= {key: None for key in storage_v1.KEPT_POOLS if key in found.metadata.annotations}
    if reported.ids and found.metadata.annotations.get(storage_v1.POOL_IDS) != ",".join(reported.ids):
        annotations[storage_v1.POOL_IDS] = ",".join(reported.ids)
    # A new claim is a reason to write; a claim that need not be named any more goes with the next write.
    claims, until = reported.included
    told, told_until = found.metadata.annotations.get(storage_v1.INCLUDED_CLAIMS, ""), found.included_until
    is_news = set(claims) - set(told.split(",")) or (until is not None and until != told_until)
    if is_news or (patch and told != ",".join(claims)):
        annotations[storage_v1.INCLUDED_CLAIMS] = ",".join(claims) or None
    if (is_news or patch) and until != told_until:
        annotations[storage_v1.INCLUDED_UNTIL] = rfc3339(until) if until is not None else None
    if annotations:
        metadata["annotations"] = annotations
    if owner is not None and not any(
        each.controller and each.uid == owner.uid for each in found.metadata.owner_references
    ):
        # Owners that are not controllers stay: an API server takes only one controller.
        others = (each for each in found.metadata.owner_references if not each.controller and each.uid != owner.uid)
        metadata["ownerReferences"] = [codec.to_doc(each) for each in (*others, owner)]
    return {**patch, "metadata": metadata} if metadata else patch


def _text(number: int) -> str:
    return str(Quantity.from_bytes(number))


def _bytes(found: Quantity | None) -> int | None:
    return None if found is None else found.value()
