"""How many events of a program people did not get to see, as a metric: `tonnage_events_dropped_total`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from tonnage.client.recorder import Recorder


def count_dropped_events(registry: CollectorRegistry, recorders: Callable[[], Iterable[Recorder]]) -> None:
    """Show what these recorders left out whenever the metrics are read."""
    registry.register(_Dropped(recorders))


class _Dropped(Collector):
    def __init__(self, recorders: Callable[[], Iterable[Recorder]]) -> None:
        self._recorders = recorders

    def collect(self) -> Iterable[Metric]:
        found = list(self._recorders())
        family = CounterMetricFamily(
            "tonnage_events_dropped",
            "Events that were not written: no room to wait, one too many about an object, or not accepted in time.",
            labels=("reason",),
        )
        family.add_metric(("full",), sum(each.dropped for each in found))
        family.add_metric(("spam",), sum(each.filtered for each in found))
        family.add_metric(("failed",), sum(each.abandoned for each in found))
        return (family,)
