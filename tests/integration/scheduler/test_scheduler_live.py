"""The live scheduler on the embedded server, both as real processes: constraints kept, crashes survived."""

from __future__ import annotations

import json
import signal
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.eventually import eventually
from support.processes import ApiServerProcess, start_cluster
from support.programs import RunningProgram, spawn

CONFIGURATION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "clientConnection": {"qps": 5000, "burst": 5000},
    "leaderElection": {"leaderElect": False},
    "profiles": [{"schedulerName": "default-scheduler"}, {"schedulerName": "second"}],
}


@contextmanager
def scheduler(cluster: ApiServerProcess, folder: Path, *flags: str) -> Iterator[RunningProgram]:
    """A `tonnage scheduler` process; ended at the end, if it still runs."""
    config = folder / "scheduler.json"
    config.write_text(json.dumps(CONFIGURATION))
    server = ("--kubeconfig", str(cluster.kubeconfig))
    command = ("scheduler", "--config", str(config), "--secure-port", "0", *server, *flags)
    process = spawn(*command, log=folder / "scheduler.log")
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)


def post_all(cluster: ApiServerProcess, path: str, docs: list[dict[str, Any]]) -> None:
    with ThreadPoolExecutor(8) as threads:
        assert {reply.code for reply in threads.map(lambda doc: cluster.post(path, doc), docs)} == {201}


def node(
    name: str, *, cpu: str = "4", zone: str = "z0", taints: list[dict[str, Any]] | None = None, **labels: str
) -> dict[str, Any]:
    room = {"cpu": cpu, "memory": "16Gi", "pods": "20"}
    return {
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone, **labels},
        },
        "spec": {"taints": taints or []},
        "status": {"allocatable": room, "capacity": room},
    }


def pod(
    name: str, *, cpu: str = "500m", labels: dict[str, str] | None = None, port: int = 0, **spec: Any
) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "c", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}
    if port:
        container["ports"] = [{"containerPort": port, "hostPort": port}]
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": {"containers": [container], **spec}}


PODS = "/api/v1/namespaces/default/pods"


def unbound(cluster: ApiServerProcess) -> int:
    return len(cluster.get(f"{PODS}?fieldSelector=spec.nodeName%3D").body["items"])


def test_a_pod_is_placed_with_its_condition_and_event(cluster, tmp_path):
    cluster.post("/api/v1/nodes", node("only", disk="ssd"))
    cluster.post(PODS, pod("fits", nodeSelector={"disk": "ssd"}))
    cluster.post(PODS, pod("does-not", nodeSelector={"disk": "tape"}))
    with scheduler(cluster, tmp_path):
        eventually(lambda: cluster.get(f"{PODS}/fits").body["spec"].get("nodeName") == "only")
        conditions = eventually(lambda: cluster.get(f"{PODS}/does-not").body["status"].get("conditions"))
        told = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
        assert [(c["type"], c["status"], c["reason"]) for c in conditions] == [
            ("PodScheduled", "False", "Unschedulable")
        ]
        assert conditions[0]["message"].startswith(told)
        events = eventually(lambda: _events(cluster, "does-not"))
        assert events[0]["reason"] == "FailedScheduling" and events[0]["note"].startswith(told)
        scheduled = eventually(lambda: _events(cluster, "fits"))
        assert (scheduled[0]["reason"], scheduled[0]["note"]) == (
            "Scheduled",
            "Successfully assigned default/fits to only",
        )
        # What it waits for comes, and it is tried at once.
        cluster.patch("/api/v1/nodes/only", {"metadata": {"labels": {"disk": "tape"}}})
        eventually(lambda: cluster.get(f"{PODS}/does-not").body["spec"].get("nodeName") == "only")


def _events(cluster: ApiServerProcess, name: str) -> list[dict[str, Any]]:
    items = cluster.get("/apis/events.k8s.io/v1/namespaces/default/events").body["items"]
    return [event for event in items if event["regarding"]["name"] == name]


def test_pods_of_other_schedulers_and_gated_pods_are_left_alone(tmp_path):
    cluster = start_cluster(tmp_path / "data")
    cluster.post("/api/v1/nodes", node("only"))
    cluster.post(PODS, pod("mine", schedulerName="second"))
    cluster.post(PODS, pod("theirs", schedulerName="somebody-else"))
    cluster.post(PODS, pod("gated", schedulingGates=[{"name": "wait/for-it"}]))
    with scheduler(cluster, tmp_path):
        eventually(lambda: cluster.get(f"{PODS}/mine").body["spec"].get("nodeName"))
        assert {p["metadata"]["name"] for p in cluster.get(PODS).body["items"] if not p["spec"].get("nodeName")} == {
            "theirs",
            "gated",
        }
        cluster.patch(f"{PODS}/gated", {"spec": {"schedulingGates": None}})
        eventually(lambda: cluster.get(f"{PODS}/gated").body["spec"].get("nodeName"))
    cluster.stop()


def test_the_scheduler_outlives_a_restart_of_the_api_server(tmp_path):
    cluster = start_cluster(tmp_path / "data")
    port = cluster.url.rpartition(":")[2]
    cluster.post("/api/v1/nodes", node("only"))
    with scheduler(cluster, tmp_path) as process:
        cluster.post(PODS, pod("before"))
        eventually(lambda: cluster.get(f"{PODS}/before").body["spec"].get("nodeName"))
        cluster.stop(signal.SIGKILL)
        cluster = start_cluster(tmp_path / "data", "--secure-port", port)
        cluster.post(PODS, pod("after"))
        eventually(lambda: cluster.get(f"{PODS}/after").body["spec"].get("nodeName"))
        assert process.poll() is None
    cluster.stop()


@pytest.mark.slow  # half a minute; the clusters of tests/e2e are killed in as many ways, with fewer pods
def test_two_thousand_pods_keep_every_constraint_through_kills_of_the_scheduler(tmp_path):
    cluster = start_cluster(tmp_path / "data")
    taint = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
    nodes = [
        node(f"n{i}", zone=f"z{i % 5}", disk="ssd" if i % 2 else "hdd", taints=[taint] if i % 10 == 0 else None)
        for i in range(500)
    ]
    post_all(cluster, "/api/v1/nodes", nodes)
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "spread"}},
    }
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "apart"}}}
            ]
        }
    }
    tolerates = [{"key": "dedicated", "operator": "Equal", "value": "db", "effect": "NoSchedule"}]
    pods = [pod(f"plain-{i}") for i in range(1000)]
    pods += [pod(f"ssd-{i}", nodeSelector={"disk": "ssd"}) for i in range(300)]
    pods += [pod(f"db-{i}", tolerations=tolerates) for i in range(200)]
    pods += [pod(f"spread-{i}", labels={"app": "spread"}, topologySpreadConstraints=[spread]) for i in range(200)]
    pods += [pod(f"apart-{i}", labels={"app": "apart"}, affinity=apart) for i in range(150)]
    pods += [pod(f"port-{i}", port=8080) for i in range(150)]
    post_all(cluster, PODS, pods)
    for target in (200, 700):  # killed twice in the middle of its work, then let finish
        with scheduler(cluster, tmp_path) as process:
            eventually(lambda: 2000 - unbound(cluster) >= target)  # noqa: B023  it is over before the next turn
            process.send_signal(signal.SIGKILL)
            process.wait(timeout=10)
        assert unbound(cluster) > 0
    with scheduler(cluster, tmp_path):
        eventually(lambda: unbound(cluster) == 0, within_s=120)
    _judge(cluster.get(PODS).body["items"], {each["metadata"]["name"]: each for each in nodes})
    cluster.stop()


def _judge(pods: list[dict[str, Any]], nodes: dict[str, dict[str, Any]]) -> None:
    on: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for each in pods:
        on[each["spec"]["nodeName"]].append(each)
    zones: Counter[str] = Counter()
    for name, residents in on.items():
        labels = nodes[name]["metadata"]["labels"]
        kinds = Counter(each["metadata"]["name"].partition("-")[0] for each in residents)
        # 4 cores of 500m each: at most 8 pods a node.
        assert len(residents) <= 8, (name, kinds)
        assert kinds["apart"] <= 1 and kinds["port"] <= 1
        assert not kinds["ssd"] or labels["disk"] == "ssd"
        assert not nodes[name]["spec"]["taints"] or set(kinds) <= {"db"}, (name, kinds)
        zones[labels["topology.kubernetes.io/zone"]] += kinds["spread"]
    assert sum(zones.values()) == 200 and max(zones.values()) - min(zones.values()) <= 1
