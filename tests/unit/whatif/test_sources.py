"""Where what-if questions get their cluster from."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from tonnage.clock import VirtualClock
from tonnage.errors import Forbidden, TonnageError
from tonnage.testing.builders import node, pod
from tonnage.whatif.sources import ANSWERS_WITHIN_S, check_answers, clock_of


def test_the_clock_of_objects_stands_at_the_last_time_they_tell():
    first = pod("a", metadata={"creationTimestamp": "2026-02-01T00:00:00Z"})
    second = pod("b", status={"startTime": "2026-02-03T00:00:00Z"})
    assert clock_of([first, second, node("n1")]).now() == datetime(2026, 2, 3, tzinfo=UTC)
    assert clock_of([node("n1")]).now() == datetime(2000, 1, 1, tzinfo=UTC)


class DeafClient:
    """Takes a question, and never answers it."""

    server = "https://10.0.0.1"

    def __init__(self) -> None:
        self.clock = VirtualClock()

    async def raw(self, method: str, path: str) -> bytes:
        await asyncio.Event().wait()
        return b""


async def test_a_server_that_never_answers_is_told_in_time():
    client = DeafClient()
    asked = asyncio.ensure_future(check_answers(client))  # type: ignore[arg-type]
    for _ in range(5):  # until it sleeps
        await asyncio.sleep(0)
    client.clock.advance(ANSWERS_WITHIN_S - 1)
    for _ in range(5):
        await asyncio.sleep(0)
    assert not asked.done()
    client.clock.advance(1)
    with pytest.raises(TonnageError, match=r"https://10\.0\.0\.1 did not answer within 15 s"):
        await asked


async def test_a_server_that_refuses_to_tell_its_version_has_answered():
    class Refusing(DeafClient):
        async def raw(self, method: str, path: str) -> bytes:
            raise Forbidden("no")

    await check_answers(Refusing())  # type: ignore[arg-type]
