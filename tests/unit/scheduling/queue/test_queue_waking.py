"""Waking: which unschedulable pods an event moves, whose hints are asked, and where the pods go."""

from __future__ import annotations

from queue_rig import NODE_LABEL, NODE_TAINT, PLAIN, QueueRig

from support.virtual_clock import VirtualClock
from tonnage.objects.core_v1 import Pod
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.events import (
    ASSIGNED_POD_DELETE,
    EVERY_EVENT,
    NODE_ADD,
    QUEUE,
    SKIP,
    ActionType,
    ClusterEvent,
    EventResource,
    Hint,
    HintFn,
)
from tonnage.scheduling.plugins.node_resources import NodeResourcesFit
from tonnage.scheduling.queue.queues import QueueName
from tonnage.scheduling.queue.scheduling_queue import SchedulingQueue
from tonnage.scheduling.queue.waiting_pods import QueueingRules
from tonnage.testing.builders import node, pod


def test_a_pod_is_woken_by_an_event_that_its_refuser_cares_for() -> None:
    rig = QueueRig()
    rig.park(pod("a"), "Labels")
    rig.park(pod("b"), "Taints")
    rig.queue.move_all_to_active_or_backoff(NODE_LABEL, None, None)
    assert rig.names(QueueName.ACTIVE) == ["a"]
    assert rig.names(QueueName.UNSCHEDULABLE) == ["b"]


def test_an_event_nobody_cares_for_moves_nobody() -> None:
    rig = QueueRig()
    rig.park(pod("a"), "Labels", "Taints", "Room")
    rig.queue.move_all_to_active_or_backoff(ClusterEvent(EventResource.CSI_NODE, ActionType.ADD), None, None)
    assert rig.names(QueueName.UNSCHEDULABLE) == ["a"]


def test_one_refuser_of_two_is_enough() -> None:
    rig = QueueRig()
    rig.park(pod("a"), "Labels", "Taints")
    rig.queue.move_all_to_active_or_backoff(NODE_TAINT, None, None)
    assert rig.names(QueueName.ACTIVE) == ["a"]


def test_a_plugin_that_registered_nothing_wakes_nobody() -> None:
    rig = QueueRig({**PLAIN, "Mute": ()})
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
    rig = QueueRig({"Labels": ((NODE_LABEL, answering(SKIP, heard)),)})
    rig.park(pod("a"), "Labels")
    before, after = node("n"), node("n", labels={"zone": "z1"})
    rig.queue.cluster_changed(before, after)
    assert heard == [("a", "NodeUpdateNodeLabel", before, after)]
    assert rig.names(QueueName.UNSCHEDULABLE) == ["a"]


def test_hints_of_plugins_that_did_not_refuse_the_pod_are_not_asked() -> None:
    heard: list[tuple[str, str, object, object]] = []
    rig = QueueRig({"Labels": ((NODE_LABEL, answering(QUEUE, heard)),), "Taints": ((NODE_LABEL, None),)})
    rig.park(pod("a"), "Taints")
    rig.queue.move_all_to_active_or_backoff(NODE_LABEL, None, None)
    assert heard == []
    assert rig.names(QueueName.ACTIVE) == ["a"]


def test_of_several_hints_of_a_plugin_one_is_enough() -> None:
    heard: list[tuple[str, str, object, object]] = []
    wide = ClusterEvent(EventResource.NODE, ActionType.UPDATE)
    rig = QueueRig({"Labels": ((NODE_LABEL, answering(SKIP, heard)), (wide, answering(QUEUE, heard)))})
    rig.park(pod("a"), "Labels")
    rig.queue.move_all_to_active_or_backoff(NODE_LABEL, None, None)
    assert len(heard) == 2
    assert rig.names(QueueName.ACTIVE) == ["a"]


def test_a_hint_that_raises_counts_as_worth_a_try_and_is_told() -> None:
    def broken(waiting: PodInfo, event: ClusterEvent, old: object, new: object) -> Hint:
        raise ValueError("no such label")

    rig = QueueRig({"Labels": ((NODE_LABEL, broken),)})
    rig.park(pod("a"), "Labels")
    rig.queue.move_all_to_active_or_backoff(NODE_LABEL, None, None)
    assert rig.names(QueueName.ACTIVE) == ["a"]
    assert rig.errors == [("Labels", "a", "no such label")]


def test_a_wildcard_moves_everybody_and_asks_nobody() -> None:
    rig = QueueRig({"Mute": ()})
    rig.park(pod("a"), "Mute")
    rig.park(pod("b", spec={"schedulerName": "other"}), "NeverHeardOf")
    rig.queue.move_all_to_active_or_backoff(EVERY_EVENT, None, None)
    assert rig.names(QueueName.ACTIVE) == ["a", "b"]


def test_a_pre_check_leaves_pods_out() -> None:
    rig = QueueRig()
    rig.park(pod("a"), "Labels")
    rig.park(pod("b"), "Labels")
    rig.queue.move_all_to_active_or_backoff(NODE_LABEL, None, None, pre_check=lambda each: each.name != "a")
    assert rig.names(QueueName.ACTIVE) == ["b"]


def test_assigned_pods_wake_those_that_wait_for_them() -> None:
    rig = QueueRig()
    rig.park(pod("a"), "Room")
    rig.park(pod("b"), "Labels")
    resident = pod("old", on="n")
    rig.queue.cluster_changed(None, resident)
    assert rig.names(QueueName.ACTIVE) == []
    rig.queue.cluster_changed(resident, pod("old", on="n", labels={"app": "x"}))
    assert rig.names(QueueName.ACTIVE) == ["b"]
    rig.queue.assigned_pod_deleted(resident)
    assert rig.names(QueueName.ACTIVE) == ["a", "b"]  # a was queued first


def test_a_pod_that_was_only_assumed_gives_up_its_room_where_it_was_assumed() -> None:
    fit = NodeResourcesFit()
    rig = QueueRig({fit.name: tuple(fit.events())})
    rig.park(pod("a", cpu="1"), "NodeResourcesFit")
    failed_to_bind = pod("b", cpu="1")
    rig.queue.assigned_pod_deleted(failed_to_bind)  # without a node it took no room, says the plugin
    assert rig.names(QueueName.ACTIVE) == []
    rig.queue.assigned_pod_deleted(failed_to_bind, assumed_on="n")
    assert rig.names(QueueName.ACTIVE) == ["a"]


def test_an_assigned_pod_that_ends_gives_up_its_room() -> None:
    rig = QueueRig()
    rig.park(pod("a"), "Room")
    rig.queue.cluster_changed(pod("old", on="n"), pod("old", on="n", status={"phase": "Failed"}))
    assert rig.names(QueueName.ACTIVE) == ["a"]


def test_a_pod_of_a_profile_without_rules_waits_for_the_flush() -> None:
    rig = QueueRig()
    rig.park(pod("a", spec={"schedulerName": "other"}), "Labels")
    rig.queue.move_all_to_active_or_backoff(NODE_LABEL, None, None)
    assert rig.names(QueueName.UNSCHEDULABLE) == ["a"]


def test_an_event_is_told_only_to_the_plugins_own_pods_however_many_others_wait() -> None:
    heard: list[tuple[str, str, object, object]] = []
    rig = QueueRig({"Labels": ((NODE_LABEL, answering(SKIP, heard)),), "Taints": ((NODE_TAINT, None),)})
    for number in range(1000):
        rig.add(pod(f"p{number}"))
        rig.refuse("Labels" if number % 500 == 0 else "Taints")
    rig.queue.move_all_to_active_or_backoff(NODE_LABEL, None, None)
    assert [name for name, *_ in heard] == ["p0", "p500"]


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
