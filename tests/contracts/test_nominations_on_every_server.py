"""Nominated nodes and preemption (KEP-5278) by the live scheduler, on our server and on Kubernetes' own alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_scheduler_volumes_on_every_server import SELECTED_NODE, SchedulerOnServer, scheduler

from support.api_servers import ServerApi
from support.http import Doc


class NominationStage(SchedulerOnServer):
    """A namespace whose pods may be told apart by importance, and whose every write is seen."""

    def pod_of(self, name: str, cpu: str, priority: str = "", **spec: Any) -> None:
        """A pod; `priority` names a class of this stage."""
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        own: Doc = {"schedulerName": self.ns, "nodeSelector": {"mine": self.ns}, "containers": [container]}
        if priority:
            own["priorityClassName"] = f"{self.ns}-{priority}"
        self.api.create(self.pods, {"metadata": {"name": name}, "spec": {**own, **spec}})

    def priority(self, name: str, value: int) -> None:
        path = "/apis/scheduling.k8s.io/v1/priorityclasses"
        self.api.create(path, {"metadata": {"name": f"{self.ns}-{name}"}, "value": value})

    def propose(self, pod: str, node: str | None) -> None:
        reply = self.api.patch(f"{self.pods}/{pod}/status", {"status": {"nominatedNodeName": node}})
        assert reply.code == 200, reply.body

    def status(self, pod: str) -> Doc:
        return dict(self.api.get(f"{self.pods}/{pod}").body["status"])

    def nominated_to(self, pod: str) -> str:
        return str(self.status(pod).get("nominatedNodeName", ""))

    def message(self, pod: str) -> str:
        conditions = self.status(pod).get("conditions", [])
        return next((str(each["message"]) for each in conditions if each["status"] == "False"), "")

    def now(self) -> str:
        return str(self.api.get(f"{self.pods}?limit=1").meta["resourceVersion"])

    def told(self, pod: str, since: str) -> list[tuple[str, str]]:
        """(where it is expected, where it is) of a pod, write by write."""
        seen = self.api.watch_to_the_end(f"{self.pods}?watch=true&resourceVersion={since}")
        states = [each.object for each in seen if each.name == pod]
        return [(each["status"].get("nominatedNodeName", ""), each["spec"].get("nodeName", "")) for each in states]


@pytest.fixture
def stage(api: ServerApi, ns: str, tmp_path: Path) -> Iterator[NominationStage]:
    stage = NominationStage(api, ns, tmp_path)
    yield stage
    for name in api.get(stage.pods).names:
        api.delete(f"{stage.pods}/{name}?gracePeriodSeconds=0")
    for name in api.get("/api/v1/nodes").names:
        if name.startswith(ns):
            api.delete(f"/api/v1/nodes/{name}")


def test_where_a_pod_goes_is_shown_while_it_waits_for_its_volume_and_at_no_other_time(stage, api, tmp_path):
    first = f"{stage.ns}-a"
    stage.node(first, "60Gi")
    stage.claim("data", "20Gi")
    since = stage.now()
    stage.pod("with-volume", "data")
    stage.pod("plain")
    with scheduler(api, tmp_path, stage.ns):
        stage.eventually(lambda: stage.selected("data") == first)
        stage.eventually(lambda: stage.node_of("plain") == first)
        stage.provision("data", "20Gi")
        stage.eventually(lambda: stage.node_of("with-volume") == first)
    assert stage.told("plain", since) == [("", ""), ("", first)]
    assert stage.told("with-volume", since) == [("", ""), (first, ""), ("", first)]


def test_in_a_burst_no_claim_has_its_node_before_its_pod_is_nominated_there(stage, api, tmp_path):
    """By resource versions, which one server counts for all kinds together; also after the scheduler was killed."""
    names = [f"db-{number}" for number in range(20)]
    for letter in "abc":
        stage.node(f"{stage.ns}-{letter}", "60Gi")
    since = stage.now()
    for name in names:
        stage.claim(name, "1Gi")
    for name in names[:15]:
        stage.pod(name, name)
    with pytest.raises(AssertionError, match="-9"), scheduler(api, tmp_path, stage.ns) as process:
        stage.eventually(lambda: any(stage.selected(name) for name in names))
        process.kill()
    for name in names[15:]:
        stage.pod(name, name)
    with scheduler(api, tmp_path, stage.ns):
        stage.eventually(lambda: all(stage.selected(name) for name in names))
    nominated: dict[str, tuple[int, str]] = {}
    for each in api.watch_to_the_end(f"{stage.pods}?watch=true&resourceVersion={since}"):
        if node := each.object["status"].get("nominatedNodeName", ""):
            nominated.setdefault(each.name, (int(each.object["metadata"]["resourceVersion"]), node))
    selected: dict[str, tuple[int, str]] = {}
    for each in api.watch_to_the_end(f"{stage.claims}?watch=true&resourceVersion={since}"):
        if node := each.object["metadata"].get("annotations", {}).get(SELECTED_NODE, ""):
            selected.setdefault(each.name, (int(each.object["metadata"]["resourceVersion"]), node))
    assert nominated.keys() == selected.keys() == set(names)
    for name in names:
        assert nominated[name][0] < selected[name][0] and nominated[name][1] == selected[name][1]


def test_a_preempted_pod_is_told_why_and_the_other_takes_its_place(stage, api, tmp_path):
    first = f"{stage.ns}-a"
    stage.node(first, "60Gi")
    stage.priority("high", 1000)
    stage.pod_of("victim", "2")
    with scheduler(api, tmp_path, stage.ns):
        stage.eventually(lambda: stage.node_of("victim") == first)
        stage.pod_of("web", "2", "high")
        stage.eventually(lambda: stage.nominated_to("web") == first)
        victim = stage.eventually(
            lambda: (found := api.get(f"{stage.pods}/victim")).meta.get("deletionTimestamp") and found
        )
        (target,) = [each for each in victim.body["status"]["conditions"] if each["type"] == "DisruptionTarget"]
        assert (target["status"], target["reason"]) == ("True", "PreemptionByScheduler")
        assert target["message"] == f"{stage.ns}: preempting to accommodate a higher priority pod"
        api.delete(f"{stage.pods}/victim?gracePeriodSeconds=0")
        stage.eventually(lambda: stage.node_of("web") == first)
        assert stage.nominated_to("web") == ""


def test_a_proposal_is_kept_until_its_node_comes_and_then_followed(stage, api, tmp_path):
    first, second = f"{stage.ns}-a", f"{stage.ns}-b"
    stage.node(first, "60Gi")
    stage.pod_of("resident", "2", nodeName=first)
    for i in range(3):
        stage.pod_of(f"older-{i}", "2")
    stage.pod_of("web", "2")
    stage.propose("web", second)
    with scheduler(api, tmp_path, stage.ns):
        stage.eventually(lambda: stage.message("web") and all(stage.message(f"older-{i}") for i in range(3)))
        assert stage.nominated_to("web") == second
        stage.node(second, "60Gi")
        stage.eventually(lambda: stage.node_of("web") == second)
        # A gated pod keeps its room, too, until whoever proposed it takes that back.
        stage.pod_of("gated", "2", schedulingGates=[{"name": "example.com/wait"}])
        stage.propose("gated", second)
        api.delete(f"{stage.pods}/web?gracePeriodSeconds=0")
        stage.pod_of("last", "2")
        stage.eventually(lambda: stage.message("last"))
        waiting = ("older-0", "older-1", "older-2", "last")
        assert not any(stage.node_of(name) for name in waiting)
        stage.propose("gated", None)
        stage.eventually(lambda: [stage.node_of(name) for name in waiting].count(second) == 1)
