"""Events: created once, counted as a series, truncated, dropped when there are too many, and written before the end."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from client_wire import MemoryServer, Refused

from support.virtual_clock import VirtualClock
from tonnage.client import recorder
from tonnage.client.http import Client
from tonnage.client.recorder import Recorder, reference_to, truncated
from tonnage.client.throttle import SpareTokens, TokenBucket
from tonnage.objects.core_v1 import Node, ObjectReference, Pod, PodMeta
from tonnage.objects.meta import ObjectMeta

POD = Pod(metadata=PodMeta(namespace="shop", name="db-0", uid="u1", resource_version="7"))
NODE = Node(metadata=ObjectMeta(name="n1", uid="u2", resource_version="9"))


class RecorderRig:
    def __init__(self) -> None:
        self.server = MemoryServer()
        self.clock = VirtualClock()
        self.recorder = Recorder(Client(self.server, clock=self.clock, rng=random.Random(1)), "tonnage", "tonnage-host")
        self.recorder.start()

    def fail(self, pod: Pod = POD, note: str = "0/3 nodes are available") -> None:
        self.recorder.event(pod, "Warning", "FailedScheduling", "Scheduling", note)

    async def run(self, seconds: float = 0.0) -> None:
        await self.clock.run_for(seconds)

    @property
    def events(self) -> list[dict[str, Any]]:
        return [doc for key, doc in self.server.docs.items() if key[0] == "events.events.k8s.io"]

    def asked(self) -> list[str]:
        asked, self.server.requests[:] = list(self.server.requests), []
        return [each.partition(" ")[0] for each in asked]


@pytest.fixture
async def world():
    world = RecorderRig()
    yield world
    world.server.is_away = False
    await world.recorder.stop()


async def test_an_event_says_what_was_done_to_which_state_of_an_object(world):
    world.recorder.event(POD, "Normal", "Scheduled", "Binding", "Successfully assigned shop/db-0 to n1", related=NODE)
    await world.run()
    (event,) = world.events
    # 2000-01-01 is 946,684,800 s after the epoch: 0xd234ccf52430000 ns.
    del event["metadata"]["uid"], event["metadata"]["resourceVersion"]
    assert event == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "db-0.d234ccf52430000", "namespace": "shop"},
        "eventTime": "2000-01-01T00:00:00.000000Z",
        "reportingController": "tonnage",
        "reportingInstance": "tonnage-host",
        "action": "Binding",
        "reason": "Scheduled",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "shop",
            "name": "db-0",
            "uid": "u1",
            "resourceVersion": "7",
        },
        "related": {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u2", "resourceVersion": "9"},
        "note": "Successfully assigned shop/db-0 to n1",
        "type": "Normal",
    }


async def test_what_has_no_namespace_gets_its_events_in_default(world):
    world.recorder.event(NODE, "Normal", "Ready", "Watching", "it is ready")
    await world.run()
    assert world.events[0]["metadata"]["namespace"] == "default"


async def test_a_name_that_cannot_begin_an_events_name_is_replaced(world):
    world.recorder.event(ObjectReference(kind="X", namespace="shop", name="A:b"), "Normal", "Done", "Doing", "x")
    await world.run()
    name = world.events[0]["metadata"]["name"]
    assert len(name) == 36 and name.count("-") == 4


async def test_the_second_makes_a_series_and_the_others_only_count(world):
    world.fail(note="first")
    await world.run(1.0)
    world.fail(note="second")
    await world.run(1.0)
    assert world.asked() == ["POST", "PATCH"]
    (event,) = world.events
    assert event["series"] == {"count": 2, "lastObservedTime": "2000-01-01T00:00:01.000000Z"}
    assert event["note"] == "first"
    for _ in range(10):
        world.fail()
        await world.run(1.0)
    assert world.asked() == []


async def test_another_state_reason_or_object_is_another_event(world):
    world.fail()
    world.fail(Pod(metadata=PodMeta(namespace="shop", name="db-0", uid="u1", resource_version="8")))
    world.fail(Pod(metadata=PodMeta(namespace="shop", name="db-1", uid="u3", resource_version="7")))
    world.recorder.event(POD, "Warning", "Other", "Scheduling", "x")
    world.recorder.event(POD, "Warning", "FailedScheduling", "Scheduling", "x", related=NODE)
    await world.run()
    assert len(world.events) == 5 and not any("series" in event for event in world.events)


async def test_with_notes_told_apart_another_note_is_another_event(world):
    teller = Recorder(Client(world.server, clock=world.clock, rng=random.Random(1)), "sets", "sets-1", by_note=True)
    async with teller:
        for pod in ("web-0", "web-1", "web-1"):
            teller.event(POD, "Normal", "SuccessfulCreate", "Create", f"create Pod {pod} in StatefulSet web successful")
        await world.run()
    assert sorted((each["note"], each.get("series", {}).get("count", 1)) for each in world.events) == [
        ("create Pod web-0 in StatefulSet web successful", 1),
        ("create Pod web-1 in StatefulSet web successful", 2),
    ]


async def test_a_quiet_series_is_written_after_six_minutes_and_then_forgotten(world):
    for second in range(5):
        world.fail()
        await world.run(1.0)
        if second == 0:
            world.asked()
    assert world.asked() == ["PATCH"]
    await world.run(350.0)
    assert world.asked() == []
    await world.run(70.0)
    # It was last seen at 4 s, and is looked after every minute: at 420 s.
    assert world.asked() == ["PATCH"]
    assert world.events[0]["series"] == {"count": 5, "lastObservedTime": "2000-01-01T00:00:04.000000Z"}
    world.fail()
    await world.run()
    assert len(world.events) == 2


async def test_a_single_event_is_forgotten_after_six_minutes_without_a_word(world):
    world.fail()
    await world.run(420.0)
    assert world.asked() == ["POST"]
    world.fail()
    await world.run()
    assert len(world.events) == 2


async def test_a_series_that_goes_on_is_written_every_thirty_minutes(world):
    for _ in range(35):
        world.fail()
        await world.run(60.0)
    # At 0 and 60 s as it begins, and at 1,860 s, half an hour after that: it was seen at 0, 60, … 1,800 s by then.
    assert world.asked() == ["POST", "PATCH", "PATCH"]
    assert world.events[0]["series"] == {"count": 31, "lastObservedTime": "2000-01-01T00:30:00.000000Z"}


async def test_an_event_that_is_gone_is_made_again_with_its_count(world):
    world.fail()
    await world.run()
    world.server.remove("events.events.k8s.io", "shop", world.events[0]["metadata"]["name"])
    world.fail()
    await world.run()
    assert world.asked() == ["POST", "PATCH", "POST"]
    assert world.events[0]["series"]["count"] == 2


async def test_two_before_the_first_is_written_are_one_request(world):
    world.fail()
    world.fail()
    await world.run()
    assert world.asked() == ["POST"] and world.events[0]["series"]["count"] == 2


async def test_a_server_that_is_away_is_asked_again_about_every_ten_seconds(world):
    world.server.is_away = True
    world.fail()
    await world.run(60.0)
    world.server.is_away = False
    await world.run(12.5)
    assert len(world.events) == 1 and world.recorder.abandoned == 0


async def test_after_twelve_tries_an_event_is_abandoned(world, caplog):
    world.server.is_away = True
    world.fail()
    await world.run(12 * 12.5)
    world.server.is_away = False
    await world.run(60.0)
    assert world.events == [] and world.recorder.abandoned == 1
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == ["Event was not written"]


async def test_a_refused_event_is_not_tried_again(world):
    world.server.refuse_next = [Refused(403, "Forbidden", "namespace shop is being terminated")]
    world.fail()
    await world.run(60.0)
    assert world.asked() == ["POST"] and world.recorder.abandoned == 1


async def test_a_server_that_is_not_well_is_tried_again(world):
    world.server.refuse_next = [Refused(503, "ServiceUnavailable", "not now"), Refused(500, "InternalError", "oh")]
    world.fail()
    await world.run(30.0)
    assert len(world.events) == 1 and world.recorder.abandoned == 0


async def test_an_answer_that_was_lost_does_not_make_a_second_event(world):
    world.server.lose_answers = 1
    world.fail()
    await world.run(0.0)
    world.fail()
    await world.run(30.0)
    assert len(world.events) == 1 and world.events[0]["series"]["count"] == 2 and world.recorder.abandoned == 0


async def test_too_many_are_dropped_and_counted_and_nobody_waits(world, monkeypatch):
    most = 1000
    monkeypatch.setattr(recorder, "MAX_PENDING", most)
    world.server.is_away = True
    for number in range(most + 50):
        world.fail(Pod(metadata=PodMeta(namespace="shop", name=f"p{number}")))
    assert world.recorder.dropped == 50
    await world.run(1.0)
    world.fail(Pod(metadata=PodMeta(namespace="shop", name="one-more")))
    assert world.recorder.dropped == 51
    world.server.is_away = False
    await world.run(30.0)
    assert len(world.events) == most
    world.fail(Pod(metadata=PodMeta(namespace="shop", name="there-is-room-again")))
    await world.run()
    assert len(world.events) == most + 1


async def test_the_end_writes_what_is_still_to_be_written(world):
    for _ in range(5):
        world.fail()
        await world.run()
    world.recorder.event(POD, "Normal", "Scheduled", "Binding", "at the very end")
    await world.recorder.stop()
    counts = {event["reason"]: event.get("series", {}).get("count") for event in world.events}
    assert counts == {"FailedScheduling": 5, "Scheduled": None}


class Busy:
    """A program that has more urgent things to write all the time, with 2,000 pods to tell of."""

    def __init__(self, pods: int = 2000) -> None:
        self.server, self.clock = MemoryServer(), VirtualClock()
        limit = SpareTokens(TokenBucket(250.0, 500, clock=self.clock), None, clock=self.clock)
        limit.busy.append(lambda: True)
        client = Client(self.server, clock=self.clock, rng=random.Random(1), limit=limit)
        self.recorder = Recorder(client, "tonnage", "tonnage-host", by_note=True)
        self.recorder.start()
        for number in range(pods):
            pod = Pod(metadata=PodMeta(namespace="shop", name=f"p{number}", uid=f"p{number}"))
            self.recorder.event(pod, "Normal", "Started", "Starting", "Container started")

    async def end(self) -> None:
        stopping = asyncio.create_task(self.recorder.stop())
        while not stopping.done():
            await self.clock.run_for(0.1)

    def written(self, reason: str) -> int:
        events = (doc for key, doc in self.server.docs.items() if key[0] == "events.events.k8s.io")
        return sum(event["reason"] == reason for event in events)


async def test_a_warning_does_not_wait_behind_what_went_well():
    busy = Busy()
    await busy.clock.run_for(3.0)
    busy.recorder.event(POD, "Warning", "FailedMount", "Mounting", "no such volume")
    await busy.clock.run_for(1.0)
    assert busy.written("FailedMount") == 1
    assert busy.written("Started") < 100
    await busy.end()


async def test_the_end_of_a_busy_program_writes_everything():
    busy = Busy()
    await busy.clock.run_for(1.0)
    assert busy.written("Started") < 100
    await busy.end()
    assert busy.recorder.abandoned == 0
    assert busy.written("Started") == 2000


async def test_the_end_does_not_wait_for_a_server_that_is_away(world):
    world.server.is_away = True
    world.fail()
    await world.run(1.0)
    await asyncio.wait_for(world.recorder.stop(), timeout=5.0)
    assert world.recorder.abandoned == 1


async def test_the_end_waits_five_seconds_for_a_server_that_hangs(world):
    async def hang(request):
        await asyncio.get_running_loop().create_future()

    world.server.send = hang
    world.fail()
    stopping = asyncio.create_task(world.recorder.stop())
    await world.run(4.9)
    assert not stopping.done()
    await world.run(0.1)
    assert stopping.done() and world.recorder.abandoned == 1


def test_a_note_is_cut_to_1024_bytes_between_characters():
    assert truncated("x" * 1024) == "x" * 1024
    assert truncated("x" * 1025) == "x" * 1020 + " ..."
    # 510 characters of two bytes are 1,020 bytes; with one more byte in front only 509 fit.
    assert truncated("é" * 600) == "é" * 510 + " ..." and truncated("x" + "é" * 600) == "x" + "é" * 509 + " ..."


def test_a_reference_is_passed_through():
    about = ObjectReference(kind="Pod", name="x")
    assert reference_to(about) is about
