"""Who was let in and what was allowed, counted under kube-apiserver's names.

Users are told apart as upstream does: some names that every cluster has, addresses, and all others. Two of the names
lack the ending that counters have, and the library would add it; they are shown as they are upstream, without a type.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric, UnknownMetricFamily
from prometheus_client.registry import Collector

from tonnage.documents.access.attributes import AccessDecision
from tonnage.objects.users import ANONYMOUS, User

_BUCKETS_S: Final = tuple(0.001 * 2**i for i in range(15))
_TOLD_BY_NAME: Final = frozenset(
    ("admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default")
)
_AUTHENTICATIONS: Final = ("success", "failure", "error")
_AUTHORIZATIONS: Final = ("allowed", "no-opinion", "error")


class _Durations:
    """How long things took. The library's histogram takes a lock twice; this is for one thread, and each request."""

    __slots__ = ("_counts", "_sum_s")

    def __init__(self) -> None:
        self._counts = [0] * (len(_BUCKETS_S) + 1)
        self._sum_s = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(_BUCKETS_S, seconds)] += 1
        self._sum_s += seconds

    @property
    def count(self) -> int:
        return sum(self._counts)

    def add_to(self, family: HistogramMetricFamily, result: str) -> None:
        bounds = (*map(str, _BUCKETS_S), "+Inf")
        family.add_metric((result,), list(zip(bounds, accumulate(self._counts), strict=True)), self._sum_s)


class AccessMetrics(Collector):
    """Counters and histograms of one server; `ticks` is the time they measure by."""

    def __init__(self, registry: CollectorRegistry, ticks: Callable[[], float]) -> None:
        self._ticks = ticks
        self._by_username: dict[str, int] = {}
        self._authentications = {result: _Durations() for result in _AUTHENTICATIONS}
        self._authorizations = {result: _Durations() for result in _AUTHORIZATIONS}
        registry.register(self)

    def authentication(self, authenticate: Callable[[], User | None], *, may_be_anonymous: bool) -> User | None:
        """What `authenticate` gives or raises: a user, nobody, or Unauthorized for credentials that prove nothing."""
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
        """What `authorize` says."""
        started_at = self._ticks()
        decision = authorize()
        result = "allowed" if decision.allowed else "error" if decision.evaluation_error else "no-opinion"
        self._authorizations[result].observe(self._ticks() - started_at)
        return decision

    def collect(self) -> Iterable[Metric]:
        yield _family(
            "authenticated_user_requests",
            "Requests whose sender is known, by the kind of name he has.",
            "username",
            self._by_username,
        )
        yield _family(
            "authentication_attempts",
            "Requests, by whether their sender is known.",
            "result",
            _counts(self._authentications),
        )
        yield _histogram(
            "authentication_duration_seconds", "Time to find out who asks, by result.", self._authentications
        )
        told = "Requests that were authorized or refused, by result: allowed, no-opinion (no rule allows it) or error."
        attempts = CounterMetricFamily("authorization_attempts", told, labels=("result",))
        for result, count in _counts(self._authorizations).items():
            attempts.add_metric((result,), count)
        yield attempts
        yield _histogram(
            "authorization_duration_seconds",
            "Time to find out whether a request is allowed, by result.",
            self._authorizations,
        )


def _kind_of(name: str) -> str:
    """Mirrors compressUsername: a metric tells no names of people, and has few labels."""
    return name if name in _TOLD_BY_NAME else "email_id" if "@" in name else "other"


def _family(name: str, told: str, label: str, counts: dict[str, int]) -> Metric:
    family = UnknownMetricFamily(name, told, labels=(label,))
    for value, count in counts.items():
        family.add_metric((value,), count)
    return family


def _histogram(name: str, told: str, durations: Mapping[str, _Durations]) -> Metric:
    family = HistogramMetricFamily(name, told, labels=("result",))
    for result, found in durations.items():
        found.add_to(family, result)
    return family


def _counts(durations: Mapping[str, _Durations]) -> dict[str, int]:
    return {result: found.count for result, found in durations.items()}
