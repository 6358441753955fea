"""Events that say much the same are combined, and nobody is spoken of without end: client-go's numbers."""

from __future__ import annotations

import random

from client_wire import MemoryServer

from tonnage.client import Client, Recorder
from tonnage.client.recorder import MAX_REMEMBERED, EventAggregator, SpamFilter
from tonnage.clock import VirtualClock
from tonnage.objects.core_v1 import Pod, PodMeta


def test_the_tenth_similar_event_within_ten_minutes_is_combined() -> None:
    aggregator = EventAggregator()
    assert [aggregator.is_combined("rs", f"Created pod: {i}", i) for i in range(12)] == [False] * 9 + [True] * 3
    assert not aggregator.is_combined("another", "Created pod: 0", 12.0)
    # The same words over and over are one event that is counted.
    assert not any(aggregator.is_combined("third", "Pulled", float(i)) for i in range(50))
    # After ten minutes of silence it starts anew.
    assert not aggregator.is_combined("rs", "Created pod: 99", 12.0 + 601.0)


def test_one_object_has_25_events_and_then_one_in_five_minutes() -> None:
    spam = SpamFilter()
    assert [spam.is_spam("pod", 0.0) for _ in range(27)] == [False] * 25 + [True] * 2
    assert not spam.is_spam("another", 0.0)
    assert spam.is_spam("pod", 299.0)
    assert not spam.is_spam("pod", 301.0)
    assert spam.is_spam("pod", 302.0)


def test_what_was_not_heard_of_for_longest_is_forgotten() -> None:
    spam, aggregator = SpamFilter(), EventAggregator()
    for number in range(3 * MAX_REMEMBERED):
        spam.is_spam(number, 0.0)
        aggregator.is_combined(number, "x", 0.0)
    assert len(spam._allowances) == len(aggregator._similar) == MAX_REMEMBERED


async def test_a_recorder_writes_few_of_a_thousand_events_about_one_object() -> None:
    servers, clock = (MemoryServer(), MemoryServer()), VirtualClock()
    clients = [Client(each, clock=clock, rng=random.Random(1)) for each in servers]
    async with (
        Recorder(clients[0], "scheduler", "one") as scheduler,
        Recorder(clients[1], "controller", "one", by_note=True) as controller,
    ):
        for number in range(1000):  # each after a write to the pod, so that none is like another
            pod = Pod(metadata=PodMeta(namespace="shop", name="db-0", uid="u1", resource_version=str(number)))
            scheduler.event(pod, "Warning", "FailedScheduling", "Scheduling", f"0/{number} nodes are available")
            controller.event(pod, "Warning", "FailedMount", "Mount", f"attempt {number} failed")
            await clock.run_for(0.01)
        assert (len(servers[0].docs), scheduler.filtered) == (25, 975)
        # Nine as they are, and one for all others, counted.
        assert (len(servers[1].docs), controller.filtered) == (10, 0)
    (combined,) = [
        each for each in servers[1].docs.values() if each["note"].startswith("(combined from similar events): ")
    ]
    assert combined["series"]["count"] == 991


async def test_a_recorder_forgets_objects_that_nobody_speaks_of_any_more() -> None:
    """A program that runs for long has spoken of very many objects, and most of them are gone."""
    server, clock = MemoryServer(), VirtualClock()
    async with Recorder(Client(server, clock=clock, rng=random.Random(1)), "node", "one", by_note=True) as recorder:
        for number in range(300):
            pod = Pod(metadata=PodMeta(namespace="shop", name=f"db-{number}", uid=str(number)))
            for reason in ("Scheduled", "Pulled", "Started"):
                recorder.event(pod, "Normal", reason, "Starting", f"{reason} {number}")
            await clock.run_for(0.1)
        assert (len(recorder._entries), len(recorder._aggregator._similar)) == (900, 900)
        assert len(recorder._spam._allowances) == 300
        await clock.run_for(11 * 60.0)
        assert (len(recorder._entries), len(recorder._aggregator._similar)) == (0, 0)
        await clock.run_for(10 * 60.0)  # three events, and one that may be written again in five minutes
        assert len(recorder._spam._allowances) == 0


def test_expiry_changes_nothing_about_what_is_written() -> None:
    """Two of each, one of them with expiry at every step: they say the same of a random history."""
    rng = random.Random(27)
    plain, expiring = (SpamFilter(), EventAggregator()), (SpamFilter(), EventAggregator())
    now_s = 0.0
    for _ in range(5000):
        now_s += rng.choice((0.1, 1.0, 30.0, 400.0))
        about, note = rng.randrange(6), f"note {rng.randrange(30)}"
        for each in expiring:
            each.expire(now_s)
        answers = [
            (spam.is_spam(about, now_s), same.is_combined(about, note, now_s)) for spam, same in (plain, expiring)
        ]
        assert answers[0] == answers[1]
