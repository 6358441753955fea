"""Events that say much the same are combined, and nobody is spoken of without end: client-go's numbers."""

from __future__ import annotations

import random
from itertools import count

from client_wire import MemoryServer

from support.virtual_clock import VirtualClock
from tonnage.client.http import Client
from tonnage.client.recorder import MAX_REMEMBERED, Recorder
from tonnage.objects.core_v1 import Pod, PodMeta


def pod(name: str) -> Pod:
    return Pod(metadata=PodMeta(namespace="shop", name=name, uid=name))


async def test_the_tenth_similar_event_within_ten_minutes_is_combined() -> None:
    server, clock = MemoryServer(), VirtualClock()
    async with Recorder(Client(server, clock=clock, rng=random.Random(1)), "sets", "one", by_note=True) as recorder:
        for number in range(12):
            recorder.event(pod("rs"), "Normal", "SuccessfulCreate", "Create", f"Created pod: {number}")
        recorder.event(pod("another"), "Normal", "SuccessfulCreate", "Create", "Created pod: 0")
        for _ in range(50):  # the same words over and over are one event that is counted
            recorder.event(pod("third"), "Normal", "Pulled", "Pull", "Pulled")
        await clock.run_for(601.0)  # after ten minutes of silence it starts anew
        recorder.event(pod("rs"), "Normal", "SuccessfulCreate", "Create", "Created pod: 99")
    notes = sorted((doc["regarding"]["name"], doc["note"]) for doc in server.docs.values())
    plain = [("rs", f"Created pod: {number}") for number in (*range(9), 99)]
    assert notes == [
        ("another", "Created pod: 0"),
        ("rs", "(combined from similar events): Created pod: 9"),
        *sorted(plain),
        ("third", "Pulled"),
    ]


async def test_one_object_has_25_events_and_then_one_in_five_minutes() -> None:
    server, clock = MemoryServer(), VirtualClock()
    async with Recorder(Client(server, clock=clock, rng=random.Random(1)), "scheduler", "one") as recorder:

        def filtered(name: str, reasons: int) -> int:
            before = recorder.filtered
            for _ in range(reasons):
                recorder.event(pod(name), "Normal", f"Reason{next(numbers)}", "Tell", "note")
            return recorder.filtered - before

        numbers = count()
        assert filtered("db-0", 27) == 2
        assert filtered("another", 1) == 0
        await clock.run_for(299.0)
        assert filtered("db-0", 1) == 1
        await clock.run_for(2.0)
        assert filtered("db-0", 2) == 1


async def test_what_was_not_heard_of_for_longest_is_forgotten() -> None:
    server, clock = MemoryServer(), VirtualClock()
    recorder = Recorder(Client(server, clock=clock, rng=random.Random(1)), "scheduler", "one")
    for number in range(25):
        recorder.event(pod("db-0"), "Normal", f"Reason{number}", "Tell", "note")
    for number in range(MAX_REMEMBERED):
        recorder.event(pod(f"web-{number}"), "Normal", "Scheduled", "Bind", "note")
    recorder.event(pod("db-0"), "Normal", "Another", "Tell", "note")
    assert recorder.filtered == 0


async def test_a_recorder_writes_few_of_a_thousand_events_about_one_object() -> None:
    servers, clock = (MemoryServer(), MemoryServer()), VirtualClock()
    clients = [Client(each, clock=clock, rng=random.Random(1)) for each in servers]
    async with (
        Recorder(clients[0], "scheduler", "one") as scheduler,
        Recorder(clients[1], "controller", "one", by_note=True) as controller,
    ):
        for number in range(1000):  # each after a write to the pod, so that none is like another
            about = Pod(metadata=PodMeta(namespace="shop", name="db-0", uid="u1", resource_version=str(number)))
            scheduler.event(about, "Warning", "FailedScheduling", "Scheduling", f"0/{number} nodes are available")
            controller.event(about, "Warning", "FailedMount", "Mount", f"attempt {number} failed")
            await clock.run_for(0.01)
        assert (len(servers[0].docs), scheduler.filtered) == (25, 975)
        # Nine as they are, and one for all others, counted.
        assert (len(servers[1].docs), controller.filtered) == (10, 0)
    (combined,) = [
        each for each in servers[1].docs.values() if each["note"].startswith("(combined from similar events): ")
    ]
    assert combined["series"]["count"] == 991
