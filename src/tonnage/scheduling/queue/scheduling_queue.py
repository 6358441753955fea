"""Which pod is tried next, and when a pod that failed is tried again.

    add ──► gates ──► active ───────────────────── pop_nowait ─────────────────────► in flight ──► done
              │         ▲                                                             ▲  │
              │         ├── its backoff is over ──── backoff ── no pod is active ─────┘  │
              │ blocked │                              ▲  ▲                              │
              ▼         │                              │  └─── an error, or an event ────┤
           unschedulable ── an event that the ─────────┘       came meanwhile            │ add_unschedulable_
               ▲            refusing plugins think helps                                 │ if_not_present
               └──────────────────────── no event that helps came ───────────────────────┘

A pod is in exactly one of these places (`queues`), or not known at all. Everything is synchronous: the program calls
the two flushes, wakes up on `on_active`, and pops. After `done` for a pod that is being bound, do not pass updates of
it until it has its node or has come back. Mirrors PriorityQueue of kube-scheduler 1.36.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any, Final

import msgspec

from tonnage.clock import Clock
from tonnage.objects import meta, storage_v1
from tonnage.objects.core_v1 import Pod
from tonnage.scheduling import events
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.queue import queues, waiting_pods, waking
from tonnage.scheduling.queue.nominator import Nominator

MAX_UNSCHEDULABLE_S: Final = 300.0
"""The longest time a pod waits for an event that may never come."""
FLUSH_UNSCHEDULABLE_EVERY_S: Final = 30.0
"""How often to call `flush_unschedulable_leftover`."""

_NO_NEWS: Final = (events.BACKOFF_COMPLETE, events.POP_FROM_BACKOFF, events.SCHEDULE_ATTEMPT_FAILURE)
"""Moves without an event: nothing has changed for the pod."""


class SchedulingQueue(queues.Queues):
    """The pods that wait for a node. `profiles`: the rules by schedulerName.

    `on_active` is called when a pod may be popped, `on_queued` for each pod that is put somewhere, `on_plugin_error`
    when a hint or a PreEnqueue plugin raises. `nominations_give_way`: of equal pods nominated to one node, the earlier
    goes first. `retries_in_a_row`: see `ActiveQueue`.
    """

    def __init__(
        self,
        clock: Clock,
        profiles: Mapping[str, waiting_pods.QueueingRules],
        *,
        sort_key: waiting_pods.SortKey = waiting_pods.by_priority,
        initial_backoff_s: float = queues.INITIAL_BACKOFF_S,
        max_backoff_s: float = queues.MAX_BACKOFF_S,
        max_unschedulable_s: float = MAX_UNSCHEDULABLE_S,
        nominations_give_way: bool = False,
        retries_in_a_row: int = 0,
        on_active: Callable[[], None] = lambda: None,
        on_queued: queues.QueuedHook = lambda queued, queue, why: None,
        on_plugin_error: waiting_pods.PluginErrorHook = lambda plugin, queued, exc: None,
        rules: waiting_pods.WakingRules | None = None,
    ) -> None:
        super().__init__(
            clock,
            profiles,
            sort_key=sort_key,
            initial_backoff_s=initial_backoff_s,
            max_backoff_s=max_backoff_s,
            retries_in_a_row=retries_in_a_row,
            on_plugin_error=on_plugin_error,
            rules=rules or waiting_pods.WakingRules(),
        )
        self.on_active = on_active
        self.wakes = True
        """False for callers that take every pod by `take_nowait`: events then move nothing."""
        self._hook = on_queued
        self._max_unschedulable_s = max_unschedulable_s
        self._sequence = count()
        self._tables = {name: waking.HintTable(rules, on_plugin_error) for name, rules in profiles.items()}
        self._no_table = waking.HintTable(waiting_pods.QueueingRules(), on_plugin_error)
        self._in_flight: dict[str, queues.Flight] = {}
        """The pods between `pop_nowait` and `done`, oldest first."""
        self.nominator = Nominator(
            clock,
            self.pool,
            is_ordered=nominations_give_way,
            newest=self.newest,
            activate=self.activate,
            wake=self.move_all_to_active_or_backoff,
        )
        self._waking = waking.Waking(clock, self._tables, self, is_in_flight=lambda uid: uid in self._in_flight)

    # -- pods come, change and go -------------------------------------------------------------------------------------

    def add(self, pod: Pod) -> None:
        """A pod without a node was seen for the first time. A known pod counts as updated."""
        known = self._known(waiting_pods.uid_of(pod))
        if known is not None:
            self.update(known.pod, pod)
        else:
            self._enter(pod, events.UNSCHEDULED_POD_ADD)

    def update(self, old: Pod, new: Pod) -> None:
        """A pod without a node changed. It keeps its place, unless the change moves it out of the unschedulable pool. A
        pod in flight comes back with the newest version. An unknown pod is added."""
        uid = waiting_pods.uid_of(new)
        if waiting_pods.uid_of(old) != uid:  # deleted and created again between two events
            self.delete(old)
            self.add(new)
            return
        flight, queued = self._in_flight.get(uid), self.waiting(uid)
        if flight is not None:
            flight.info, flight.is_gone = PodInfo(new), False
            flight.events += [waiting_pods.RecordedEvent(event, old, new) for event in events.pod_events(old, new)]
        elif queued is not None:
            queued.info = PodInfo(new)
        else:
            self._enter(new, events.UNSCHEDULED_POD_UPDATE)
        self.nominator.told_otherwise(uid, self.nominator.rules.told(old))
        if queued is not None and uid in self.pool:
            self._reconsider(queued, old, new)
        elif queued is not None:
            self.reorder(queued)
        self._waking.let_out()

    def delete(self, pod: Pod, *, bound_to: str = "") -> None:
        """A pod was deleted or has ended or, with `bound_to`, got its node. A pod in flight will not come back. Pods
        that left room for it on its nominated node are tried again, unless it went there."""
        nominated_to = self.nominator.node_of(pod) or pod.status.nominated_node_name
        self.nominator.remove(pod)
        flight = self._in_flight.get(waiting_pods.uid_of(pod))
        if flight is not None:
            flight.is_gone = True
        self.remove(waiting_pods.uid_of(pod))
        self._waking.tried(waiting_pods.uid_of(pod))
        if nominated_to not in ("", bound_to):
            self.nominator.room_was_given_up(pod, nominated_to)

    # -- assumed and new pods -----------------------------------------------------------------------------------------

    def pod_assumed(self, pod: Pod, node_name: str) -> None:
        """The pod is assumed on a node and nominated nowhere. Pods that share a claim with it are now in classes by
        themselves: where they may go depends on its node."""
        pool = self.pool
        if pool.mounts_claims and pod.spec.volumes:
            pool.sign_again(pool.mounting(events.claims_named(None, pod)).values())
        self.nominator.assumed(pod, node_name)
        self._waking.tried(waiting_pods.uid_of(pod))

    def is_nominated(self, pod: Pod) -> bool:
        return self.nominator.has(pod)

    def _on_queued(self, queued: waiting_pods.QueuedPod, queue: queues.QueueName, why: str) -> None:
        can_be_popped = queue in (queues.QueueName.ACTIVE, queues.QueueName.BACKOFF)
        self.nominator.queued(queued, is_news=can_be_popped and why not in _NO_NEWS)
        self._hook(queued, queue, why)
        if can_be_popped and why != events.POP_FROM_BACKOFF:
            self.on_active()

    def _enter(self, pod: Pod, event: events.ClusterEvent) -> None:
        queued = waiting_pods.QueuedPod(PodInfo(pod), self._clock.monotonic(), next(self._sequence))
        # Even if it is gated: its nomination holds room.
        self.nominator.nominate(pod)
        self.to_active(queued, event.label)

    def _reconsider(self, queued: waiting_pods.QueuedPod, old: Pod, new: Pod) -> None:
        """An unschedulable pod was changed: ask the plugins that refused it whether that helps."""
        for event in events.pod_events(old, new):
            if self._table(queued).is_worth(queued, event, old, new):
                self.requeue(queued, waiting_pods.Requeue.AFTER_BACKOFF, event.label)
            if queued.uid not in self.pool:
                return

    # -- attempts -----------------------------------------------------------------------------------------------------

    def pop_nowait(self) -> waiting_pods.QueuedPod | None:
        """The next pod to try, or None. It is in flight until `done` or `add_unschedulable_if_not_present`."""
        queued = self.pop_first()
        return None if queued is None else self._start_flight(queued)

    def take_nowait(self, pod: Pod) -> waiting_pods.QueuedPod | None:
        """Pop this pod from wherever it waits; None if it does not. For callers that choose the order themselves."""
        queued = self.remove(waiting_pods.uid_of(pod))
        return None if queued is None else self._start_flight(queued)

    def _start_flight(self, queued: waiting_pods.QueuedPod) -> waiting_pods.QueuedPod:
        queued.attempts += 1
        queued.left_behind = waiting_pods.LeftBehind(tried_on=self.nominator.node_of(queued.pod))
        self._in_flight[queued.uid] = queues.Flight(queued.info)
        return queued

    def done(self, pod: Pod) -> None:
        """No plugin can refuse the pod any more: stop keeping events for it. Safe to call twice."""
        self._in_flight.pop(waiting_pods.uid_of(pod), None)
        self._waking.tried(waiting_pods.uid_of(pod))

    def add_unschedulable_if_not_present(
        self,
        queued: waiting_pods.QueuedPod,
        *,
        unschedulable_plugins: Iterable[str] = (),
        pod: Pod | None = None,
    ) -> queues.QueueName | None:
        """A popped pod failed: these plugins refused it or, without plugins, an error occurred.

        Returns where the events since its pop send it; None if it is gone, has a node, or is queued already. Pass its
        newest version as `pod`: after `done` the queue no longer follows it.
        """
        uid, before, newest = queued.uid, queued.pod, self._newest(queued, pod)
        if newest is None:
            self._waking.tried(uid)
            self._in_flight.pop(uid, None)
            return None
        queued.info = newest
        if self.nominator.node_of(before):
            self.nominator.update(newest.pod, self.nominator.rules.told(before))
        else:  # it may have been nominated meanwhile, or its nomination was removed when it was assumed
            self.nominator.nominate(newest.pod)
        queued.failed(self._clock.monotonic(), next(self._sequence), frozenset(unschedulable_plugins))
        # Without a refusal there is no plugin to ask, and after `done` no events were kept: try it once too often.
        how = waiting_pods.Requeue.AFTER_BACKOFF
        flight = self._in_flight.pop(uid, None)
        refused = queued.unschedulable_plugins
        if refused and flight is not None and not self._table(queued).is_worth_since(queued, flight.events):
            how = waiting_pods.Requeue.NOT
        if self.nominator.node_of(newest.pod) not in ("", queued.left_behind.tried_on):
            how = waiting_pods.Requeue.AT_ONCE  # it was nominated while in flight
        landed = self.requeue(queued, how, events.SCHEDULE_ATTEMPT_FAILURE)
        if queued.left_behind.is_like_others and queued.unschedulable_plugins:
            self._waking.refused(queued)
        else:
            self._waking.tried(uid)
        return landed

    def _newest(self, queued: waiting_pods.QueuedPod, pod: Pod | None) -> PodInfo | None:
        """The newest version of the popped pod; None if it must not come back."""
        if self.waiting(queued.uid) is not None:
            return None
        flight = self._in_flight.get(queued.uid)
        if flight is not None and (flight.is_gone or pod is None or pod is flight.info.pod):
            return None if flight.is_gone else flight.info
        if pod is None or waiting_pods.uid_of(pod) != queued.uid or pod.spec.node_name:
            return None
        return PodInfo(pod)

    # -- what makes pods move -----------------------------------------------------------------------------------------

    def move_all_to_active_or_backoff(
        self, event: events.ClusterEvent, old: Any, new: Any, pre_check: waiting_pods.PreCheck | None = None
    ) -> None:
        """An event came: try the unschedulable pods it may help, and keep it for pods in flight. `pre_check` excludes
        pods that it cannot concern. A wildcard is for every pod."""
        if not self.wakes:
            return
        if event.is_wildcard or any(table.caring(event) for table in self._tables.values()):
            self._waking.wake(event, old, new, pre_check)
            for flight in self._in_flight.values():
                flight.events.append(waiting_pods.RecordedEvent(event, old, new, pre_check))

    def cluster_changed(self, old: meta.Object | None, new: meta.Object | None) -> None:
        """An object that is not a waiting pod was added (`old` is None), changed, or deleted (`new` is None)."""
        if not len(self.pool) and not len(self._in_flight):
            return  # no pod it could help, and none in flight to keep it for
        if _provisioner_of(old) != _provisioner_of(
            new
        ):  # its claims need attach slots of another driver now, or of none
            self.pool.sign_again([queued for queued in self.pool if queued.info.claim_keys])
        for change in events.changes_of(old, new):
            self.move_all_to_active_or_backoff(*change)

    def assigned_pod_deleted(self, pod: Pod, *, assumed_on: str = "") -> None:
        """A pod no longer uses room on a node. Pass the node of an assumed pod as `assumed_on`: its spec has none."""
        if assumed_on:
            pod = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=assumed_on))
        self.move_all_to_active_or_backoff(events.ASSIGNED_POD_DELETE, pod, None)

    def activate(self, pods: Iterable[Pod]) -> None:
        """Try these pods now, whatever they wait for; a pod in flight is tried again when it comes back."""
        why = events.FORCE_ACTIVATE.label
        for uid in map(waiting_pods.uid_of, pods):
            if (queued := self.pool.get(uid)) is not None:
                self.to_active(queued, why)
            elif (queued := self.backoff.remove(uid)) is not None:
                self.to_active(queued, why, has_passed_gates=True)
            elif uid in self._in_flight:
                self._in_flight[uid].events.append(waiting_pods.RecordedEvent(events.FORCE_ACTIVATE, None, None))

    def gate_opened(self, pod: Pod, plugin: str) -> None:
        """A PreEnqueue plugin no longer blocks this pod."""
        queued = self.pool.get(waiting_pods.uid_of(pod))
        if queued is not None and queued.gating_plugin == plugin:
            self.requeue(queued, waiting_pods.Requeue.AFTER_BACKOFF, events.FORCE_ACTIVATE.label)

    def preemption_failed(self, pod: Pod) -> None:
        """The preemption for an unschedulable pod failed: try it again after a backoff as for an error."""
        queued = self.pool.get(waiting_pods.uid_of(pod))
        if queued is not None:
            queued.queued_at = self._clock.monotonic()
            queued.consecutive_errors += 1
            self.requeue(queued, waiting_pods.Requeue.AFTER_BACKOFF, events.SCHEDULE_ATTEMPT_FAILURE)

    def flush_backoff_completed(self, now_s: float) -> None:
        """Make pods active whose backoff is over, and stop waiting for pods that were let out long ago. Call it every
        second, or at `next_backoff_completion_at`."""
        for queued in self.backoff.pop_completed(now_s):
            self.to_active(queued, events.BACKOFF_COMPLETE, has_passed_gates=True)
        self._waking.flush(now_s)

    def next_backoff_completion_at(self) -> float | None:
        """When `flush_backoff_completed` will next find a pod; None without backoffs."""
        return self.backoff.next_completion_at()

    def flush_unschedulable_leftover(self, now_s: float) -> None:
        """Try pods again that have waited too long for an event. Call it every 30 seconds."""
        overdue = [queued for queued in self.pool if now_s - queued.waiting_since() > self._max_unschedulable_s]
        for queued in overdue:
            queued.flushed_at = now_s
        self._waking.move(overdue, events.UNSCHEDULABLE_TIMEOUT)

    # -- reading ------------------------------------------------------------------------------------------------------

    def newest(self, uid: str) -> Pod | None:
        """The newest version of a pod that waits or is in flight; None if there is none."""
        known = self._known(uid)
        return known.pod if known is not None else None

    def _known(self, uid: str) -> PodInfo | None:
        flight = self._in_flight.get(uid)
        if flight is not None:
            return None if flight.is_gone else flight.info
        queued = self.waiting(uid)
        return queued.info if queued is not None else None

    def _table(self, queued: waiting_pods.QueuedPod) -> waking.HintTable:
        return self._tables.get(queued.profile, self._no_table)


def _provisioner_of(each: meta.Object | None) -> str | None:
    return each.provisioner if isinstance(each, storage_v1.StorageClass) else None
