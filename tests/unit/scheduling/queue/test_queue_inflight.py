"""In flight: nothing that happens while a pod is being tried is lost, and nothing is kept longer than needed."""

from __future__ import annotations

from queue_rig import NODE_LABEL, NODE_TAINT, QueueRig

from support.scheduling_sight import in_flight_events
from tonnage.scheduling.events import ActionType, ClusterEvent, EventResource
from tonnage.scheduling.queue.queues import QueueName
from tonnage.scheduling.queue.waiting_pods import QueuedPod
from tonnage.testing.builders import node, pod


def refuse(rig: QueueRig, popped: QueuedPod, *plugins: str) -> QueueName | None:
    return rig.queue.add_unschedulable_if_not_present(popped, unschedulable_plugins=plugins)


def test_an_event_that_came_meanwhile_counts() -> None:
    rig = QueueRig()
    rig.add(pod("a"))
    popped = rig.pop()
    rig.queue.cluster_changed(node("n"), node("n", labels={"zone": "z1"}))
    assert refuse(rig, popped, "Labels") is QueueName.BACKOFF
    assert in_flight_events(rig.queue) == 0


def test_an_event_its_refuser_does_not_care_for_does_not() -> None:
    rig = QueueRig()
    rig.add(pod("a"))
    popped = rig.pop()
    rig.queue.cluster_changed(node("n"), node("n", labels={"zone": "z1"}))
    assert refuse(rig, popped, "Taints") is QueueName.UNSCHEDULABLE


def test_an_event_from_before_the_pop_does_not_count() -> None:
    rig = QueueRig()
    rig.add(pod("a"), pod("b"))
    first = rig.pop()
    rig.queue.move_all_to_active_or_backoff(NODE_LABEL, None, None)
    second = rig.pop()
    assert refuse(rig, second, "Labels") is QueueName.UNSCHEDULABLE
    assert refuse(rig, first, "Labels") is QueueName.BACKOFF


def test_events_are_kept_as_long_as_a_pod_may_ask_for_them() -> None:
    rig = QueueRig()
    rig.add(pod("a"), pod("b"))
    rig.queue.move_all_to_active_or_backoff(NODE_LABEL, None, None)
    assert in_flight_events(rig.queue) == 0  # nobody in flight, nobody to keep it for
    first = rig.pop()
    rig.queue.move_all_to_active_or_backoff(NODE_LABEL, None, None)
    second = rig.pop()
    rig.queue.move_all_to_active_or_backoff(NODE_TAINT, None, None)
    assert in_flight_events(rig.queue) == 2
    rig.queue.done(first.pod)
    assert in_flight_events(rig.queue) == 1  # the second pod was popped after the first event
    rig.queue.done(second.pod)
    assert in_flight_events(rig.queue) == 0


def test_a_younger_pod_that_lands_first_leaves_the_elders_events_alone() -> None:
    rig = QueueRig()
    rig.add(pod("a"), pod("b"))
    first, second = rig.pop(), rig.pop()
    rig.queue.move_all_to_active_or_backoff(NODE_LABEL, None, None)
    rig.queue.done(second.pod)
    assert in_flight_events(rig.queue) == 1
    assert refuse(rig, first, "Labels") is QueueName.BACKOFF


def test_events_nobody_registered_for_are_not_kept() -> None:
    rig = QueueRig()
    rig.add(pod("a"))
    rig.pop()
    rig.queue.move_all_to_active_or_backoff(ClusterEvent(EventResource.CSI_NODE, ActionType.ADD), None, None)
    assert in_flight_events(rig.queue) == 0


def test_a_pre_check_holds_for_pods_in_flight_as_well() -> None:
    rig = QueueRig()
    rig.add(pod("a"), pod("b"))
    first, second = rig.pop(), rig.pop()
    rig.queue.move_all_to_active_or_backoff(NODE_LABEL, None, None, pre_check=lambda each: each.name != "a")
    assert refuse(rig, first, "Labels") is QueueName.UNSCHEDULABLE
    assert refuse(rig, second, "Labels") is QueueName.BACKOFF


def test_a_pod_activated_in_flight_is_tried_again_and_no_other() -> None:
    rig = QueueRig()
    rig.add(pod("a"), pod("b"))
    first, second = rig.pop(), rig.pop()
    rig.queue.activate([pod("a")])
    assert refuse(rig, first, "Labels") is QueueName.BACKOFF
    assert refuse(rig, second, "Labels") is QueueName.UNSCHEDULABLE


# -- the pod itself changes -------------------------------------------------------------------------------------------


def test_a_pod_updated_in_flight_keeps_its_version_and_comes_back_with_the_newest() -> None:
    rig = QueueRig()
    rig.add(pod("a"))
    popped = rig.pop()
    rig.queue.update(pod("a"), pod("a", labels={"app": "a"}))
    assert popped.info.labels == {}
    assert refuse(rig, popped, "Labels") is QueueName.BACKOFF  # Labels cares for a pod's labels
    assert popped.info.labels == {"app": "a"}


def test_a_pods_own_update_is_no_event_for_others_in_flight() -> None:
    rig = QueueRig()
    rig.add(pod("a"), pod("b"))
    _, second = rig.pop(), rig.pop()
    rig.queue.update(pod("a"), pod("a", labels={"app": "a"}))
    assert refuse(rig, second, "Labels") is QueueName.UNSCHEDULABLE


def test_a_pod_deleted_in_flight_does_not_come_back() -> None:
    rig = QueueRig()
    rig.add(pod("a"))
    popped = rig.pop()
    rig.queue.delete(pod("a"))
    assert refuse(rig, popped, "Labels") is None
    assert rig.where(pod("a")) == "unknown"
    assert rig.queue.refusals() == {}


def test_a_pod_bound_in_flight_does_not_come_back_even_if_binding_reported_an_error() -> None:
    rig = QueueRig()
    rig.add(pod("a"))
    popped = rig.pop()
    rig.queue.delete(pod("a"), bound_to="n")
    assert rig.queue.add_unschedulable_if_not_present(popped) is None
    assert rig.where(pod("a")) == "unknown"


def test_a_pod_made_again_while_its_namesake_is_in_flight_is_tried_once() -> None:
    rig = QueueRig()
    rig.add(pod("a"))
    popped = rig.pop()
    again = pod("a", metadata={"uid": "second"})
    rig.queue.delete(pod("a"))
    rig.queue.add(again)
    assert refuse(rig, popped, "Labels") is None
    assert rig.pop().uid == "second"
    assert rig.pop_names() == []


def test_a_pod_seen_again_in_flight_is_not_queued_twice() -> None:
    rig = QueueRig()
    rig.add(pod("a"))
    popped = rig.pop()
    rig.queue.add(pod("a"))
    assert rig.pop_names() == []
    assert refuse(rig, popped, "Taints") is QueueName.UNSCHEDULABLE


# -- after done -------------------------------------------------------------------------------------------------------


def test_a_binding_that_failed_after_done_brings_the_pod_back_to_backoff() -> None:
    rig = QueueRig()
    rig.add(pod("a"))
    popped = rig.pop()
    rig.queue.done(popped.pod)
    newest = pod("a", labels={"app": "a"})
    assert rig.queue.add_unschedulable_if_not_present(popped, pod=newest) is QueueName.BACKOFF
    assert popped.pod is newest
    assert popped.consecutive_errors == 1


def test_after_done_a_pod_of_which_there_is_no_newest_version_is_gone() -> None:
    rig = QueueRig()
    rig.add(pod("a"))
    popped = rig.pop()
    rig.queue.done(popped.pod)
    for seen in (None, pod("a", on="n"), pod("a", metadata={"uid": "second"})):
        assert rig.queue.add_unschedulable_if_not_present(popped, pod=seen) is None
    assert rig.where(pod("a")) == "unknown"


def test_refused_after_done_a_pod_is_tried_again_because_nothing_was_kept() -> None:
    rig = QueueRig()
    rig.add(pod("a"))
    popped = rig.pop()
    rig.queue.done(popped.pod)
    landed = rig.queue.add_unschedulable_if_not_present(popped, unschedulable_plugins=["Labels"], pod=pod("a"))
    assert landed is QueueName.BACKOFF


def test_a_pod_handed_back_twice_is_there_once() -> None:
    rig = QueueRig()
    rig.add(pod("a"))
    popped = rig.pop()
    assert refuse(rig, popped, "Labels") is QueueName.UNSCHEDULABLE
    assert refuse(rig, popped, "Labels") is None
    assert popped.unschedulable_count == 1
    rig.queue.done(popped.pod)
    assert rig.names(QueueName.UNSCHEDULABLE) == ["a"]
