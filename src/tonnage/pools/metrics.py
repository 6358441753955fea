"""What `tonnage pools` has done, and how it stands with its source."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from tonnage.client.metrics import WorkQueueMetrics


class PoolsMetrics:
    """Counters and gauges; `state` of an object is kept, stale or none."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._writes = Counter(
            "tonnage_pools_writes_total",
            "Annotations written or taken away, by kind of object and result.",
            ("kind", "result"),
            registry=registry,
        )
        self._problems = Gauge(
            "tonnage_pools_problems",
            "What is wrong with classes, or with what their driver publishes, at the moment.",
            registry=registry,
        )
        self._objects = Gauge(
            "tonnage_pools_objects",
            "Capacity objects of the driver's classes, by state.",
            ("state",),
            registry=registry,
        )
        self.queues = WorkQueueMetrics(registry)
        """For `Reconciler(metrics=…)`."""
        self._runs = Counter(
            "tonnage_pools_command_runs_total", "Runs of --command, by result.", ("result",), registry=registry
        )

    def wrote(self, kind: str, result: str) -> None:
        self._writes.labels(kind, result).inc()

    def ran(self, result: str) -> None:
        self._runs.labels(result).inc()

    def show(self, states: dict[str, int], problems: int) -> None:
        for state in ("kept", "stale", "none"):
            self._objects.labels(state).set(states.get(state, 0))
        self._problems.set(problems)
