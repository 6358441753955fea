"""The API server's metrics, under kube-apiserver's names and labels, and `tonnage_store_*` about the store.

Users are grouped as upstream does: a few well-known names, e-mail addresses, and all others. Two of upstream's counters
lack the ending that the library would add; they are shown under upstream's names, without a type.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    UnknownMetricFamily,
)

from tonnage.apiserver.audit_log import AuditLog
from tonnage.apiserver.requests import Call
from tonnage.documents.access.attributes import AccessDecision
from tonnage.gates import Gates
from tonnage.metrics import REQUEST_BUCKETS_S, labelled, show_families, show_gates
from tonnage.objects.resources import BY_PATH, RESOURCES, Resource
from tonnage.objects.users import ANONYMOUS, User
from tonnage.store.store import Store

_LABELS = ("component", "dry_run", "group", "resource", "scope", "subresource", "verb", "version")
_VERBS = {"create": "POST", "update": "PUT", "deletecollection": "DELETE"}
"""Verbs that kube-apiserver counts under the request's method; the scope tells them apart."""


class RequestMetrics:
    """Counters and histograms of one server."""

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
        show_families(registry, lambda: _stored_objects(count_objects, custom()))
        self._custom_labels: set[tuple[str, ...]] = set()
        """The labels of requests for custom resources."""
        self.reading = self._inflight.labels("readOnly")
        self.mutating = self._inflight.labels("mutating")

    def done(self, call: Call, applies: bool, code: int, seconds: float) -> None:
        values = self._values(call, applies)
        labels = (*values, str(code))
        named = (call.at.resource.group, call.at.resource.version, call.at.resource.plural)
        if named not in BY_PATH and labels not in self._custom_labels:
            self._forget_gone()
            self._custom_labels.add(labels)
        histogram = self._duration.labels(*values)
        if call.verb != "watch":
            histogram.observe(seconds)
        self._total.labels(*labels).inc()

    def other(self, step: str, method: str, code: int) -> None:
        """Count a request that is not about a resource: discovery, health, schemas. `step`: its path's first step."""
        self._total.labels("apiserver", "", "", "", "", step, method, "", str(code)).inc()

    def watcher(self, call: Call) -> Gauge:
        component, _, group, resource, scope, subresource, verb, version = self._values(call, False)
        return self._longrunning.labels(component, group, resource, scope, subresource, verb, version)

    def events_of(self, call: Call) -> Counter:
        return self._watch_events.labels(call.at.resource.group, call.at.resource.plural, call.at.resource.version)

    def _forget_gone(self) -> None:
        """Remove the metrics of custom resources that are no longer served."""
        served = {(row.group, row.plural, row.version) for row in self._custom()}
        for labels in tuple(self._custom_labels):
            component, _, group, resource, scope, subresource, verb, version, _ = labels
            if (group, resource, version) not in served:
                self._custom_labels.remove(labels)
                with suppress(KeyError):  # it was removed with another code, or is not watched
                    self._total.remove(*labels)
                    self._duration.remove(*labels[:-1])
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


def _stored_objects(count: Callable[[Resource], int], custom: Iterable[Resource]) -> Iterable[Metric]:
    counted = {row.qualified: row for row in RESOURCES if row.stored_as is None}
    for row in custom:  # all versions of a resource have the same objects
        counted.setdefault(row.qualified, row)
    counts = {name: count(row) for name, row in counted.items()}
    yield labelled(GaugeMetricFamily, "apiserver_storage_objects", "Objects kept, by resource.", "resource", counts)


def show_audit_log(registry: CollectorRegistry, audit_log: Callable[[], AuditLog | None]) -> None:
    """`audit_log` returns the server's audit log, or None."""

    def families() -> Iterable[Metric]:
        log, counter = audit_log(), CounterMetricFamily
        events, levels, lost = (log.events, {"Metadata": log.requests}, {"log": log.lost}) if log else (0, {}, {})
        yield counter("apiserver_audit_event_total", "Lines that the audit log was given.", value=events)
        yield labelled(counter, "apiserver_audit_level_total", "Requests that were audited, by level.", "level", levels)
        told = "Lines that the audit log could not take."
        yield labelled(counter, "apiserver_audit_error_total", told, "plugin", lost)

    show_families(registry, families)


_MAX_NAMED = 20
"""Damaged rows named by labels: one label value per row is acceptable only for few rows."""
_ERRORS = ("full", "io", "corrupt", "locked", "read-only", "stalled")


def show_store(
    registry: CollectorRegistry, store: Store, *, now: Callable[[], float], ticks: Callable[[], float]
) -> None:
    """`now`: the wall clock in seconds. `ticks`: the clock of the store's health."""

    def families() -> Iterable[Metric]:
        health, gauge = store.health, GaugeMetricFamily
        wal = store.path.with_name(f"{store.path.name}-wal")
        sizes = {"log": _size(store.path), "wal": _size(wal), "reserve": _size(store.folder / "reserve")}
        yield labelled(gauge, "tonnage_store_file_bytes", "Size of the store's files.", "file", sizes)
        for name, told, value in (
            ("history_bytes", "Superseded documents and tombstones kept.", store.history_bytes),
            ("revision", "The newest revision.", store.revision),
            ("compacted_revision", "History up to here is gone.", store.compacted),
            ("writable", "1 while writes work, 0 while they fail.", health.problem is None),
        ):
            yield gauge(f"tonnage_store_{name}", told, value=float(value))
        errors = {kind: health.errors[kind] for kind in _ERRORS}
        yield labelled(
            CounterMetricFamily, "tonnage_store_errors", "Failed attempts to write, by kind.", "kind", errors
        )
        last: dict[str, float] = {}
        if health.last_error is not None:
            last = {health.last_error.kind: now() - (ticks() - health.last_error_at)}
        told = "When the last attempt to write failed."
        yield labelled(gauge, "tonnage_store_last_error_timestamp_seconds", told, "kind", last)
        told = "Rows that are damaged or missing."
        yield gauge("tonnage_store_damaged_rows", told, value=float(health.damage_count))
        rows = gauge("tonnage_store_damaged_row", "A damaged row; the first of them only.", labels=("key", "revision"))
        for row in health.damage[:_MAX_NAMED]:
            rows.add_metric((repr(row.key)[1:-1], str(row.revision)), 1)
        yield rows

    show_families(registry, families)


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


_BUCKETS_S: Final = tuple(0.001 * 2**i for i in range(15))
_TOLD_BY_NAME: Final = frozenset(
    ("admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default")
)
_AUTHENTICATIONS: Final = ("success", "failure", "error")
_AUTHORIZATIONS: Final = ("allowed", "no-opinion", "error")


class _Durations:
    """A histogram for one thread, on every request; the library's takes a lock twice."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(_BUCKETS_S) + 1)
        self.sum_s = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(_BUCKETS_S, seconds)] += 1
        self.sum_s += seconds


class AccessMetrics:
    """Counters and histograms of one server; `ticks` is their clock."""

    def __init__(self, registry: CollectorRegistry, ticks: Callable[[], float]) -> None:
        self._ticks = ticks
        self._by_username: dict[str, int] = {}
        self._authentications = {result: _Durations() for result in _AUTHENTICATIONS}
        self._authorizations = {result: _Durations() for result in _AUTHORIZATIONS}
        show_families(registry, self._families)

    def authentication(self, authenticate: Callable[[], User | None], *, may_be_anonymous: bool) -> User | None:
        """The result of `authenticate`: a user, None, or Unauthorized for invalid credentials."""
        started_at, result = self._ticks(), "error"
        try:
            user = authenticate()
            if user is not None or may_be_anonymous:
                result, kind = "success", _kind_of(user.name if user is not None else ANONYMOUS)
                self._by_username[kind] = self._by_username.get(kind, 0) + 1
            else:
                result = "failure"
            return user
        finally:
            self._authentications[result].observe(self._ticks() - started_at)

    def authorization(self, authorize: Callable[[], AccessDecision]) -> AccessDecision:
        started_at = self._ticks()
        decision = authorize()
        result = "allowed" if decision.allowed else "error" if decision.evaluation_error else "no-opinion"
        self._authorizations[result].observe(self._ticks() - started_at)
        return decision

    def _families(self) -> Iterable[Metric]:
        told = "Authenticated requests, by kind of user name."
        yield labelled(UnknownMetricFamily, "authenticated_user_requests", told, "username", self._by_username)
        told = "Requests, by whether their sender is known."
        counts = {result: sum(durations.counts) for result, durations in self._authentications.items()}
        yield labelled(UnknownMetricFamily, "authentication_attempts", told, "result", counts)
        told = "Time to authenticate a request, by result."
        yield _histogram("authentication_duration_seconds", told, self._authentications)
        told = "Requests that were authorized or refused, by result: allowed, no-opinion (no rule allows it) or error."
        counts = {result: sum(durations.counts) for result, durations in self._authorizations.items()}
        yield labelled(CounterMetricFamily, "authorization_attempts", told, "result", counts)
        told = "Time to find out whether a request is allowed, by result."
        yield _histogram("authorization_duration_seconds", told, self._authorizations)


def _kind_of(name: str) -> str:
    """Mirrors compressUsername: metrics show no people's names, and have few labels."""
    return name if name in _TOLD_BY_NAME else "email_id" if "@" in name else "other"


def _histogram(name: str, told: str, durations: Mapping[str, _Durations]) -> Metric:
    family, bounds = HistogramMetricFamily(name, told, labels=("result",)), (*map(str, _BUCKETS_S), "+Inf")
    for result, found in durations.items():
        family.add_metric((result,), list(zip(bounds, accumulate(found.counts), strict=True)), found.sum_s)
    return family
