"""Which pod is tried next, and when a pod that failed is tried again.

    add ──► gates ──► active ───────────────────── pop_nowait ─────────────────────► in flight ──► done
              │         ▲                                                             ▲  │
              │         ├── its backoff is over ──── backoff ── nobody is active ─────┘  │
              │ held    │                              ▲  ▲                              │
              ▼         │                              │  └─── an error, or an event ────┤
           unschedulable ── an event its refusers ─────┘       came meanwhile            │ add_unschedulable_
               ▲            think worth a try                                            │ if_not_present
               └──────────────────────── nothing that helps came ────────────────────────┘

A pod is in exactly one of these places (`queues`), or not known at all. Everything is synchronous; the program calls
the two flushes, wakes up on `on_active`, and pops. After `done` for a pod that is being bound, updates of that pod are
not to be handed in until it has its node or has come back. Mirrors PriorityQueue of kube-scheduler 1.36.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any, Final

import msgspec

from tonnage.clock import Clock
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Object
from tonnage.objects.storage_v1 import StorageClass
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.events import (
    ASSIGNED_POD_DELETE,
    BACKOFF_COMPLETE,
    FORCE_ACTIVATE,
    POP_FROM_BACKOFF,
    SCHEDULE_ATTEMPT_FAILURE,
    UNSCHEDULABLE_TIMEOUT,
    UNSCHEDULED_POD_ADD,
    UNSCHEDULED_POD_UPDATE,
    ClusterEvent,
    changes_of,
    claims_named,
    pod_events,
)
from tonnage.scheduling.queue.nominator import Nominator
from tonnage.scheduling.queue.queued_pod import LeftBehind, QueuedPod, SortKey, by_priority, uid_of
from tonnage.scheduling.queue.queueing_hints import (
    HintTable,
    PluginErrorHook,
    PreCheck,
    QueueingRules,
    RecordedEvent,
    Requeue,
)
from tonnage.scheduling.queue.queues import (
    INITIAL_BACKOFF_S,
    MAX_BACKOFF_S,
    BackoffQueue,
    InFlight,
    QueuedHook,
    QueueName,
    Queues,
)
from tonnage.scheduling.queue.unschedulable_pods import WakingRules
from tonnage.scheduling.queue.waking import CAN_BE_POPPED, Waking

MAX_UNSCHEDULABLE_S: Final = 300.0
"""No pod waits longer than this for an event that may never come."""
FLUSH_UNSCHEDULABLE_EVERY_S: Final = 30.0
"""How often to call `flush_unschedulable_leftover`."""

_NO_NEWS: Final = (BACKOFF_COMPLETE, POP_FROM_BACKOFF, SCHEDULE_ATTEMPT_FAILURE)
"""Moves that no event is behind: nothing has changed for the pod."""


class SchedulingQueue:
    """The pods that wait for a node; `profiles` are the rules by schedulerName.

    `on_active` is called when there may be something to pop, `on_queued` for each pod that is put somewhere, and
    `on_plugin_error` when a hint or a PreEnqueue plugin raises. With `nominations_give_way`, of equal pods nominated to
    one node the earlier goes first. `retries_in_a_row`: see `ActiveQueue`.
    """

    def __init__(
        self,
        clock: Clock,
        profiles: Mapping[str, QueueingRules],
        *,
        sort_key: SortKey = by_priority,
        initial_backoff_s: float = INITIAL_BACKOFF_S,
        max_backoff_s: float = MAX_BACKOFF_S,
        max_unschedulable_s: float = MAX_UNSCHEDULABLE_S,
        nominations_give_way: bool = False,
        retries_in_a_row: int = 0,
        on_active: Callable[[], None] = lambda: None,
        on_queued: QueuedHook = lambda queued, queue, why: None,
        on_plugin_error: PluginErrorHook = lambda plugin, queued, exc: None,
        rules: WakingRules | None = None,
    ) -> None:
        self.on_active = on_active
        self._on_queued = on_queued
        self._clock = clock
        self._max_unschedulable_s = max_unschedulable_s
        self._sequence = count()
        self._tables = {name: HintTable(rules, on_plugin_error) for name, rules in profiles.items()}
        self._no_table = HintTable(QueueingRules(), on_plugin_error)
        self._in_flight = InFlight()
        self._queues = Queues(
            clock,
            profiles,
            BackoffQueue(sort_key, initial_s=initial_backoff_s, max_s=max_backoff_s),
            sort_key=sort_key,
            on_queued=self._queued,
            on_plugin_error=on_plugin_error,
            rules=rules or WakingRules(),
            is_nominated=lambda pod: self.nominator.has(pod),
            retries_in_a_row=retries_in_a_row,
        )
        self.nominator = Nominator(
            clock,
            self._queues.pool,
            is_ordered=nominations_give_way,
            newest=self.newest,
            activate=self.activate,
            wake=self.move_all_to_active_or_backoff,
        )
        self._waking = Waking(
            clock,
            self._tables,
            self._queues,
            is_in_flight=lambda uid: uid in self._in_flight,
            on_active=lambda: self.on_active(),
        )

    # -- pods come, change and go -------------------------------------------------------------------------------------

    def add(self, pod: Pod) -> None:
        """A pod without a node was seen for the first time. One that is known already counts as updated."""
        known = self._known(uid_of(pod))
        if known is not None:
            self.update(known.pod, pod)
        else:
            self._enter(pod, UNSCHEDULED_POD_ADD)

    def update(self, old: Pod, new: Pod) -> None:
        """A pod without a node changed. It keeps its place, unless the change lets it out of the unschedulable pool.

        A pod in flight comes back with the newest version. One that is not known is added.
        """
        uid = uid_of(new)
        if uid_of(old) != uid:  # deleted and made again between two looks
            self.delete(old)
            self.add(new)
            return
        flight, queued = self._in_flight.get(uid), self._queues.get(uid)
        if flight is not None:
            flight.info, flight.is_gone = PodInfo(new), False
            for event in pod_events(old, new):
                self._in_flight.record(RecordedEvent(event, old, new, only=uid))
        elif queued is not None:
            queued.info = PodInfo(new)
        else:
            self._enter(new, UNSCHEDULED_POD_UPDATE)
        self.nominator.told_otherwise(uid, self.nominator.rules.told(old))
        if queued is not None and uid in self._queues.pool:
            self._reconsider(queued, old, new)
        elif queued is not None:
            self._queues.reorder(queued)
        self._waking.let_out()

    def delete(self, pod: Pod, *, bound_to: str = "") -> None:
        """A pod was deleted or has ended, or, with `bound_to`, has got its node. One in flight will not come back.

        Pods that left room for it where it was nominated are tried again, unless that is where it went.
        """
        nominated_to = self.nominator.node_of(pod) or pod.status.nominated_node_name
        self.nominator.remove(pod)
        flight = self._in_flight.get(uid_of(pod))
        if flight is not None:
            flight.is_gone = True
        self._queues.remove(uid_of(pod))
        self._waking.tried(uid_of(pod))
        if nominated_to not in ("", bound_to):
            self.nominator.room_was_given_up(pod, nominated_to)

    # -- pods in their places -----------------------------------------------------------------------------------------

    def pod_assumed(self, pod: Pod, node_name: str) -> None:
        """The pod is on its way to a node, and expected nowhere. Pods that share a claim with it are like no others
        now: where they may go depends on where it goes.
        """
        pool = self._queues.pool
        if pool.mounts_claims and pod.spec.volumes:
            pool.sign_again(pool.mounting(claims_named(None, pod)).values())
        self.nominator.assumed(pod, node_name)
        self._waking.tried(uid_of(pod))

    def _queued(self, queued: QueuedPod, queue: QueueName, why: str) -> None:
        self.nominator.queued(queued, is_news=queue in CAN_BE_POPPED and why not in _NO_NEWS)
        self._on_queued(queued, queue, why)

    def _enter(self, pod: Pod, event: ClusterEvent) -> None:
        queued = QueuedPod(PodInfo(pod), self._clock.monotonic(), next(self._sequence))
        # Gated or not: whoever nominated it wants the room kept.
        self.nominator.nominate(pod)
        self._tell(self._queues.to_active(queued, event.label))

    def _reconsider(self, queued: QueuedPod, old: Pod, new: Pod) -> None:
        """An unschedulable pod was changed: do those who refused it think differently of it now?"""
        for event in pod_events(old, new):
            how = self._table(queued).worth(queued, event, old, new)
            if how is not Requeue.NOT:
                self._tell(self._queues.requeue(queued, how, event.label))
            if queued.uid not in self._queues.pool:
                return

    # -- attempts -----------------------------------------------------------------------------------------------------

    def pop_nowait(self) -> QueuedPod | None:
        """The pod to try next, or None. It is in flight until `done` or `add_unschedulable_if_not_present`."""
        queued = self._queues.pop()
        return None if queued is None else self._start_flight(queued)

    def take_nowait(self, pod: Pod) -> QueuedPod | None:
        """Pop this very pod, wherever it waits; None when it does not. For whoever decides on the order himself."""
        queued = self._queues.remove(uid_of(pod))
        return None if queued is None else self._start_flight(queued)

    def _start_flight(self, queued: QueuedPod) -> QueuedPod:
        queued.attempts += 1
        queued.left_behind = LeftBehind(tried_on=self.nominator.node_of(queued.pod))
        self._in_flight.start(queued.info)
        return queued

    def done(self, pod: Pod) -> None:
        """No plugin will refuse the pod any more: events need not be kept for it. Twice does no harm."""
        self._in_flight.done(uid_of(pod))
        self._waking.tried(uid_of(pod))

    def add_unschedulable_if_not_present(
        self,
        queued: QueuedPod,
        *,
        unschedulable_plugins: Iterable[str] = (),
        pending_plugins: Iterable[str] = (),
        pod: Pod | None = None,
    ) -> QueueName | None:
        """A popped pod failed: refused by these plugins, or, when none is named, by something that broke.

        Returns where the events since its pop send it; None if the pod is gone, has got a node, or is in the queue
        already. Hand in its newest version as `pod`: after `done` the queue has lost sight of it.
        """
        uid, before, newest = queued.uid, queued.pod, self._newest(queued, pod)
        if newest is None:
            self._waking.tried(uid)
            self._in_flight.done(uid)
            return None
        queued.info = newest
        if self.nominator.node_of(before):
            self.nominator.update(newest.pod, self.nominator.rules.told(before))
        else:  # it may have been nominated meanwhile, or was taken off the list when it was assumed
            self.nominator.nominate(newest.pod)
        queued.failed(
            self._clock.monotonic(),
            next(self._sequence),
            unschedulable_plugins=frozenset(unschedulable_plugins),
            pending_plugins=frozenset(pending_plugins),
        )
        # Without a refusal there is nobody to ask, and after `done` nothing was kept: better tried once too often.
        how = Requeue.AFTER_BACKOFF
        if queued.rejectors and uid in self._in_flight:
            how = self._table(queued).worth_since(queued, self._in_flight.events_for(uid))
        self._in_flight.done(uid)
        if self.nominator.node_of(newest.pod) not in ("", queued.left_behind.tried_on):
            how = Requeue.AT_ONCE  # it was nominated while it was on its way
        landed = self._tell(self._queues.take_back(queued, how, SCHEDULE_ATTEMPT_FAILURE))
        if queued.left_behind.is_like_others and queued.rejectors:
            self._waking.refused(queued)
        else:
            self._waking.tried(uid)
        return landed

    def _newest(self, queued: QueuedPod, pod: Pod | None) -> PodInfo | None:
        """The popped pod as it is now; None if it is not to come back."""
        if self._queues.get(queued.uid) is not None:
            return None
        flight = self._in_flight.get(queued.uid)
        if flight is not None and (flight.is_gone or pod is None or pod is flight.info.pod):
            return None if flight.is_gone else flight.info
        if pod is None or uid_of(pod) != queued.uid or pod.spec.node_name:
            return None
        return PodInfo(pod)

    # -- what makes pods move -----------------------------------------------------------------------------------------

    def move_all_to_active_or_backoff(
        self, event: ClusterEvent, old: Any, new: Any, pre_check: PreCheck | None = None
    ) -> None:
        """Something happened: try the unschedulable pods it may help, and remember it for those in flight.

        `pre_check` leaves out pods that it cannot concern. A wildcard is for every pod.
        """
        if event.is_wildcard or any(table.caring(event) for table in self._tables.values()):
            self._waking.wake(event, old, new, pre_check)
            self._in_flight.record(RecordedEvent(event, old, new, pre_check))

    def cluster_changed(self, old: Object | None, new: Object | None) -> None:
        """An object that is not a waiting pod was added (`old` is None), changed, or deleted (`new` is None)."""
        if not len(self._queues.pool) and not len(self._in_flight):
            return  # nobody whom it could help, and nobody in flight to keep it for
        if _provisioner_of(old) != _provisioner_of(new):
            self._queues.pool.sign_mounting_again()  # whose driver's slots a claim needs is another's now, or nobody's
        for change in changes_of(old, new):
            self.move_all_to_active_or_backoff(*change)

    def assigned_pod_deleted(self, pod: Pod, *, assumed_on: str = "") -> None:
        """A pod that took room on a node has given it up. One that was only assumed there does not name its node: hand
        that in.
        """
        if assumed_on:
            pod = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=assumed_on))
        self.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, pod, None)

    def activate(self, pods: Iterable[Pod]) -> None:
        """Try these pods now, whatever they wait for; one in flight is tried again when it comes back."""
        places, why = self._queues, FORCE_ACTIVATE.label
        for uid in map(uid_of, pods):
            if (queued := places.pool.get(uid)) is not None:
                self._tell(places.to_active(queued, why))
            elif (queued := places.backoff.remove(uid)) is not None:
                self._tell(places.to_active(queued, why, has_passed_gates=True))
            elif uid in self._in_flight:
                self._in_flight.record(RecordedEvent(FORCE_ACTIVATE, None, None, only=uid))

    def gate_opened(self, pod: Pod, plugin: str) -> None:
        """A PreEnqueue plugin lets this pod past from now on."""
        queued = self._queues.pool.get(uid_of(pod))
        if queued is not None and queued.gating_plugin == plugin:
            self._tell(self._queues.requeue(queued, Requeue.AFTER_BACKOFF, FORCE_ACTIVATE.label))

    def preemption_failed(self, pod: Pod) -> None:
        """What was begun for an unschedulable pod has failed: it is tried again, after a backoff as for an error."""
        queued = self._queues.pool.get(uid_of(pod))
        if queued is not None:
            queued.queued_at, queued.backoff_until = self._clock.monotonic(), None
            queued.consecutive_errors += 1
            self._tell(self._queues.requeue(queued, Requeue.AFTER_BACKOFF, SCHEDULE_ATTEMPT_FAILURE))

    def flush_backoff_completed(self, now_s: float) -> None:
        """Make pods active whose backoff is over, and let out those for whose sake others waited long enough. Call it
        every second, or at `next_backoff_completion_at`.
        """
        for queued in self._queues.backoff.pop_completed(now_s):
            self._tell(self._queues.to_active(queued, BACKOFF_COMPLETE, has_passed_gates=True))
        self._waking.flush(now_s)

    def next_backoff_completion_at(self) -> float | None:
        """The first instant at which `flush_backoff_completed` will find something; None when nobody backs off."""
        return self._queues.backoff.next_completion_at()

    def flush_unschedulable_leftover(self, now_s: float) -> None:
        """Try pods again that have waited for an event too long. Call it every 30 seconds."""
        overdue = [queued for queued in self._queues.pool if now_s - queued.waiting_since() > self._max_unschedulable_s]
        for queued in overdue:
            queued.flushed_at = now_s
        self._waking.move(((queued, Requeue.AFTER_BACKOFF) for queued in overdue), UNSCHEDULABLE_TIMEOUT)

    # -- looking in ---------------------------------------------------------------------------------------------------

    def pending_pods(self) -> dict[QueueName, int]:
        """How many pods wait where: what scheduler_pending_pods shows. Those in flight wait nowhere."""
        return self._queues.counts()

    def refusals(self) -> dict[tuple[str, str], int]:
        """(plugin, profile) -> in the way of how many waiting pods: what scheduler_unschedulable_pods shows."""
        return dict(self._queues.refusals)

    def pods_in(self, queue: QueueName) -> list[QueuedPod]:
        return list(self._queues.pods_in(queue))

    def in_flight(self) -> list[Pod]:
        """The newest versions of the pods that are being tried, in the order they were popped."""
        return [info.pod for info in self._in_flight]

    @property
    def in_flight_events(self) -> int:
        return self._in_flight.events_kept

    def get(self, pod: Pod) -> QueuedPod | None:
        """The pod as it waits; None when it is in flight or not known."""
        return self._queues.get(uid_of(pod))

    def newest(self, uid: str) -> Pod | None:
        """A pod that waits or is in flight, as it is known now; None when there is none."""
        known = self._known(uid)
        return known.pod if known is not None else None

    def _known(self, uid: str) -> PodInfo | None:
        flight = self._in_flight.get(uid)
        if flight is not None:
            return None if flight.is_gone else flight.info
        queued = self._queues.get(uid)
        return queued.info if queued is not None else None

    def _table(self, queued: QueuedPod) -> HintTable:
        return self._tables.get(queued.profile, self._no_table)

    def _tell(self, landed: QueueName) -> QueueName:
        if landed in CAN_BE_POPPED:
            self.on_active()
        return landed


def _provisioner_of(each: Object | None) -> str | None:
    return each.provisioner if isinstance(each, StorageClass) else None
