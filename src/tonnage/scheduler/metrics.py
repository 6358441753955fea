"""The scheduler's metrics, under kube-scheduler's names and labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from tonnage import logs, metrics
from tonnage.clock import Clock
from tonnage.scheduling.engine.profiles import Assembled
from tonnage.scheduling.framework import Code, Plugin, PluginCounter, PluginTimes, Status
from tonnage.scheduling.queue.waiting_pods import QueuedPod

_log = logs.logger("tonnage.scheduler")

_ATTEMPT_BUCKETS_S = tuple(0.001 * 2**i for i in range(15))
_SLI_BUCKETS_S = tuple(0.01 * 2**i for i in range(20))
_ATTEMPTS_BUCKETS = (1, 2, 4, 8, 16)
_VICTIMS_BUCKETS = (1, 2, 4, 8, 16, 32, 64)
SAMPLE_EVERY = 10
"""Plugins are timed in one of this many decisions."""
_RESULTS = {Code.SUCCESS: "scheduled", Code.ERROR: "error"}


class SchedulerMetrics:
    """The scheduler's metrics. Gauges of state (queues, cache) are read on demand: see `watch`."""

    def __init__(self, registry: CollectorRegistry, clock: Clock) -> None:
        self._registry = registry
        self._attempts_begun = 0
        counter, histogram = partial(Counter, registry=registry), partial(Histogram, registry=registry)
        by_result = ("result", "profile")
        self._attempts = counter(
            "scheduler_schedule_attempts", "Attempts to place a pod, by how they ended.", by_result
        )
        told = "From taking a pod off the queue to its binding, or its failure."
        name = "scheduler_scheduling_attempt_duration_seconds"
        self._attempt_s = histogram(name, told, by_result, buckets=_ATTEMPT_BUCKETS_S)
        name = "scheduler_scheduling_algorithm_duration_seconds"
        self.algorithm_s = histogram(name, "Deciding alone.", buckets=_ATTEMPT_BUCKETS_S)
        told = "From the first time a pod could be tried to its binding."
        name = "scheduler_pod_scheduling_sli_duration_seconds"
        self._sli_s = histogram(name, told, ("attempts",), buckets=_SLI_BUCKETS_S)
        told = "Attempts a pod needed to be placed."
        self._pod_attempts = histogram("scheduler_pod_scheduling_attempts", told, buckets=_ATTEMPTS_BUCKETS)
        told = "Pods put into a queue, by what put them there."
        self._incoming = counter("scheduler_queue_incoming_pods", told, ("event", "queue"))
        told = "One plugin at one extension point, for all nodes at once."
        name, labels = "scheduler_plugin_execution_duration_seconds", ("extension_point", "plugin", "status")
        self._plugin_s = histogram(name, told, labels, buckets=tuple(0.00001 * 1.5**i for i in range(20)))
        told = "Pods that one preemption removed."
        self.preemption_victims = histogram("scheduler_preemption_victims", told, buckets=_VICTIMS_BUCKETS)
        self.exceptions = counter(
            "tonnage_scheduling_exceptions",
            "Unexpected exceptions, by what they ended; the log has their tracebacks. The scheduler goes on.",
            ("where",),
        )
        self._clock = clock

    def attempt(self, profile: str, status: Status, seconds: float) -> None:
        result = _RESULTS.get(status.code, "unschedulable")
        self._attempts.labels(result, profile).inc()
        self._attempt_s.labels(result, profile).observe(seconds)

    def scheduled(self, queued: QueuedPod, now_s: float) -> None:
        if queued.initial_attempt_at is not None:
            self._sli_s.labels(str(min(queued.attempts, 16))).observe(now_s - queued.initial_attempt_at)
        self._pod_attempts.observe(queued.attempts)

    def incoming(self, queued: QueuedPod, queue: str, why: str) -> None:
        self._incoming.labels(why, queue).inc()

    def plugin_times(self) -> PluginTimes | None:
        """Called at the start of an attempt: its plugins are measured in one of ten, like upstream."""
        self._attempts_begun += 1
        return self if self._attempts_begun % SAMPLE_EVERY == 0 else None

    def run(self, point: str, plugin: str, work: Callable[..., Any], *given: Any) -> Any:
        """Time a plugin of a sampled attempt. See `framework.PluginTimes`."""
        began_at = self._clock.monotonic()
        answer = work(*given)
        self._plugin_s.labels(point, plugin, "Success").observe(self._clock.monotonic() - began_at)
        return answer

    def pre_bind(self, plugin: str, status: Status, seconds: float) -> None:
        """Time PreBind, always: few pods need it, and for these it is long."""
        self._plugin_s.labels("PreBind", plugin, "Success" if status.is_success else "Error").observe(seconds)

    def count_plugins(self, profiles: Iterable[Assembled]) -> None:
        """Show the counters of these profiles' plugins."""
        plugins = [plugin for profile in profiles for plugin in profile.plugins]
        self.watch(lambda: _summed(plugins))

    def watch(self, families: Callable[[], Iterable[Metric]]) -> None:
        """Show what `families` returns whenever the metrics are read."""
        metrics.show_families(self._registry, families)


def _summed(plugins: Iterable[Plugin]) -> Iterable[Metric]:
    families: dict[str, Metric] = {}
    values: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
    for plugin in plugins:
        for each in _counters_of(plugin):
            families.setdefault(each.name, CounterMetricFamily(each.name, each.help, labels=tuple(each.labels)))
            place = each.name, tuple(each.labels.items())
            values[place] = values.get(place, 0) + each.value
    for (name, labels), value in values.items():
        families[name].add_sample(f"{name}_total", dict(labels), value)
    return families.values()


def _counters_of(plugin: Plugin) -> Iterable[PluginCounter]:
    try:
        return list(plugin.counters())
    except Exception:  # the page shows everything else
        _log.exception("A plugin failed", plugin=plugin.name)
        return ()


Values = Mapping[Any, float]
"""By tuple of label values."""


def gauge(name: str, help: str, labels: tuple[str, ...], values: Values) -> Metric:
    """A gauge with its current values."""
    return _filled(GaugeMetricFamily(name, help, labels=labels), values)


def counter(name: str, help: str, labels: tuple[str, ...], values: Values) -> Metric:
    """A counter with values counted elsewhere; `name` is without the `_total` suffix."""
    return _filled(CounterMetricFamily(name, help, labels=labels), values)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, values: Values) -> Metric:
    for key, value in values.items():
        family.add_metric(key, value)
    return family
