"""How well a program follows the cluster, watch by watch: what it decides is only as fresh as what it was told.

A server that has nothing to tell still sends a bookmark about every minute. So a watch that has been silent for several
minutes, or that could not be opened again for one, is a program that acts on yesterday's news.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tonnage.client.informer import Informer

_LABELS = ("resource",)


def show_watches(registry: CollectorRegistry, informers: Callable[[], Iterable[Informer[Any]]]) -> None:
    """Show how these informers stand whenever the metrics are read."""
    registry.register(_Watches(informers))


class _Watches(Collector):
    """Informers of the same resource, of other selections of it, are told as one: the worst times, and sums."""

    def __init__(self, informers: Callable[[], Iterable[Informer[Any]]]) -> None:
        self._informers = informers

    def collect(self) -> Iterable[Metric]:
        silent: dict[str, float] = {}
        behind: dict[str, float] = {}
        synced: dict[str, float] = {}
        objects: dict[str, float] = {}
        fetched: dict[str, float] = {}
        failed: dict[str, float] = {}
        for each in self._informers():
            name, now_s = each.name, each.now_s
            told_s, out_of_step_s = each.last_told_s, each.out_of_step_since_s
            silent[name] = max(silent.get(name, 0.0), now_s - told_s if told_s is not None else 0.0)
            behind[name] = max(behind.get(name, 0.0), now_s - out_of_step_s if out_of_step_s is not None else 0.0)
            synced[name] = min(synced.get(name, 1.0), float(each.is_synced))
            objects[name] = objects.get(name, 0.0) + len(each)
            fetched[name] = fetched.get(name, 0.0) + each.fetches
            failed[name] = failed.get(name, 0.0) + each.failures
        yield _gauge(
            "tonnage_watch_silent_seconds",
            "How long ago the API server last said anything on this watch, a bookmark included; it sends one a minute.",
            silent,
        )
        yield _gauge(
            "tonnage_watch_out_of_step_seconds",
            "For how long this watch could not be followed, because the API server is away or refuses it; 0 while it "
            "can be.",
            behind,
        )
        yield _gauge("tonnage_watch_synced", "1 once all objects of this resource are known, 0 until then.", synced)
        yield _gauge("tonnage_watch_objects", "Objects of this resource that the program knows of.", objects)
        yield _counter(
            "tonnage_watch_fetches",
            "How often all objects of this resource were fetched: once at the start, and after each watch that could "
            "not be resumed.",
            fetched,
        )
        yield _counter("tonnage_watch_failures", "Watches and lists of this resource that failed.", failed)


def _gauge(name: str, told: str, values: dict[str, float]) -> Metric:
    family = GaugeMetricFamily(name, told, labels=_LABELS)
    for resource, value in sorted(values.items()):
        family.add_metric((resource,), value)
    return family


def _counter(name: str, told: str, values: dict[str, float]) -> Metric:
    family = CounterMetricFamily(name, told, labels=_LABELS)
    for resource, value in sorted(values.items()):
        family.add_metric((resource,), value)
    return family
