"""KEP-5278's stories of the cluster autoscaler: API server, scheduler and node scaler as real processes."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.eventually import eventually
from support.processes import ApiServerProcess, start_cluster
from support.programs import RunningProgram, spawn

Doc = dict[str, Any]

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
ROOM = {"cpu": "4", "memory": "8Gi", "pods": "20"}
TEMPLATE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "burst", "labels": {"disk": "ssd"}},
    "status": {"allocatable": ROOM, "capacity": ROOM},
}
MANAGER = "tonnage-node-scaler-burst"


@contextmanager
def program(cluster: ApiServerProcess, name: str, *flags: str) -> Iterator[RunningProgram]:
    """A `tonnage` process beside the server; ended at the end, if it still runs."""
    server = ("--kubeconfig", str(cluster.kubeconfig))
    process = spawn(name, *server, *flags, log=cluster.folder / f"{name}.log")
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)


@contextmanager
def scheduler(cluster: ApiServerProcess) -> Iterator[None]:
    with program(cluster, "scheduler", "--secure-port", "0", "--no-leader-elect"):
        yield


@contextmanager
def scaler(cluster: ApiServerProcess, max_nodes: int, **seconds: float) -> Iterator[RunningProgram]:
    """A scaler that follows; `min`, `unneeded`, `provision` and `ready` as flags have them, quick unless told."""
    template = cluster.folder / "template.json"
    template.write_text(json.dumps(TEMPLATE))
    flags = ["--template", str(template), "--max", str(max_nodes), "--min", str(int(seconds.pop("min", 0)))]
    for name, value in {"unneeded": 600, "provision": 0, "ready": 0, **seconds}.items():
        flags += [f"--{name}-seconds", str(value)]
    with program(cluster, "node-scaler", *flags) as process:
        assert process.readline() == "ready\n"
        yield process


def pod(cluster: ApiServerProcess, name: str, cpu: str = "3", **spec: Any) -> None:
    container = {"name": "c", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}
    reply = cluster.post(PODS, {"metadata": {"name": name}, "spec": {"containers": [container], **spec}})
    assert reply.code == 201, reply.body


def nominate(cluster: ApiServerProcess, name: str, node_name: str, manager: str) -> None:
    patch = {"status": {"nominatedNodeName": node_name}}
    assert cluster.patch(f"{PODS}/{name}/status?fieldManager={manager}", patch).code == 200


def nominated(cluster: ApiServerProcess, name: str) -> str:
    return str(cluster.get(f"{PODS}/{name}").body["status"].get("nominatedNodeName", ""))


def bound(cluster: ApiServerProcess, name: str) -> str:
    return str(cluster.get(f"{PODS}/{name}").body["spec"].get("nodeName", ""))


def nodes(cluster: ApiServerProcess) -> list[str]:
    return sorted(item["metadata"]["name"] for item in cluster.get(NODES).body["items"])


def taints(cluster: ApiServerProcess, name: str) -> list[str]:
    return [taint["key"] for taint in cluster.get(f"{NODES}/{name}").body.get("spec", {}).get("taints", [])]


def told(cluster: ApiServerProcess, name: str, reason: str) -> str:
    """What the events of that reason say about an object; empty while there are none."""
    items = cluster.get(EVENTS).body["items"]
    return "; ".join(each["note"] for each in items if (each["regarding"]["name"], each["reason"]) == (name, reason))


@pytest.mark.slow  # test_nomination_stories.py plays it on every run, with the example's manifests
def test_story_3_a_pod_is_proposed_to_a_node_before_it_exists_and_goes_there(tmp_path: Path) -> None:
    cluster = start_cluster(tmp_path)
    with scheduler(cluster), scaler(cluster, 1, provision=3, ready=2):
        pod(cluster, "first", nodeSelector={"disk": "ssd"})
        eventually(lambda: nominated(cluster, "first") == "burst-1")
        assert nodes(cluster) == []
        owners = cluster.get(f"{PODS}/first").body["metadata"]["managedFields"]
        assert [(each["operation"], each["fieldsV1"]) for each in owners if each["manager"] == MANAGER] == [
            ("Apply", {"f:status": {"f:nominatedNodeName": {}}})
        ]
        # One of equal priority that comes later finds the room taken, though nobody is there yet.
        pod(cluster, "second")
        eventually(lambda: told(cluster, "second", "NotTriggerScaleUp"))
        assert told(cluster, "second", "NotTriggerScaleUp") == (
            "pod didn't trigger scale-up: 1 max node group size reached"
        )
        assert told(cluster, "first", "TriggeredScaleUp") == "pod triggered scale-up: [{burst 0->1 (max: 1)}]"
        # The node comes, not ready at first; the nomination outlives the attempts that fail on it.
        eventually(lambda: nodes(cluster) == ["burst-1"])
        assert taints(cluster, "burst-1") == ["node.kubernetes.io/not-ready"]
        assert nominated(cluster, "first") == "burst-1"
        eventually(lambda: bound(cluster, "first") == "burst-1")
        assert nominated(cluster, "first") == ""
        assert (bound(cluster, "second"), nominated(cluster, "second")) == ("", "")
        ready = {each["type"]: each["status"] for each in cluster.get(f"{NODES}/burst-1").body["status"]["conditions"]}
        assert ready == {"Ready": "True"}
    cluster.stop()


@pytest.mark.slow  # test_nomination_stories.py plays it on every run, with the example's manifests
def test_story_1_a_node_that_a_binding_pod_waits_for_is_not_removed(tmp_path: Path) -> None:
    cluster = start_cluster(tmp_path)
    with scaler(cluster, 2, min=2):
        eventually(lambda: nodes(cluster) == ["burst-1", "burst-2"])
        eventually(lambda: not taints(cluster, "burst-1") and not taints(cluster, "burst-2"))
    # What a scheduler does at the start of a binding cycle that has to wait, for a volume say.
    pod(cluster, "waits")
    nominate(cluster, "waits", "burst-1", "tonnage-scheduler")
    with scaler(cluster, 2, unneeded=0.5):
        eventually(lambda: nodes(cluster) == ["burst-1"])
        assert told(cluster, "burst-2", "ScaleDown") == (
            "marked the node as toBeDeleted/unschedulable; node removed by cluster autoscaler"
        )
        assert taints(cluster, "burst-1") == []
        assert nominated(cluster, "waits") == "burst-1"
        # Nobody waits any more: now it goes too.
        cluster.delete(f"{PODS}/waits")
        eventually(lambda: nodes(cluster) == [])
    cluster.stop()


def test_a_scaler_that_was_killed_knows_what_it_proposed_and_repeats_nothing(tmp_path: Path) -> None:
    cluster = start_cluster(tmp_path)
    with scheduler(cluster):
        pod(cluster, "ours")
        pod(cluster, "theirs", cpu="1")
        nominate(cluster, "theirs", "burst-9", "kueue")
        with scaler(cluster, 3, provision=600) as process:
            eventually(lambda: nominated(cluster, "ours") == "burst-1")
            process.kill()
            process.wait(timeout=10)
        assert nodes(cluster) == []
        # It may have no nodes now: what it proposed it takes back, and what others did it leaves.
        with scaler(cluster, 0):
            eventually(lambda: nominated(cluster, "ours") == "")
        assert nominated(cluster, "theirs") == "burst-9"
        with scaler(cluster, 3, provision=600) as process:
            eventually(lambda: nominated(cluster, "ours") == "burst-1")
            process.kill()
            process.wait(timeout=10)
        with scaler(cluster, 3):
            eventually(lambda: bound(cluster, "ours") == "burst-1")
            # The other pod holds on to a node that never comes, and there is room for it here.
            eventually(lambda: bound(cluster, "theirs") == "burst-1")
        assert nodes(cluster) == ["burst-1"]
    cluster.stop()
