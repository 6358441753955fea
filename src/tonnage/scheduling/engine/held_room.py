"""Room held for pods without a node: by nominations, and by capacity holds for volumes.

`EngineNominations` says where a pod is nominated, and which nominations can still come true:

    an unbound claim has a selected-node      there: its volume is being created there, and it can go nowhere else
    else, status.nominatedNodeName            there
    else, a volume is being rebuilt on a node there
    else                                      nowhere

So a restarted scheduler holds the room of pods on their way, even if their nominations were not written. Claims that
name different nodes do not count, nor do terminating claims, nor claims bound to a volume that is not being rebuilt.

Room is held for a pod that was not tried yet (gated, queued, or its node is missing), whose preemption is running, or
whose node would take it. When a pod holds less than before, pods that left room for it are tried again. Without the
gate NominatedNodeNameForExpectation only nominatedNodeName counts, and no room is released: upstream clears it.

`HeldCapacity` ends reservations in time, in any mode, and wakes the pods they rejected. It also wakes pods when an
assumed volume or claim is free again, which no informer shows. The rules are in `scheduling/volumes/reservations/`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np

from tonnage import keyed, logs
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key, Object
from tonnage.objects.storage_v1 import CSIDriver, CSIStorageCapacity, StorageClass
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.cluster.storage import id_of_claim
from tonnage.scheduling.configuration.plugin_args import Reservation
from tonnage.scheduling.decision.answers import Diagnosis
from tonnage.scheduling.decision.nominated_room import Holder, held_sentence, holders_by_node, not_yet_counted
from tonnage.scheduling.engine.attempt import Attempt, broken
from tonnage.scheduling.engine.profiles import Assembled, of_nodes, refused_rows
from tonnage.scheduling.events import ActionType, ClusterEvent, EventResource, claims_named
from tonnage.scheduling.framework import Cycle
from tonnage.scheduling.plugins.volume_binding import HOLDS_BY_MODE, VolumeBinding
from tonnage.scheduling.preemption.victims import fits_without
from tonnage.scheduling.queue.nominator import Nomination, NominationRules
from tonnage.scheduling.queue.scheduling_queue import SchedulingQueue
from tonnage.scheduling.queue.waiting_pods import QueuedPod, uid_of
from tonnage.scheduling.volumes import nominated_volumes, volume_reach
from tonnage.scheduling.volumes.capacity.index import CapacityIndex
from tonnage.scheduling.volumes.reservations.holds import CapacityHolds, Hold

_log = logs.logger("tonnage.scheduler")


@dataclass(eq=False)
class EngineNominations(NominationRules):
    """The nomination rules of an engine's queue. `is_shown`: the gate NominatedNodeNameForExpectation."""

    cluster: Cluster
    queue: SchedulingQueue
    profile_of: Callable[[Pod], Assembled | None]
    is_assumed: Callable[[str], bool]
    is_shown: bool
    _waiting: keyed.Shelf[Key, str, None] = field(default_factory=keyed.Shelf)  # the uids of pods, by claim

    def __post_init__(self) -> None:
        self.queue.nominator.rules = self

    # -- nominations in the API ---------------------------------------------------------------------------------------

    def told(self, pod: Pod) -> str:
        nominated = pod.status.nominated_node_name
        if not self.is_shown or not pod.spec.volumes:
            return nominated
        claims = self._selected_claims(pod)
        selected = _only(claim.selected_node for claim in claims if not claim.is_bound)
        volume_of = self.cluster.storage.volumes.api
        bound = [(claim, volume_of(claim.spec.volume_name)) for claim in claims if claim.is_bound]
        rebuilt = [claim for claim, volume in bound if volume is not None and volume_reach.is_on_its_way(claim, volume)]
        return selected or nominated or _only(claim.selected_node for claim in rebuilt)

    def is_selected(self, pod: Pod, node_name: str) -> bool:
        if not self.is_shown or not pod.spec.volumes:
            return False
        return any(claim.selected_node == node_name for claim in self._selected_claims(pod))

    def _selected_claims(self, pod: Pod) -> list[PersistentVolumeClaim]:
        """The pod's claims that have a selected-node."""
        claims = (self.cluster.storage.claims.api(key) for key in claims_named(None, pod))
        return [each for each in claims if each is not None and each.selected_node and not each.metadata.is_terminating]

    def waits(self, pod: Pod) -> None:
        """A pod without a node exists."""
        for key in claims_named(None, pod) if self.is_shown else ():
            self._waiting.put(key, uid_of(pod), None)

    def left(self, pod: Pod) -> None:
        """The pod has its node, or is gone."""
        for key in claims_named(None, pod) if len(self._waiting) else ():
            self._waiting.take(key, uid_of(pod))

    # -- failed attempts ----------------------------------------------------------------------------------------------

    def refused_on(self, attempt: Attempt) -> str:
        """The nominated node that refused the pod and where waiting is useless; empty if there is none.

        Waiting helps if the pod fits once terminating pods, above all its victims, are gone. A node that does not exist
        yet has refused no pod.
        """
        node_name = self.queue.nominator.node_of(attempt.pod.pod)
        row = self.cluster.row_of.get(node_name, -1)
        if row < 0 or attempt.placement is not None or not self.is_shown:
            return ""
        going = [pod for pod in self.cluster.residents[row].values() if pod.is_terminating]
        if going and attempt.decision is not None:
            try:
                return "" if fits_without(attempt.profile.decider, attempt.decision.cycle, row, going) else node_name
            except Exception:
                broken("", attempt.pod)
        return node_name

    def can_come_true(self, pod: PodInfo, node_name: str) -> bool:
        row = self.cluster.row_of.get(node_name, -1)
        profile = self.profile_of(pod.pod)
        if row < 0 or profile is None:
            return True
        ahead = [each for name, each in self.queue.nominator.ahead_of(pod) if name == node_name]
        try:
            return profile.decider.fits_on(self.cluster, pod, row, ahead)
        except Exception:  # the pod's attempt will report a failing plugin
            return False

    def admits(self, pod: PodInfo, node_name: str) -> bool:
        """True by the rules of pod and node alone: selector, affinity, taints, cordon. The node's resources may become
        free before the gate opens."""
        row = self.cluster.row_of.get(node_name, -1)
        profile = self.profile_of(pod.pod)
        if row < 0 or profile is None or not self.is_shown:
            return True
        cycle, rows = Cycle(pod, self.cluster), slice(row, row + 1)
        try:
            return not any(
                np.any(refused_rows(plugin, cycle, rows)) for plugin in profile.decider.filters if of_nodes(plugin)
            )
        except Exception:  # the pod's attempt will report a failing plugin
            return True

    def failed_on(self, queued: QueuedPod, node_name: str, why: str) -> None:
        """A pod did not reach the node chosen for it. One failure may be accidental, and the decision is kept; from the
        second on, the node holds no room for the pod until it is tried again."""
        if not self.is_shown:
            return
        failure = self.queue.nominator.failed_nodes.failed(queued.uid, node_name, why)
        if failure.times > 1:
            queued.left_behind = queued.left_behind._replace(refused_on=node_name)
        _log.info(
            "A node failed a pod after the decision; others are preferred for a while",
            pod=queued.info.key,
            node=node_name,
            times=failure.times,
            seconds=round(failure.until_s - self.cluster.clock.monotonic()),
            reason=why,
        )

    def assigned_pod_gone(self, pod: Pod) -> None:
        """A pod that had a node is gone, or has ended."""
        if self.is_shown:
            self.queue.nominator.failed_nodes.pod_gone(pod, self.cluster.storage)

    # -- changes of a nomination, or of what it holds -----------------------------------------------------------------

    @contextmanager
    def changing(self, old: Object | None, new: Object | None) -> Iterator[None]:
        """A node or storage object changes inside the block.

        Pods with a changed claim or volume may be nominated elsewhere; an assumed pod is judged when it comes back. If
        a nominated pod holds less afterwards, pods that left room for it are tried again: a claim is gone, a class
        creates no volumes, another capacity object has room for its volumes, or the node is too small.
        """
        held_before = [(each, self._held_by(each)) for each in self._concerned(old, new)]
        uids: set[str] = set()
        if len(self._waiting) and isinstance(new or old, PersistentVolumeClaim | PersistentVolume):
            uids.update(*(self._waiting.at(key) for key in claims_named(old, new)))
        told_before = {
            uid: self.told(pod) for uid in uids if not self.is_assumed(uid) and (pod := self.queue.newest(uid))
        }
        yield
        for uid, was_told in told_before.items():
            self.queue.nominator.told_otherwise(uid, was_told)
        for nomination, held in held_before:
            pod = nomination.info.pod
            is_current = self.queue.nominator.get(pod) is nomination and nomination.holds
            if is_current and held - self._held_by(nomination):
                self.queue.nominator.room_was_given_up(pod, nomination.node, but_not_for=nomination.info.uid)

    def _held_by(self, nomination: Nomination) -> frozenset[Hashable]:
        """What a nominated pod holds on its node: its resources, and the needs of its volumes, with attach slots."""
        info, profile = nomination.info, self.profile_of(nomination.info.pod)
        row = self.cluster.row_of.get(nomination.node, -1)
        if profile is None or row < 0 or not not_yet_counted(self.cluster, row, [info]):
            return frozenset()
        plugins = [plugin for plugin in profile.decider.filters if isinstance(plugin, VolumeBinding)]
        storage = self.cluster.storage
        claims = [each for key in info.claim_keys if (each := storage.claims.get(key)) is not None]
        slots = [(claim.key, found.driver) for claim in claims if (found := id_of_claim(claim, storage)) is not None]
        fits = [plugin.fit_of(self.cluster) for plugin in plugins if plugin.is_joint and info.has_claims]
        return frozenset({info.uid, *slots}).union(*(nominated_volumes.held_by(fit, info, row) for fit in fits))

    def _concerned(self, old: Object | None, new: Object | None) -> list[Nomination]:
        """The nominations that may hold less after a change."""
        nominator, cluster, known = self.queue.nominator, self.cluster, new or old
        if not len(nominator) or not cluster.has_index(CapacityIndex):
            return []
        found: Iterable[Nomination] = ()
        if isinstance(new, Node):
            return [nomination for nomination in nominator.on(new.name) if nomination.holds]
        if isinstance(known, StorageClass | CSIDriver):
            found = nominator
        elif isinstance(known, PersistentVolumeClaim | PersistentVolume):
            keys = set(claims_named(old, new))
            found = (nomination for nomination in nominator if not keys.isdisjoint(nomination.info.claim_keys))
        elif isinstance(known, CSIStorageCapacity):
            index = cluster.index(CapacityIndex)
            rows = {*index.rows_of(known.key).tolist(), *index.rows_reached(known).tolist()}
            found = (nomination for nomination in nominator if cluster.row_of.get(nomination.node, -1) in rows)
        return [nomination for nomination in found if nomination.holds and nomination.info.has_claims]

    # -- for people ---------------------------------------------------------------------------------------------------

    def holder_of(self, pod: PodInfo) -> Holder:
        """The known facts of a pod's nomination. See `writer_of`."""
        nomination = self.queue.nominator.get(pod.pod)
        return Holder(pod.key) if nomination is None else Holder(pod.key, *writer_of(nomination))

    def held_room(self, diagnosis: Diagnosis) -> str:
        """A sentence about the nominated pods that hold the room a pod was refused; empty if none do."""
        return held_sentence(holders_by_node(diagnosis, self.holder_of))


def _only(names: Iterable[str]) -> str:
    """The only name; "" if there is none, or several."""
    found = set(names)
    return found.pop() if len(found) == 1 else ""


def writer_of(nomination: Nomination) -> tuple[datetime, str]:
    """Since when a nomination is known, here or in the API, and who wrote it. A nomination that is not in the API (yet)
    is this scheduler's own. The writer is empty if the API does not say."""
    pod = nomination.info.pod
    if pod.status.nominated_node_name != nomination.node:
        return nomination.since, pod.spec.scheduler_name
    entry = pod.metadata.manager_of_nomination
    if entry is None:
        return nomination.since, ""
    # A manager's time is that of its last write to any field: it may be later than the nomination.
    return min(nomination.since, entry.time or nomination.since), entry.manager


_CLAIM_FREED = ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.UPDATE)
_VOLUME_FREED = ClusterEvent(EventResource.PERSISTENT_VOLUME, ActionType.UPDATE)
_RELEASED = ClusterEvent(EventResource.CSI_STORAGE_CAPACITY, ActionType.UPDATE)
"""For waiting pods, released capacity is like changed capacity."""

_Place = tuple[type[Object], Key]
_News = tuple[ClusterEvent, Object, Object]


class HeldCapacity:
    """All capacity holds of a cluster."""

    def __init__(self, cluster: Cluster, queue: SchedulingQueue) -> None:
        self._cluster = cluster
        self._queue = queue
        self.modes: dict[Reservation, CapacityHolds] = {}
        """Holds by reservation mode; empty until `open`."""
        self._is_open = False
        self._put_off: dict[_Place, _News] | None = None

    def open(self) -> None:
        """Listen to the reservations of the cluster. Calling it again is safe."""
        for mode, kind in HOLDS_BY_MODE.items():
            if mode not in self.modes and self._cluster.has_index(kind):
                self.modes[mode] = self._cluster.index(kind)
                self.modes[mode].on_released.append(lambda capacity: self._tell(_RELEASED, capacity, capacity))
        if not self._is_open:
            self._cluster.storage.on_change(PersistentVolume, self._volume_changed)
            self._cluster.storage.on_change(PersistentVolumeClaim, self._claim_changed)
            self._is_open = True

    def expire(self, now_s: float) -> None:
        """End the holds that are due."""
        for mode in self.modes.values():
            mode.expire(now_s)

    def pod_gone(self, uid: str) -> None:
        """Release the holds of a pod that is gone."""
        for mode in self.modes.values():
            mode.pod_gone(uid)

    def holds(self) -> dict[Reservation, list[Hold]]:
        return {mode: each.holds() for mode, each in self.modes.items()}

    def agree_with(self, holds: Mapping[Reservation, Sequence[Hold]], pods: Mapping[Key, PodInfo]) -> None:
        """Take over exactly the holds of another scheduler of the same cluster, by mode."""
        for mode, each in self.modes.items():
            each.agree_with(holds.get(mode, ()), pods)

    @contextmanager
    def told_after(self, about: Object | None) -> Iterator[None]:
        """A block that handles an event: freed objects are announced at its end, but not the object `about` itself."""
        put_off: dict[_Place, _News] = {}
        self._put_off = put_off
        try:
            yield
        finally:
            self._put_off = None
        if put_off:
            if about is not None:
                put_off.pop((type(about), about.key), None)
            for event, old, new in put_off.values():
                self._queue.move_all_to_active_or_backoff(event, old, new)

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if old is not None and new is not None and old.spec.claim_ref is not None and new.spec.claim_ref is None:
            self._tell(_VOLUME_FREED, old, new)

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if old is None or new is None or old.selected_node == new.selected_node:
            return
        if not self._cluster.storage.claims.is_assumed(new.key):
            self._tell(_CLAIM_FREED, old, new)

    def _tell(self, event: ClusterEvent, old: Object, new: Object) -> None:
        if self._put_off is None:
            self._queue.move_all_to_active_or_backoff(event, old, new)
        else:
            self._put_off[type(new), new.key] = event, old, new
