"""The scheduling queue: order, pods that change and go, activation, flush, and counting. See also test_queue_*."""

from __future__ import annotations

import pytest
from queue_rig import NODE_LABEL, NODE_TAINT, QueueRig

from tonnage.scheduling.queue.queues import QueueName
from tonnage.testing.builders import node, pod

# -- order ------------------------------------------------------------------------------------------------------------


def test_the_most_important_pod_comes_first_and_equals_in_the_order_they_came() -> None:
    rig = QueueRig()
    rig.add(pod("a"), pod("b", priority=5))
    rig.clock.advance(1)
    rig.add(pod("c", priority=5), pod("d"))
    assert rig.pop_names() == ["b", "c", "a", "d"]


def test_a_pod_that_failed_stands_behind_those_that_came_meanwhile() -> None:
    rig = QueueRig()
    rig.add(pod("a"))
    first = rig.pop()
    rig.clock.advance(1)
    rig.add(pod("b"))
    rig.clock.advance(1)
    rig.queue.add_unschedulable_if_not_present(first, unschedulable_plugins=["Labels"])
    rig.queue.activate([first.pod])
    assert rig.pop_names() == ["b", "a"]


def test_another_order_may_be_handed_in() -> None:
    rig = QueueRig(sort_key=lambda pod, queued_at: pod.pod.name)
    rig.add(pod("c"), pod("a", priority=1), pod("b", priority=9))
    assert rig.pop_names() == ["a", "b", "c"]


def test_equals_of_another_order_keep_the_order_they_came_in() -> None:
    rig = QueueRig(sort_key=lambda pod, queued_at: 0)
    rig.add(pod("c"), pod("a"), pod("b"))
    rig.queue.update(pod("c"), pod("c", labels={"app": "c"}))  # an update keeps its place
    assert rig.pop_names() == ["c", "a", "b"]


def test_an_empty_queue_has_nothing_to_pop() -> None:
    assert QueueRig().queue.pop_nowait() is None


def test_whoever_waits_for_a_pod_is_woken_when_there_is_one() -> None:
    rig = QueueRig()
    rig.add(pod("a"))
    assert rig.wakes == 1
    rig.refuse("Labels")
    assert rig.wakes == 1  # unschedulable: nothing to pop
    rig.queue.move_all_to_active_or_backoff(NODE_LABEL, node("n"), node("n", labels={"k": "v"}))
    assert rig.wakes == 2


# -- a waiting pod changes --------------------------------------------------------------------------------------------


def test_an_update_that_its_refuser_cares_for_wakes_the_pod_itself_and_no_other() -> None:
    rig = QueueRig()
    rig.park(pod("a"), "Labels")
    rig.park(pod("b"), "Labels")
    rig.queue.update(pod("a"), pod("a", labels={"app": "a"}))
    assert rig.names(QueueName.ACTIVE) == ["a"]
    assert rig.names(QueueName.UNSCHEDULABLE) == ["b"]


def test_an_update_that_changes_nothing_that_matters_leaves_the_pod_where_it_is() -> None:
    rig = QueueRig()
    rig.park(pod("a"), "Labels")
    newer = pod("a", metadata={"resourceVersion": "2"})
    rig.queue.update(pod("a"), newer)
    assert rig.names(QueueName.UNSCHEDULABLE) == ["a"]
    assert rig.queue.pods_in(QueueName.UNSCHEDULABLE)[0].pod is newer


def test_an_update_reorders_the_active_queue() -> None:
    rig = QueueRig(sort_key=lambda pod, queued_at: pod.labels.get("rank", "9"))
    rig.add(pod("a", labels={"rank": "1"}), pod("b", labels={"rank": "2"}))
    rig.queue.update(pod("a", labels={"rank": "1"}), pod("a", labels={"rank": "3"}))
    assert rig.pop_names() == ["b", "a"]


def test_a_pod_that_is_not_known_is_added_by_its_update() -> None:
    rig = QueueRig()
    rig.queue.update(pod("a"), pod("a", labels={"app": "a"}))
    assert rig.diary == [("a", "active", "UnschedulablePodUpdate")]


def test_a_pod_added_twice_is_there_once() -> None:
    rig = QueueRig()
    rig.add(pod("a"), pod("a", labels={"app": "a"}))
    assert rig.pop().info.labels == {"app": "a"}
    assert rig.pop_names() == []


def test_a_pod_made_again_under_its_name_is_another_pod() -> None:
    rig = QueueRig()
    rig.park(pod("a"), "Labels")
    again = pod("a", metadata={"uid": "second"})
    rig.queue.update(pod("a"), again)
    assert rig.queue.pending_pods()[QueueName.UNSCHEDULABLE] == 0
    popped = rig.pop()
    assert (popped.uid, popped.attempts) == ("second", 1)


@pytest.mark.parametrize("place", ["active", "backoff", "unschedulable"])
def test_a_deleted_pod_is_gone_from_wherever_it_was(place: str) -> None:
    rig = QueueRig()
    rig.add(pod("a"))
    if place != "active":
        rig.refuse("Labels")
    if place == "backoff":
        rig.queue.move_all_to_active_or_backoff(NODE_LABEL, None, None)
    assert rig.where(pod("a")) == place
    rig.queue.delete(pod("a"))
    assert rig.where(pod("a")) == "unknown"
    assert rig.pop_names() == []
    assert rig.queue.refusals() == {}


# -- activation and flush ---------------------------------------------------------------------------------------------


def test_activated_pods_are_tried_whatever_they_wait_for() -> None:
    rig = QueueRig()
    rig.add(pod("a"), pod("b"), pod("c"))
    rig.refuse("Labels")
    rig.refuse("Taints")
    rig.refuse("Room")
    rig.queue.move_all_to_active_or_backoff(NODE_TAINT, None, None)  # Room hears of it, too
    assert rig.names(QueueName.BACKOFF) == ["b", "c"]
    rig.queue.activate([pod("a"), pod("b"), pod("stranger")])
    assert rig.names(QueueName.ACTIVE) == ["a", "b"]
    assert rig.names(QueueName.BACKOFF) == ["c"]


def test_after_five_minutes_a_pod_is_tried_without_an_event() -> None:
    rig = QueueRig()
    rig.add(pod("a"))
    rig.refuse("Labels")
    rig.clock.advance(300)
    rig.queue.flush_unschedulable_leftover(rig.clock.monotonic())
    assert rig.names(QueueName.UNSCHEDULABLE) == ["a"]  # 300 s is not longer than 300 s
    rig.clock.advance(1)
    rig.queue.flush_unschedulable_leftover(rig.clock.monotonic())
    assert rig.names(QueueName.ACTIVE) == ["a"]
    flushed = rig.pop()
    assert flushed.flushed_at is not None
    rig.queue.add_unschedulable_if_not_present(flushed, unschedulable_plugins=["Labels"])
    assert flushed.flushed_at is None


def test_how_long_a_pod_may_wait_is_an_option() -> None:
    rig = QueueRig(max_unschedulable_s=60)
    rig.add(pod("a"))
    rig.refuse("Labels")
    rig.queue.flush_unschedulable_leftover(rig.clock.monotonic() + 61)
    assert rig.names(QueueName.BACKOFF) == ["a"]  # the clock itself has not moved: it is backing off


def test_a_flush_is_no_event_for_pods_in_flight() -> None:
    rig = QueueRig()
    rig.park(pod("old"), "Labels")
    rig.add(pod("a"))
    popped = rig.pop()
    rig.clock.advance(300)
    rig.queue.flush_unschedulable_leftover(rig.clock.monotonic())
    assert (
        rig.queue.add_unschedulable_if_not_present(popped, unschedulable_plugins=["Labels"]) is QueueName.UNSCHEDULABLE
    )


# -- counting ---------------------------------------------------------------------------------------------------------


def test_pending_pods_are_counted_by_queue() -> None:
    rig = QueueRig()
    rig.add(pod("a"), pod("b"), pod("c"), pod("d"))
    rig.refuse("Labels")
    rig.refuse("Taints")
    rig.queue.move_all_to_active_or_backoff(NODE_TAINT, None, None)
    rig.pop()
    # a is unschedulable, b backs off, c is in flight and counts nowhere, d is active.
    assert rig.queue.pending_pods() == {"active": 1, "backoff": 1, "unschedulable": 1, "gated": 0}


def test_refusals_are_counted_while_a_pod_waits() -> None:
    rig = QueueRig()
    rig.add(pod("a"), pod("b"))
    rig.refuse("Labels", "Taints")
    rig.refuse("Labels")
    profile = "default-scheduler"
    assert rig.queue.refusals() == {("Labels", profile): 2, ("Taints", profile): 1}
    rig.clock.advance(60)
    rig.queue.move_all_to_active_or_backoff(NODE_TAINT, None, None)
    assert rig.queue.refusals() == {("Labels", profile): 2, ("Taints", profile): 1}  # moved, not yet tried
    assert rig.pop().pod.name == "a"
    assert rig.queue.refusals() == {("Labels", profile): 1}


def test_the_diary_says_where_a_pod_was_put_and_why() -> None:
    rig = QueueRig()
    rig.add(pod("a"))
    rig.refuse("Labels")
    rig.queue.move_all_to_active_or_backoff(NODE_LABEL, None, None)
    rig.clock.advance(3)
    rig.queue.flush_backoff_completed(rig.clock.monotonic())
    assert rig.diary == [
        ("a", "active", "UnschedulablePodAdd"),
        ("a", "unschedulable", "ScheduleAttemptFailure"),
        ("a", "backoff", "NodeUpdateNodeLabel"),
        ("a", "active", "BackoffComplete"),
    ]


def test_attempts_and_failures_are_counted_apart() -> None:
    rig = QueueRig()
    rig.add(pod("a"))
    rig.refuse("Labels")
    rig.queue.activate([pod("a")])
    rig.refuse()  # an error: nobody refused it
    rig.queue.activate([pod("a")])
    rig.refuse()
    rig.queue.activate([pod("a")])
    popped = rig.pop()
    assert (popped.attempts, popped.unschedulable_count, popped.consecutive_errors) == (4, 1, 2)
    rig.queue.add_unschedulable_if_not_present(popped, unschedulable_plugins=["Labels"])
    assert (popped.attempts, popped.unschedulable_count, popped.consecutive_errors) == (4, 2, 0)


def test_the_time_of_the_first_attempt_stays() -> None:
    rig = QueueRig()
    rig.clock.advance(5)
    rig.park(pod("a"), "Room")  # and 60 s later
    rig.queue.cluster_changed(None, node("n"))
    popped = rig.pop()
    assert (popped.initial_attempt_at, popped.queued_at) == (5, 5)
    rig.queue.add_unschedulable_if_not_present(popped, unschedulable_plugins=["Room"])
    assert (popped.initial_attempt_at, popped.queued_at) == (5, 65)
