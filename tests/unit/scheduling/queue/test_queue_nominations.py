"""Nominations in the queue: who is expected where as pods come and go, and who is tried again when room is given up."""

from __future__ import annotations

from queue_rig import Gate, QueueRig

from tonnage.objects.core_v1 import Pod
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.events import ActionType, ClusterEvent, EventResource, Hint
from tonnage.scheduling.queue.queues import QueueName
from tonnage.testing.builders import pod


def nominated(name: str, node_name: str, *, priority: int = 0) -> Pod:
    return pod(name, priority=priority, status={"nominatedNodeName": node_name})


def expected(rig: QueueRig, node_name: str) -> list[str]:
    return [each.pod.name for each in rig.queue.nominator.pods_on(node_name)]


def is_empty(rig: QueueRig) -> bool:
    return not rig.queue.nominator._node_of and not rig.queue.nominator._by_node


# -- filled and emptied -----------------------------------------------------------------------------------------------


def test_a_pod_that_comes_with_a_nomination_is_expected_there() -> None:
    rig = QueueRig()
    rig.add(nominated("a", "no-such-node"))
    assert expected(rig, "no-such-node") == ["a"]
    rig.queue.delete(nominated("a", "no-such-node"))
    assert is_empty(rig)


def test_a_gated_pod_is_expected_as_well() -> None:
    rig = QueueRig(gates=[Gate("Quota", holds=["a"])])
    rig.add(nominated("a", "n"))
    assert rig.where(pod("a")) == "gated"
    assert expected(rig, "n") == ["a"]


def test_updates_of_waiting_pods_move_their_nomination() -> None:
    rig = QueueRig()
    rig.park(pod("waiting"), "Labels")
    rig.queue.update(pod("waiting"), nominated("waiting", "n"))
    rig.add(pod("active"))
    rig.queue.update(pod("active"), nominated("active", "n"))
    assert expected(rig, "n") == ["waiting", "active"]
    rig.queue.update(nominated("active", "n"), nominated("active", "m"))
    rig.queue.update(nominated("waiting", "n"), pod("waiting"))
    assert (expected(rig, "n"), expected(rig, "m")) == ([], ["active"])


def test_preemption_nominates_a_pod_in_flight_and_it_stays_so() -> None:
    rig = QueueRig()
    rig.add(pod("a"))
    popped = rig.pop()
    rig.queue.nominator.expect(popped.pod, "n")
    rig.queue.add_unschedulable_if_not_present(popped, unschedulable_plugins=["Room"])
    assert expected(rig, "n") == ["a"]
    rig.queue.update(pod("a"), pod("a", metadata={"resourceVersion": "2"}))  # the write is still on its way
    assert expected(rig, "n") == ["a"]


def test_a_nomination_that_comes_in_flight_counts_at_once_and_when_the_pod_is_back() -> None:
    rig = QueueRig()
    rig.add(pod("a"))
    popped = rig.pop()
    rig.queue.update(pod("a"), nominated("a", "n"))
    assert expected(rig, "n") == ["a"]
    rig.queue.add_unschedulable_if_not_present(popped, unschedulable_plugins=["Room"])
    assert expected(rig, "n") == ["a"]


def test_a_pod_that_was_assumed_and_failed_is_expected_again_where_its_status_says() -> None:
    rig = QueueRig()
    rig.add(nominated("a", "n"))
    popped = rig.pop()
    rig.queue.nominator.remove(popped.pod)  # assumed
    rig.queue.done(popped.pod)
    rig.queue.add_unschedulable_if_not_present(popped, pod=nominated("a", "n"))
    assert expected(rig, "n") == ["a"]


def test_a_nomination_can_be_taken_back_whatever_the_status_says() -> None:
    rig = QueueRig()
    rig.add(nominated("a", "n"))
    rig.queue.nominator.expect(nominated("a", "n"), "")
    assert is_empty(rig)


def test_a_pod_that_is_gone_or_bound_is_not_nominated_any_more() -> None:
    rig = QueueRig()
    rig.add(pod("gone"), pod("bound"))
    gone, bound = rig.pop(), rig.pop()
    rig.queue.delete(pod("gone"))
    rig.queue.delete(pod("bound"), bound_to="n")
    for popped in (gone, bound):
        rig.queue.nominator.expect(popped.pod, "n")  # preemption finished late
        rig.queue.add_unschedulable_if_not_present(popped, unschedulable_plugins=["Room"])
        rig.queue.nominator.expect(popped.pod, "n")
    rig.queue.nominator.expect(pod("stranger"), "n")
    assert is_empty(rig)


def test_a_pod_nominated_in_flight_and_deleted_leaves_nothing() -> None:
    rig = QueueRig()
    rig.add(pod("a"))
    popped = rig.pop()
    rig.queue.nominator.expect(popped.pod, "n")
    rig.queue.delete(pod("a"))
    rig.queue.add_unschedulable_if_not_present(popped)
    assert is_empty(rig)


# -- room given up ----------------------------------------------------------------------------------------------------


def parked(*priorities: int) -> QueueRig:
    """Pods refused for lack of room, named by their priority."""
    rig = QueueRig()
    for priority in priorities:
        rig.park(pod(f"p{priority}", priority=priority), "Room")
    return rig


def test_a_nomination_that_changes_gives_room_to_pods_of_its_priority_or_lower() -> None:
    rig = parked(1, 5, 9)
    rig.add(nominated("a", "n", priority=5))
    rig.queue.update(nominated("a", "n", priority=5), nominated("a", "m", priority=5))
    assert rig.names(QueueName.ACTIVE) == ["p5", "a", "p1"]
    assert rig.names(QueueName.UNSCHEDULABLE) == ["p9"]


def test_a_nomination_taken_back_gives_room() -> None:
    rig = parked(1)
    rig.add(nominated("a", "n"), pod("other", priority=1))
    rig.queue.update(nominated("a", "n"), pod("a"))
    assert rig.names(QueueName.UNSCHEDULABLE) == ["p1"]  # 1 > 0
    rig.queue.update(pod("other", priority=1), nominated("other", "n", priority=1))
    assert rig.names(QueueName.UNSCHEDULABLE) == ["p1"]  # a new nomination takes room
    rig.queue.update(nominated("other", "n", priority=1), pod("other", priority=1))
    assert rig.names(QueueName.UNSCHEDULABLE) == []


def test_a_nominated_pod_that_is_deleted_gives_room() -> None:
    rig = parked(1, 9)
    rig.add(nominated("a", "n", priority=5), pod("plain", priority=5))
    rig.queue.delete(pod("plain", priority=5))
    assert rig.names(QueueName.UNSCHEDULABLE) == ["p1", "p9"]  # it was expected nowhere
    rig.queue.delete(nominated("a", "n", priority=5))
    assert rig.names(QueueName.UNSCHEDULABLE) == ["p9"]


def test_a_nomination_the_api_does_not_know_yet_gives_room_too_and_hints_see_its_node() -> None:
    seen: list[str] = []

    def look(waiting: PodInfo, event: ClusterEvent, old: Pod, new: None) -> Hint:
        seen.append(old.status.nominated_node_name)
        return Hint.QUEUE

    rig = QueueRig({"Room": ((ClusterEvent(EventResource.POD, ActionType.DELETE), look),)})
    rig.park(pod("p"), "Room")
    rig.add(pod("a"))
    rig.queue.nominator.expect(pod("a"), "n")
    rig.queue.delete(pod("a"))
    assert seen == ["n"]
    assert rig.names(QueueName.ACTIVE) == ["p"]


def test_a_pod_bound_where_it_was_expected_gives_no_room_and_elsewhere_it_does() -> None:
    rig = parked(1)
    rig.add(nominated("a", "n", priority=5), nominated("b", "n", priority=5))
    rig.queue.delete(nominated("a", "n", priority=5), bound_to="n")
    assert rig.names(QueueName.UNSCHEDULABLE) == ["p1"]
    rig.queue.delete(nominated("b", "n", priority=5), bound_to="m")
    assert rig.names(QueueName.UNSCHEDULABLE) == []


def test_room_given_up_counts_for_pods_in_flight_of_its_priority_or_lower() -> None:
    rig = QueueRig()
    rig.add(pod("low", priority=1), pod("high", priority=9), nominated("a", "n", priority=5))
    high, a, low = rig.pop(), rig.pop(), rig.pop()
    rig.queue.delete(a.pod)
    landed = [rig.queue.add_unschedulable_if_not_present(each, unschedulable_plugins=["Room"]) for each in (high, low)]
    assert landed == [QueueName.UNSCHEDULABLE, QueueName.BACKOFF]


def test_a_pod_that_is_nominated_elsewhere_here_gives_room_but_not_to_itself() -> None:
    rig = parked(1, 5, 9)
    rig.queue.nominator.expect(pod("p5", priority=5), "n")
    rig.queue.nominator.expect(pod("p5", priority=5), "m")
    assert rig.names(QueueName.ACTIVE) == ["p1"]
    assert rig.names(QueueName.UNSCHEDULABLE) == ["p5", "p9"]


def test_a_pod_that_goes_where_it_was_expected_gives_no_room_and_elsewhere_it_does() -> None:
    rig = parked(1)
    rig.add(nominated("a", "n", priority=5), nominated("b", "n", priority=5))
    a, b = rig.pop(), rig.pop()
    rig.queue.pod_assumed(a.pod, "n")
    assert expected(rig, "n") == ["b"] and rig.names(QueueName.UNSCHEDULABLE) == ["p1"]
    rig.queue.pod_assumed(b.pod, "m")
    assert is_empty(rig) and rig.names(QueueName.UNSCHEDULABLE) == []


def test_a_nomination_taken_back_in_flight_gives_room_that_is_free_by_then() -> None:
    rig = parked(1)
    rig.add(nominated("a", "n", priority=5))
    rig.pop()
    rig.queue.update(nominated("a", "n", priority=5), pod("a", priority=5))
    assert is_empty(rig) and rig.names(QueueName.ACTIVE) == ["p1"]


def test_lesser_pods_are_released_from_a_node_and_tried_at_once() -> None:
    rig = QueueRig()
    rig.park(nominated("low", "n", priority=1), "Room")
    rig.park(nominated("equal", "n", priority=5), "Room")
    rig.park(nominated("elsewhere", "m", priority=1), "Room")
    assert [each.pod.name for each in rig.queue.nominator.release("n", below=5)] == ["low"]
    assert (expected(rig, "n"), expected(rig, "m")) == (["equal"], ["elsewhere"])
    # The other left room for it on n.
    assert rig.names(QueueName.ACTIVE) == ["low", "elsewhere"]
    # The API still says so: when it fails again, its room is kept again, and it is tried there.
    assert rig.refuse("Room") is QueueName.ACTIVE
    assert expected(rig, "n") == ["equal", "low"]
    assert rig.refuse("Room") is QueueName.UNSCHEDULABLE


def test_a_lesser_pod_that_is_gated_stays_expected_because_nobody_would_try_it() -> None:
    rig = QueueRig(gates=[Gate("Quota", holds=["low"])])
    rig.add(nominated("low", "n", priority=1))
    assert [each.pod.name for each in rig.queue.nominator.release("n", below=5)] == ["low"]
    assert expected(rig, "n") == ["low"]


def test_a_pod_that_fails_comes_back_as_the_informer_knows_it() -> None:
    rig = QueueRig()
    rig.add(pod("a"))
    popped = rig.pop()
    rig.queue.pod_assumed(popped.pod, "n")  # it waits for permission, and its updates are not handed in
    rig.queue.add_unschedulable_if_not_present(popped, unschedulable_plugins=["Room"], pod=nominated("a", "n"))
    assert expected(rig, "n") == ["a"]
