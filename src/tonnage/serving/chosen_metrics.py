"""What of a registry is shown at /metrics: some metrics not at all, some labels with agreed values only.

The rules are those of kube-scheduler's --disabled-metrics and --allow-metric-labels: a value that is not agreed on
becomes `unexpected`, and what then has the same labels is added up, so that a label which grew too many values does no
harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.samples import Sample

UNEXPECTED: Final = "unexpected"


class ChosenMetrics(CollectorRegistry):
    """A registry seen through a choice. `allowed` are values by (metric, label)."""

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
