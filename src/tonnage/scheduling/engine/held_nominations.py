"""What nominations hold, kept to what can still come true; and the nodes that a pod did not get to.

    attempt ──► refused where it is nominated? ──► requeue ──► let go: others may have the room
    an event lets it out of the unschedulable pool ──► would its node take it now? ──► it holds again
    gated ──► do its node's labels, taints and cordon admit it? ── no ──► let go, until they do
    what it holds there shrinks ──► those that left room are tried again
    sent there, and failed ──► passed over for a while, if another fits (failed_nodes.py)

The field in the API is never cleared (KEP-5278). The room it holds in memory is held for a pod that was not tried yet
(it is gated, it queues, its node is not there), whose preemption is under way, or whose node would take it. With the
gate NominatedNodeNameForExpectation off nothing is let go and no node is passed over: upstream clears instead.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

import numpy as np

from tonnage import logs
from tonnage.clock import Clock
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Object
from tonnage.objects.storage_v1 import CSIDriver, CSIStorageCapacity, StorageClass
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.decision.diagnosis import Diagnosis, Holder, held_sentence, holders_by_node
from tonnage.scheduling.decision.nominated_room import not_yet_counted
from tonnage.scheduling.engine.attempt import Attempt, broken
from tonnage.scheduling.engine.failed_nodes import FailedNodes
from tonnage.scheduling.engine.profiles import Assembled
from tonnage.scheduling.engine.waking_rules import of_nodes, refused_rows
from tonnage.scheduling.events import claims_named
from tonnage.scheduling.framework import Cycle
from tonnage.scheduling.plugins.volume_binding import VolumeBinding
from tonnage.scheduling.preemption.victims import fits_without
from tonnage.scheduling.queue.nominator import Nomination
from tonnage.scheduling.queue.queued_pod import QueuedPod
from tonnage.scheduling.queue.scheduling_queue import SchedulingQueue
from tonnage.scheduling.volumes.attach.volume_ids import id_of_claim
from tonnage.scheduling.volumes.capacity.index import CapacityIndex

_log = logs.logger("tonnage.scheduler")


class HeldNominations:
    """Decides what the queue's nominator holds. `lets_go` is the gate."""

    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        profile_of: Callable[[Pod], Assembled | None],
        clock: Clock,
        *,
        lets_go: bool,
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._profile_of = profile_of
        self._clock = clock
        self._lets_go = lets_go
        self.failed_nodes = FailedNodes(clock)
        queue.expected.can_come_true = self._can_come_true
        if lets_go:
            queue.expected.admits = self._admits

    # -- tried in vain ------------------------------------------------------------------------------------------------

    def refused_on(self, attempt: Attempt) -> str:
        """The node that a pod is nominated to and has nothing to wait for on, because it was tried there in vain.

        Pods that are on their way out of there, those above all that had to go for it, are worth waiting for, if it
        fits once they are gone. A node that does not exist yet has not refused anybody.
        """
        node_name = self._queue.nominator.node_of(attempt.pod.pod)
        row = self._cluster.row_of.get(node_name, -1)
        if row < 0 or attempt.placement is not None or not self._lets_go:
            return ""
        going = [each for each in self._cluster.residents[row].values() if each.is_terminating]
        if going and attempt.decision is not None:
            try:
                return "" if fits_without(attempt.profile.decider, attempt.decision.cycle, row, going) else node_name
            except Exception:
                broken("", attempt.pod)
        return node_name

    def came_back(self, queued: QueuedPod) -> None:
        """A pod that was not placed is in the queue again: where it was tried in vain, it holds nothing."""
        if queued.refused_on and self._queue.nominator.node_of(queued.pod) == queued.refused_on:
            self._queue.expected.let_go(queued.pod)

    def _can_come_true(self, pod: PodInfo, node_name: str) -> bool:
        """Whether a node would take a pod now, with those that are ahead of it there. Nothing is kept."""
        row = self._cluster.row_of.get(node_name, -1)
        profile = self._profile_of(pod.pod)
        if row < 0 or profile is None:
            return True
        ahead = [each for name, each in self._queue.nominator.ahead_of(pod) if name == node_name]
        try:
            return profile.decider.fits_on(self._cluster, pod, row, ahead)
        except Exception:  # a plugin that breaks is told of when the pod is tried
            return False

    def _admits(self, pod: PodInfo, node_name: str) -> bool:
        """Whether a node admits a pod by the rules that look at these two alone: selector and affinity, taints, cordon.

        A gated pod is not tried, so that this is all that is known; what others take of the node may come free.
        """
        row = self._cluster.row_of.get(node_name, -1)
        profile = self._profile_of(pod.pod)
        if row < 0 or profile is None:
            return True
        cycle, rows = Cycle(pod, self._cluster), slice(row, row + 1)
        try:
            return not any(
                np.any(refused_rows(each, cycle, rows)) for each in profile.decider.filters if of_nodes(each)
            )
        except Exception:  # a plugin that breaks is told of when the pod is tried
            return True

    # -- what holds less than before ----------------------------------------------------------------------------------

    @contextmanager
    def changing(self, old: Object | None, new: Object | None) -> Iterator[None]:
        """A node or an object of storage changes in the block. Pods that left room for a nominated pod are tried again
        if it holds less after it: a claim is gone, a class makes no volumes, another capacity object has room for its
        volumes, or the node is too small for it now.
        """
        before = [(each, self._held_by(each)) for each in self._concerned(old, new)]
        yield
        for each, held in before:
            pod = each.info.pod
            if self._queue.nominator.get(pod) is each and each.holds and held - self._held_by(each):
                self._queue.expected.room_was_given_up(pod, each.node, but_not_for=each.info.uid)

    def _held_by(self, nomination: Nomination) -> frozenset[Hashable]:
        """What a nominated pod holds on its node: its resources, and what its volumes need, attach slots too."""
        info, profile = nomination.info, self._profile_of(nomination.info.pod)
        row = self._cluster.row_of.get(nomination.node, -1)
        if profile is None or row < 0 or not not_yet_counted(self._cluster, row, [info]):
            return frozenset()
        plugins = [each for each in profile.decider.filters if isinstance(each, VolumeBinding)]
        storage = self._cluster.storage
        claims = [each for key in info.claim_keys if (each := storage.claims.get(key)) is not None]
        slots = [(each.key, found.driver) for each in claims if (found := id_of_claim(each, storage)) is not None]
        return frozenset({info.uid, *slots}).union(*(each.held_on(self._cluster, info, row) for each in plugins))

    def _concerned(self, old: Object | None, new: Object | None) -> list[Nomination]:
        """The nominations that may hold less after a change."""
        nominator, cluster, known = self._queue.nominator, self._cluster, new or old
        if not len(nominator) or not cluster.has_index(CapacityIndex):
            return []
        found: Iterable[Nomination] = ()
        if isinstance(new, Node):
            return [each for each in nominator.on(new.name) if each.holds]
        if isinstance(known, StorageClass | CSIDriver):
            found = nominator
        elif isinstance(known, PersistentVolumeClaim | PersistentVolume):
            keys = set(claims_named(old, new))
            found = (each for each in nominator if not keys.isdisjoint(each.info.claim_keys))
        elif isinstance(known, CSIStorageCapacity):
            index = cluster.index(CapacityIndex)
            rows = {*index.rows_of(known.key).tolist(), *index.rows_reached(known).tolist()}
            found = (each for each in nominator if cluster.row_of.get(each.node, -1) in rows)
        return [each for each in found if each.holds and each.info.has_claims]

    # -- sent in vain -------------------------------------------------------------------------------------------------

    def failed_on(self, queued: QueuedPod, node_name: str, why: str) -> None:
        """A pod that was to go to a node did not get there.

        Once may be a hiccup, and the decision is to be retained; from the second time on the node holds no room for the
        pod until it is tried again.
        """
        if not self._lets_go:
            return
        failure = self.failed_nodes.pod_failed(queued.pod, node_name, why)
        if failure.times > 1:
            queued.refused_on = node_name
        _log.info(
            "A node failed a pod after the decision; others are preferred for a while",
            pod=queued.info.key,
            node=node_name,
            times=failure.times,
            seconds=round(failure.until_s - self._clock.monotonic()),
            reason=why,
        )

    def assigned_pod_gone(self, pod: Pod) -> None:
        """A pod that had a node is gone, or has ended."""
        if self._lets_go:
            self.failed_nodes.pod_gone(pod, self._cluster.storage)

    def passed_over(self, pod: Pod) -> Mapping[str, str]:
        """The nodes that others are preferred to now, for this pod; each with why, in a sentence."""
        return self.failed_nodes.passed_over(pod)

    def expire(self, now_s: float) -> None:
        self.failed_nodes.expire(now_s)

    # -- told to people -----------------------------------------------------------------------------------------------

    def holder_of(self, pod: PodInfo) -> Holder:
        """What is known of a pod's nomination. See `writer_of`."""
        nomination = self._queue.nominator.get(pod.pod)
        if nomination is None:
            return Holder(pod.key)
        since, by = writer_of(nomination)
        return Holder(pod.key, since, by)

    def told(self, diagnosis: Diagnosis) -> str:
        """Who holds the room that a pod was refused, in a sentence; empty when nobody does."""
        return held_sentence(holders_by_node(diagnosis, self.holder_of))


def writer_of(nomination: Nomination) -> tuple[datetime, str]:
    """Since when a nomination is known, here or in the API, and who wrote it.

    One that the API does not say (yet) is this scheduler's own. Where the API does and not by whom, that is empty.
    """
    pod = nomination.info.pod
    if pod.status.nominated_node_name != nomination.node:
        return nomination.since, pod.spec.scheduler_name
    entry = pod.metadata.manager_of_nomination
    if entry is None:
        return nomination.since, ""
    # A manager's entry is dated by its last write, of this field or another: it may be younger than what is known here.
    return min(nomination.since, entry.time or nomination.since), entry.manager
