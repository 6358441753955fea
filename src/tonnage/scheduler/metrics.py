"""What the scheduler counts, under kube-scheduler's names and labels."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tonnage.clock import Clock
from tonnage.scheduling.decision.scheduling_cycle import Pipeline
from tonnage.scheduling.engine.profiles import Assembled
from tonnage.scheduling.framework import Code, Plugin, Status
from tonnage.scheduling.queue.queued_pod import QueuedPod

_ATTEMPT_BUCKETS_S = tuple(0.001 * 2**i for i in range(15))
_SLI_BUCKETS_S = tuple(0.01 * 2**i for i in range(20))
_ATTEMPTS_BUCKETS = (1, 2, 4, 8, 16)
_VICTIMS_BUCKETS = (1, 2, 4, 8, 16, 32, 64)
SAMPLE_EVERY = 10
"""Plugins are timed in one decision of so many."""
_RESULTS = {Code.SUCCESS: "scheduled", Code.ERROR: "error"}
_VOLUMES = "VolumeBinding"


class Meter:
    """The scheduler's metrics. What is a state (queues, cache) is read when somebody looks: see `watch`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._decisions = 0
        self._is_sampling = False
        self._attempts = Counter(
            "scheduler_schedule_attempts",
            "Attempts to place a pod, by how they ended.",
            ("result", "profile"),
            registry=registry,
        )
        self._attempt_s = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "From taking a pod off the queue to its binding, or its failure.",
            ("result", "profile"),
            buckets=_ATTEMPT_BUCKETS_S,
            registry=registry,
        )
        self._algorithm_s = Histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Deciding alone.",
            buckets=_ATTEMPT_BUCKETS_S,
            registry=registry,
        )
        self._sli_s = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "From the first time a pod could be tried to its binding.",
            ("attempts",),
            buckets=_SLI_BUCKETS_S,
            registry=registry,
        )
        self._pod_attempts = Histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts a pod needed to be placed.",
            buckets=_ATTEMPTS_BUCKETS,
            registry=registry,
        )
        self._incoming = Counter(
            "scheduler_queue_incoming_pods",
            "Pods put into a queue, by what put them there.",
            ("event", "queue"),
            registry=registry,
        )
        self._plugin_s = Histogram(
            "scheduler_plugin_execution_duration_seconds",
            "One plugin at one extension point, for all nodes at once.",
            ("extension_point", "plugin", "status"),
            buckets=tuple(0.00001 * 1.5**i for i in range(20)),
            registry=registry,
        )
        self._volume_errors = Counter(
            "scheduler_volume_scheduling_stage_error",
            "Failures of VolumeBinding: predicate is its Filter, assume its Reserve, bind its PreBind.",
            ("operation",),
            registry=registry,
        )
        self._reschedulings = Counter(
            "volume_binding_rescheduling_events",
            "Bound claims whose volumes are rebuilt on another node (KEP-5925).",
            registry=registry,
        )

        self._preemption_attempts = Counter(
            "scheduler_preemption_attempts", "Times that room was looked for among lesser pods.", registry=registry
        )
        self._preemption_victims = Histogram(
            "scheduler_preemption_victims",
            "Pods that had to go for one.",
            buckets=_VICTIMS_BUCKETS,
            registry=registry,
        )

    def attempt(self, profile: str, status: Status, seconds: float) -> None:
        result = _RESULTS.get(status.code, "unschedulable")
        self._attempts.labels(result, profile).inc()
        self._attempt_s.labels(result, profile).observe(seconds)

    def algorithm(self, seconds: float) -> None:
        self._algorithm_s.observe(seconds)

    def scheduled(self, queued: QueuedPod, now_s: float) -> None:
        if queued.initial_attempt_at is not None:
            self._sli_s.labels(str(min(queued.attempts, 16))).observe(now_s - queued.initial_attempt_at)
        self._pod_attempts.observe(queued.attempts)

    def incoming(self, queued: QueuedPod, queue: str, why: str) -> None:
        self._incoming.labels(why, queue).inc()

    def volume_stage(self, operation: str, status: Status) -> None:
        """A stage of an attempt ended so; counts if it is VolumeBinding that failed there."""
        if status.plugin == _VOLUMES and not status.is_success:
            self._volume_errors.labels(operation).inc()

    def preemption_attempt(self) -> None:
        self._preemption_attempts.inc()

    def victims(self, count: int) -> None:
        self._preemption_victims.observe(count)

    def rescheduled(self) -> None:
        self._reschedulings.inc()

    def time_plugins(self, pipeline: Pipeline, clock: Clock) -> None:
        """Time the plugins of a pipeline, in one decision of ten, as upstream samples them.

        The methods of these very instances are wrapped, so that deciding knows nothing of being measured; a call that
        is not sampled costs a tenth of a microsecond more.
        """
        for plugin in pipeline.pre_filter:
            self._time(plugin, "pre_filter", "PreFilter", clock)
        for filter_plugin in pipeline.filter:
            self._time(filter_plugin, "filter", "Filter", clock)
        for pre_score in pipeline.pre_score:
            self._time(pre_score, "pre_score", "PreScore", clock)
        for score, _ in pipeline.score:
            self._time(score, "score", "Score", clock)

    def time_bindings(self, profile: Assembled, clock: Clock) -> None:
        """Time Reserve as above, and PreBind always: few pods have something to prepare, and for those it is long."""
        for reserve in profile.reserve:
            self._time(reserve, "reserve", "Reserve", clock)
        for pre_bind in profile.pre_bind:
            self._time_waiting(pre_bind, "pre_bind", "PreBind", clock)

    def _time_waiting(self, plugin: Plugin, method: str, extension_point: str, clock: Clock) -> None:
        inner: Callable[..., Awaitable[Status]] = getattr(plugin, method)

        async def timed(*given: Any) -> Status:
            began_at, told = clock.monotonic(), "Error"
            try:
                status = await inner(*given)
                told = "Success" if status.is_success else "Error"
                return status
            finally:
                self._plugin_s.labels(extension_point, plugin.name, told).observe(clock.monotonic() - began_at)

        setattr(plugin, method, timed)

    def _time(self, plugin: Plugin, method: str, extension_point: str, clock: Clock) -> None:
        inner: Callable[..., Any] = getattr(plugin, method)
        seen = self._plugin_s.labels(extension_point, plugin.name, "Success")

        def timed(*given: Any) -> Any:
            if not self._is_sampling:
                return inner(*given)
            began_at = clock.monotonic()
            answer = inner(*given)
            seen.observe(clock.monotonic() - began_at)
            return answer

        setattr(plugin, method, timed)

    def decision_begins(self) -> None:
        """The next decision is one of ten, or it is not."""
        self._decisions += 1
        self._is_sampling = self._decisions % SAMPLE_EVERY == 0

    def watch(self, families: Callable[[], Iterable[Metric]]) -> None:
        """Show what `families` says whenever the metrics are read."""
        self._registry.register(_Read(families))


class _Read(Collector):
    def __init__(self, families: Callable[[], Iterable[Metric]]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families()


def gauge(name: str, help: str, labels: tuple[str, ...], values: Mapping[Any, float]) -> Metric:
    """A gauge as it stands now; `values` are by tuple of label values."""
    family = GaugeMetricFamily(name, help, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def counter(name: str, help: str, labels: tuple[str, ...], values: Mapping[Any, float]) -> Metric:
    """A counter that somebody else counts; `name` goes without the `_total` it is shown with."""
    family = CounterMetricFamily(name, help, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family
