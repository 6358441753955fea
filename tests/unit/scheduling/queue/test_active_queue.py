"""Pods that were never tried have a turn between those that were; with none waiting the order is the plugin's."""

from __future__ import annotations

import random

from support.virtual_clock import VirtualClock
from tonnage.gates import Gates
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.configuration import default_configuration
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.events import EVERY_EVENT
from tonnage.scheduling.queue.queues import ActiveQueue
from tonnage.scheduling.queue.waiting_pods import QueuedPod, by_priority
from tonnage.testing.builders import node, pod


def waiting(name: str, at: int, *, attempts: int = 0, priority: int = 0) -> QueuedPod:
    return QueuedPod(PodInfo(pod(name, priority=priority)), float(at), at, attempts=attempts)


def popped(queue: ActiveQueue, *pods: QueuedPod) -> list[str]:
    for each in pods:
        queue.put(each.uid, (by_priority(each.info, each.queued_at), each.sequence), each)
    names = []
    while (queued := queue.pop()) is not None:
        names.append(queued.info.key.removeprefix("default/"))
    assert len(queue) == 0
    return names


RETRIES = [waiting(f"r{i}", i, attempts=1) for i in range(7)]
NEW = [waiting(f"n{i}", 10 + i) for i in range(2)]


def test_a_first_try_has_its_turn_after_so_many_retries():
    found = popped(ActiveQueue(retries_in_a_row=3), *RETRIES, *NEW)
    assert found == ["r0", "r1", "r2", "n0", "r3", "r4", "r5", "n1", "r6"]


def test_without_it_the_order_is_the_plugins_alone():
    assert popped(ActiveQueue(), *NEW, *RETRIES) == ["r0", "r1", "r2", "r3", "r4", "r5", "r6", "n0", "n1"]


def test_a_lower_priority_gets_no_turn_and_a_higher_one_needs_none():
    low, high = waiting("low", 20, priority=-1), waiting("high", 21, priority=1)
    found = popped(ActiveQueue(retries_in_a_row=2), *RETRIES, low, high)
    assert found == ["high", "r0", "r1", "r2", "r3", "r4", "r5", "r6", "low"]


def test_first_tries_among_themselves_keep_their_order_and_retries_that_are_last_stay_last():
    late = waiting("late", 30, attempts=2)
    assert popped(ActiveQueue(retries_in_a_row=1), *NEW, late) == ["n0", "n1", "late"]


def test_one_that_is_taken_out_or_moved_has_no_second_turn():
    queue = ActiveQueue(retries_in_a_row=1)
    first, second = waiting("a", 10), waiting("b", 11)
    for each in (first, second, first):
        queue.put(each.uid, (by_priority(each.info, each.queued_at), each.sequence), each)
    assert queue.remove(first.uid) is first and queue.remove(first.uid) is None
    assert popped(queue, *RETRIES[:3]) == ["r0", "b", "r1", "r2"]


def test_a_new_pod_is_tried_soon_beside_a_hundred_that_were_woken_at_once():
    clock = VirtualClock()
    engine = Engine(default_configuration(gates=Gates()).profiles, clock=clock, rng=random.Random(0))
    engine.add(node("n", cpu="4"))
    engine.add(pod("there", cpu="3", on="n"))
    engine.open()
    for number in range(100):
        engine.add(pod(f"hopeless-{number}", cpu=f"{5000 + number}m"))
    while (queued := engine.pop()) is not None and queued.attempts == 1:
        attempt = engine.attempt(queued)
        assert attempt.placement is None and attempt.decision is not None and attempt.decision.diagnosis is not None
        engine.requeue(queued, queued.pod, plugins=attempt.decision.diagnosis.rejecting_plugins())
    clock.advance(20)
    engine.queue.move_all_to_active_or_backoff(EVERY_EVENT, None, None)
    engine.add(pod("fits", cpu="1"))
    turns = [engine.pop() for _ in range(40)]
    names = [each.pod.name for each in turns if each is not None]
    assert len(names) == 40 and names.index("fits") == 16
