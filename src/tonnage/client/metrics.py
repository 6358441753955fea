"""Metrics of a program's use of the API server: requests, watches, work queues and leases, by client-go's names.

A server sends a bookmark about every minute, so a watch that is silent for minutes shows old state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from tonnage.client.calls import OnRequest
from tonnage.client.informer import Informer
from tonnage.client.leader import LeaderElector
from tonnage.keyed import grouped
from tonnage.metrics import labelled, show_families
from tonnage.objects.meta import split_key

_BUCKETS_S: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_METHODS: Final = {"create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}
_NO_ANSWER: Final = "<error>"
"""client-go's word for a request without an answer."""


class RestClientMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "rest_client_requests",
            "Requests to an API server, tries included, by the code of the answer; <error> where none came.",
            ("code", "method", "host"),
            registry=registry,
        )
        self._seconds = Histogram(
            "rest_client_request_duration_seconds",
            "Time from a request to an API server to its answer; of a watch, to its first byte. Waiting for our own "
            "limit of requests is not counted.",
            ("verb", "host"),
            buckets=_BUCKETS_S,
            registry=registry,
        )

    def of(self, server: str) -> OnRequest:
        """The `on_request` of a client of this server."""
        host = urlsplit(server).netloc or server

        @lru_cache(maxsize=256)
        def children(method: str, code: int) -> tuple[Counter, Histogram]:
            told = str(code) if code else _NO_ANSWER
            return self._requests.labels(told, method, host), self._seconds.labels(method, host)

        def count(verb: str, resource: str, code: int, seconds: float) -> None:
            counter, histogram = children(_METHODS.get(verb, "GET"), code)
            counter.inc()
            histogram.observe(seconds)

        return count


def show_leadership(registry: CollectorRegistry, electors: Callable[[], Iterable[LeaderElector]]) -> None:
    def families() -> Iterable[Metric]:
        told = (
            "1 while this copy holds the lease of this name and does the work, 0 while it waits for it. Of all copies "
            "together there should be one."
        )
        leading = {split_key(elector.lease)[1]: float(elector.leadership.is_leading) for elector in electors()}
        yield labelled(GaugeMetricFamily, "leader_election_master_status", told, "name", leading)

    show_families(registry, families)


def show_watches(registry: CollectorRegistry, informers: Callable[[], Iterable[Informer[Any]]]) -> None:
    """Show the state of these informers. Those of one resource are combined: the worst times, and sums."""
    show_families(registry, lambda: _watches(informers()))


def _watches(informers: Iterable[Informer[Any]]) -> Iterable[Metric]:
    by_name = grouped((each.name, each) for each in sorted(informers, key=lambda informer: informer.name))

    def values(of: Callable[[Informer[Any]], float], combine: Callable[[Iterable[float]], float]) -> dict[str, float]:
        return {name: combine(map(of, group)) for name, group in by_name.items()}

    def seconds_since(of: Callable[[Informer[Any]], float | None]) -> dict[str, float]:
        return values(lambda each: 0.0 if (since_s := of(each)) is None else each.now_s - since_s, max)

    gauge, counter = GaugeMetricFamily, CounterMetricFamily
    for kind, name, told, shown in (
        (
            gauge,
            "silent_seconds",
            "How long ago the API server last said anything on this watch, a bookmark included; it sends one a minute.",
            seconds_since(lambda each: each.last_told_s),
        ),
        (
            gauge,
            "out_of_step_seconds",
            "For how long this watch could not be followed, because the API server is away or refuses it; 0 while it "
            "can be.",
            seconds_since(lambda each: each.out_of_step_since_s),
        ),
        (
            gauge,
            "synced",
            "1 once all objects of this resource are known, 0 until then.",
            values(lambda each: float(each.is_synced), min),
        ),
        (gauge, "objects", "Objects of this resource that the program knows of.", values(len, sum)),
        (
            counter,
            "fetches",
            "How often all objects of this resource were fetched: once at the start, and after each watch that could "
            "not be resumed.",
            values(lambda each: each.fetches, sum),
        ),
        (
            counter,
            "failures",
            "Watches and lists of this resource that failed.",
            values(lambda each: each.failures, sum),
        ),
    ):
        yield labelled(kind, f"tonnage_watch_{name}", told, "resource", shown)


_QUEUE_BUCKETS_S: Final = tuple(10e-9 * 10.0**power for power in range(10))
"""Upstream's: ten nanoseconds to ten seconds."""
_QUEUE_LABELS: Final = ("name",)


class ShownQueue(Protocol):
    @property
    def depth(self) -> int: ...

    def at_work_s(self) -> list[float]: ...


class QueueMetrics(NamedTuple):
    """The counters of the queues of one name."""

    adds: Counter
    retries: Counter
    waited_s: Histogram
    worked_s: Histogram


class WorkQueueMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._names: WeakKeyDictionary[ShownQueue, str] = WeakKeyDictionary()
        """Of the live queues: a controller that is restarted has a new queue."""
        self._counters = QueueMetrics(
            Counter("workqueue_adds", "Keys added to a work queue.", _QUEUE_LABELS, registry=registry),
            Counter(
                "workqueue_retries",
                "Keys whose work failed and that are tried again.",
                _QUEUE_LABELS,
                registry=registry,
            ),
            Histogram(
                "workqueue_queue_duration_seconds",
                "How long a key waited in a work queue before a worker took it.",
                _QUEUE_LABELS,
                buckets=_QUEUE_BUCKETS_S,
                registry=registry,
            ),
            Histogram(
                "workqueue_work_duration_seconds",
                "How long the work on a key took.",
                _QUEUE_LABELS,
                buckets=_QUEUE_BUCKETS_S,
                registry=registry,
            ),
        )
        show_families(registry, self._states)

    def of(self, queue: ShownQueue, name: str) -> QueueMetrics:
        """The counters of one more queue. Queues of one name are counted together."""
        self._names[queue] = name
        adds, retries, waited_s, worked_s = self._counters
        return QueueMetrics(adds.labels(name), retries.labels(name), waited_s.labels(name), worked_s.labels(name))

    def _states(self) -> Iterable[Metric]:
        queues = grouped(sorted(((name, queue) for queue, name in self._names.items()), key=lambda each: each[0]))
        at_work_s = {name: [s for queue in group for s in queue.at_work_s()] for name, group in queues.items()}
        for name, told, values in (
            (
                "depth",
                "Keys that wait in a work queue now.",
                {name: float(sum(queue.depth for queue in group)) for name, group in queues.items()},
            ),
            (
                "unfinished_work_seconds",
                "How long all work that is under way has taken so far. Large values mean that workers hang.",
                {name: sum(found) for name, found in at_work_s.items()},
            ),
            (
                "longest_running_processor_seconds",
                "How long the work that has been under way for longest has taken so far.",
                {name: max(found, default=0.0) for name, found in at_work_s.items()},
            ),
        ):
            yield labelled(GaugeMetricFamily, f"workqueue_{name}", told, "name", values)
