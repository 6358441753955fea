"""Who was let in and what was allowed, under kube-apiserver's names and labels."""

from __future__ import annotations

import itertools

import pytest
from prometheus_client import CollectorRegistry

from tonnage.apiserver.metrics import AccessMetrics
from tonnage.documents.access.attributes import AccessDecision
from tonnage.errors import Unauthorized
from tonnage.metrics import exposition
from tonnage.objects.users import User


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> AccessMetrics:
    ticks = itertools.count(0.0, 0.25)
    return AccessMetrics(registry, lambda: next(ticks))


def refuse() -> User:
    raise Unauthorized("Unauthorized")


def test_authentications_are_counted_by_result(registry: CollectorRegistry, metrics: AccessMetrics) -> None:
    user = User("admin")
    assert metrics.authentication(lambda: user, may_be_anonymous=False) is user
    assert metrics.authentication(lambda: None, may_be_anonymous=False) is None
    with pytest.raises(Unauthorized):
        metrics.authentication(refuse, may_be_anonymous=True)
    for result in ("success", "failure", "error"):
        assert registry.get_sample_value("authentication_attempts", {"result": result}) == 1
        assert registry.get_sample_value("authentication_duration_seconds_sum", {"result": result}) == 0.25


def test_names_of_people_are_not_told(registry: CollectorRegistry, metrics: AccessMetrics) -> None:
    for name in ("admin", "system:serviceaccount:kube-system:default", "kelly@example.com", "kelly", "system:node:n"):
        metrics.authentication(lambda name=name: User(name), may_be_anonymous=False)  # type: ignore[misc]
    metrics.authentication(lambda: None, may_be_anonymous=True)
    counts = {
        kind: registry.get_sample_value("authenticated_user_requests", {"username": kind})
        for kind in ("admin", "system:serviceaccount:kube-system:default", "email_id", "other")
    }
    assert list(counts.values()) == [1, 1, 1, 3]
    assert b"kelly" not in exposition(registry)[0]


def test_authorizations_are_counted_by_result(registry: CollectorRegistry, metrics: AccessMetrics) -> None:
    for decision in (
        AccessDecision(True),
        AccessDecision(True),
        AccessDecision(False),
        AccessDecision(False, evaluation_error="broken"),
    ):
        assert metrics.authorization(lambda decision=decision: decision) is decision  # type: ignore[misc]
    for result, count in (("allowed", 2), ("no-opinion", 1), ("error", 1)):
        assert registry.get_sample_value("authorization_attempts_total", {"result": result}) == count
        assert registry.get_sample_value("authorization_duration_seconds_count", {"result": result}) == count
        assert (
            registry.get_sample_value("authorization_duration_seconds_bucket", {"result": result, "le": "0.256"})
            == count
        )
