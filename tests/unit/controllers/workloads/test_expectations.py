"""A controller waits until its cache shows what it wrote."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import msgspec
import pytest

from support.virtual_clock import VirtualClock
from support.workload_builders import NOW, a_pod
from tonnage.client.cache import Cache
from tonnage.client.errors import Disconnected
from tonnage.client.http import Client
from tonnage.client.transport.wire import HttpResponse, Request, Stream
from tonnage.controllers.workloads.workload_controller import TIMEOUT_S, Expectations, is_in_doubt, replacing
from tonnage.errors import Conflict, InternalError
from tonnage.objects.codec import encode
from tonnage.objects.core_v1 import Pod
from tonnage.objects.small_groups import PodDisruptionBudgetStatus

OWNER = "default/web"


class LateCache(Cache[Pod]):
    """A cache that says how far it has come when it is told to."""

    resource_version = ""


class OnePod:
    """A server that knows one pod, or none."""

    server = "https://memory"

    def __init__(self) -> None:
        self.pod: Pod | None = None

    async def send(self, request: Request) -> HttpResponse:
        assert request.method == "GET"
        if self.pod is None:
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
            return HttpResponse(404, msgspec.json.encode({**status, "metadata": {}, "message": "gone"}))
        return HttpResponse(200, encode(self.pod))

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        raise AssertionError("nothing is watched here")

    async def close(self) -> None:
        pass


@pytest.fixture
async def stage() -> AsyncIterator[tuple[Expectations, LateCache, OnePod, VirtualClock]]:
    clock, server = VirtualClock(), OnePod()
    yield Expectations(Client(server, clock=clock), clock), LateCache(Pod), server, clock


Stage = tuple[Expectations, LateCache, OnePod, VirtualClock]


async def test_a_write_is_seen_when_the_cache_has_come_to_its_revision(stage: Stage) -> None:
    expectations, cache, _, _ = stage
    assert expectations.are_satisfied(OWNER)
    expectations.expect_written(OWNER, cache, a_pod("a", resourceVersion="12"))
    assert not expectations.are_satisfied(OWNER)
    assert expectations.are_satisfied("default/other")
    cache.resource_version = "9"  # as a number less than 12
    assert not expectations.are_satisfied(OWNER)
    cache.resource_version = "12"
    assert expectations.are_satisfied(OWNER)


async def test_a_deletion_is_seen_when_that_pod_is_gone_or_going(stage: Stage) -> None:
    expectations, cache, _, _ = stage
    for later in (None, a_pod("a", uid="another"), a_pod("a", going=True, resourceVersion="2")):
        cache.put(a_pod("a", resourceVersion="1"))
        expectations.expect_deleted(OWNER, cache, "default/a", "default-a")
        assert not expectations.are_satisfied(OWNER)
        cache.remove("default/a")
        if later is not None:
            cache.put(later)
        assert expectations.are_satisfied(OWNER)
        cache.remove("default/a")


async def test_what_is_never_seen_is_forgotten_after_five_minutes(stage: Stage) -> None:
    expectations, cache, _, clock = stage
    expectations.expect_written(OWNER, cache, a_pod("a", resourceVersion="12"))
    clock.advance(TIMEOUT_S)
    assert not expectations.are_satisfied(OWNER)
    clock.advance(1)
    assert expectations.are_satisfied(OWNER)


async def test_a_create_in_doubt_is_looked_up(stage: Stage) -> None:
    expectations, cache, server, _ = stage
    expectations.mark_in_doubt(OWNER, cache, "default/a")
    assert not expectations.are_satisfied(OWNER)
    server.pod = a_pod("a", resourceVersion="7")
    await expectations.resolve_doubts(OWNER)
    assert not expectations.are_satisfied(OWNER)  # it was made, and the cache does not show it yet
    cache.resource_version = "7"
    assert expectations.are_satisfied(OWNER)
    server.pod = None
    expectations.mark_in_doubt(OWNER, cache, "default/b")
    await expectations.resolve_doubts(OWNER)
    assert expectations.are_satisfied(OWNER)  # it was not made


async def test_a_deletion_in_doubt_is_looked_up(stage: Stage) -> None:
    expectations, cache, server, _ = stage
    cache.put(a_pod("a", resourceVersion="1"))
    server.pod = a_pod("a", resourceVersion="1")
    expectations.mark_in_doubt(OWNER, cache, "default/a", "default-a")
    await expectations.resolve_doubts(OWNER)
    assert expectations.are_satisfied(OWNER)  # it was not deleted: whoever wants that tries again
    server.pod = None
    expectations.mark_in_doubt(OWNER, cache, "default/a", "default-a")
    await expectations.resolve_doubts(OWNER)
    assert not expectations.are_satisfied(OWNER)  # it was, and the cache still shows it


async def test_an_owner_that_is_gone_waits_for_nothing(stage: Stage) -> None:
    expectations, cache, _, _ = stage
    expectations.expect_written(OWNER, cache, a_pod("a", resourceVersion="12"))
    expectations.mark_in_doubt(OWNER, cache, "default/a")
    expectations.forget(OWNER)
    assert expectations.are_satisfied(OWNER)


def test_a_lost_answer_and_a_server_s_fault_leave_a_write_in_doubt() -> None:
    assert is_in_doubt(Disconnected("POST", "https://x", "cut", in_doubt=True))
    assert is_in_doubt(InternalError("oops"))
    assert not is_in_doubt(Disconnected("POST", "https://x", "no route", in_doubt=False))
    assert not is_in_doubt(Conflict("changed"))


def test_a_status_is_replaced_whole() -> None:
    was = PodDisruptionBudgetStatus(current_healthy=3, expected_pods=3, disrupted_pods={"a": NOW, "b": NOW})
    new = PodDisruptionBudgetStatus(expected_pods=4, disrupted_pods={"b": NOW})
    assert replacing(new, was) == {
        "currentHealthy": None,
        "expectedPods": 4,
        "disruptedPods": {"a": None, "b": "2026-01-01T12:00:00Z"},
    }
