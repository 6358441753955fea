"""Which pods nobody looks after any more."""

from __future__ import annotations

from support.node_builders import condition, names, node, pod, tainted
from tonnage.controllers.nodes.pod_deletion import (
    out_of_service_terminating,
    surplus_terminated,
    unscheduled_terminating,
)
from tonnage.objects.requirements import Taint

OUT_OF_SERVICE = Taint(key="node.kubernetes.io/out-of-service", effect="NoExecute", value="nodeshutdown")


def test_a_threshold_of_zero_disables_gc() -> None:
    assert surplus_terminated([pod("a", phase="Failed"), pod("b", phase="Succeeded")], 0) == []


def test_threshold_1_disables_gc_of_one_and_keeps_those_that_run() -> None:
    pods = [pod("a", phase="Failed"), pod("b", phase="Running"), pod("c", phase="Pending"), pod("d", phase="Unknown")]
    assert surplus_terminated(pods, 1) == []


def test_the_oldest_go_first_and_those_of_one_time_by_name() -> None:
    pods = [
        pod("c", phase="Succeeded", made_s=2),
        pod("b", phase="Failed", made_s=1),
        pod("a", phase="Succeeded", made_s=1),
        pod("d", phase="Failed", made_s=0),
    ]
    # Four ended, one may stay: three go.
    assert names(surplus_terminated(pods, 1)) == ["d", "a", "b"]


def test_evicted_pods_go_before_older_ones() -> None:
    pods = [pod("old", phase="Succeeded", made_s=0), pod("new", phase="Failed", reason="Evicted", made_s=9)]
    assert names(surplus_terminated(pods, 1)) == ["new"]


def test_unscheduled_terminating_pods_go_and_others_stay() -> None:
    pods = [pod("a", leaving=True), pod("b", leaving=True, on="n"), pod("c")]
    assert names(unscheduled_terminating(pods)) == ["a"]


def test_terminating_pods_on_a_node_out_of_service_go() -> None:
    lost, well = condition("Ready", "Unknown"), condition("Ready", "True")
    nodes = {
        "dead": tainted(node("dead", lost), OUT_OF_SERVICE),
        "mute": tainted(node("mute"), OUT_OF_SERVICE),  # it never said anything
        "lost": node("lost", lost),  # nobody has declared it dead
        "well": tainted(node("well", well), OUT_OF_SERVICE),  # its kubelet still answers
    }
    pods = [pod(f"on-{name}", on=name, leaving=True) for name in (*nodes, "gone")]
    assert names(out_of_service_terminating([*pods, pod("stays", on="dead")], nodes)) == ["on-dead", "on-mute"]
