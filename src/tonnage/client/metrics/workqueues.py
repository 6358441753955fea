"""Work queues of a program by name, under client-go's names: how much waits, how long it waits, how long work takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable
from typing import Final
from weakref import WeakSet

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_BUCKETS_S: Final = tuple(10e-9 * 10.0**power for power in range(10))
"""Upstream's: from ten nanoseconds to ten seconds."""
_LABELS: Final = ("name",)


class WorkQueueMetrics:
    """The metrics of one program; `queue` gives what a queue of this name tells its life to."""

    def __init__(self, registry: CollectorRegistry, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._queues: WeakSet[QueueMetrics] = WeakSet()
        """Those that are: a controller that broke is made anew, with another queue."""
        self._adds = Counter("workqueue_adds", "Keys added to a work queue.", _LABELS, registry=registry)
        self._retries = Counter(
            "workqueue_retries", "Keys whose work failed and that are tried again.", _LABELS, registry=registry
        )
        self._waited_s = Histogram(
            "workqueue_queue_duration_seconds",
            "How long a key waited in a work queue before somebody took it.",
            _LABELS,
            buckets=_BUCKETS_S,
            registry=registry,
        )
        self._worked_s = Histogram(
            "workqueue_work_duration_seconds",
            "How long the work on a key took.",
            _LABELS,
            buckets=_BUCKETS_S,
            registry=registry,
        )
        registry.register(_States(lambda: list(self._queues)))

    def queue(self, name: str) -> QueueMetrics:
        """For one more queue. Queues of one name are counted together."""
        made = QueueMetrics(
            name,
            self._now,
            self._adds.labels(name),
            self._retries.labels(name),
            self._waited_s.labels(name),
            self._worked_s.labels(name),
        )
        self._queues.add(made)
        return made


class QueueMetrics:
    """What a `WorkQueue` tells about its keys."""

    def __init__(
        self,
        name: str,
        now: Callable[[], float],
        adds: Counter,
        retries: Counter,
        waited_s: Histogram,
        worked_s: Histogram,
    ) -> None:
        self.name = name
        self._now = now
        self._adds = adds
        self._retries = retries
        self._waited_s = waited_s
        self._worked_s = worked_s
        self.waiting_since: dict[Hashable, float] = {}
        self.working_since: dict[Hashable, float] = {}

    def added(self, key: Hashable) -> None:
        """It waits from now on, or will as soon as it is done."""
        self._adds.inc()
        self.waiting_since.setdefault(key, self._now())

    def taken(self, key: Hashable) -> None:
        now = self._now()
        since = self.waiting_since.pop(key, None)
        if since is not None:
            self._waited_s.observe(now - since)
        self.working_since[key] = now

    def done(self, key: Hashable) -> None:
        since = self.working_since.pop(key, None)
        if since is not None:
            self._worked_s.observe(self._now() - since)

    def closed(self) -> None:
        """Nothing is taken any more."""
        self.waiting_since.clear()

    def retried(self) -> None:
        self._retries.inc()

    def at_work_s(self) -> list[float]:
        now = self._now()
        return [now - since for since in self.working_since.values()]


class _States(Collector):
    """What is a state, read when somebody looks."""

    def __init__(self, queues: Callable[[], Iterable[QueueMetrics]]) -> None:
        self._queues = queues

    def collect(self) -> Iterable[Metric]:
        depth: dict[str, float] = {}
        unfinished: dict[str, float] = {}
        longest: dict[str, float] = {}
        for each in self._queues():
            at_work_s = each.at_work_s()
            depth[each.name] = depth.get(each.name, 0.0) + len(each.waiting_since)
            unfinished[each.name] = unfinished.get(each.name, 0.0) + sum(at_work_s)
            longest[each.name] = max(longest.get(each.name, 0.0), *at_work_s, 0.0)
        yield _gauge("workqueue_depth", "Keys that wait in a work queue now.", depth)
        yield _gauge(
            "workqueue_unfinished_work_seconds",
            "How long all work that is under way has taken so far. Large values mean that workers hang.",
            unfinished,
        )
        yield _gauge(
            "workqueue_longest_running_processor_seconds",
            "How long the work that has been under way for longest has taken so far.",
            longest,
        )


def _gauge(name: str, told: str, values: dict[str, float]) -> Metric:
    family = GaugeMetricFamily(name, told, labels=_LABELS)
    for queue, value in sorted(values.items()):
        family.add_metric((queue,), value)
    return family
