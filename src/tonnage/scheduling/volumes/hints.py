"""Queueing hints of VolumeBinding: which events may help a rejected pod. Upstream's hints, and those of KEP-5925.

| event                     | as upstream                              | with CSIStorageCapacityV2, also         |
| claim added or changed    | if the pod mounts it                     |                                         |
| volume added or changed   | always; here not if another claim has it |                                         |
| class added or changed    | added; its topologies changed            | its capacity group or pool policy; gone |
| node added or changed     | added; its labels changed                | deleted; out of use, or back            |
| CSINode added or changed  | added; its migrated plugins changed      |                                         |
| CSIDriver changed         | capacity off, for inline volumes         | capacity off, or it is gone, for claims |
|                           |                                          | it rebuilds volumes now, or no more     |
|                           |                                          | its pool policy (or when it comes, goes)|
| capacity added or changed | added; a volume may be larger            | its pools, its sum; any, if reserved    |
| a nominated pod gives way |                                          | if both have claims                     |
| a pod comes, leaves, goes |                                          | if both mount a claim                   |

"Any": a refresh that ends a reservation mostly lowers the number. Hints see the pod and the object, not the pod's
claims; one attempt too many is better than a pod that waits for the flush.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, Final

from tonnage.gates import Gates
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod, class_name_in, is_out_of_use
from tonnage.objects.selectors import LabelSelector
from tonnage.objects.storage_v1 import (
    FREE_VOLUMES,
    SIZE_RULES,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    StorageClass,
)
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.cluster.storage import either
from tonnage.scheduling.events import QUEUE, SKIP, ActionType, ClusterEvent, EventResource, Hint, for_mounted_claims
from tonnage.scheduling.framework import EventHint
from tonnage.scheduling.volumes import demand, volume_reach
from tonnage.scheduling.volumes.capacity.index import CapacityIndex
from tonnage.scheduling.volumes.capacity.pools import listed_pools, rebuilds_volumes, volume_limit


class TopologyKeys:
    """The label keys that capacity objects, volumes and classes select nodes by. Get it with `cluster.index`."""

    def __init__(self, cluster: Cluster) -> None:
        storage = cluster.storage
        known = (*storage.capacities.values(), *storage.volumes, *storage.classes.values())
        self._counts: Counter[str] = Counter(key for each in known for key in _keys(_asked(each)))
        for kind in (CSIStorageCapacity, PersistentVolume, StorageClass):
            storage.on_change(kind, self._changed)

    def may_tell_apart(self, before: Mapping[str, str], after: Mapping[str, str]) -> bool:
        """True if a node may be judged differently after its labels changed from `before` to `after`."""
        return any(before.get(key) != after.get(key) for key in self._counts)

    def _changed(self, old: Any, new: Any) -> None:
        asked_before, asks = _asked(old), _asked(new)
        if asked_before == asks:
            return
        self._counts.subtract(_keys(asked_before))
        self._counts.update(_keys(asks))
        self._counts = +self._counts  # without keys that nobody asks for any more


def _asked(found: Any) -> Any:
    """The part of an object that selects nodes by label."""
    match found:
        case CSIStorageCapacity():
            return found.node_topology
        case PersistentVolume():
            return found.spec.node_affinity.required
        case StorageClass():
            return found.allowed_topologies
    return None


def _keys(asked: Any) -> Iterator[str]:
    if asked is None:
        return
    if isinstance(asked, tuple):
        yield from (label_expression.key for term in asked for label_expression in term.match_label_expressions)
    elif isinstance(asked, LabelSelector):
        yield from asked.match_labels
        yield from (requirement.key for requirement in asked.match_expressions)
    else:
        yield from (each.key for term in asked.node_selector_terms for each in term.match_expressions)


_COMES_OR_CHANGES = ActionType.ADD | ActionType.UPDATE


def volume_binding_events(gates: Gates, *, reserves: bool) -> Iterator[EventHint]:
    """The events of VolumeBinding. `reserves`: capacity is reserved, so any update of a capacity object may help."""
    enhanced = gates.CSIStorageCapacityV2
    capacity_hint = after_capacity_change
    if enhanced:
        capacity_hint = after_reserved_capacity_change if reserves else after_pools_change
    yield ClusterEvent(EventResource.STORAGE_CLASS, _COMES_OR_CHANGES), after_class_change
    if enhanced:
        yield ClusterEvent(EventResource.STORAGE_CLASS, ActionType.UPDATE | ActionType.DELETE), after_group_change
        yield ClusterEvent(EventResource.STORAGE_CLASS, ActionType.UPDATE), after_policy_change
    yield ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, _COMES_OR_CHANGES), after_claim_change
    yield ClusterEvent(EventResource.PERSISTENT_VOLUME, _COMES_OR_CHANGES), after_volume_change
    yield ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL), None
    yield ClusterEvent(EventResource.CSI_NODE, _COMES_OR_CHANGES), after_csi_node_change
    yield ClusterEvent(EventResource.CSI_DRIVER, ActionType.UPDATE), after_driver_change
    yield ClusterEvent(EventResource.CSI_STORAGE_CAPACITY, _COMES_OR_CHANGES), capacity_hint
    if enhanced:
        yield ClusterEvent(EventResource.NODE, ActionType.DELETE | ActionType.UPDATE_NODE_TAINT), after_node_leaves
        yield ClusterEvent(EventResource.CSI_DRIVER, ActionType.ALL), after_rebuilding_changes
        yield ClusterEvent(EventResource.CSI_DRIVER, ActionType.UPDATE | ActionType.DELETE), after_capacity_is_off
        yield ClusterEvent(EventResource.CSI_DRIVER, ActionType.ALL), after_policy_change
        yield ClusterEvent(EventResource.POD, ActionType.DELETE), after_room_is_given_up
        yield ClusterEvent(EventResource.POD, ActionType.ALL), after_sharer_changes


# -- as upstream ------------------------------------------------------------------------------------------------------


def after_class_change(pod: PodInfo, event: ClusterEvent, old: StorageClass | None, new: StorageClass) -> Hint:
    if not _may_use(pod, new.name):
        return SKIP
    return QUEUE if old is None or old.allowed_topologies != new.allowed_topologies else SKIP


@for_mounted_claims
def after_claim_change(
    pod: PodInfo, event: ClusterEvent, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim
) -> Hint:
    return QUEUE if new.key in pod.claim_keys else SKIP


@for_mounted_claims
def after_named_claim_change(
    pod: PodInfo, event: ClusterEvent, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim
) -> Hint:
    """The hint for plugins that ignore ephemeral claims."""
    return QUEUE if any(new.key == key for _, key in pod.named_claims) else SKIP


def after_volume_change(pod: PodInfo, event: ClusterEvent, old: PersistentVolume | None, new: PersistentVolume) -> Hint:
    """A free volume, or one of the pod's claims: it may be bound now, or reach other nodes."""
    owner = new.spec.claim_ref
    return QUEUE if owner is None or owner.key in pod.claim_keys else SKIP


def after_csi_node_change(pod: PodInfo, event: ClusterEvent, old: CSINode | None, new: CSINode) -> Hint:
    return QUEUE if old is None or plugins_taken_over(old) != plugins_taken_over(new) else SKIP


def after_driver_change(pod: PodInfo, event: ClusterEvent, old: CSIDriver, new: CSIDriver) -> Hint:
    """Capacity is no longer checked. Like upstream, wakes only pods with inline volumes of the driver."""
    if new.spec.storage_capacity or not old.spec.storage_capacity:
        return SKIP
    names = [volume.csi.driver for volume in pod.pod.spec.volumes if volume.csi is not None]
    return QUEUE if new.name in names else SKIP


def after_capacity_change(
    pod: PodInfo, event: ClusterEvent, old: CSIStorageCapacity | None, new: CSIStorageCapacity
) -> Hint:
    if not _may_use(pod, new.storage_class_name):
        return SKIP
    return QUEUE if old is None or _is_more(volume_limit(old), volume_limit(new)) else SKIP


# -- KEP-5925 ---------------------------------------------------------------------------------------------------------


def after_pools_change(
    pod: PodInfo, event: ClusterEvent, old: CSIStorageCapacity | None, new: CSIStorageCapacity
) -> Hint:
    """A list of pools may be better although its sum is not; without a list, the sum limits what claims may take."""
    if after_capacity_change(pod, event, old, new) is QUEUE:
        return QUEUE
    if old is None or not _may_use(pod, new.storage_class_name):
        return SKIP
    if listed_pools(old) != listed_pools(new) or _is_more(_sum(old), _sum(new)):
        return QUEUE
    if new.metadata.annotations.get(FREE_VOLUMES) != old.metadata.annotations.get(FREE_VOLUMES):
        return QUEUE
    # Where pools are listed, removing the maximum lifts a limit.
    return QUEUE if old.maximum_volume_size is not None and new.maximum_volume_size is None else SKIP


def after_reserved_capacity_change(
    pod: PodInfo, event: ClusterEvent, old: CSIStorageCapacity | None, new: CSIStorageCapacity
) -> Hint:
    """Any update may end a reservation, even one without changes."""
    return QUEUE if _may_use(pod, new.storage_class_name) else SKIP


def _for_claims(matters: Callable[[Any, Any], bool]) -> Callable[[PodInfo, ClusterEvent, Any, Any], Hint]:
    """A hint for all pods with claims, for changes where `matters(old, new)` is true."""

    def hint(pod: PodInfo, event: ClusterEvent, old: Any, new: Any) -> Hint:
        return QUEUE if pod.has_claims and matters(old, new) else SKIP

    return hint


def _rules(found: StorageClass | CSIDriver | None) -> tuple[str, str]:
    return (found.pool_policy, found.metadata.annotations.get(SIZE_RULES, "")) if found is not None else ("", "")


after_group_change = _for_claims(
    lambda old, new: (
        new is None
        or old.capacity_group != new.capacity_group
        or (old.opts_into_capacity and not new.opts_into_capacity)
    )
)
"""A class joined or left a capacity group: holds on other classes' objects may no longer count; or its capacity is no
longer checked. If a bound volume's class is deleted, the volume is no longer rebuilt; without affinity every node
reaches it."""
after_policy_change = _for_claims(lambda old, new: _rules(old) != _rules(new))
"""Volumes of a class or driver go to other pools or have other sizes: a fit may become sure, or leave more room beside
promises. Classes that share pools have one common policy, so the pods of all of them are woken."""
after_node_leaves = _for_claims(lambda old, new: new is None or is_out_of_use(old) != is_out_of_use(new))
"""A node goes out of use or comes back: its volumes may be rebuilt elsewhere, or stay."""
after_rebuilding_changes = _for_claims(lambda old, new: rebuilds_volumes(new) != rebuilds_volumes(old))
"""A volume without affinity needs room where it goes; if its driver does not rebuild it, every node reaches it."""
after_capacity_is_off = _for_claims(
    lambda old, new: old.spec.storage_capacity and (new is None or not new.spec.storage_capacity)
)
"""Capacity is no longer checked: pods need not wait for it. Upstream leaves pods with claims to the flush."""


def after_room_is_given_up(pod: PodInfo, event: ClusterEvent, old: Pod, new: None) -> Hint:
    """A pod's nomination ended (KEP-5278). A pod that was bound frees no room here: its volumes stay."""
    return QUEUE if not old.spec.node_name and pod.has_claims and PodInfo(old).has_claims else SKIP


@for_mounted_claims
def after_sharer_changes(pod: PodInfo, event: ClusterEvent, old: Pod | None, new: Pod | None) -> Hint:
    """A pod that shares a claim with this pod got a node, is terminating, or is gone: this pod may go elsewhere."""
    known = either(old, new)
    if not known.spec.node_name or known.namespace != pod.namespace:
        return SKIP
    if old is not None and new is not None and old.metadata.is_terminating == new.metadata.is_terminating:
        return SKIP
    return QUEUE if any(key in pod.claim_keys for _, key in PodInfo(known).named_claims) else SKIP


# -- helpers ----------------------------------------------------------------------------------------------------------


def _may_use(pod: PodInfo, class_name: str) -> bool:
    """True if a claim of the pod may be of the class. The class of a named claim is not known here."""
    for volume in pod.pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            return True
        if volume.ephemeral is not None and class_name_in(volume.ephemeral.volume_claim_template) in (None, class_name):
            return True
    return False


def plugins_taken_over(node: CSINode) -> str:
    """The in-tree plugins that CSI drivers replace on a node, according to its CSINode."""
    return node.metadata.annotations.get(volume_reach.MIGRATED_PLUGINS, "")


def _sum(capacity: CSIStorageCapacity) -> int | None:
    return None if capacity.capacity is None else capacity.capacity.value()


def _is_more(before: int | None, after: int | None) -> bool:
    return after is not None and (before is None or after > before)


_ANY_SIZE: Final = 1 << 100
_FEW_ROWS: Final = 4


def needs_of_new_claims(pod: PodInfo, cluster: Cluster) -> Mapping[Hashable, int] | None:
    """By class, the smallest claim; None if a claim is missing, is bound or pinned already, or has no class."""
    if demand.volume_sign(pod, cluster) is None:
        return None
    found: dict[Hashable, int] = {}
    for key in pod.claim_keys:
        claim = cluster.storage.claims.get(key)
        if claim is None or not claim.class_name:
            return None
        size = claim.spec.resources.requests.get("storage")
        asked = size.value() if size is not None else 0
        found[claim.class_name] = min(asked, found.get(claim.class_name, asked))
    return found or None


def offer_to_new_claims(cluster: Cluster, event: ClusterEvent, old: Any, new: Any) -> Mapping[Hashable, int] | None:
    """What the changed object offers, by class; None if it may help any pod with claims."""
    changed = old if new is None else new
    if isinstance(old, Node) and isinstance(new, Node) and event.action is ActionType.UPDATE_NODE_LABEL:
        if not cluster.has_index(TopologyKeys):
            return None
        keys = cluster.index(TopologyKeys)
        return None if keys.may_tell_apart(old.metadata.labels, new.metadata.labels) else {}
    if isinstance(old, CSINode) and isinstance(new, CSINode) and plugins_taken_over(old) == plugins_taken_over(new):
        return {}
    if isinstance(changed, Pod) and changed.spec.node_name:
        return {}
    if isinstance(changed, PersistentVolume) and changed.spec.claim_ref is not None:
        return {}
    if not isinstance(changed, CSIStorageCapacity) or not cluster.has_index(CapacityIndex):
        return None
    index = cluster.index(CapacityIndex)
    rows = index.rows_of(changed.key)
    names = index.groups.classes_with(changed.storage_class_name)
    if len(rows) > _FEW_ROWS:
        return dict.fromkeys(names, _ANY_SIZE)
    nodes = [node.name for row in rows if (node := cluster.nodes[row]) is not None]
    return {
        name: max((_most(each) for node in nodes for each in index.objects_at(name, node)), default=0) for name in names
    }


def _most(capacity: CSIStorageCapacity) -> int:
    """The upper limit for a volume created from this object."""
    if listed_pools(capacity):
        return _ANY_SIZE
    said = (capacity.capacity, capacity.maximum_volume_size)
    return max((quantity.value() for quantity in said if quantity is not None), default=0)
