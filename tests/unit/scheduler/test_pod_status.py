"""What is told about pods: the newest word a pod, in few writes, never before what has to be done."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.virtual_clock import VirtualClock
from tonnage.errors import Conflict, TonnageError
from tonnage.objects.core_v1 import Pod
from tonnage.scheduler import pod_status
from tonnage.scheduler.pod_status import WRITERS, PodStatusWriter
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.testing.builders import pod


class Server:
    """Takes writes to a pod's status; they hang while `gate` is closed."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.written: list[tuple[str, dict[str, Any]]] = []
        self.under_way = 0
        self.refuse: list[TonnageError] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def patch(self, cls: type[Pod], key: str, patch: Any, *, patch_type: Any, subresource: str) -> Pod:
        self.under_way += 1
        try:
            await self.gate.wait()
        finally:
            self.under_way -= 1
        if self.refuse:
            raise self.refuse.pop(0)
        self.written.append((key, patch))
        return self.pods[key]

    def messages(self) -> list[str]:
        return [patch["status"]["conditions"][0]["message"] for _, patch in self.written]


class PodStatusRig:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.work, self.telling = Server(), Server()
        self.events: list[str] = []
        work: Any = self.work
        telling: Any = self.telling
        recorder: Any = self
        self.writer = PodStatusWriter(work, telling, recorder, self.clock, self.telling.pods.get)

    def event(self, regarding: Any, type: Any, reason: str, action: str, note: str, related: Any = None) -> None:
        self.events.append(note)

    def add(self, made: Pod) -> Pod:
        self.telling.pods[made.key] = self.work.pods[made.key] = made
        return made

    def failed(self, made: Pod, message: str, nomination: str | None = None) -> Any:
        return self.writer.failed(PodInfo(made), "Unschedulable", message, nomination=nomination)


@pytest.fixture
def stage() -> PodStatusRig:
    return PodStatusRig()


async def test_a_condition_that_waits_is_replaced_by_a_newer_one(stage: PodStatusRig) -> None:
    stage.telling.gate.clear()
    for number in range(WRITERS):
        stage.failed(stage.add(pod(f"busy-{number}")), "x")
    late = stage.add(pod("late"))
    await stage.clock.run_for(0.0)
    for attempt in range(100):
        stage.failed(late, f"attempt {attempt}")
        await stage.clock.run_for(0.1)
    assert stage.telling.under_way == WRITERS and stage.writer.pending == 1
    stage.telling.gate.set()
    await stage.writer.settle()
    assert [message for message in stage.telling.messages() if message != "x"] == ["attempt 99"]


async def test_thousands_of_conditions_are_written_a_few_at_a_time(stage: PodStatusRig, monkeypatch) -> None:
    monkeypatch.setattr(pod_status, "MAX_PENDING", 50)
    stage.telling.gate.clear()
    for number in range(60):
        stage.failed(stage.add(pod(f"p{number}")), "no room")
    await stage.clock.run_for(0.0)
    assert stage.telling.under_way == WRITERS
    assert stage.writer.dropped == 10 and stage.writer.pending == 50 - WRITERS
    assert not stage.work.written
    stage.telling.gate.set()
    await stage.writer.settle()
    assert len(stage.telling.written) == 50
    # Who was dropped is told at its next attempt.
    stage.failed(stage.telling.pods["default/p59"], "no room")
    await stage.writer.settle()
    assert stage.telling.written[-1][0] == "default/p59"


async def test_a_nomination_is_written_at_once_among_the_bindings(stage: PodStatusRig) -> None:
    stage.telling.gate.clear()
    for number in range(WRITERS + 1):
        stage.failed(stage.add(pod(f"p{number}")), "no room")
    chosen = stage.telling.pods[f"default/p{WRITERS}"]
    write = stage.failed(chosen, "no room", nomination="a")
    await write
    ((key, patch),) = stage.work.written
    assert (key, patch["status"]["nominatedNodeName"]) == (chosen.key, "a")
    assert patch["status"]["conditions"][0]["message"] == "no room"
    stage.telling.gate.set()
    await stage.writer.settle()
    assert chosen.key not in [key for key, _ in stage.telling.written]  # it has been said


async def test_a_pod_that_is_placed_or_gone_or_bound_is_not_told_about(stage: PodStatusRig) -> None:
    stage.telling.gate.clear()
    for number in range(WRITERS):
        stage.failed(stage.add(pod(f"busy-{number}")), "x")
    await stage.clock.run_for(0.0)
    placed, gone, bound = (stage.add(pod(name)) for name in ("placed", "gone", "bound"))
    for each in (placed, gone, bound):
        stage.failed(each, "no room")
    stage.writer.placed(PodInfo(placed))
    del stage.telling.pods[gone.key]
    stage.telling.pods[bound.key] = pod("bound", on="a")
    stage.telling.gate.set()
    await stage.writer.settle()
    assert stage.telling.messages() == ["x"] * WRITERS


async def test_a_write_is_locked_so_that_it_cannot_reach_a_pod_that_was_bound_meanwhile(stage: PodStatusRig) -> None:
    made = stage.add(pod("racing", metadata={"resourceVersion": "7"}))
    stage.telling.refuse = [Conflict("the object has been modified")]
    stage.failed(made, "no room")
    await stage.clock.run_for(0.1)
    stage.telling.pods[made.key] = pod("racing", on="a")
    await stage.clock.run_for(5.0)
    assert stage.telling.written == []
    # One that was changed by somebody and still waits is told all the same.
    stage.add(pod("racing", metadata={"resourceVersion": "8"}))
    stage.telling.refuse = [Conflict("the object has been modified")]
    stage.failed(made, "no room")
    await stage.clock.run_for(5.0)
    ((_, patch),) = stage.telling.written
    assert patch["metadata"]["resourceVersion"] == "8"


async def test_at_the_end_what_was_not_written_is_forgotten(stage: PodStatusRig) -> None:
    stage.telling.gate.clear()
    for number in range(20):
        stage.failed(stage.add(pod(f"p{number}")), "no room")
    await stage.clock.run_for(0.0)
    stage.writer.close()
    stage.telling.gate.set()
    await stage.writer.settle()
    assert len(stage.telling.written) == WRITERS and stage.writer.dropped == 20 - WRITERS


async def test_what_could_not_be_written_is_said_again_until_it_is(stage: PodStatusRig) -> None:
    stage.telling.refuse += [
        TonnageError("the server is away"),
        Conflict("changed"),
        Conflict("changed"),
        Conflict("x"),
    ]
    stage.failed(stage.add(pod("web")), "no room")
    await stage.clock.run_for(10.0)
    assert stage.telling.messages() == ["no room"]


async def test_a_newer_word_or_a_node_ends_the_repeats_of_an_older_one(stage: PodStatusRig) -> None:
    first, second = stage.add(pod("first")), stage.add(pod("second"))
    stage.telling.refuse += [Conflict("changed"), Conflict("changed")]
    stage.failed(first, "old")
    stage.failed(second, "old")
    await stage.clock.run_for(0.1)
    stage.failed(first, "new")
    stage.writer.placed(PodInfo(second))
    await stage.clock.run_for(60.0)
    assert stage.telling.messages() == ["new"]


async def test_of_two_words_about_a_pod_the_newer_is_written_last_and_alone_repeated(stage: PodStatusRig) -> None:
    made = stage.add(pod("a"))
    stage.telling.gate.clear()
    stage.failed(made, "older")
    await asyncio.sleep(0)
    stage.failed(made, "newer")
    await asyncio.sleep(0)
    assert stage.telling.under_way == 1
    stage.telling.refuse = [Conflict("a write came between"), Conflict("and another")]
    stage.telling.gate.set()
    await stage.writer.settle()
    await stage.clock.run_for(60)
    await stage.writer.settle()
    assert stage.telling.messages() == ["newer"]


async def test_a_pod_that_was_placed_while_its_word_was_refused_is_not_told_about(stage: PodStatusRig) -> None:
    made = stage.add(pod("a"))
    stage.telling.gate.clear()
    stage.failed(made, "no room")
    await asyncio.sleep(0)
    stage.writer.placed(PodInfo(made))
    stage.telling.refuse = [Conflict("a write came between")]
    stage.telling.gate.set()
    await stage.writer.settle()
    await stage.clock.run_for(60)
    await stage.writer.settle()
    assert stage.telling.messages() == []


async def test_a_word_that_nobody_takes_is_dropped_in_the_end(stage: PodStatusRig) -> None:
    stage.telling.refuse += [TonnageError("never") for _ in range(100)]
    stage.failed(stage.add(pod("web")), "no room")
    await stage.clock.run_for(3600.0)
    assert (stage.writer.dropped, stage.writer.pending, len(stage.telling.refuse)) == (1, 0, 87)
