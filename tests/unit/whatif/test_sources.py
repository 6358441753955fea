"""Where what-if questions get their cluster from."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from support.virtual_clock import VirtualClock
from tonnage.errors import Expired, Forbidden, TonnageError, Unauthorized
from tonnage.objects.codec import ObjectList
from tonnage.objects.core_v1 import Event, Namespace, Node, PersistentVolumeClaim, Pod, Service
from tonnage.objects.meta import Object
from tonnage.scheduling.engine.event_handlers import ReadKind
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import claim, pod_with
from tonnage.whatif.sources import ANSWERS_WITHIN_S, check_answers, clock_of, listed


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


class MovingClient:
    """A cluster that changes between any two lists: a pod and its claim come after the first one."""

    def __init__(self, *, remembers: bool = True) -> None:
        self.revision = 10
        self.asked: list[tuple[str, str]] = []
        self._remembers = remembers

    async def list(self, cls: type[Object], *, at: str = "", field_selector: str = "") -> ObjectList[Object]:
        self.asked.append((cls.__name__, at))
        if at and not self._remembers:
            raise Expired("The provided resource version is too old")
        seen, self.revision = int(at or self.revision), self.revision + 1
        made = {Pod: pod_with("db", "data"), PersistentVolumeClaim: claim("data")}
        items = (made[cls],) if cls in made and seen > 11 else ()
        return ObjectList(items, str(seen))


KINDS = [ReadKind(each) for each in (Node, Namespace, Service, Pod, PersistentVolumeClaim)]


async def test_all_kinds_are_read_as_of_one_moment():
    client = MovingClient()
    objects, unlisted, at = await listed(client, KINDS)  # type: ignore[arg-type]
    assert (objects, unlisted, at) == ([], {}, "10"), "the pod came later, and so did its claim"
    assert client.asked[0] == ("Node", "") and {at for _, at in client.asked[1:]} == {"10"}


async def test_kinds_that_a_server_may_keep_elsewhere_are_read_as_they_are_now():
    client = MovingClient()
    await listed(client, [ReadKind(Node), ReadKind(Event, is_told=True), ReadKind(Pod)])  # type: ignore[arg-type]
    assert client.asked == [("Node", ""), ("Event", ""), ("Pod", "10")]


async def test_a_server_that_cannot_list_an_older_moment_is_read_as_it_is():
    client = MovingClient(remembers=False)
    objects, unlisted, at = await listed(client, KINDS)  # type: ignore[arg-type]
    assert at == "", "it was not one moment"
    assert [each.name for each in objects] == ["db", "data"] and not unlisted
    assert [name for name, at in client.asked if not at] == [kind.cls.__name__ for kind in KINDS], "one by one"


async def test_what_a_server_says_besides_is_not_hidden_by_the_moment():
    class Broken(MovingClient):
        async def list(self, cls: type[Object], *, at: str = "", field_selector: str = "") -> ObjectList[Object]:
            if at:
                raise Unauthorized("no")
            return await super().list(cls)

    with pytest.raises(Unauthorized):
        await listed(Broken(), KINDS)  # type: ignore[arg-type]
