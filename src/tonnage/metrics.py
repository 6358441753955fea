"""Metrics in Prometheus' text form, under upstream's names.

A program makes one `CollectorRegistry` and hands it to its parts. /metrics follows kube-scheduler's --disabled-metrics
and --allow-metric-labels: a label value that is not allowed becomes `unexpected`, and samples with equal labels are
added up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, UnknownMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from tonnage.gates import Gates, GateStage

REQUEST_BUCKETS_S = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
)  # fmt: skip
"""Upstream's buckets of apiserver_request_duration_seconds."""


def new_registry() -> CollectorRegistry:
    """A registry with this process's memory, CPU, open files and garbage collection."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


class _ReadFamilies(Collector):
    def __init__(self, families: Callable[[], Iterable[Metric]]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families()


LabelledFamily = CounterMetricFamily | GaugeMetricFamily | UnknownMetricFamily


def labelled(kind: type[LabelledFamily], name: str, told: str, label: str, values: Mapping[str, float]) -> Metric:
    family = kind(name, told, labels=(label,))
    for value, count in values.items():
        family.add_metric((value,), count)
    return family


def show_families(registry: CollectorRegistry, families: Callable[[], Iterable[Metric]]) -> None:
    """Call `families` whenever the metrics are read, and show its result."""
    registry.register(_ReadFamilies(families))


def show_gates(registry: CollectorRegistry, gates: Gates) -> None:
    """Show which feature gates are on, as every Kubernetes program does."""
    enabled = Gauge(
        "kubernetes_feature_enabled",
        "Feature gates by name and stage: 1 for those that are on.",
        ("name", "stage"),
        registry=registry,
    )
    for name, gate in Gates.table().items():
        enabled.labels(name, gate.stage.value if gate.stage is not GateStage.GA else "").set(getattr(gates, name))


def exposition(registry: CollectorRegistry) -> tuple[bytes, str]:
    return generate_latest(registry), CONTENT_TYPE_PLAIN_0_0_4


UNEXPECTED: Final = "unexpected"


class ChosenMetrics(CollectorRegistry):
    """A registry filtered by the flags. `allowed`: values by (metric, label)."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        disabled: Iterable[str] = (),
        allowed: Mapping[tuple[str, str], frozenset[str]] | None = None,
    ) -> None:
        super().__init__()
        self._all = registry
        self._disabled = frozenset(disabled)
        self._allowed = dict(allowed or {})

    def collect(self) -> Iterator[Metric]:
        for family in self._all.collect():
            names = {family.name, f"{family.name}_total"} if family.type == "counter" else {family.name}
            if names & self._disabled:
                continue
            allowed = {label: values for (metric, label), values in self._allowed.items() if metric in names}
            yield _constrained(family, allowed) if allowed else family


def _constrained(family: Metric, allowed: Mapping[str, frozenset[str]]) -> Metric:
    sums: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for sample in family.samples:
        labels = tuple(
            (name, value if name not in allowed or value in allowed[name] else UNEXPECTED)
            for name, value in sample.labels.items()
        )
        sums[sample.name, labels] = sums.get((sample.name, labels), 0.0) + sample.value
    made = Metric(family.name, family.documentation, family.type, family.unit)
    made.samples = [Sample(name, dict(labels), value) for (name, labels), value in sums.items()]
    return made
