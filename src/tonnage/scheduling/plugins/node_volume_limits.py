"""NodeVolumeLimits: a node takes only so many volumes of a driver.

    fits   used[row] + new <= limit[row]   for every driver of the pod's volumes that are not mounted there yet

A volume that is only attached is new, and counts twice until its attachment goes. A node over its limit still takes a
pod without new volumes. A driver may refuse nodes where it is not installed (`preventPodSchedulingIfMissing`, gate
VolumeLimitScaling). Refusals for missing claims use upstream's texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import NamedTuple

import numpy as np

from tonnage.gates import Gates
from tonnage.objects.core_v1 import PersistentVolumeClaim, Pod
from tonnage.objects.storage_v1 import CSIDriver, CSINode, VolumeAttachment
from tonnage.scheduling import framework
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import Ints, Mask, Rows, count, only_row, row_count
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.cluster.storage import (
    Storage,
    VolumeId,
    id_of_claim,
    id_of_inline,
    is_told_in_tree,
    taken_over_by,
)
from tonnage.scheduling.events import NODE_ADD, QUEUE, ActionType, ClusterEvent, EventResource, Hint, for_mounted_claims
from tonnage.scheduling.events import SKIP as NO_HELP
from tonnage.scheduling.plugins.pod_and_node import reach_of_row
from tonnage.scheduling.volumes import demand, hints
from tonnage.scheduling.volumes.attach.attached_volumes import AttachedVolumes
from tonnage.scheduling.volumes.explain.account_entries import Miss, NodeAccount

_Volumes = dict[VolumeId, list[PersistentVolumeClaim | None]]
"""The pod's volumes without duplicates, with their claims; None for an in-tree disk that the pod names itself."""


class _Brought(NamedTuple):
    """The pod's volumes of limited drivers."""

    view: AttachedVolumes
    counts: tuple[tuple[str, int], ...]
    """(driver, number of volumes), for drivers that any node limits."""
    mounted: tuple[VolumeId, ...]
    """The volumes that a resident pod already mounts somewhere."""
    needed: tuple[tuple[str, bool], ...]
    """(driver, only on nodes with a CSINode), for drivers that must be installed."""


class NodeVolumeLimits(framework.PreFilterPlugin, framework.FilterPlugin):
    name = "NodeVolumeLimits"
    reach = reach_of_row
    row_local = True
    reason = "node(s) exceed max volume count"

    def __init__(self, gates: Gates) -> None:
        self._needs_drivers = gates.VolumeLimitScaling
        self._limits_change = gates.MutableCSINodeAllocatableCount

    def indexes(self) -> Iterable[type]:
        return (AttachedVolumes,)

    def nearest_miss(self, cycle: framework.Cycle, row: int, account: framework.RowAccount | None) -> Miss | None:
        return account.slot_miss if isinstance(account, NodeAccount) else None

    def events(self) -> Iterable[framework.EventHint]:
        if self._needs_drivers:  # upstream does not wake pods
            yield ClusterEvent(EventResource.CSI_DRIVER, ActionType.UPDATE | ActionType.DELETE), _driver_may_be_missing
        yield from (
            (NODE_ADD, None),  # its CSINode may be known first; upstream does not wake a pod that it would take
            (ClusterEvent(EventResource.CSI_NODE, ActionType.ADD), None),
            (ClusterEvent(EventResource.CSI_NODE, ActionType.UPDATE), self._more_allowed),
            (ClusterEvent(EventResource.POD, ActionType.DELETE), _volumes_freed),
            (ClusterEvent(EventResource.POD, ActionType.ADD), _sharer_came),
            (ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD), hints.after_claim_change),
            (ClusterEvent(EventResource.VOLUME_ATTACHMENT, ActionType.DELETE), self._detached),
            # The class of a pending claim says which driver's slots it takes; upstream does not wake pods.
            (ClusterEvent(EventResource.STORAGE_CLASS, ActionType.ADD | ActionType.DELETE), None),
        )

    # -- judging ------------------------------------------------------------------------------------------------------

    def sign(self, pod: PodInfo, cluster: Cluster) -> Hashable | None:
        return demand.volume_sign(pod, cluster, by_class_alone=True)

    def pre_filter(self, cycle: framework.Cycle) -> framework.Status | None:
        """Collect the pod's volumes. SKIP if no driver limits them."""
        pod, cluster = cycle.pod, cycle.cluster
        if not pod.has_claims and not pod.has_disks:
            return framework.SKIP
        view = cluster.index(AttachedVolumes)
        view.catch_up()
        volumes = _volumes_of(pod.pod, cluster.storage)
        if isinstance(volumes, str):
            cycle.state[self.name] = volumes
            cycle.is_unlike_others(self.name)
            return None
        counts = Counter(volume.driver for volume in volumes if view.limits.is_limited(volume.driver))
        mounted = tuple([volume for volume in volumes if volume.driver in counts and view.rows_with(volume)])
        needed = self._needed(volumes, cluster.storage)
        brought = _Brought(view, tuple(sorted(counts.items())), mounted, needed)
        if not brought.counts and not brought.needed:
            return framework.SKIP
        if brought.mounted:
            cycle.is_unlike_others(self.name)
        else:
            cycle.tell_apart(self.name, brought.counts, brought.needed)
        cycle.state[self.name] = brought
        return None

    def filter(self, cycle: framework.Cycle, rows: Rows) -> framework.Judgement | None:
        brought: _Brought | str = cycle.state[self.name]
        if isinstance(brought, str):
            return framework.refuse(np.ones(row_count(rows), dtype=np.bool_), brought, unresolvable=True)
        exceeded = _exceeded(cycle.cluster, brought, rows)
        if not brought.needed and not count(exceeded):
            return None
        bits, limits = exceeded.astype(np.int64), brought.view.limits
        # Reported instead of a full node: the first missing driver.
        for place, (driver, where_counted) in reversed(list(enumerate(brought.needed, start=1))):
            is_missing = ~limits.installed(driver)[rows]
            if where_counted:
                is_missing &= limits.has_csi_node[rows]
            bits[is_missing] = 1 << place
        if not bits.any():
            return None
        missing = [f"{driver} CSI driver is not installed on the node" for driver, _ in brought.needed]
        return framework.Judgement(bits, (self.reason, *missing), unresolvable=False)

    def passes_with_fewer_pods(self, cycle: framework.Cycle) -> bool:
        """False if the pod shares a volume: without the other pod it is new, and a node over its limit refuses."""
        brought: _Brought | str = cycle.state[self.name]
        return not isinstance(brought, str) and not brought.mounted

    def _needed(self, volumes: _Volumes, storage: Storage) -> tuple[tuple[str, bool], ...]:
        """The drivers that must be on a node; one with only in-tree disks, only where these are counted."""
        found: dict[str, bool] = {}
        for volume, claims in volumes.items() if self._needs_drivers else ():
            driver = storage.drivers.get(volume.driver)
            if driver is not None and driver.spec.prevent_pod_scheduling_if_missing:
                is_in_tree = all(claim is None or is_told_in_tree(claim, storage) for claim in claims)
                found[volume.driver] = found.get(volume.driver, True) and is_in_tree
        return tuple(found.items())

    # -- waking -------------------------------------------------------------------------------------------------------

    def _more_allowed(self, pod: PodInfo, event: ClusterEvent, old: CSINode, new: CSINode) -> Hint:
        """A limit was raised (KEP-4876) or removed, or a missing driver came. Upstream does not wake pods when a limit
        is removed, or a driver comes without a count."""
        if self._limits_change and _limited(old) - _limited(new):
            return QUEUE
        before = {driver.name: driver.allocatable.count or 0 for driver in old.spec.drivers}
        for driver in new.spec.drivers:
            is_new = driver.name not in before and (self._needs_drivers or driver.allocatable.count is None)
            if is_new or (driver.allocatable.count or 0) > before.get(driver.name, 0):
                return QUEUE
        return NO_HELP

    def _detached(self, pod: PodInfo, event: ClusterEvent, old: VolumeAttachment, new: None) -> Hint:
        """Wakes pods with a named claim, or an in-tree disk of the detached driver; with changing limits also pods with
        ephemeral claims, which upstream does not wake."""
        for volume in pod.pod.spec.volumes:
            if volume.persistent_volume_claim is not None or taken_over_by(volume) == old.spec.attacher != "":
                return QUEUE
            if volume.ephemeral is not None and self._limits_change:
                return QUEUE
        return NO_HELP


@for_mounted_claims
def _sharer_came(pod: PodInfo, event: ClusterEvent, old: None, new: Pod) -> Hint:
    """A pod that shares a claim got its node: the volume is not new there. Upstream does not wake pods."""
    if not new.spec.node_name or new.namespace != pod.namespace:
        return NO_HELP
    return NO_HELP if set(new.claim_keys()).isdisjoint(pod.claim_keys) else QUEUE


def _limited(csi_node: CSINode) -> set[str]:
    """The drivers with a limit on a node."""
    return {driver.name for driver in csi_node.spec.drivers if driver.allocatable.count is not None}


def _exceeded(cluster: Cluster, brought: _Brought, rows: Rows) -> Mask:
    """A mask over `rows`: True where some driver's volumes would exceed the limit."""
    view, row = brought.view, only_row(rows)
    if row >= 0 and not brought.mounted:
        is_over = [
            view.used(name).item(row) + more > view.limits.limits(name).item(row) for name, more in brought.counts
        ]
        return np.array([any(is_over)])
    exceeded: Mask = np.zeros(row_count(rows), dtype=np.bool_)
    for driver, more in brought.counts:
        used, limits = view.used(driver)[rows], view.limits.limits(driver)[rows]
        shared = [volume for volume in brought.mounted if volume.driver == driver]
        if not shared:
            exceeded |= used + more > limits
            continue
        new: Ints = np.full(cluster.capacity, more, dtype=np.int64)
        for volume in shared:
            new[list(view.rows_with(volume))] -= 1
        exceeded |= (new[rows] > 0) & (used + new[rows] > limits)
    return exceeded


def _volumes_of(pod: Pod, storage: Storage) -> _Volumes | str:
    """The pod's volumes, or the problem with one of its claims. If an ephemeral claim belongs to another pod, every
    node refuses; upstream ends the attempt with an error."""
    found: _Volumes = {}
    for volume in pod.spec.volumes:
        name, claim = volume.claim_name(pod.name), None
        if name is None:
            volume_id = id_of_inline(volume)
        else:
            key = f"{pod.namespace}/{name}"
            claim = storage.claims.get(key)
            if claim is None:
                return f'looking up PVC {key}: persistentvolumeclaim "{name}" not found'
            if volume.ephemeral is not None and not claim.is_for_pod(pod):
                return f"PVC {key} was not created for pod {pod.key} (pod is not owner)"
            volume_id = id_of_claim(claim, storage)
        if volume_id is not None:
            found.setdefault(volume_id, []).append(claim)
    return found


def _volumes_freed(pod: PodInfo, event: ClusterEvent, old: Pod, new: None) -> Hint:
    """A pod with volumes was on a node, or nominated there."""
    if not old.spec.node_name and not old.status.nominated_node_name:
        return NO_HELP
    may_count = any(
        volume.persistent_volume_claim is not None or volume.ephemeral is not None or taken_over_by(volume)
        for volume in old.spec.volumes
    )
    return QUEUE if may_count else NO_HELP


def _driver_may_be_missing(pod: PodInfo, event: ClusterEvent, old: CSIDriver, new: CSIDriver | None) -> Hint:
    """Nodes without a driver were refused for that, and no longer are."""
    is_needed = new is not None and new.spec.prevent_pod_scheduling_if_missing
    return QUEUE if old.spec.prevent_pod_scheduling_if_missing and not is_needed else NO_HELP
