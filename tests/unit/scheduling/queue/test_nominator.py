"""Nominations: one node a pod, whoever said so last, and nothing left behind."""

from __future__ import annotations

from support.virtual_clock import VirtualClock
from tonnage.objects.core_v1 import Pod
from tonnage.scheduling.queue.nominator import Nominator
from tonnage.scheduling.queue.scheduling_queue import SchedulingQueue
from tonnage.testing.builders import info, pod


def nominated(name: str, node_name: str, *, priority: int = 0) -> Pod:
    return pod(name, priority=priority, status={"nominatedNodeName": node_name})


def empty_nominator(*, is_ordered: bool = False) -> Nominator:
    return SchedulingQueue(VirtualClock(), {}, nominations_give_way=is_ordered).nominator


def names_on(nominator: Nominator, node_name: str) -> list[str]:
    return [each.pod.name for each in nominator.pods_on(node_name)]


def is_empty(nominator: Nominator) -> bool:
    """Nothing is kept, not even an empty list for a node."""
    return not nominator._node_of and not nominator._by_node


def test_a_pods_status_says_where_it_is_expected() -> None:
    nominator = empty_nominator()
    nominator.nominate(nominated("web", "a"))
    nominator.nominate(pod("silent"))
    assert names_on(nominator, "a") == ["web"]
    assert nominator.node_of(pod("web")) == "a"
    assert nominator.node_of(pod("silent")) == ""
    assert len(nominator) == 1


def test_our_own_choice_wins_over_the_status() -> None:
    nominator = empty_nominator()
    nominator.nominate(nominated("web", "a"), "b")
    assert names_on(nominator, "a") == []
    assert names_on(nominator, "b") == ["web"]


def test_a_pod_is_expected_on_one_node_only() -> None:
    nominator = empty_nominator()
    nominator.nominate(pod("web"), "a")
    nominator.nominate(pod("web"), "b")
    assert (names_on(nominator, "a"), names_on(nominator, "b")) == ([], ["web"])
    assert len(nominator) == 1


def test_being_expected_nowhere_leaves_nothing_behind() -> None:
    nominator = empty_nominator()
    nominator.nominate(nominated("web", "a"), "")
    nominator.nominate(pod("db"), "b")
    nominator.nominate(pod("db"), "")
    assert is_empty(nominator)


def test_a_node_that_does_not_exist_is_kept_and_goes_with_its_last_pod() -> None:
    nominator = empty_nominator()
    nominator.nominate(nominated("web", "no-such-node"))
    nominator.nominate(nominated("db", "no-such-node"))
    nominator.remove(pod("web"))
    assert names_on(nominator, "no-such-node") == ["db"]
    nominator.remove(pod("db"))
    assert is_empty(nominator)


def test_removing_a_pod_twice_or_a_stranger_does_no_harm() -> None:
    nominator = empty_nominator()
    nominator.nominate(pod("web"), "a")
    nominator.remove(pod("stranger"))
    nominator.remove(pod("web"))
    nominator.remove(pod("web"))
    assert is_empty(nominator)


def test_an_update_that_says_nothing_keeps_the_choice_that_is_on_its_way() -> None:
    nominator = empty_nominator()
    nominator.nominate(pod("web"), "a")
    assert not nominator.update(pod("web", labels={"app": "web"}), "")
    assert names_on(nominator, "a") == ["web"]
    assert nominator.pods_on("a")[0].labels == {"app": "web"}  # the newest version


def test_an_update_of_something_else_does_not_bring_an_overwritten_nomination_back() -> None:
    nominator = empty_nominator()
    nominator.nominate(nominated("web", "a"))
    nominator.nominate(nominated("web", "a"), "b")  # preemption chose b; the write is on its way
    assert not nominator.update(nominated("web", "a"), "a")
    assert nominator.node_of(pod("web")) == "b"
    assert not nominator.update(nominated("web", "b"), "a")  # it has arrived
    assert nominator.node_of(pod("web")) == "b"


def test_a_nomination_changed_or_taken_back_in_the_api_holds() -> None:
    nominator = empty_nominator()
    nominator.nominate(pod("web"))
    assert nominator.update(nominated("web", "a"), "")
    assert nominator.node_of(pod("web")) == "a"
    assert nominator.update(nominated("web", "b"), "a")
    assert nominator.node_of(pod("web")) == "b"
    assert not nominator.update(pod("web"), "b")
    assert is_empty(nominator)


def test_a_pod_leaves_room_for_others_of_its_priority_or_higher() -> None:
    nominator = empty_nominator()
    for name, node_name, priority in (("low", "a", 1), ("equal", "a", 5), ("high", "b", 9), ("itself", "b", 5)):
        nominator.nominate(nominated(name, node_name, priority=priority))
    # For "itself" (5): equal 5 >= 5 and high 9 >= 5 count, low 1 < 5 does not, and nobody leaves room for oneself.
    ahead = [(node_name, other.pod.name) for node_name, other in nominator.ahead_of(info("itself", priority=5))]
    assert ahead == [("a", "equal"), ("b", "high")]


def ahead(nominator: Nominator, name: str, *, priority: int = 0) -> list[str]:
    return [other.pod.name for _, other in nominator.ahead_of(info(name, priority=priority))]


def test_of_equals_on_one_node_the_earlier_goes_first_and_a_more_important_one_before_both() -> None:
    nominator = empty_nominator(is_ordered=True)
    for name, priority in (("first", 0), ("second", 0), ("boss", 5)):
        nominator.nominate(nominated(name, "a", priority=priority))
    assert ahead(nominator, "first") == ["boss"]
    assert ahead(nominator, "second") == ["first", "boss"]
    assert ahead(nominator, "boss", priority=5) == []
    assert ahead(nominator, "stranger") == ["first", "second", "boss"]


def test_without_order_equals_leave_room_for_each_other_as_upstream_has_it() -> None:
    nominator = empty_nominator()
    nominator.nominate(nominated("first", "a"))
    nominator.nominate(nominated("second", "a"))
    assert (ahead(nominator, "first"), ahead(nominator, "second")) == (["second"], ["first"])


def test_a_pod_that_was_let_go_stays_expected_and_holds_nothing() -> None:
    nominator = empty_nominator(is_ordered=True)
    nominator.nominate(nominated("web", "a"))
    nominator.let_go(pod("web"))
    assert (names_on(nominator, "a"), ahead(nominator, "other")) == (["web"], [])
    nominator.update(nominated("web", "a", priority=1), "a")  # nothing about its node
    assert ahead(nominator, "other") == []
    nominator.nominate(pod("web"), "a")
    assert ahead(nominator, "other") == ["web"]


def test_a_pod_that_is_nominated_anew_holds_again_and_keeps_its_place() -> None:
    nominator = empty_nominator(is_ordered=True)
    nominator.nominate(nominated("first", "a"))
    nominator.nominate(nominated("second", "a"))
    nominator.let_go(pod("first"))
    nominator.nominate(pod("first"), "a")
    assert ahead(nominator, "second") == ["first"] and ahead(nominator, "first") == []
