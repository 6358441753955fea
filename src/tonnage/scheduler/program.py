"""The scheduler put together: client, informers, engine, loop, metrics. `tonnage scheduler` adds a command line.

    async with SchedulerProgram(runtime, configuration) as program:    # informers follow, nothing is placed yet
        await program.run()                                           # places pods until cancelled

Nothing is placed before every informer is synced. With leader election only the leader runs the loop; a leader that
follows another one first fetches the state again. At -v 4 the scheduler logs what it considered for volumes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, Final, Self

from prometheus_client.core import Metric

from tonnage import KUBERNETES_VERSION, logs, metrics
from tonnage.client.program import Program, Runtime
from tonnage.objects import core_v1, meta
from tonnage.scheduler import bindings_under_way, pod_traces
from tonnage.scheduler.context import SchedulerContext
from tonnage.scheduler.debug_pages import DebugPages
from tonnage.scheduler.loop import SchedulingLoop
from tonnage.scheduler.metrics import SchedulerMetrics, counter, gauge
from tonnage.scheduling.configuration.configuration import Configuration
from tonnage.scheduling.decision import explain, scheduling_cycle
from tonnage.scheduling.engine import attempt, event_handlers
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.queue.waiting_pods import uid_of
from tonnage.scheduling.volumes.explain.account_entries import considered_objects

MAX_LINES: Final = 50

_considered_log = logs.logger("tonnage.scheduler.volumes")


def log_considered(decider: scheduling_cycle.Decider, decision: scheduling_cycle.Decision) -> None:
    """Log what was considered for a pod's volumes, at debug level; refusals first, because readers look for them."""
    pod = decision.cycle.pod
    if not _considered_log.isEnabledFor(logging.DEBUG) or not pod.pod.claim_names():
        return
    try:
        found = considered_objects(explain.accounts_of(decider, decision))
    except Exception:  # a log line must not end the scheduling loop
        _considered_log.exception("Decisions cannot be reported", pod=pod.key)
        return
    found.sort(key=lambda fields: bool(fields["fits"]))
    for fields in found[:MAX_LINES]:
        _considered_log.debug("Considered for volumes", pod=pod.key, **fields)
    if len(found) > MAX_LINES:
        _considered_log.debug("More was considered for volumes", pod=pod.key, lines_left_out=len(found) - MAX_LINES)


_log = logs.logger("tonnage.scheduler")


class SchedulerProgram(Program):
    """One scheduler, for all profiles of a configuration."""

    sync_timeout_s = 120.0

    def __init__(
        self,
        runtime: Runtime,
        configuration: Configuration,
        *,
        on_synced: Callable[[], object] = lambda: None,
        engine_of: Callable[..., Engine] = Engine,
        tracer: pod_traces.Tracer | None = None,
    ) -> None:
        """`engine_of` creates the engine, for example a recording one. `tracer`: traces pods from queue to binding."""
        super().__init__(runtime)
        client, clock = runtime.client, runtime.clock
        self._on_synced = on_synced
        self.metrics = SchedulerMetrics(runtime.registry, clock)
        self.waits = bindings_under_way.PreBindWaits(clock)
        self._waiting_pods: dict[str, bindings_under_way.WaitingPod] = {}
        self._traces = pod_traces.PodTraces(tracer, clock)
        self.engine = engine_of(
            configuration.profiles,
            clock=clock,
            rng=runtime.rng,
            settings=attempt.EngineSettings(
                initial_backoff_s=float(configuration.pod_initial_backoff_seconds),
                max_backoff_s=float(configuration.pod_max_backoff_seconds),
                max_unschedulable_s=configuration.pod_max_in_unschedulable_s,
            ),
            hooks=attempt.EngineHooks(
                on_queued=lambda queued, queue, why: self.metrics.incoming(queued, str(queue), why),
                on_plugin_error=lambda plugin, queued, exc: _log.error(
                    "A plugin failed", plugin=plugin, pod=queued.info.key, exc_info=exc
                ),
                on_change=self._changed,
                on_pod_gone=self._pod_gone,
                plugin_times=self.metrics.plugin_times,
                on_decision=log_considered,
            ),
        )
        recorder = self._new_recorder(
            configuration.profiles[0].scheduler_name, runtime.identity or "tonnage-scheduler", by_note=False
        )
        of: Any = self.informers.of
        for kind in event_handlers.READ_KINDS:
            of(kind.cls, field_selector=kind.field_selector, is_optional=kind.is_told).add_handlers(
                on_add=self.engine.add, on_update=self.engine.update, on_delete=self.engine.delete
            )
        newest = self.informers.of(core_v1.Pod, field_selector=event_handlers.LIVE_PODS).get
        self.context = SchedulerContext(
            engine=self.engine,
            client=client,
            events=recorder,
            metrics=self.metrics,
            newest=newest,
            waits=self.waits,
            shows_nominations=configuration.profiles[0].gates.NominatedNodeNameForExpectation,
            waiting_pods=self._waiting_pods,
            leadership=runtime.leadership,
            telling=self._telling,
            traces=self._traces,
        )
        self.loop = SchedulingLoop(self.context)
        self._telling.give_way_while(lambda: self.loop.is_busy)
        self.pages = pages = DebugPages(self.engine)
        for families in (self._state, pages.reservation_families, pages.nomination_families, pages.storage_families):
            self.metrics.watch(families)
        self._gates = configuration.profiles[0].gates
        metrics.show_gates(runtime.registry, self._gates)
        self.metrics.count_plugins(self.engine.profiles.values())

    async def __aenter__(self) -> Self:
        for profile in self.engine.profiles.values():
            for plugin, why in profile.left_out.items():
                _log.info("A plugin does not take part", profile=profile.scheduler_name, plugin=plugin, reason=why)
        if beyond := self._gates.on_beyond(tuple(map(int, KUBERNETES_VERSION.split(".")))):
            _log.info(
                "Gates that are on here and off by default in kube-scheduler",
                release=KUBERNETES_VERSION,
                gates=",".join(beyond),
                as_before="--feature-gates " + ",".join(f"{gate}=false" for gate in beyond),
            )
        return await super().__aenter__()

    async def __aexit__(self, *_: object) -> None:
        await super().__aexit__()
        await asyncio.to_thread(self._traces.close)  # it may wait for a collector

    def _changed(self, old: meta.Object | None, new: meta.Object | None) -> None:
        self.waits.changed(old, new)
        if isinstance(old, core_v1.Pod):
            bindings_under_way.end_wait(self._waiting_pods, uid_of(old))

    def _pod_gone(self, uid: str) -> None:
        bindings_under_way.end_wait(self._waiting_pods, uid)
        self._traces.pod_gone(uid)

    async def run(self) -> None:
        """Place pods until cancelled; running writes, also of events, are finished first."""
        await self._take_over()
        self._on_synced()
        self.engine.open()
        _log.info("Scheduling", nodes=self.engine.cluster.count, profiles=",".join(self.engine.profiles))
        try:
            await self.loop.run()
        finally:
            await self._stop_recorders()  # while we still lead: later nothing may be written

    def _state(self) -> Iterable[Metric]:
        """The current gauges."""
        engine, slots = self.engine, self.context.slots
        pending = {(str(queue),): float(count) for queue, count in engine.queue.pending_pods().items()}
        refusals = {key: float(count) for key, count in engine.queue.refusals().items()}
        sizes = {
            ("nodes",): float(engine.cluster.count),
            ("pods",): float(sum(map(len, engine.cluster.residents))),
            ("assumed_pods",): float(len(engine.assumed)),
        }
        bindings = {("calling",): float(slots.taken), ("waiting",): float(slots.resting)}
        told = self.loop.pod_status
        return (
            gauge("scheduler_pending_pods", "Pending pods, by queue.", ("queue",), pending),
            gauge(
                "scheduler_unschedulable_pods",
                "Unschedulable pods, by the plugin that refused them.",
                ("plugin", "profile"),
                refusals,
            ),
            gauge("scheduler_cache_size", "Objects that the scheduler knows, by type.", ("type",), sizes),
            gauge("scheduler_bindings", "Pods that are being bound, by what is done for them.", ("state",), bindings),
            gauge("tonnage_pod_conditions_pending", "Conditions that wait to be written.", (), {(): told.pending}),
            counter(
                "tonnage_pod_conditions_dropped",
                "Conditions that were not written, because too many waited; the pod's next attempt says it again.",
                (),
                {(): told.dropped},
            ),
        )
