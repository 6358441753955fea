"""`tonnage scheduler --record` on a live server, and the same decisions again by `tonnage simulate --recording`."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from support.eventually import eventually
from support.processes import ApiServerProcess
from support.programs import spawn

PODS = "/api/v1/namespaces/default/pods"
BIND_TIMEOUT = {
    "name": "VolumeBinding",
    "args": {"kind": "VolumeBindingArgs", "apiVersion": "kubescheduler.config.k8s.io/v1", "bindTimeoutSeconds": 2},
}
CONFIGURATION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "leaderElection": {"leaderElect": False},
    "profiles": [{"schedulerName": "default-scheduler", "pluginConfig": [BIND_TIMEOUT]}],
}
PACKED = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}},
                }
            ],
        }
    ],
}


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tonnage", "simulate", *arguments]
    environment = {**os.environ, "PYTHONHASHSEED": "17"}  # the order of sets must not matter
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)


def storage(cluster: ApiServerProcess) -> None:
    group = "/apis/storage.k8s.io/v1"
    cluster.create(f"{group}/csidrivers", {"metadata": {"name": "csi.example"}, "spec": {"storageCapacity": True}})
    mode = {"provisioner": "csi.example", "volumeBindingMode": "WaitForFirstConsumer"}
    cluster.create(f"{group}/storageclasses", {"metadata": {"name": "fast"}, **mode})
    for number in range(4):
        name, room = f"n{number}", {"cpu": "4", "memory": "16Gi", "pods": "50"}
        cluster.create(
            "/api/v1/nodes",
            {
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
                "status": {"allocatable": room, "capacity": room},
            },
        )
        cluster.create(
            f"{group}/namespaces/kube-system/csistoragecapacities",
            {
                "metadata": {"name": f"fast-{name}"},
                "storageClassName": "fast",
                "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": name}},
                "capacity": "30Gi",
            },
        )


def new_pod(cluster: ApiServerProcess, name: str, cpu: str, size: str = "", priority: int = 0) -> None:
    secret = {"name": "PASSWORD", "value": "hunter2"}
    container = {"name": "c", "image": "app:1", "resources": {"requests": {"cpu": cpu}}, "env": [secret]}
    spec: dict[str, Any] = {"containers": [container], "terminationGracePeriodSeconds": 0}
    if priority:
        spec["priorityClassName"] = "high"
    if size:
        spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
        cluster.create(
            "/api/v1/namespaces/default/persistentvolumeclaims",
            {"metadata": {"name": name}, "spec": {"storageClassName": "fast", **claim}},
        )
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps({"password": "hunter2"})}
    cluster.create(PODS, {"metadata": {"name": name, "annotations": annotations}, "spec": spec})


def test_what_a_scheduler_saw_and_decided_is_repeated_equally(cluster: ApiServerProcess, tmp_path: Path) -> None:
    storage(cluster)
    cluster.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 1000})
    file, config, packed = tmp_path / "friday.jsonl", tmp_path / "config.yaml", tmp_path / "packed.yaml"
    config.write_text(yaml.safe_dump(CONFIGURATION))
    packed.write_text(yaml.safe_dump(PACKED))
    flags = ("--config", str(config), "--kubeconfig", str(cluster.kubeconfig), "--secure-port", "0")
    process = spawn("scheduler", *flags, "--record", str(file), log=tmp_path / "scheduler.log")
    try:
        assert process.readline().startswith("ready")
        for number in range(6):
            new_pod(cluster, f"web-{number}", "1500m")
        for number in range(3):
            # Nobody makes volumes here: after two seconds these bindings fail, and are tried again.
            new_pod(cluster, f"db-{number}", "100m", "20Gi")
        new_pod(cluster, "too-big", "64")
        eventually(lambda: bound(cluster) >= 6, within_s=60)
        new_pod(cluster, "urgent", "3", priority=1)  # others have to go
        eventually(lambda: node_of(cluster, "urgent"), within_s=60)
        eventually(lambda: file.read_text().count('"op":"withdraw"') >= 3, within_s=60)
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0, (tmp_path / "scheduler.log").read_text()
    text = file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "hunter2" not in text, "neither environments nor what was applied"
    assert '"op":"preemptionEnds"' in text
    decided = text.count('"op":"attempt"')

    done = simulate("--recording", str(file))
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{decided:,} decisions repeated, all equal\n"

    done = simulate("--recording", str(file), "--compare", f"packed={packed}", "-o", "json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["repeated"] == {"decisions": decided, "equal": decided, "firstDifference": None}
    run = told["runs"]["packed"]
    assert run["decisions"] == decided
    assert run["differences"], "six pods on four empty nodes are spread by one and packed by the other"
    assert {"pod", "theirs", "ours", "why"} <= run["differences"][0].keys()


def bound(cluster: ApiServerProcess) -> int:
    return sum(bool(each["spec"].get("nodeName")) for each in cluster.get(PODS).body["items"])


def node_of(cluster: ApiServerProcess, name: str) -> str:
    found: str = cluster.get(f"{PODS}/{name}").body["spec"].get("nodeName", "")
    return found


def test_a_recording_that_reaches_its_limit_ends_there_and_the_scheduler_goes_on(
    cluster: ApiServerProcess, tmp_path: Path
) -> None:
    file = tmp_path / "small.jsonl"
    flags = ("--kubeconfig", str(cluster.kubeconfig), "--secure-port", "0", "--no-leader-elect")
    process = spawn(
        "scheduler", *flags, "--record", str(file), "--record-limit", "20Ki", log=tmp_path / "scheduler.log"
    )
    try:
        assert process.readline().startswith("ready")
        for number in range(20):
            new_pod(cluster, f"small-{number}", "10m")
        eventually(lambda: node_of(cluster, "small-19"), within_s=60)
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
    assert file.stat().st_size < 21 << 10
    done = simulate("--recording", str(file))
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.endswith("decisions repeated, all equal")
    assert second == "the recording ends early: it has reached its limit of 20480 bytes (--record-limit)"
