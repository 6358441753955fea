"""Events that cannot help all: who is let out, in which order, and that nobody is forgotten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from queue_rig import NODE_LABEL, PLAIN, Rig

from tonnage.objects.core_v1 import Node
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.framework import Ration
from tonnage.scheduling.queue.queues import QueueName
from tonnage.testing.builders import node, pod

HINTS = {**PLAIN, "Other": ((NODE_LABEL, None),)}


class Shared:
    """Plugin "Labels" shares its events out: by pod what it would use up."""

    def __init__(self, **shares: float | None) -> None:
        self.shares = shares
        self.asked: list[str] = []
        self.rig = Rig(HINTS, ration=self.ration)

    def ration(self, profile: str, plugin: str, event: Any, changed: Node) -> Ration | None:
        def share_of(info: PodInfo) -> float | None:
            self.asked.append(info.pod.name)
            return self.shares[info.pod.name]

        return share_of if plugin == "Labels" else None

    def refuse(self, *names: str, by: str = "Labels") -> None:
        for name in names:
            self.rig.add(pod(name))
            self.rig.refuse(by)

    def event(self, name: str = "a") -> None:
        self.rig.queue.move_all_to_active_or_backoff(NODE_LABEL, node(name), node(name))

    def tried(self, end: Callable[[Any], object]) -> str:
        queued = self.rig.pop()
        end(queued)
        return queued.pod.name

    def places(self) -> str:
        return self.tried(lambda queued: self.rig.queue.done(queued.pod))

    def fails(self) -> str:
        return self.tried(
            lambda queued: self.rig.queue.add_unschedulable_if_not_present(queued, unschedulable_plugins=["Labels"])
        )

    @property
    def waiting(self) -> list[str]:
        return [queued.pod.name for queued in self.rig.queue.pods_in(QueueName.UNSCHEDULABLE)]


def test_as_many_are_let_out_as_the_object_holds_and_the_next_when_one_was_tried():
    shared = Shared(a=0.4, b=0.4, c=0.4, d=0.4)
    shared.refuse("a", "b", "c", "d")
    shared.event()
    # 0.4 + 0.4 + 0.4 > 1
    assert shared.places() == "a" and shared.waiting == ["c", "d"]
    assert shared.places() == "b" and shared.waiting == ["d"]
    assert shared.fails() == "c" and shared.fails() == "d"
    assert shared.rig.pop_names() == []


def test_a_pod_that_cannot_use_the_object_is_left_alone_and_holds_nobody_up():
    shared = Shared(a=None, b=1.0, c=None, d=1.0)
    shared.refuse("a", "b", "c", "d")
    shared.event()
    assert [shared.fails(), shared.fails()] == ["b", "d"]
    assert shared.rig.pop_names() == [] and set(shared.waiting) == {"a", "b", "c", "d"}
    shared.shares["a"] = 1.0
    shared.event()
    assert shared.places() == "a"


def test_one_that_takes_more_than_there_is_has_its_turn_alone():
    shared = Shared(a=3.0, b=0.1)
    shared.refuse("a", "b")
    shared.event()
    assert shared.places() == "a" and shared.waiting == ["b"]
    assert shared.places() == "b"


def test_the_most_important_pod_has_its_turn_first():
    shared = Shared(low=1.0, high=1.0)
    shared.refuse("low")
    shared.rig.add(pod("high", priority=9))
    shared.rig.refuse("Labels")
    shared.event()
    assert shared.places() == "high" and shared.places() == "low"


def test_a_pod_that_is_deleted_makes_way_for_the_next():
    shared = Shared(a=1.0, b=1.0)
    shared.refuse("a", "b")
    shared.event()
    shared.rig.queue.delete(shared.rig.pop().pod)
    assert shared.places() == "b"


def test_after_a_second_those_who_are_out_do_not_count_any_more():
    shared = Shared(a=1.0, b=1.0)
    shared.refuse("a", "b")
    shared.event()
    assert shared.rig.pop().pod.name == "a"  # and its attempt takes long
    assert shared.rig.queue.pop_nowait() is None
    shared.rig.clock.advance(1.0)
    shared.rig.queue.flush_backoff_completed(shared.rig.clock.monotonic())
    assert shared.places() == "b"


def test_two_objects_help_two_pods_at_a_time():
    shared = Shared(a=1.0, b=1.0, c=1.0)
    shared.refuse("a", "b", "c")
    shared.event("first")
    shared.event("second")
    assert [shared.rig.pop().pod.name, shared.rig.pop().pod.name] == ["a", "b"]
    assert shared.rig.queue.pop_nowait() is None and shared.waiting == ["c"]


def test_a_pod_that_another_plugin_wants_tried_is_woken_at_once():
    shared = Shared(a=None, b=None)
    shared.refuse("a", by="Other")
    shared.rig.add(pod("b"))
    shared.rig.refuse("Labels", "Other")
    shared.event()
    assert shared.waiting == [] and shared.asked == []


def test_a_plugin_that_breaks_loses_nobody():
    shared = Shared(b=1.0)
    shared.refuse("a", "b")
    shared.event()
    assert shared.places() == "a" and shared.places() == "b"
    assert shared.rig.errors == [("Labels", "a", "'a'")]


def test_whoever_waits_for_work_is_told():
    shared = Shared(a=1.0, b=1.0)
    shared.refuse("a", "b")
    before = shared.rig.wakes
    shared.event()
    assert shared.rig.wakes == before + 1
