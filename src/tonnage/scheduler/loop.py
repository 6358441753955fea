"""The scheduling loop: pop a pod, decide, assume, hand it to its binding_cycle, go on.

    queue ──pop──► decide ──► reserve, assume, permit ──► binding (a task of its own)
                      │                                        │ fails
                      │                                        ▼
                      └── nothing fits ──► room made? ──► queue, condition, event

One loop, one thread: decisions see a cluster that does not change under them, and none waits for the network. The loop
gives way to the event loop after every few decisions, so that informers and bindings keep up, and pauses while too many
bindings call the API server (slots.py). Where others may be preempted, that runs beside it too (preemption.py).

Told to stop, it lets calls under way finish. Pods that wait for their volumes do not hold it up: what was kept for them
is given back, and what was written about them is there for the scheduler that comes next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

import msgspec

from tonnage import logs
from tonnage.clock import Clock
from tonnage.objects.core_v1 import Pod
from tonnage.scheduler import binding_cycle, post_filter
from tonnage.scheduler.binding_api import World
from tonnage.scheduler.binding_cycle import BROKEN, Placement
from tonnage.scheduler.binding_slots import Slots
from tonnage.scheduler.metrics import Meter
from tonnage.scheduler.nominations import Nominations
from tonnage.scheduler.pod_conditions import Reports
from tonnage.scheduler.preemption_executor import Preemptions
from tonnage.scheduler.preparations import Preparations
from tonnage.scheduler.waiting_pods import WaitingPods
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.decision.scheduling_cycle import Decision
from tonnage.scheduling.engine.assumed_pods import AssumedPods
from tonnage.scheduling.engine.profiles import Assembled
from tonnage.scheduling.framework import Code, Status
from tonnage.scheduling.queue.queued_pod import QueuedPod, uid_of
from tonnage.scheduling.queue.scheduling_queue import (
    FLUSH_BACKOFF_EVERY_S,
    FLUSH_UNSCHEDULABLE_EVERY_S,
    SchedulingQueue,
)

_BREATHE_EVERY = 8
"""Decisions between two turns of the event loop."""

_log = logs.logger("tonnage.scheduler")


class SchedulingLoop:
    """Places pods of all profiles. `newest` gives a pod as the informer knows it now, None when it is gone.

    `on_second` is called about once a second with the monotonic time, for whatever ends by the clock.
    """

    def __init__(
        self,
        *,
        cluster: Cluster,
        assumed: AssumedPods,
        queue: SchedulingQueue,
        profiles: Mapping[str, Assembled],
        api: World,
        reports: Reports,
        meter: Meter,
        clock: Clock,
        newest: Callable[[str], Pod | None],
        nominations: Nominations,
        waiting: WaitingPods,
        preparations: Preparations,
        preemptions: Preemptions,
        slots: Slots,
        on_second: Callable[[float], object] = lambda now_s: None,
    ) -> None:
        self._cluster = cluster
        self._assumed = assumed
        self._queue = queue
        self._profiles = profiles
        self._api = api
        self._reports = reports
        self._meter = meter
        self._clock = clock
        self._newest = newest
        self._nominations = nominations
        self._waiting = waiting
        self._preparations = preparations
        self._preemptions = preemptions
        self._work: set[asyncio.Task[None]] = set()
        self._active = asyncio.Event()
        self._slots = slots
        self._on_second = on_second
        queue.on_active = self._active.set

    async def run(self) -> None:
        """Schedule until cancelled; then let calls under way finish, and give back what is kept for pods that wait."""
        self._slots.open()
        flushing = [
            asyncio.create_task(self._every(FLUSH_BACKOFF_EVERY_S, self._queue.flush_backoff_completed)),
            asyncio.create_task(self._every(FLUSH_UNSCHEDULABLE_EVERY_S, self._queue.flush_unschedulable_leftover)),
            asyncio.create_task(self._every(FLUSH_BACKOFF_EVERY_S, self._expire)),
        ]
        try:
            decided = 0
            while True:
                queued = self._queue.pop_nowait()
                if queued is None:
                    self._active.clear()
                    await self._active.wait()
                    continue
                await self._slots.wait_free()
                self.schedule_one(queued)
                decided += 1
                if decided % _BREATHE_EVERY == 0:
                    await asyncio.sleep(0)
        finally:
            for task in flushing:
                task.cancel()
            self._slots.close()
            await self.settle()

    async def settle(self) -> None:
        """Wait until everything that was started beside the loop has ended."""
        while self._work:
            await asyncio.wait(self._work)

    async def _every(self, seconds: float, work: Callable[[float], object]) -> None:
        while True:
            await self._clock.sleep(seconds)
            work(self._clock.monotonic())

    def _expire(self, now_s: float) -> None:
        for uid in self._assumed.expire(now_s):
            _log.warning("A bound pod was never seen on its node; its room is free again", uid=uid)
        self._on_second(now_s)

    # -- one pod ------------------------------------------------------------------------------------------------------

    def schedule_one(self, queued: QueuedPod) -> None:
        """Decide about one popped pod and start what follows. Does not wait."""
        profile = self._profiles[queued.profile]
        if queued.pod.metadata.is_terminating or queued.uid in self._assumed:
            self._queue.done(queued.pod)  # going away, or on its way already: nothing to place
            return
        started_at = self._clock.monotonic()
        decision = self._decide(queued, profile)
        if decision is None or not decision.fits:
            self._not_placed(queued, profile, decision, started_at)
            return
        placement = Placement(queued, profile, decision.cycle, decision.node)
        refusal = self._commit(placement)
        if not refusal.is_success and refusal.code is not Code.WAIT:
            self._meter.attempt(profile.scheduler_name, refusal, self._clock.monotonic() - started_at)
            self._give_back(placement, refusal)
            return
        self._slots.take()
        self._start(self._carry_out(placement, started_at))

    def _decide(self, queued: QueuedPod, profile: Assembled) -> Decision | None:
        """The decision; None when a plugin broke, which must not stop the loop."""
        nominator = self._queue.nominator
        held = tuple(nominator.ahead_of(queued.info)) if len(nominator) else ()
        self._meter.decision_begins()
        began_at = self._clock.monotonic()
        try:
            return profile.decider.decide(self._cluster, self._as_nominated(queued), held)
        except Exception:
            _log.exception("A plugin failed", pod=queued.info.key)
            return None
        finally:
            self._meter.algorithm(self._clock.monotonic() - began_at)

    def _as_nominated(self, queued: QueuedPod) -> PodInfo:
        """The pod as the API will show it when the nomination that was made here has arrived there.

        Without it where the last attempt failed after the decision. The proposal stays, as KEP-5278 has it, but a node
        whose figures promise the room that its driver refuses would be tried first for ever, and no other one at all.
        """
        info, status = queued.info, queued.info.pod.status
        expected_on = self._queue.nominator.node_of(info.pod) or status.nominated_node_name
        if expected_on == queued.failed_on:
            expected_on = ""
        queued.failed_on = ""
        if expected_on == status.nominated_node_name:
            return info
        status = msgspec.structs.replace(status, nominated_node_name=expected_on)
        return PodInfo(msgspec.structs.replace(info.pod, status=status))

    def _commit(self, placement: Placement) -> Status:
        """Reserve, assume, permit. On a refusal everything is given back but the place in the queue."""
        status = binding_cycle.reserve(placement)
        if not status.is_success:
            self._meter.volume_stage("assume", status)
            return status
        self._assumed.assume(placement.queued.info, placement.node)
        self._queue.settle_on(placement.queued.pod, placement.node)
        status = binding_cycle.permit(placement, self._waiting)
        if not status.is_success and status.code is not Code.WAIT:
            binding_cycle.unreserve(placement)
            self._assumed.forget(placement.queued.uid)
        return status

    async def _carry_out(self, placement: Placement, started_at: float) -> None:
        queued = placement.queued
        try:
            status = binding_cycle.look_ahead(placement)
            if status.is_success:
                if placement.to_prepare or self._waiting.get(queued.uid) is not None:
                    await self._nominations.show(queued.info, placement.node)
                status = await binding_cycle.permitted(placement, self._waiting, self._clock, self._slots)
            if status.is_success:
                # No plugin will refuse it any more, so events need not be kept for it.
                self._queue.done(queued.pod)
                status = await binding_cycle.carry_out(placement, self._api, self._slots, self._preparations)
                self._meter.volume_stage("bind", status)
            self._meter.attempt(placement.profile.scheduler_name, status, self._clock.monotonic() - started_at)
            if status.is_success:
                self._assumed.binding_finished(queued.uid, self._clock.monotonic())
                self._meter.scheduled(queued, self._clock.monotonic())
                self._reports.scheduled(queued.info, placement.node)
                return
            self._withdraw(placement)
            self._give_back(placement, status)
        except asyncio.CancelledError:  # it waited when the scheduler was told to stop
            self._withdraw(placement)
            self._queue.add_unschedulable_if_not_present(queued, pod=self._newest(queued.info.key))
            raise
        finally:
            self._waiting.remove(queued.uid)
            self._slots.give()

    def _withdraw(self, placement: Placement) -> None:
        """Give back everything that is kept for a pod on its way."""
        binding_cycle.unreserve(placement)
        if self._assumed.forget(placement.queued.uid):
            # The room it was counted for is free again; who was turned away because of it may fit now.
            self._queue.assigned_pod_deleted(placement.queued.pod, assumed_on=placement.node)

    def _give_back(self, placement: Placement, status: Status) -> None:
        plugins = (status.plugin,) if status.is_rejection and status.plugin else ()
        reason = "Unschedulable" if status.is_rejection else "SchedulerError"
        withdrawn = self._nominations.withdrawn()
        placement.queued.failed_on = placement.node
        self._start(self._requeue(placement.queued, plugins, reason, status.message, nomination=withdrawn))

    # -- failure ------------------------------------------------------------------------------------------------------

    def _not_placed(self, queued: QueuedPod, profile: Assembled, decision: Decision | None, started_at: float) -> None:
        took_s = self._clock.monotonic() - started_at
        withdrawn = self._nominations.withdrawn()
        if decision is None or decision.diagnosis is None:
            status = decision.error if decision is not None and decision.error is not None else BROKEN
            self._meter.volume_stage("predicate", status)
            self._meter.attempt(profile.scheduler_name, status, took_s)
            self._start(self._requeue(queued, (), "SchedulerError", status.message, nomination=withdrawn))
            return
        diagnosis = decision.diagnosis
        self._meter.attempt(profile.scheduler_name, Status(Code.UNSCHEDULABLE), took_s)
        found, plugin = post_filter.sought(profile, decision.cycle, diagnosis, self._meter)
        plugins = diagnosis.rejecting_plugins()
        if plugin is None:
            message, nomination = diagnosis.message(found.status.message), None
            if found.withdraws_nomination:
                nomination = withdrawn
            self._start(self._requeue(queued, plugins, "Unschedulable", message, nomination=nomination))
            return
        self._preemptions.hold_back(plugin, queued, found)
        told = self._requeue(
            queued, plugins, "Unschedulable", diagnosis.message(), nomination=found.nominated_node or None
        )
        if told is None:
            self._preemptions.give_up(plugin, queued)
        else:
            self._start(self._preemptions.carry_out(self._preemptions.begin(plugin, queued, found), told))

    def _requeue(
        self, queued: QueuedPod, plugins: Iterable[str], reason: str, message: str, *, nomination: str | None
    ) -> Coroutine[Any, Any, None] | None:
        """Put a pod back that was not placed. What is to be told about it; None when it is gone, or has a node."""
        newest = self._newest(queued.info.key)
        if newest is not None and uid_of(newest) != queued.uid:
            newest = None
        landed = self._queue.add_unschedulable_if_not_present(queued, unschedulable_plugins=plugins, pod=newest)
        if newest is None or landed is None:
            return None
        if nomination is not None:
            self._queue.nominate(queued.pod, nomination)
        _log.info("Unable to schedule pod", pod=queued.info.key, reason=reason, message=message)
        return self._reports.failed(queued.info, reason, message, nomination=nomination)

    # -- tasks --------------------------------------------------------------------------------------------------------

    def _start(self, work: Coroutine[Any, Any, None] | None) -> None:
        if work is None:
            return
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("Work beside the loop failed", error=repr(task.exception()))
