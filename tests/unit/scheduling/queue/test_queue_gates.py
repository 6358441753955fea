"""Gates: a pod that a PreEnqueue plugin holds back is not tried, and only that plugin's events ask again."""

from __future__ import annotations

from queue_rig import NODE_LABEL, NODE_TAINT, Gate, QueueRig

from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.events import ActionType, ClusterEvent, EventResource
from tonnage.scheduling.framework import Status
from tonnage.scheduling.plugins.pod_and_node import SchedulingGates
from tonnage.scheduling.queue.queues import QueueName
from tonnage.testing.builders import pod

HINTS = {"Quota": ((NODE_LABEL, None),), "Taints": ((NODE_TAINT, None),)}


def test_a_held_pod_is_gated_and_not_tried() -> None:
    rig = QueueRig(HINTS, [Gate("Quota", holds=["a"])])
    rig.add(pod("a"), pod("b"))
    assert rig.pop_names() == ["b"]
    assert rig.queue.pending_pods() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 1}
    (held,) = rig.queue.pods_in(QueueName.GATED)
    assert (held.gating_plugin, held.unschedulable_plugins) == ("Quota", frozenset({"Quota"}))
    assert held.initial_attempt_at is None
    assert rig.diary[0] == ("a", "unschedulable", "UnschedulablePodAdd")
    assert rig.queue.refusals() == {("Quota", "default-scheduler"): 1}


def test_the_holding_plugins_events_ask_it_again() -> None:
    quota = Gate("Quota", holds=["a"])
    rig = QueueRig(HINTS, [quota])
    rig.add(pod("a"))
    rig.queue.move_all_to_active_or_backoff(NODE_LABEL, None, None)
    assert quota.asked == ["a", "a"]
    assert rig.names(QueueName.GATED) == ["a"]
    quota.holds.clear()
    rig.clock.advance(7)
    rig.queue.move_all_to_active_or_backoff(NODE_LABEL, None, None)
    assert rig.pop().initial_attempt_at == 7


def test_events_that_only_others_care_for_do_not_ask_it() -> None:
    quota = Gate("Quota", holds=["a"])
    rig = QueueRig(HINTS, [quota])
    rig.add(pod("a"))
    rig.queue.move_all_to_active_or_backoff(NODE_TAINT, None, None)
    assert quota.asked == ["a"]


def test_a_pod_refused_before_and_held_now_hears_only_of_its_gate() -> None:
    quota = Gate("Quota")
    rig = QueueRig(HINTS, [quota])
    rig.park(pod("a"), "Taints")
    quota.holds.add("a")
    rig.queue.move_all_to_active_or_backoff(NODE_TAINT, None, None)
    assert rig.names(QueueName.GATED) == ["a"]
    quota.holds.clear()
    rig.queue.move_all_to_active_or_backoff(NODE_TAINT, None, None)
    assert rig.names(QueueName.GATED) == ["a"]
    rig.queue.move_all_to_active_or_backoff(NODE_LABEL, None, None)
    assert rig.names(QueueName.ACTIVE) == ["a"]


def test_the_plugin_that_holds_a_pod_is_asked_first() -> None:
    first, second = Gate("First"), Gate("Second", holds=["a"])
    rig = QueueRig({"Second": ((NODE_LABEL, None),)}, [first, second])
    rig.add(pod("a"))
    assert (first.asked, second.asked) == (["a"], ["a"])
    rig.queue.move_all_to_active_or_backoff(NODE_LABEL, None, None)
    assert (first.asked, second.asked) == (["a"], ["a", "a"])
    second.holds.clear()
    rig.queue.move_all_to_active_or_backoff(NODE_LABEL, None, None)
    assert (first.asked, second.asked) == (["a", "a"], ["a", "a", "a"])


def test_another_gate_may_take_over() -> None:
    first, second = Gate("First", holds=["a"]), Gate("Second", holds=["a"])
    rig = QueueRig({"First": ((NODE_LABEL, None),), "Second": ((NODE_TAINT, None),)}, [first, second])
    rig.add(pod("a"))
    first.holds.clear()
    rig.queue.move_all_to_active_or_backoff(NODE_LABEL, None, None)
    (held,) = rig.queue.pods_in(QueueName.GATED)
    assert held.gating_plugin == "Second"
    second.holds.clear()
    rig.queue.move_all_to_active_or_backoff(NODE_TAINT, None, None)
    assert rig.pop_names() == ["a"]
    assert rig.queue.refusals() == {}


def test_gates_are_asked_on_the_way_into_backoff_and_not_again_on_the_way_out() -> None:
    quota = Gate("Quota")
    rig = QueueRig(HINTS, [quota])
    rig.add(pod("a"))
    assert rig.refuse() is QueueName.BACKOFF
    assert quota.asked == ["a", "a"]
    rig.clock.advance(2)
    rig.queue.flush_backoff_completed(rig.clock.monotonic())
    rig.pop()
    assert quota.asked == ["a", "a"]


def test_a_pod_may_be_held_when_it_comes_back_from_an_error() -> None:
    quota = Gate("Quota")
    rig = QueueRig(HINTS, [quota])
    rig.add(pod("a"))
    quota.holds.add("a")
    assert rig.refuse() is QueueName.GATED


def test_activation_does_not_open_a_gate() -> None:
    rig = QueueRig(HINTS, [Gate("Quota", holds=["a"])])
    rig.add(pod("a"))
    rig.queue.activate([pod("a")])
    assert rig.names(QueueName.GATED) == ["a"]


def test_the_flush_asks_gates_again_but_not_every_time() -> None:
    quota = Gate("Quota", holds=["a"])
    rig = QueueRig(HINTS, [quota])
    rig.add(pod("a"))
    rig.clock.advance(301)
    rig.queue.flush_unschedulable_leftover(rig.clock.monotonic())
    assert quota.asked == ["a", "a"]
    rig.clock.advance(30)
    rig.queue.flush_unschedulable_leftover(rig.clock.monotonic())
    assert quota.asked == ["a", "a"]
    assert rig.names(QueueName.GATED) == ["a"]
    rig.clock.advance(271)
    rig.queue.flush_unschedulable_leftover(rig.clock.monotonic())
    assert quota.asked == ["a", "a", "a"]


def test_a_gate_that_raises_holds_the_pod_and_is_told() -> None:
    class Broken(Gate):
        def pre_enqueue(self, pod: PodInfo) -> Status:
            raise ConnectionError("quota service is away")

    rig = QueueRig({}, [Broken("Quota")])
    rig.add(pod("a"))
    assert rig.names(QueueName.GATED) == ["a"]
    assert rig.errors == [("Quota", "a", "quota service is away")]


def test_a_pod_whose_scheduling_gates_are_all_removed_is_tried() -> None:
    plugin = SchedulingGates()
    rig = QueueRig({plugin.name: tuple(plugin.events())}, (plugin,))
    two = pod("a", spec={"schedulingGates": [{"name": "quota"}, {"name": "budget"}]})
    one = pod("a", spec={"schedulingGates": [{"name": "budget"}]})
    rig.add(two)
    rig.queue.update(two, one)
    assert rig.names(QueueName.GATED) == ["a"]
    rig.queue.update(one, pod("a"))
    assert rig.names(QueueName.ACTIVE) == ["a"]


def test_gates_that_are_gone_are_what_scheduling_gates_wait_for() -> None:
    opened = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    assert [mask for mask, _ in SchedulingGates().events()] == [opened]


# -- told that a gate is open -----------------------------------------------------------------------------------------


def test_a_pod_that_a_gate_kept_from_an_event_is_tried_when_the_gate_opens() -> None:
    gate = Gate("Quota")
    rig = QueueRig(HINTS, [gate])
    rig.park(pod("a"), "Taints")
    gate.holds.add("a")
    rig.queue.move_all_to_active_or_backoff(NODE_TAINT, None, None)
    assert rig.where(pod("a")) == "gated"
    gate.holds.clear()
    rig.queue.gate_opened(pod("a"), "Somebody")
    assert rig.where(pod("a")) == "gated"
    rig.queue.gate_opened(pod("a"), "Quota")
    assert rig.where(pod("a")) == "active"


def test_a_pod_that_waits_for_an_event_goes_on_waiting_when_a_gate_opens() -> None:
    rig = QueueRig(HINTS, [Gate("Quota")])
    rig.park(pod("a"), "Taints")
    rig.queue.gate_opened(pod("a"), "Quota")
    assert rig.where(pod("a")) == "unschedulable"


def test_a_pod_that_was_let_down_is_tried_after_a_backoff_and_not_early() -> None:
    rig = QueueRig(HINTS)
    rig.park(pod("a"), "Taints")
    rig.queue.preemption_failed(pod("a"))
    rig.queue.preemption_failed(pod("stranger"))
    assert rig.where(pod("a")) == "backoff" and rig.queue.pop_nowait() is None
    rig.clock.advance(2.0)
    rig.queue.flush_backoff_completed(rig.clock.monotonic())
    assert rig.pop_names() == ["a"]
