"""The scheduling queue: order, waiting, waking, flushing, and counting."""

from __future__ import annotations

import pytest
from queue_rig import NODE_LABEL, NODE_TAINT, PLAIN, Rig

from tonnage.clock import VirtualClock
from tonnage.objects.core_v1 import Pod
from tonnage.scheduling.events import (
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    QUEUE,
    SKIP,
    ActionType,
    ClusterEvent,
    EventResource,
    Hint,
    HintFn,
)
from tonnage.scheduling.hints import QueueingRules
from tonnage.scheduling.pod_info import PodInfo
from tonnage.scheduling.queue import QueueName, SchedulingQueue
from tonnage.testing.builders import node, pod

# -- order ------------------------------------------------------------------------------------------------------------


def test_the_most_important_pod_comes_first_and_equals_in_the_order_they_came() -> None:
    rig = Rig()
    rig.add(pod("a"), pod("b", priority=5))
    rig.clock.advance(1)
    rig.add(pod("c", priority=5), pod("d"))
    assert rig.pop_names() == ["b", "c", "a", "d"]


def test_a_pod_that_failed_stands_behind_those_that_came_meanwhile() -> None:
    rig = Rig()
    rig.add(pod("a"))
    first = rig.pop()
    rig.clock.advance(1)
    rig.add(pod("b"))
    rig.clock.advance(1)
    rig.queue.add_unschedulable_if_not_present(first, unschedulable_plugins=["Labels"])
    rig.queue.activate([first.pod])
    assert rig.pop_names() == ["b", "a"]


def test_another_order_may_be_handed_in() -> None:
    rig = Rig(sort_key=lambda pod, queued_at: pod.pod.name)
    rig.add(pod("c"), pod("a", priority=1), pod("b", priority=9))
    assert rig.pop_names() == ["a", "b", "c"]


def test_equals_of_another_order_keep_the_order_they_came_in() -> None:
    rig = Rig(sort_key=lambda pod, queued_at: 0)
    rig.add(pod("c"), pod("a"), pod("b"))
    rig.queue.update(pod("c"), pod("c", labels={"app": "c"}))  # an update keeps its place
    assert rig.pop_names() == ["c", "a", "b"]


def test_an_empty_queue_has_nothing_to_pop() -> None:
    assert Rig().queue.pop_nowait() is None


def test_whoever_waits_for_a_pod_is_woken_when_there_is_one() -> None:
    rig = Rig()
    rig.add(pod("a"))
    assert rig.wakes == 1
    rig.refuse("Labels")
    assert rig.wakes == 1  # unschedulable: nothing to pop
    rig.queue.move_all_to_active_or_backoff(NODE_LABEL, node("n"), node("n", labels={"k": "v"}))
    assert rig.wakes == 2


# -- waiting and waking -----------------------------------------------------------------------------------------------


def test_a_pod_is_woken_by_an_event_that_its_refuser_cares_for() -> None:
    rig = Rig()
    rig.park(pod("a"), "Labels")
    rig.park(pod("b"), "Taints")
    rig.queue.move_all_to_active_or_backoff(NODE_LABEL, None, None)
    assert rig.names(QueueName.ACTIVE) == ["a"]
    assert rig.names(QueueName.UNSCHEDULABLE) == ["b"]


def test_an_event_nobody_cares_for_moves_nobody() -> None:
    rig = Rig()
    rig.park(pod("a"), "Labels", "Taints", "Room")
    rig.queue.move_all_to_active_or_backoff(ClusterEvent(EventResource.CSI_NODE, ActionType.ADD), None, None)
    assert rig.names(QueueName.UNSCHEDULABLE) == ["a"]


def test_one_refuser_of_two_is_enough() -> None:
    rig = Rig()
    rig.park(pod("a"), "Labels", "Taints")
    rig.queue.move_all_to_active_or_backoff(NODE_TAINT, None, None)
    assert rig.names(QueueName.ACTIVE) == ["a"]


def test_a_plugin_that_registered_nothing_wakes_nobody() -> None:
    rig = Rig({**PLAIN, "Mute": ()})
    rig.park(pod("a"), "Mute")
    rig.park(pod("b"), "NeverHeardOf")
    rig.queue.move_all_to_active_or_backoff(NODE_LABEL, None, None)
    assert rig.names(QueueName.UNSCHEDULABLE) == ["a", "b"]


def answering(hint: Hint, heard: list[tuple[str, str, object, object]]) -> HintFn:
    def look_closer(waiting: PodInfo, event: ClusterEvent, old: object, new: object) -> Hint:
        heard.append((waiting.pod.name, event.label, old, new))
        return hint

    return look_closer


def test_a_hint_sees_the_pod_the_event_and_both_objects() -> None:
    heard: list[tuple[str, str, object, object]] = []
    rig = Rig({"Labels": ((NODE_LABEL, answering(SKIP, heard)),)})
    rig.park(pod("a"), "Labels")
    before, after = node("n"), node("n", labels={"zone": "z1"})
    rig.queue.cluster_changed(before, after)
    assert heard == [("a", "NodeUpdateNodeLabel", before, after)]
    assert rig.names(QueueName.UNSCHEDULABLE) == ["a"]


def test_hints_of_plugins_that_did_not_refuse_the_pod_are_not_asked() -> None:
    heard: list[tuple[str, str, object, object]] = []
    rig = Rig({"Labels": ((NODE_LABEL, answering(QUEUE, heard)),), "Taints": ((NODE_LABEL, None),)})
    rig.park(pod("a"), "Taints")
    rig.queue.move_all_to_active_or_backoff(NODE_LABEL, None, None)
    assert heard == []
    assert rig.names(QueueName.ACTIVE) == ["a"]


def test_of_several_hints_of_a_plugin_one_is_enough() -> None:
    heard: list[tuple[str, str, object, object]] = []
    wide = ClusterEvent(EventResource.NODE, ActionType.UPDATE)
    rig = Rig({"Labels": ((NODE_LABEL, answering(SKIP, heard)), (wide, answering(QUEUE, heard)))})
    rig.park(pod("a"), "Labels")
    rig.queue.move_all_to_active_or_backoff(NODE_LABEL, None, None)
    assert len(heard) == 2
    assert rig.names(QueueName.ACTIVE) == ["a"]


def test_a_hint_that_raises_counts_as_worth_a_try_and_is_told() -> None:
    def broken(waiting: PodInfo, event: ClusterEvent, old: object, new: object) -> Hint:
        raise ValueError("no such label")

    rig = Rig({"Labels": ((NODE_LABEL, broken),)})
    rig.park(pod("a"), "Labels")
    rig.queue.move_all_to_active_or_backoff(NODE_LABEL, None, None)
    assert rig.names(QueueName.ACTIVE) == ["a"]
    assert rig.errors == [("Labels", "a", "no such label")]


def test_a_pod_that_waits_for_somebody_to_act_skips_its_backoff() -> None:
    rig = Rig()
    rig.add(pod("a"), pod("b"))
    rig.refuse("Labels")
    rig.refuse(pending=["Labels"])
    # Both failed just now and are backing off.
    rig.queue.move_all_to_active_or_backoff(NODE_LABEL, None, None)
    assert rig.names(QueueName.ACTIVE) == ["b"]
    assert rig.names(QueueName.BACKOFF) == ["a"]


def test_with_something_pending_another_refusers_word_still_means_backoff() -> None:
    rig = Rig()
    rig.add(pod("a"))
    rig.refuse("Taints", pending=["Labels"])
    rig.queue.move_all_to_active_or_backoff(NODE_TAINT, None, None)
    assert rig.names(QueueName.BACKOFF) == ["a"]


def test_a_pre_check_leaves_pods_out() -> None:
    rig = Rig()
    rig.park(pod("a"), "Labels")
    rig.park(pod("b"), "Labels")
    rig.queue.move_all_to_active_or_backoff(NODE_LABEL, None, None, pre_check=lambda each: each.name != "a")
    assert rig.names(QueueName.ACTIVE) == ["b"]


def test_assigned_pods_wake_those_that_wait_for_them() -> None:
    rig = Rig()
    rig.park(pod("a"), "Room")
    rig.park(pod("b"), "Labels")
    resident = pod("old", on="n")
    rig.queue.assigned_pod_added(resident)
    assert rig.names(QueueName.ACTIVE) == []
    rig.queue.assigned_pod_updated(resident, pod("old", on="n", labels={"app": "x"}))
    assert rig.names(QueueName.ACTIVE) == ["b"]
    rig.queue.assigned_pod_deleted(resident)
    assert rig.names(QueueName.ACTIVE) == ["a", "b"]  # a was queued first


def test_an_assigned_pod_that_ends_gives_up_its_room() -> None:
    rig = Rig()
    rig.park(pod("a"), "Room")
    rig.queue.assigned_pod_updated(pod("old", on="n"), pod("old", on="n", status={"phase": "Failed"}))
    assert rig.names(QueueName.ACTIVE) == ["a"]


def test_a_pod_of_a_profile_without_rules_waits_for_the_flush() -> None:
    rig = Rig()
    rig.park(pod("a", spec={"schedulerName": "other"}), "Labels")
    rig.queue.move_all_to_active_or_backoff(NODE_LABEL, None, None)
    assert rig.names(QueueName.UNSCHEDULABLE) == ["a"]


# -- a waiting pod changes --------------------------------------------------------------------------------------------


def test_an_update_that_its_refuser_cares_for_wakes_the_pod_itself_and_no_other() -> None:
    rig = Rig()
    rig.park(pod("a"), "Labels")
    rig.park(pod("b"), "Labels")
    rig.queue.update(pod("a"), pod("a", labels={"app": "a"}))
    assert rig.names(QueueName.ACTIVE) == ["a"]
    assert rig.names(QueueName.UNSCHEDULABLE) == ["b"]


def test_an_update_that_changes_nothing_that_matters_leaves_the_pod_where_it_is() -> None:
    rig = Rig()
    rig.park(pod("a"), "Labels")
    newer = pod("a", metadata={"resourceVersion": "2"})
    rig.queue.update(pod("a"), newer)
    assert rig.names(QueueName.UNSCHEDULABLE) == ["a"]
    assert rig.queue.pods_in(QueueName.UNSCHEDULABLE)[0].pod is newer


def test_an_update_reorders_the_active_queue() -> None:
    rig = Rig(sort_key=lambda pod, queued_at: pod.labels.get("rank", "9"))
    rig.add(pod("a", labels={"rank": "1"}), pod("b", labels={"rank": "2"}))
    rig.queue.update(pod("a", labels={"rank": "1"}), pod("a", labels={"rank": "3"}))
    assert rig.pop_names() == ["b", "a"]


def test_a_pod_that_is_not_known_is_added_by_its_update() -> None:
    rig = Rig()
    rig.queue.update(pod("a"), pod("a", labels={"app": "a"}))
    assert rig.diary == [("a", "active", "UnschedulablePodUpdate")]


def test_a_pod_added_twice_is_there_once() -> None:
    rig = Rig()
    rig.add(pod("a"), pod("a", labels={"app": "a"}))
    assert rig.pop().info.labels == {"app": "a"}
    assert rig.pop_names() == []


def test_a_pod_made_again_under_its_name_is_another_pod() -> None:
    rig = Rig()
    rig.park(pod("a"), "Labels")
    again = pod("a", metadata={"uid": "second"})
    rig.queue.update(pod("a"), again)
    assert rig.queue.pending_pods()[QueueName.UNSCHEDULABLE] == 0
    popped = rig.pop()
    assert (popped.uid, popped.attempts) == ("second", 1)


@pytest.mark.parametrize("place", ["active", "backoff", "unschedulable"])
def test_a_deleted_pod_is_gone_from_wherever_it_was(place: str) -> None:
    rig = Rig()
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
    rig = Rig()
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
    rig = Rig()
    rig.add(pod("a"))
    rig.refuse("Labels")
    rig.clock.advance(300)
    rig.queue.flush_unschedulable_leftover(rig.clock.monotonic())
    assert rig.names(QueueName.UNSCHEDULABLE) == ["a"]  # 300 s is not longer than 300 s
    rig.clock.advance(1)
    rig.queue.flush_unschedulable_leftover(rig.clock.monotonic())
    assert rig.names(QueueName.ACTIVE) == ["a"]
    flushed = rig.pop()
    assert flushed.was_flushed
    rig.queue.add_unschedulable_if_not_present(flushed, unschedulable_plugins=["Labels"])
    assert not flushed.was_flushed


def test_how_long_a_pod_may_wait_is_an_option() -> None:
    rig = Rig(max_unschedulable_s=60)
    rig.add(pod("a"))
    rig.refuse("Labels")
    rig.queue.flush_unschedulable_leftover(rig.clock.monotonic() + 61)
    assert rig.names(QueueName.BACKOFF) == ["a"]  # the clock itself has not moved: it is backing off


def test_a_flush_is_no_event_for_pods_in_flight() -> None:
    rig = Rig()
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
    rig = Rig()
    rig.add(pod("a"), pod("b"), pod("c"), pod("d"))
    rig.refuse("Labels")
    rig.refuse("Taints")
    rig.queue.move_all_to_active_or_backoff(NODE_TAINT, None, None)
    rig.pop()
    # a is unschedulable, b backs off, c is in flight and counts nowhere, d is active.
    assert rig.queue.pending_pods() == {"active": 1, "backoff": 1, "unschedulable": 1, "gated": 0}


def test_refusals_are_counted_while_a_pod_waits() -> None:
    rig = Rig()
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
    rig = Rig()
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
    rig = Rig()
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
    rig = Rig()
    rig.clock.advance(5)
    rig.park(pod("a"), "Room")  # and 60 s later
    rig.queue.cluster_changed(None, node("n"))
    popped = rig.pop()
    assert (popped.initial_attempt_at, popped.queued_at) == (5, 5)
    rig.queue.add_unschedulable_if_not_present(popped, unschedulable_plugins=["Room"])
    assert (popped.initial_attempt_at, popped.queued_at) == (5, 65)


def test_profiles_have_hints_of_their_own() -> None:
    def other(name: str) -> Pod:
        return pod(name, spec={"schedulerName": "other"})

    rules = {
        "default-scheduler": QueueingRules(hints={"Labels": ((NODE_LABEL, None),)}),
        "other": QueueingRules(hints={"Labels": ((ASSIGNED_POD_DELETE, None),)}),
    }
    queue = SchedulingQueue(VirtualClock(), rules, max_backoff_s=0)
    for each in (pod("a"), other("b")):
        queue.add(each)
        queued = queue.pop_nowait()
        assert queued is not None
        queue.add_unschedulable_if_not_present(queued, unschedulable_plugins=["Labels"])
    queue.move_all_to_active_or_backoff(NODE_LABEL, None, None)
    assert [queued.pod.name for queued in queue.pods_in(QueueName.ACTIVE)] == ["a"]
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None)
    queue.assigned_pod_deleted(pod("old", on="n"))
    assert [queued.pod.name for queued in queue.pods_in(QueueName.ACTIVE)] == ["a", "b"]
