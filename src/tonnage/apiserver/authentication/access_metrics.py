"""Who was let in and what was allowed, counted under kube-apiserver's names.

Users are told apart as upstream does: some names that every cluster has, addresses, and all others. Two of the names
lack the ending that counters have, and the library would add it; they are shown as they are upstream, without a type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import Metric, UnknownMetricFamily
from prometheus_client.registry import Collector

from tonnage.documents.access.attributes import Decision
from tonnage.documents.access.user import ANONYMOUS, User

_BUCKETS_S: Final = tuple(0.001 * 2**i for i in range(15))
_TOLD_BY_NAME: Final = frozenset(
    ("admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default")
)
_AUTHENTICATIONS: Final = ("success", "failure", "error")
_AUTHORIZATIONS: Final = ("allowed", "no-opinion", "error")


class AccessMetrics(Collector):
    """Counters and histograms of one server; `ticks` is the time they measure by."""

    def __init__(self, registry: CollectorRegistry, ticks: Callable[[], float]) -> None:
        self._ticks = ticks
        self._by_username: dict[str, int] = {}
        self._by_result = dict.fromkeys(_AUTHENTICATIONS, 0)
        authentication = Histogram(
            "authentication_duration_seconds",
            "Time to find out who asks, by result.",
            ("result",),
            buckets=_BUCKETS_S,
            registry=registry,
        )
        attempts = Counter(
            "authorization_attempts",
            "Requests that were authorized or refused, by result: allowed, no-opinion (no rule allows it) or error.",
            ("result",),
            registry=registry,
        )
        authorization = Histogram(
            "authorization_duration_seconds",
            "Time to find out whether a request is allowed, by result.",
            ("result",),
            buckets=_BUCKETS_S,
            registry=registry,
        )
        self._authentication = {result: authentication.labels(result) for result in _AUTHENTICATIONS}
        self._authorization = {
            result: (attempts.labels(result), authorization.labels(result)) for result in _AUTHORIZATIONS
        }
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
            self._by_result[result] += 1
            self._authentication[result].observe(self._ticks() - started_at)

    def authorization(self, authorize: Callable[[], Decision]) -> Decision:
        """What `authorize` says."""
        started_at = self._ticks()
        decision = authorize()
        result = "allowed" if decision.allowed else "error" if decision.evaluation_error else "no-opinion"
        counter, histogram = self._authorization[result]
        counter.inc()
        histogram.observe(self._ticks() - started_at)
        return decision

    def collect(self) -> Iterable[Metric]:
        yield _family(
            "authenticated_user_requests",
            "Requests whose sender is known, by the kind of name he has.",
            "username",
            self._by_username,
        )
        yield _family(
            "authentication_attempts", "Requests, by whether their sender is known.", "result", self._by_result
        )


def _kind_of(name: str) -> str:
    """Mirrors compressUsername: a metric tells no names of people, and has few labels."""
    return name if name in _TOLD_BY_NAME else "email_id" if "@" in name else "other"


def _family(name: str, told: str, label: str, counts: dict[str, int]) -> Metric:
    family = UnknownMetricFamily(name, told, labels=(label,))
    for value, count in counts.items():
        family.add_metric((value,), count)
    return family
