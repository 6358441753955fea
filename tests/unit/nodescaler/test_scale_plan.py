"""What the node scaler plans: who gets a node, whose nomination is respected, what is in use."""

from __future__ import annotations

from typing import Any

import pytest
from pool_builders import burst, fresh, marked, member, not_ready, stuck

from tonnage.nodescaler.plan import AT_MAXIMUM, BACKING_OFF, ScalePlan, plan
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import claim, driver, pod_with, storage_class

DAEMON: dict[str, Any] = {
    "metadata": {
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "1", "controller": True}]
    }
}


def test_nothing_is_planned_for_a_cluster_without_trouble():
    assert plan([node("a"), pod("runs", on="a"), fresh("new")], burst()) == ScalePlan(in_use=frozenset({"a"}))


def test_a_pod_that_cannot_be_placed_is_proposed_to_a_node_that_does_not_exist_yet():
    found = plan([node("a", cpu="2"), stuck("big", "3")], burst())
    assert found.proposals == {"default/big": "burst-1"}
    assert found.wanted == ("burst-1",)


def test_pods_are_packed_on_as_few_nodes_as_will_do():
    # 4 cores a node. The larger first: 3 on burst-1, 2 on burst-2, 2 with the other 2, 1 with the 3.
    pods = [stuck("one", "1"), stuck("two-a", "2"), stuck("two-b", "2"), stuck("three", "3")]
    found = plan(pods, burst())
    assert found.proposals == {
        "default/three": "burst-1",
        "default/two-a": "burst-2",
        "default/two-b": "burst-2",
        "default/one": "burst-1",
    }
    assert found.wanted == ("burst-1", "burst-2")


def test_the_same_state_gives_the_same_plan():
    pods = [stuck(f"p{i}", "1") for i in range(9)]
    assert plan(pods, burst()) == plan(list(reversed(pods)), burst())


def test_there_are_never_more_nodes_than_the_limit():
    # Three pods of 3 cores need three nodes; two may be made, one is there.
    found = plan([member("burst-1"), pod("x", cpu="4", on="burst-1"), *(stuck(f"p{i}") for i in range(3))], burst())
    assert found.wanted == ("burst-2", "burst-3")
    assert found.remaining_unschedulable == {"default/p2": AT_MAXIMUM}


def test_a_pod_that_no_empty_node_would_hold_is_left_and_the_reason_told():
    found = plan([stuck("huge", "5"), stuck("fits", "4")], burst())
    assert found.remaining_unschedulable == {"default/huge": "Insufficient cpu"}
    assert found.proposals == {"default/fits": "burst-1"}
    assert found.wanted == ("burst-1",)


def test_a_pod_that_wants_other_labels_is_left():
    found = plan([stuck("picky", node_selector={"disk": "ssd"})], burst())
    assert found.remaining_unschedulable == {"default/picky": "node(s) didn't match Pod's node affinity/selector"}
    assert not found.wanted


def test_a_pod_with_a_missing_claim_is_left_with_what_the_scheduler_says():
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "gone"}}]
    found = plan([stuck("db", spec={"volumes": volumes})], burst())
    assert found.remaining_unschedulable == {"default/db": 'persistentvolumeclaim "gone" not found'}


def test_a_pod_whose_claim_waits_for_its_node_gets_one():
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    objects = [storage_class(), driver(capacity=False), claim("data"), stuck("db", spec={"volumes": volumes})]
    assert plan(objects, burst()).proposals == {"default/db": "burst-1"}


def test_a_pod_whose_volume_is_being_made_for_a_node_that_went_gets_that_node_again():
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    started = claim("data", selected_node="burst-2")
    objects = [storage_class(), driver(capacity=False), started, stuck("db", spec={"volumes": volumes})]
    assert plan(objects, burst()).proposals == {"default/db": "burst-2"}


@pytest.mark.parametrize(
    "left_alone",
    [
        fresh("not-looked-at"),
        stuck("gated", spec={"schedulingGates": [{"name": "wait/for-it"}]}),
        stuck("going", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        stuck("of-a-daemon-set", **DAEMON),
        stuck("expected-elsewhere", nominated="another-node"),
        pod("bound", cpu="3", on="gone-node"),
    ],
    ids=lambda each: each.name,
)
def test_a_pod_that_is_none_of_our_business_is_left_alone(left_alone):
    found = plan([left_alone], burst())
    assert (found.proposals, found.withdrawals, found.wanted, found.remaining_unschedulable) == ({}, (), (), {})


def test_a_pod_that_fits_on_a_ready_node_by_now_is_left_to_the_scheduler():
    found = plan([node("a", cpu="4"), stuck("late", "3")], burst())
    assert not found.proposals and not found.wanted
    assert "a" in found.in_use


def test_a_nomination_by_somebody_else_counts_as_usage():
    # 4 cores on a; kueue's pod holds 2 of them, so that 3 do not fit.
    theirs = fresh("theirs", nominated="a", spec={"schedulingGates": [{"name": "kueue"}]})
    two_cores = pod("theirs", cpu="2", status={"nominatedNodeName": "a"}, spec={"schedulingGates": [{"name": "kueue"}]})
    assert plan([node("a", cpu="4"), stuck("p", "3"), two_cores], burst()).proposals == {"default/p": "burst-1"}
    assert not plan([node("a", cpu="4"), stuck("p", "3"), theirs], burst()).proposals


def test_a_foreign_nomination_is_never_written_over():
    found = plan([member("burst-1"), stuck("p", "5", nominated="burst-1")], burst())
    assert (found.proposals, found.withdrawals) == ({}, ())


def test_what_was_proposed_stays_while_it_holds():
    first, second = stuck("a", nominated="burst-1"), stuck("b", nominated="burst-2")
    found = plan([first, second], burst(), ours={first.uid, second.uid})
    assert (found.proposals, found.withdrawals) == ({}, ())
    assert found.wanted == ("burst-1", "burst-2")


def test_a_plan_goes_when_its_pod_does():
    gone = stuck("a", nominated="burst-1")
    stays = stuck("b", nominated="burst-2")
    assert plan([stays], burst(), ours={gone.uid, stays.uid}).wanted == ("burst-2",)


def test_a_new_pod_joins_a_node_that_is_planned():
    first = stuck("a", "3", nominated="burst-1")
    found = plan([first, stuck("b", "1")], burst(), ours={first.uid})
    assert found.proposals == {"default/b": "burst-1"} and found.wanted == ("burst-1",)


def test_a_new_pod_joins_a_node_that_is_not_ready_yet():
    found = plan([not_ready("burst-1"), stuck("b", "1")], burst())
    assert found.proposals == {"default/b": "burst-1"} and not found.wanted


def test_a_proposal_that_no_longer_holds_is_changed():
    # A pod of higher priority took burst-1 when it came: 4 cores, and 3 are asked for.
    mine = stuck("mine", "3", nominated="burst-1")
    found = plan([member("burst-1"), pod("vip", cpu="4", on="burst-1", priority=10), mine], burst(), ours={mine.uid})
    assert found.proposals == {"default/mine": "burst-2"} and found.wanted == ("burst-2",)


def test_a_proposal_that_nothing_can_come_of_is_withdrawn():
    mine = stuck("mine", "3", nominated="burst-1")
    full = [member("burst-1"), pod("vip", cpu="4", on="burst-1", priority=10)]
    found = plan([*full, mine], burst(max_nodes=1), ours={mine.uid})
    assert found.withdrawals == ("default/mine",) and not found.proposals
    assert found.remaining_unschedulable == {"default/mine": AT_MAXIMUM}


def test_a_proposal_is_withdrawn_when_the_pod_can_go_elsewhere():
    mine = stuck("mine", "3", nominated="burst-1")
    full = [member("burst-1"), pod("vip", cpu="4", on="burst-1", priority=10)]
    found = plan([*full, mine, node("a", cpu="4")], burst(), ours={mine.uid})
    assert found.withdrawals == ("default/mine",) and not found.proposals and not found.wanted


def test_a_bound_pod_does_not_keep_what_we_proposed():
    mine = pod("mine", on="a", status={"nominatedNodeName": "burst-1"})
    theirs = pod("theirs", on="a", status={"nominatedNodeName": "burst-1"})
    found = plan([node("a"), mine, theirs], burst(), ours={mine.uid})
    assert found.withdrawals == ("default/mine",) and not found.wanted


def test_after_a_refusal_no_node_is_wanted_and_proposals_are_taken_back():
    mine = stuck("mine", nominated="burst-1")
    found = plan([mine, stuck("new")], burst(), ours={mine.uid}, is_backing_off=True)
    assert found.withdrawals == ("default/mine",) and not found.proposals and not found.wanted
    assert found.remaining_unschedulable == {"default/mine": BACKING_OFF, "default/new": BACKING_OFF}


def test_a_missing_node_of_the_pool_that_somebody_else_expects_a_pod_on_is_wanted():
    found = plan([stuck("theirs", nominated="burst-2")], burst())
    assert found.wanted == ("burst-2",) and not found.proposals


def test_its_name_is_not_given_to_another_when_the_pod_would_not_fit_there():
    found = plan([stuck("theirs", "5", nominated="burst-1"), stuck("mine", "3")], burst())
    assert found.proposals == {"default/mine": "burst-2"} and found.wanted == ("burst-2",)


def test_a_node_of_that_name_that_is_not_of_the_pool_is_left_alone():
    found = plan([node("burst-1", cpu="1"), stuck("p")], burst())
    assert found.wanted == ("burst-2",) and found.members == ()


def test_a_pool_has_at_least_its_minimum():
    assert plan([], burst(min_nodes=2)).wanted == ("burst-1", "burst-2")
    assert plan([member("burst-2")], burst(min_nodes=2)).wanted == ("burst-1",)
    # A node for the pod, and one more.
    assert plan([stuck("p")], burst(min_nodes=2)).wanted == ("burst-1", "burst-2")
    assert plan([], burst(min_nodes=2), is_backing_off=True).wanted == ()


def test_a_node_is_idle_when_nobody_is_on_it_or_expected():
    mirror = pod("static", on="burst-1", metadata={"annotations": {"kubernetes.io/config.mirror": "x"}})
    daemon = pod("agent", on="burst-1", **DAEMON)
    ended = pod("job", on="burst-1", status={"phase": "Succeeded"})
    assert plan([member("burst-1"), mirror, daemon, ended], burst()).idle == ("burst-1",)
    assert plan([member("burst-1"), pod("web", on="burst-1")], burst()).idle == ()
    assert plan([member("burst-1"), fresh("binding", nominated="burst-1")], burst()).idle == ()


def test_a_node_that_a_waiting_pod_would_take_is_not_idle():
    found = plan([marked("burst-1"), stuck("p")], burst())
    assert found.idle == () and found.proposals == {"default/p": "burst-1"}


def test_higher_priority_comes_first_when_not_all_can_be_helped():
    found = plan([stuck("low", "4"), stuck("high", "3", priority=10)], burst(max_nodes=1))
    assert found.proposals == {"default/high": "burst-1"} and found.remaining_unschedulable == {
        "default/low": AT_MAXIMUM
    }


def test_pods_that_keep_apart_get_a_node_each():
    apart = {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}
                ]
            }
        }
    }
    pods = [stuck(f"db-{i}", "1", labels={"app": "db"}, spec=apart) for i in range(3)]
    assert plan(pods, burst()).wanted == ("burst-1", "burst-2", "burst-3")


def test_nodes_that_are_begun_are_filled_first():
    # burst-1 has 1 core left, burst-2 has 3. Sent to burst-2, the small pod would leave no room for the large one.
    begun = [
        stuck("a", "3", nominated="burst-1", priority=10),
        stuck("b", "1", nominated="burst-2", priority=10),
    ]
    waiting = [stuck("one", "1", priority=10), stuck("three", "3")]
    found = plan([*begun, *waiting], burst(), ours={each.uid for each in begun})
    assert found.proposals == {"default/one": "burst-1", "default/three": "burst-2"}


def test_nodes_beyond_a_limit_that_was_lowered_count():
    full = [member("burst-4"), pod("x", cpu="4", on="burst-4")]
    found = plan([*full, stuck("p")], burst(max_nodes=1))
    assert found.wanted == () and found.remaining_unschedulable == {"default/p": AT_MAXIMUM}


def test_a_proposal_makes_way_for_somebody_elses():
    # 4 cores: both on burst-1 are too many, and only ours may be written.
    mine, theirs = stuck("mine", "3", nominated="burst-1"), stuck("theirs", "2", nominated="burst-1")
    found = plan([mine, theirs], burst(), ours={mine.uid})
    assert found.proposals == {"default/mine": "burst-2"} and found.wanted == ("burst-1", "burst-2")
    # One that is gated wants no node yet, and holds its room there all the same.
    gated = pod("theirs", cpu="2", status={"nominatedNodeName": "burst-1"}, spec={"schedulingGates": [{"name": "g"}]})
    found = plan([mine, gated], burst(), ours={mine.uid})
    assert found.proposals == {"default/mine": "burst-2"} and found.wanted == ("burst-2",)


def test_the_name_of_a_node_whose_pods_outlived_it_is_given_last():
    ghost = pod("ghost", cpu="3", on="burst-1")
    assert plan([ghost, stuck("p")], burst()).proposals == {"default/p": "burst-2"}
    # With no other name left it is that one, if the pod fits beside those that are still there.
    assert plan([ghost, stuck("p", "1")], burst(max_nodes=1)).proposals == {"default/p": "burst-1"}
    assert plan([ghost, stuck("p", "2")], burst(max_nodes=1)).remaining_unschedulable == {
        "default/p": "Insufficient cpu"
    }


def test_a_node_that_a_waiting_pods_volume_is_made_on_is_in_use_nominated_or_not():
    fast, data = storage_class(), claim("data", selected_node="burst-1")
    found = plan([member("burst-1"), fast, driver(), data, pod_with("web", "data")], burst())
    assert found.idle == () and found.in_use == {"burst-1"}
    assert plan([member("burst-1"), fast, driver(), data], burst()).idle == ("burst-1",), "nobody waits for it"


def test_the_room_of_a_pod_that_is_on_its_way_is_not_planned_for_another():
    # 4 cores a node: 3 are on their way to burst-1, so that a stuck pod of 3 needs another.
    objects = [member("burst-1"), storage_class(), driver(), claim("data", selected_node="burst-1")]
    found = plan([*objects, pod_with("web", "data", cpu="3"), stuck("big", "3")], burst())
    assert found.proposals == {"default/big": "burst-2"}
