"""The scheduling loop: pop a pod, attempt to place it, start its binding, repeat.

    engine.pop ──► engine.attempt ──► placed ──► binding cycle (a task of its own)
                        │                             │ fails
                        │                             ▼
                        └── nothing fits ──► PostFilter ──► queue, condition, event

One loop, one thread: the cluster does not change during a decision, and no decision waits for the network. The loop
yields to the event loop after every few attempts, and pops nothing while too many bindings call the API server. An
exception in the work for one pod never ends the loop (`_broke`). When stopped, it lets running calls finish and
unreserves waiting pods; when it loses its leadership, it drops everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, Final

from tonnage import logs
from tonnage.errors import TonnageError
from tonnage.objects.core_v1 import Pod
from tonnage.scheduler import binding_cycle
from tonnage.scheduler.bindings_under_way import WaitingPod
from tonnage.scheduler.context import SchedulerContext
from tonnage.scheduler.nominations import Nominations
from tonnage.scheduler.pod_status import PodStatusWriter
from tonnage.scheduler.preemption_executor import PreemptionExecutor
from tonnage.scheduling.engine.attempt import OVER, Attempt, AttemptStage, Placement, pre_bind_pre_flight
from tonnage.scheduling.framework import Code, PreBindPlugin, Status
from tonnage.scheduling.queue.waiting_pods import QueuedPod

TICK_EVERY_S: Final = 1.0
_BREATHE_EVERY = 8
_BREATHE_EVERY_S = 0.02
"""Attempts between two turns of the event loop, and their longest time: lease renewals and answered bindings wait for
their turn."""
_LOOKING_AT_ONCE = 4
"""Overdue bindings that the API is asked about at a time: if a watch is behind, there may be many."""
_UNEXPECTED = "the scheduler failed; see its log"
_NAMED_A_TICK = 50
"""Unplaced pods that the log names between two ticks; beyond, it logs their number. A line costs half a decision, and
conditions and events name all pods."""

_log = logs.logger("tonnage.scheduler")


class SchedulingLoop:
    """Places the pods of all profiles."""

    def __init__(self, context: SchedulerContext) -> None:
        self._context = context
        self._engine = context.engine
        self._metrics = context.metrics
        self._clock = context.clock
        self._slots = context.slots
        self._traces = context.traces
        self._nominations = Nominations(
            context.client,
            context.newest,
            context.clock,
            context.slots,
            is_shown=context.shows_nominations,
            rng=context.rng,
        )
        self.pod_status = PodStatusWriter(
            context.client, context.telling or context.client, context.events, context.clock, context.newest
        )
        self._preemptions = PreemptionExecutor(context, self._nominations)
        self._work: set[asyncio.Task[None]] = set()
        self._unplaced = 0  # since the last tick
        self.is_busy = False
        """True while pods wait to be tried."""
        self._looking = asyncio.Semaphore(_LOOKING_AT_ONCE)
        self._active = asyncio.Event()
        self._engine.queue.on_active = self._active.set

    async def run(self) -> None:
        """Schedule until cancelled; then let running calls finish, and unreserve waiting pods."""
        self._slots.open()
        ticking = asyncio.create_task(self._tick())
        try:
            attempts, breathed_at = 0, self._clock.monotonic()
            while True:
                # No await between pop and attempt: the pod is tried in its known state.
                await self._slots.free.wait()
                try:
                    queued = self._engine.pop()
                except Exception:
                    self._broke("pop")
                    await self._clock.sleep(TICK_EVERY_S)
                    continue
                self.is_busy = queued is not None
                if queued is None:
                    self._active.clear()
                    await self._active.wait()
                    self.is_busy = True
                    attempts, breathed_at = 0, self._clock.monotonic()
                    continue
                self.schedule_one(queued)
                attempts += 1
                if attempts % _BREATHE_EVERY == 0 or self._since(breathed_at) > _BREATHE_EVERY_S:
                    await asyncio.sleep(0)
                    breathed_at = self._clock.monotonic()
        finally:
            ticking.cancel()
            self._slots.close()
            self.pod_status.close()
            await self._end()

    async def settle(self) -> None:
        """Wait until everything started beside the loop has ended."""
        while self._work:
            await asyncio.wait(self._work)
        await self.pod_status.settle()

    async def _end(self) -> None:
        """Let running work settle while we lead; then drop the rest."""
        leadership = self._context.leadership
        if leadership is None:
            await self.settle()
            return
        settled, over = asyncio.ensure_future(self.settle()), asyncio.ensure_future(leadership.wait_over())
        try:
            await asyncio.wait((settled, over), return_when=asyncio.FIRST_COMPLETED)
        finally:
            settled.cancel()
            over.cancel()
        while self._work:
            for task in self._work:
                task.cancel()
            await asyncio.wait(self._work)
        await self.pod_status.stop()

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(TICK_EVERY_S)
            try:
                for placement in self._engine.tick(self._clock.monotonic()):
                    self._start(self._look_for(placement))
                self._context.waits.sweep()
            except Exception:
                self._broke("tick")
            if self._unplaced > _NAMED_A_TICK:
                _log.info("Unable to schedule more pods", pods=self._unplaced - _NAMED_A_TICK)
            self._unplaced = 0

    # -- one pod ------------------------------------------------------------------------------------------------------

    def schedule_one(self, queued: QueuedPod) -> None:
        """Attempt to place one popped pod and start what follows. Never waits, never raises."""
        placement: Placement | None = None
        try:
            if self._engine.is_settled(queued):
                self._engine.done(queued.pod)  # terminating, or placed already
                return
            started_at = self._clock.monotonic()
            attempt = self._engine.attempt(queued)
            placement = attempt.placement
            self._metrics.algorithm_s.observe(attempt.decided_in_s)
            self._traces.attempted(queued, attempt, started_at)
            if placement is not None:
                if attempt.waits:
                    self._context.waiting_pods[queued.uid] = WaitingPod(placement.pod, placement.node, attempt.waits)
                self.pod_status.placed(placement.pod)
                self._slots.take()
                self._start(self._bind(queued, placement, started_at))
            elif attempt.stage is AttemptStage.DECIDE:
                self._not_placed(queued, attempt, started_at)
            else:
                self._metrics.attempt(attempt.profile.scheduler_name, attempt.status, self._since(started_at))
                decision = attempt.decision
                self._failed(queued, attempt.status, decision.node if decision is not None else "")
        except Exception:
            self._broke("attempt", queued, placement)

    def _since(self, started_at: float) -> float:
        return self._clock.monotonic() - started_at

    async def _bind(self, queued: QueuedPod, placement: Placement, started_at: float) -> None:
        is_bound = False
        try:
            self._traces.binding(placement)
            status = await self._binding_cycle(queued, placement)
            is_bound = status.is_success
            if is_bound:
                self._engine.binding_finished(placement)
            self._traces.bound(placement, status)
            is_over = status is OVER or self._context.is_over(placement.pod)
            if not is_bound and (self._context.is_deposed or is_over):
                self._engine.withdraw(placement)  # nobody to inform, and nothing to try again
                self._engine.done(queued.pod)
                return
            self._metrics.attempt(placement.profile.scheduler_name, status, self._since(started_at))
            if is_bound:
                self._metrics.scheduled(queued, self._clock.monotonic())
                self.pod_status.scheduled(placement.pod, placement.node)
                return
            self._engine.withdraw(placement)
            self._failed(queued, status, placement.node)
        except asyncio.CancelledError:  # it was waiting when the scheduler was stopped
            self._engine.withdraw(placement)
            self._engine.requeue(queued, self._context.newest(queued.info.key))
            raise
        except Exception:
            if is_bound:
                self._broke("binding")
            else:
                self._broke("binding", queued, placement)
        finally:
            self._context.waiting_pods.pop(queued.uid, None)
            self._slots.give()

    async def _binding_cycle(self, queued: QueuedPod, placement: Placement) -> Status:
        """The pod may be over after every await: it is checked again before each step and each write."""
        due = pre_bind_pre_flight(placement)
        if isinstance(due, Status):
            return due
        if due or queued.uid in self._context.waiting_pods:
            async with self._nominations.shown(placement.pod, placement.node):
                status = await self._prepare(queued, placement, due)
        else:
            status = await self._prepare(queued, placement, due)
        return await binding_cycle.bind(self._context, placement) if status.is_success else status

    async def _prepare(self, queued: QueuedPod, placement: Placement, due: tuple[PreBindPlugin, ...]) -> Status:
        """The steps between nomination and binding: Permit, PreBind."""
        permitted_at = self._clock.monotonic()
        status = await binding_cycle.wait_on_permit(self._context, placement)
        self._traces.phase(queued.uid, "permit", permitted_at)
        if not status.is_success:
            return status
        if self._context.is_over(placement.pod):
            return OVER
        # No plugin can refuse it any more, so no events need to be kept for it.
        self._engine.done(queued.pod)
        return await binding_cycle.prepare(self._context, placement, due)

    async def _look_for(self, placement: Placement) -> None:
        """A binding was accepted, but no watch shows it: ask the API, and try the pod again if it did not happen."""
        pod, found, was_answered = placement.pod, None, True
        async with self._looking:
            try:
                found = await self._context.client.find(Pod, pod.key)
            except TonnageError as exc:
                _log.warning("Cannot ask about a bound pod", pod=pod.key, node=placement.node, error=exc.message)
                was_answered = False
            except Exception:
                self._broke("overdue binding")
                was_answered = False
        if not self._engine.overdue_binding(placement, found, was_answered=was_answered):
            return
        _log.warning("A binding was accepted and did not happen", pod=pod.key, node=placement.node)
        if placement.queued is not None:
            told = f"binding to {placement.node} was accepted by the API server and did not happen"
            self._failed(placement.queued, Status(Code.ERROR, (told,)), placement.node)

    def _failed(self, queued: QueuedPod, status: Status, node: str) -> None:
        """A pod lost its node after the decision."""
        plugins = (status.plugin,) if status.is_rejection and status.plugin else ()
        reason = "Unschedulable" if status.is_rejection else "SchedulerError"
        withdrawn = self._nominations.withdrawn()
        self._engine.failed_on(queued, node, status.message)
        self._requeue(queued, plugins, reason, status.message, nomination=withdrawn)

    # -- unplaced pods ------------------------------------------------------------------------------------------------

    def _not_placed(self, queued: QueuedPod, attempt: Attempt, started_at: float) -> None:
        took_s, scheduler_name = self._since(started_at), attempt.profile.scheduler_name
        withdrawn = self._nominations.withdrawn()
        diagnosis = attempt.decision.diagnosis if attempt.decision is not None else None
        if diagnosis is None:
            self._metrics.attempt(scheduler_name, attempt.status, took_s)
            self._requeue(queued, (), "SchedulerError", attempt.status.message, nomination=withdrawn)
            return
        self._metrics.attempt(scheduler_name, Status(Code.UNSCHEDULABLE), took_s)
        for event in self._engine.events_to_record(attempt):
            self._context.events.event(event.regarding, "Normal", event.reason, event.action, event.note)
        outcome = self._engine.post_filter(attempt)
        plugins = diagnosis.rejecting_plugins()
        if outcome is None or outcome.plugin is None:
            message = diagnosis.told(outcome.result.status.message if outcome is not None else "")
            if held := self._engine.nominations.held_room(diagnosis):
                message = f"{message} {held}"
            nomination = withdrawn if outcome is not None and outcome.result.withdraws_nomination else None
            self._requeue(queued, plugins, "Unschedulable", message, nomination=nomination)
            return
        result, plugin = outcome.result, outcome.plugin
        if any(not victim.is_terminating for victim in result.victims):
            self._engine.preemption_begins(plugin, queued.info)  # blocks it while its victims are being deleted
        try:
            message, nomination = diagnosis.told(), result.nominated_node or None
            is_back = self._put_back(queued, plugins, "Unschedulable", message, nomination=nomination)
            if not is_back or self._context.is_deposed:
                self._engine.preemption_ends(plugin, queued.info)
                return
            coroutine = self.pod_status.failed(queued.info, "Unschedulable", message, nomination=nomination)
            self._start(self._preemptions.carry_out(self._preemptions.begin(plugin, queued, result), coroutine))
        except Exception:
            self._engine.preemption_ends(plugin, queued.info)
            raise

    def _requeue(
        self, queued: QueuedPod, plugins: Iterable[str], reason: str, message: str, *, nomination: str | None
    ) -> None:
        """Put an unplaced pod back and report it. A scheduler that no longer leads reports nothing."""
        is_back = self._put_back(queued, plugins, reason, message, nomination=nomination)
        if is_back and not self._context.is_deposed:
            self._start(self.pod_status.failed(queued.info, reason, message, nomination=nomination))

    def _put_back(
        self, queued: QueuedPod, plugins: Iterable[str], reason: str, message: str, *, nomination: str | None
    ) -> bool:
        """Put an unplaced pod back; False if it is gone or has a node."""
        newest = self._context.newest(queued.info.key)
        if not self._engine.requeue(queued, newest, plugins=plugins, nomination=nomination):
            return False
        self._unplaced += 1
        if self._unplaced <= _NAMED_A_TICK:
            _log.info("Unable to schedule pod", pod=queued.info.key, reason=reason, message=message)
        return True

    # -- tasks --------------------------------------------------------------------------------------------------------

    def _start(self, work: Coroutine[Any, Any, None] | None) -> None:
        if work is None:
            return
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        if not task.cancelled() and (exc := task.exception()) is not None:
            self._broke("task", exc=exc)

    def _broke(
        self,
        where: str,
        queued: QueuedPod | None = None,
        placement: Placement | None = None,
        *,
        exc: BaseException | None = None,
    ) -> None:
        """Handle an unexpected exception: log and count it, unreserve the pod, and try it again later."""
        pod = queued.info.key if queued is not None else ""
        _log.error("Scheduling failed unexpectedly", where=where, pod=pod, exc_info=exc or True)
        self._metrics.exceptions.labels(where).inc()
        if queued is None:
            return
        try:
            self._context.waiting_pods.pop(queued.uid, None)
            if placement is not None:
                self._engine.withdraw(placement)
            self._requeue(queued, (), "SchedulerError", _UNEXPECTED, nomination=self._nominations.withdrawn())
        except Exception:
            _log.exception("A pod cannot be put back into the queue", pod=pod)
            self._engine.done(queued.pod)
