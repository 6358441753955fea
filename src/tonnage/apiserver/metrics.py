"""What the API server counts about its requests, under kube-apiserver's names and labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tonnage.apiserver.requests import Call
from tonnage.gates import Gates
from tonnage.metrics import REQUEST_BUCKETS_S, show_gates
from tonnage.objects.resources import BY_PATH, RESOURCES, Resource

_LABELS = ("component", "dry_run", "group", "resource", "scope", "subresource", "verb", "version")
_VERBS = {"create": "POST", "update": "PUT", "deletecollection": "DELETE"}
"""Where kube-apiserver counts a verb under another name: by the request's method, which the scope tells apart."""


class RequestMetrics:
    """Counters and histograms of one server. Children are kept by label tuple: looking one up is the hot path."""

    def __init__(
        self,
        registry: CollectorRegistry,
        count_objects: Callable[[Resource], int],
        gates: Gates,
        custom: Callable[[], Iterable[Resource]] = tuple,
    ) -> None:
        self._total = Counter(
            "apiserver_request",
            "Requests, by what they asked for and the code they got.",
            (*_LABELS, "code"),
            registry=registry,
        )
        self._duration = Histogram(
            "apiserver_request_duration_seconds",
            "Time to answer, watches left out.",
            _LABELS,
            buckets=REQUEST_BUCKETS_S,
            registry=registry,
        )
        self._inflight = Gauge(
            "apiserver_current_inflight_requests", "Requests being answered now.", ("request_kind",), registry=registry
        )
        longrunning_labels = tuple(label for label in _LABELS if label != "dry_run")
        self._longrunning = Gauge(
            "apiserver_longrunning_requests", "Watches that are open now.", longrunning_labels, registry=registry
        )
        self._watch_events = Counter(
            "apiserver_watch_events",
            "Chunks of events sent to watchers.",
            ("group", "resource", "version"),
            registry=registry,
        )
        self.loop_lag = Histogram(
            "tonnage_event_loop_lag_seconds",
            "How much later than asked for the event loop came back: what every request waits at least.",
            buckets=(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
            registry=registry,
        )
        self.large_requests = Gauge(
            "tonnage_large_requests", "Large requests that are worked on beside the event loop.", registry=registry
        )
        show_gates(registry, gates)
        self._custom = custom
        registry.register(_StoredObjects(count_objects, custom))
        self._children: dict[tuple[str, ...], tuple[Histogram, dict[int, Counter]]] = {}
        self.reading = self._inflight.labels("readOnly")
        self.mutating = self._inflight.labels("mutating")

    def done(self, call: Call, applies: bool, code: int, seconds: float) -> None:
        """One request about a resource was answered."""
        values = self._values(call, applies)
        child = self._children.get(values)
        if child is None:
            if (call.resource.group, call.resource.version, call.resource.plural) not in BY_PATH:
                self._forget_gone()
            child = self._children[values] = (self._duration.labels(*values), {})
        histogram, by_code = child
        if call.verb != "watch":
            histogram.observe(seconds)
        counter = by_code.get(code)
        if counter is None:
            counter = by_code[code] = self._total.labels(*values, str(code))
        counter.inc()

    def other(self, step: str, method: str, code: int) -> None:
        """One request that is not about a resource: discovery, health, schemas. `step` is how its path begins."""
        self._total.labels("apiserver", "", "", "", "", step, method, "", str(code)).inc()

    def watcher(self, call: Call) -> Gauge:
        component, _, group, resource, scope, subresource, verb, version = self._values(call, False)
        return self._longrunning.labels(component, group, resource, scope, subresource, verb, version)

    def events_of(self, call: Call) -> Counter:
        return self._watch_events.labels(call.resource.group, call.resource.plural, call.resource.version)

    def _forget_gone(self) -> None:
        """Remove what was counted about custom resources that are not served any more: definitions come and go.

        Called when a custom resource is first asked for in a new way, so that at most what came since is left.
        """
        served = {(row.group, row.plural, row.version) for row in (*RESOURCES, *self._custom())}
        for values, (_, by_code) in tuple(self._children.items()):
            component, _, group, resource, scope, subresource, verb, version = values
            if (group, resource, version) in served:
                continue
            del self._children[values]
            self._duration.remove(*values)
            for code in by_code:
                self._total.remove(*values, str(code))
            with suppress(KeyError):  # of those that were watched
                self._longrunning.remove(component, group, resource, scope, subresource, verb, version)
                self._watch_events.remove(group, resource, version)

    def _values(self, call: Call, applies: bool) -> tuple[str, ...]:
        at, resource = call.at, call.at.resource
        if at.name or call.verb == "create":
            scope = "resource"
        else:
            scope = "namespace" if at.namespace else "cluster"
        verb = "APPLY" if applies else _VERBS.get(call.verb, call.verb.upper())
        dry_run = "All" if call.query.get("dryRun") else ""
        return (
            "apiserver", dry_run, resource.group, resource.plural, scope, at.subresource, verb, resource.version
        )  # fmt: skip


class _StoredObjects(Collector):
    """apiserver_storage_objects, counted when somebody looks."""

    def __init__(self, count: Callable[[Resource], int], custom: Callable[[], Iterable[Resource]]) -> None:
        self._count = count
        self._custom = custom

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily("apiserver_storage_objects", "Objects kept, by resource.", labels=("resource",))
        counted = {row.qualified: row for row in RESOURCES if row.stored_as is None}
        for row in self._custom():  # all versions of one have the same objects
            counted.setdefault(row.qualified, row)
        for name, row in counted.items():
            family.add_metric((name,), self._count(row))
        return (family,)
