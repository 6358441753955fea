"""Events that cannot help all: who is let out, in which order, and that nobody is forgotten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from queue_rig import NODE_LABEL, PLAIN, QueueRig

from tonnage.objects.core_v1 import Node
from tonnage.scheduling.queue.queues import QueueName
from tonnage.scheduling.queue.waiting_pods import MayHelp, QueuedPod, WakingRules
from tonnage.testing.builders import node, pod

HINTS = {**PLAIN, "Other": ((NODE_LABEL, None),)}


class RoundsStage(WakingRules):
    """Plugin "Labels" knows where its events happen: they may help the pods that `helped` says."""

    def __init__(self, **helped: bool) -> None:
        self.helped = helped
        self.asked: list[str] = []
        self.rig = QueueRig(HINTS, rules=self)

    def reach(self, profile: str, plugin: str, event: Any, changed: Node) -> MayHelp | None:
        def may_help(queued: QueuedPod) -> bool:
            self.asked.append(queued.pod.name)
            return self.helped[queued.pod.name]

        return may_help if plugin == "Labels" else None

    def refuse(self, *names: str, by: str = "Labels") -> None:
        for name in names:
            self.rig.add(pod(name))
            self.rig.refuse(by)

    def event(self, name: str = "a") -> None:
        self.rig.queue.move_all_to_active_or_backoff(NODE_LABEL, node(name), node(name))

    def tried(self, end: Callable[[QueuedPod], object]) -> str:
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


def test_one_is_let_out_and_the_next_when_it_was_tried():
    stage = RoundsStage(a=True, b=True, c=True)
    stage.refuse("a", "b", "c")
    stage.event()
    assert stage.waiting == ["b", "c"]
    assert stage.places() == "a" and stage.waiting == ["c"]
    assert stage.fails() == "b" and stage.fails() == "c"
    assert stage.rig.pop_names() == []


def test_a_pop_asks_nobody():
    stage = RoundsStage(a=False, b=True)
    stage.refuse("a", "b")
    stage.event()
    assert stage.asked == ["a", "b"]
    assert stage.rig.pop_names() == ["b"] and stage.asked == ["a", "b"]


def test_a_pod_that_is_refused_all_the_same_is_left_alone_and_holds_nobody_up():
    stage = RoundsStage(a=False, b=True, c=False, d=True)
    stage.refuse("a", "b", "c", "d")
    stage.event()
    assert [stage.fails(), stage.fails()] == ["b", "d"]
    assert stage.rig.pop_names() == [] and set(stage.waiting) == {"a", "b", "c", "d"}
    stage.helped["a"] = True
    stage.event()
    assert stage.places() == "a"


def test_the_most_important_pod_has_its_turn_first():
    stage = RoundsStage(low=True, high=True)
    stage.refuse("low")
    stage.rig.add(pod("high", priority=9))
    stage.rig.refuse("Labels")
    stage.event()
    assert stage.places() == "high" and stage.places() == "low"


def test_a_pod_that_is_deleted_makes_way_for_the_next():
    stage = RoundsStage(a=True, b=True)
    stage.refuse("a", "b")
    stage.event()
    stage.rig.queue.delete(stage.rig.pop().pod)
    assert stage.places() == "b"


def test_after_a_second_the_one_who_is_out_does_not_count_any_more():
    stage = RoundsStage(a=True, b=True)
    stage.refuse("a", "b")
    stage.event()
    assert stage.rig.pop().pod.name == "a"  # and its attempt takes long
    assert stage.rig.queue.pop_nowait() is None
    stage.rig.clock.advance(1.0)
    stage.rig.queue.flush_backoff_completed(stage.rig.clock.monotonic())
    assert stage.places() == "b"


def test_two_objects_help_two_pods_at_a_time():
    stage = RoundsStage(a=True, b=True, c=True)
    stage.refuse("a", "b", "c")
    stage.event("first")
    stage.event("second")
    assert [stage.rig.pop().pod.name, stage.rig.pop().pod.name] == ["a", "b"]
    assert stage.rig.queue.pop_nowait() is None and stage.waiting == ["c"]


def test_a_pod_that_another_plugin_wants_tried_is_woken_at_once():
    stage = RoundsStage(a=False, b=False)
    stage.refuse("a", by="Other")
    stage.rig.add(pod("b"))
    stage.rig.refuse("Labels", "Other")
    stage.event()
    assert stage.waiting == [] and stage.asked == []


def test_a_plugin_that_breaks_loses_nobody():
    stage = RoundsStage(b=True)
    stage.refuse("a", "b")
    stage.event()
    assert stage.places() == "a" and stage.places() == "b"
    assert stage.rig.errors == [("Labels", "a", "'a'")]


def test_whoever_waits_for_work_is_told():
    stage = RoundsStage(a=True, b=True)
    stage.refuse("a", "b")
    before = stage.rig.wakes
    stage.event()
    assert stage.rig.wakes == before + 1
