"""Who leads, as a metric under client-go's name: 1 on the copy that does, 0 on those that wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tonnage.client.leader import LeaderElector
from tonnage.objects.meta import split_key


def show_leadership(registry: CollectorRegistry, electors: Callable[[], Iterable[LeaderElector]]) -> None:
    """Show, whenever the metrics are read, which of these leases the program holds."""
    registry.register(_Leases(electors))


class _Leases(Collector):
    def __init__(self, electors: Callable[[], Iterable[LeaderElector]]) -> None:
        self._electors = electors

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily(
            "leader_election_master_status",
            "1 while this copy holds the lease of this name and does the work, 0 while it waits for it. Of all copies "
            "together there should be one.",
            labels=("name",),
        )
        for each in self._electors():
            family.add_metric((split_key(each.lease)[1],), float(each.leadership.is_leading))
        return (family,)
