"""Nominated nodes and preemption (KEP-5278) with real processes: what a watch of the API sees, write by write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from nomination_stage import PODS, Doc, NominationStage

from support.eventually import eventually

OFF = ("--feature-gates", "NominatedNodeNameForExpectation=false")


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[NominationStage]:
    stage = NominationStage(tmp_path)
    yield stage
    stage.server.stop()


def told(pod: Doc) -> tuple[str, str]:
    """(where it is expected, where it is) of a pod."""
    return str(pod["status"].get("nominatedNodeName", "")), str(pod["spec"].get("nodeName", ""))


@pytest.mark.parametrize("flags", [(), OFF])
def test_a_pod_is_written_once_more_only_while_it_waits_for_its_volume(stage, flags):
    stage.node("a", "100Gi")
    stage.claim("data")
    since = stage.now()
    stage.pod("with-volume", "data")
    stage.pod("plain")
    with stage.placing(*flags):
        eventually(lambda: stage.selected("data") == "a")
        eventually(lambda: stage.node_of("plain") == "a")
        stage.provision("data")
        eventually(lambda: stage.node_of("with-volume") == "a")
    assert [told(each) for each in stage.writes(PODS, "plain", since)] == [("", ""), ("", "a")]
    shown = [] if flags else [("a", "")]
    assert [told(each) for each in stage.writes(PODS, "with-volume", since)] == [("", ""), *shown, ("", "a")]


def test_a_victim_is_told_and_deleted_and_the_pod_takes_its_place(stage):
    stage.small_node("a")
    stage.priority("high", 1000)
    stage.working_pod("victim", nodeName="a", terminationGracePeriodSeconds=30)
    with stage.placing():
        stage.working_pod("web", priority="high")
        eventually(lambda: stage.nominated_to("web") == "a")
        eventually(lambda: "deletionTimestamp" in stage.server.get(f"{PODS}/victim").body["metadata"])
        target = next(each for each in stage.status("victim")["conditions"] if each["type"] == "DisruptionTarget")
        assert (target["status"], target["reason"]) == ("True", "PreemptionByScheduler")
        assert target["message"] == "default-scheduler: preempting to accommodate a higher priority pod"
        assert stage.message("web") == ("Unschedulable", "0/1 nodes are available: 1 Insufficient cpu.")
        uid = stage.server.get(f"{PODS}/web").body["metadata"]["uid"]
        (event,) = eventually(lambda: [each for each in stage.events("victim") if each["reason"] == "Preempted"])
        assert (event["action"], event["note"]) == ("Preempting", f"Preempted by pod {uid} on node a")
        assert event["related"]["name"] == "web"
        # Its kubelet has ended it.
        stage.server.delete(f"{PODS}/victim?gracePeriodSeconds=0")
        eventually(lambda: stage.node_of("web") == "a")
        assert stage.nominated_to("web") == ""


def test_a_budget_that_allows_no_disruption_sends_a_preemption_elsewhere(stage):
    for name in ("a", "b"):
        stage.small_node(name)
    stage.priority("high", 1000)
    stage.priority("medium", 500)
    stage.working_pod("guarded", nodeName="a", terminationGracePeriodSeconds=0)
    stage.patch(f"{PODS}/guarded", {"metadata": {"labels": {"app": "db"}}})
    stage.working_pod("plain", priority="medium", nodeName="b", terminationGracePeriodSeconds=0)
    stage.create(
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
        {"metadata": {"name": "db"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "db"}}}},
    )
    with stage.placing():
        stage.working_pod("web", priority="high")
        eventually(lambda: stage.node_of("web") == "b")
        assert stage.node_of("guarded") == "a"


def test_a_node_that_comes_later_goes_to_the_pod_it_was_proposed_to(stage):
    stage.small_node("full")
    stage.working_pod("resident", nodeName="full")
    for i in range(5):
        stage.working_pod(f"older-{i}")
    with stage.placing():
        eventually(lambda: all(stage.message(f"older-{i}")[0] for i in range(5)))
        stage.working_pod("web")
        eventually(lambda: stage.message("web")[0])
        stage.propose("web", "new")
        stage.small_node("new", taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}])
        eventually(lambda: "1 node(s) had untolerated taint(s)" in stage.message("web")[1])
        assert stage.nominated_to("web") == "new"
        stage.patch("/api/v1/nodes/new", {"spec": {"taints": None}})
        eventually(lambda: stage.node_of("web") == "new")
        assert [stage.node_of(f"older-{i}") for i in range(5)] == [""] * 5


def test_with_the_gate_off_a_proposal_that_fails_is_cleared(stage):
    stage.small_node("a")
    stage.working_pod("large", "2")
    stage.propose("large", "never")
    with stage.placing():
        eventually(lambda: stage.message("large")[0])
        assert stage.nominated_to("large") == "never"
    # Downgraded and upgraded again, as the KEP would have it tried by hand.
    with stage.placing(*OFF):
        eventually(lambda: stage.nominated_to("large") == "")
    stage.propose("large", "never")
    with stage.placing():
        stage.working_pod("small")
        eventually(lambda: stage.node_of("small") == "a")
        assert stage.nominated_to("large") == "never"


def test_a_gated_pod_keeps_its_room_until_its_proposal_is_withdrawn(stage):
    stage.small_node("a")
    stage.working_pod("job", schedulingGates=[{"name": "kueue.x-k8s.io/topology"}])
    stage.propose("job", "a")
    with stage.placing():
        stage.working_pod("web")
        eventually(lambda: "1 Insufficient cpu" in stage.message("web")[1])
        stage.propose("job", None)
        eventually(lambda: stage.node_of("web") == "a")


def test_of_pods_that_were_nominated_to_a_full_node_those_that_fit_run_and_the_rest_is_told_who_holds_what(stage):
    stage.small_node("a")
    for name in ("one", "two", "three"):
        stage.working_pod(name, "400m")
        stage.propose(name, "a")
    stage.working_pod("gated", "200m", schedulingGates=[{"name": "example.com/wait"}])
    stage.propose("gated", "a")
    with stage.scheduler():
        # 2 x 400m + 200m that are held = 1 CPU
        eventually(lambda: sum(stage.node_of(name) == "a" for name in ("one", "two", "three")) == 2)
        (left,) = [name for name in ("one", "two", "three") if not stage.node_of(name)]
        assert stage.nominated_to(left) == "a"
        stage.working_pod("small", "100m")
        held = "Room on a is held for default/gated (nominated by "
        eventually(lambda: held in stage.message("small")[1])
        listed = {each["pod"]: each for each in json.loads(stage.read("/debug/nominations"))}
        assert {key: each["holds"] for key, each in listed.items()} == {
            f"default/{left}": False,
            "default/gated": True,
        }
        writer = next(
            each["manager"]
            for each in stage.server.get(f"{PODS}/gated").body["metadata"]["managedFields"]
            if "f:nominatedNodeName" in each["fieldsV1"].get("f:status", {})
        )
        assert listed["default/gated"]["by"] == writer
        assert stage.metric("scheduler_held_nominations") == 1.0
