"""Pods that fit nowhere, by the thousand: nobody loses a lease to them, and a pod that fits is bound beside them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.eventually import eventually
from support.processes import ApiServerProcess, start_cluster
from support.programs import RunningProgram, spawn

PODS = "/api/v1/namespaces/default/pods"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
BOUND_WITHIN_S = 2.0


def bound_within_s() -> float:
    """Two seconds; more on a machine that has more to do than it has cores."""
    return BOUND_WITHIN_S * max(os.getloadavg()[0] / (os.cpu_count() or 1), 1.0)


class HopelessCluster:
    """A server with nodes that are nearly full, and a scheduler."""

    def __init__(self, folder: Path, *, nodes: int, configuration: dict[str, Any] | None = None) -> None:
        self.folder = folder
        self.server: ApiServerProcess = start_cluster(folder / "server")
        room = {"cpu": "4", "memory": "64Gi", "pods": "110"}
        status = {"allocatable": room, "capacity": room}
        self._post("/api/v1/nodes", [{"metadata": {"name": f"n{i}"}, "status": status} for i in range(nodes)])
        self._post(PODS, [_pod(f"there-{i}", "3", node=f"n{i}") for i in range(nodes)])
        self._flags: tuple[str, ...] = ()
        if configuration is not None:
            config = folder / "scheduler.json"
            config.write_text(json.dumps({**HEAD, **configuration}))
            self._flags = ("--config", str(config))
        self.scheduler: RunningProgram | None = None

    def hopeless(self, count: int, *, are_alike: bool = True) -> None:
        """Pods that want 2 of the one CPU that is left on each node, or so."""
        self._post(PODS, [_pod(f"hopeless-{i}", "2" if are_alike else f"{2000 + i}m") for i in range(count)])

    def start(self) -> None:
        server = ("--kubeconfig", str(self.server.kubeconfig), "--secure-port", "0")
        self.scheduler = spawn("scheduler", *server, *self._flags, log=self.folder / "scheduler.log")
        assert self.scheduler.readline() == "ready\n"

    def stop(self) -> None:
        if self.scheduler is not None and self.scheduler.poll() is None:
            self.scheduler.kill()  # told to stop, it would go on telling for a while
            self.scheduler.wait(30.0)
        self.server.stop()

    @property
    def lives(self) -> bool:
        return self.scheduler is not None and self.scheduler.poll() is None

    def log(self) -> str:
        return (self.folder / "scheduler.log").read_text()

    def seconds_to_bind(self, name: str) -> float:
        """From the creation of a pod that fits to its node."""
        began_at = time.monotonic()
        self._post(PODS, [_pod(name, "1m")])
        eventually(lambda: self.server.get(f"{PODS}/{name}").body["spec"].get("nodeName"), within_s=60.0)
        return time.monotonic() - began_at

    def wake_all(self, node: int) -> None:
        """Room is given up on a node: half a CPU, which may help everybody, and is too little for anybody."""
        name = f"{PODS}/half-{node}"
        self._post(PODS, [_pod(f"half-{node}", "500m", node=f"n{node}")])
        time.sleep(0.5)
        assert self.server.delete(f"{name}?gracePeriodSeconds=0").code == 200

    def renewed(self) -> str:
        return str(self.server.get(LEASE).body["spec"]["renewTime"])

    def told(self) -> int:
        """How many pods have a condition that says why they have no node."""
        pods = self.server.get(f"{PODS}?fieldSelector=spec.nodeName%3D").body["items"]
        return sum(bool(each["status"].get("conditions")) for each in pods)

    def _post(self, path: str, docs: list[dict[str, Any]]) -> None:
        with ThreadPoolExecutor(8) as threads:
            assert {reply.code for reply in threads.map(lambda doc: self.server.post(path, doc), docs)} == {201}


def _pod(name: str, cpu: str, *, node: str = "") -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container], "nodeName": node}}


@contextmanager
def staged(folder: Path, *, nodes: int, configuration: dict[str, Any] | None = None) -> Iterator[HopelessCluster]:
    stage = HopelessCluster(folder, nodes=nodes, configuration=configuration)
    try:
        yield stage
    finally:
        stage.stop()


def test_a_limit_that_is_used_up_by_telling_takes_neither_the_lease_nor_the_binding(tmp_path: Path) -> None:
    """100 pods have 200 things told about them: at 20 a second that is ten seconds, and the lease has two."""
    election = {"leaderElect": True, "leaseDuration": "3s", "renewDeadline": "2s", "retryPeriod": "500ms"}
    configuration = {"leaderElection": election, "clientConnection": {"qps": 20, "burst": 2}}
    with staged(tmp_path, nodes=2, configuration=configuration) as stage:
        stage.hopeless(100)
        stage.start()
        assert stage.seconds_to_bind("fits") < bound_within_s()
        first = stage.renewed()
        time.sleep(2.5)  # longer than the deadline
        assert stage.lives, stage.log()
        assert stage.renewed() > first
        assert 0 < stage.told() < 100  # it is still telling


@pytest.mark.slow
def test_700_hopeless_pods_end_nothing(tmp_path: Path) -> None:
    """With the limit that kube-scheduler has and its times: after 18 s the lease was lost."""
    with staged(tmp_path, nodes=20, configuration={"clientConnection": {"qps": 50, "burst": 100}}) as stage:
        stage.hopeless(700)
        stage.start()
        for number in range(25):
            assert stage.seconds_to_bind(f"fits-{number}") < bound_within_s()
            time.sleep(1.0)
            assert stage.lives, stage.log()


@pytest.mark.slow
@pytest.mark.parametrize("are_alike", [True, False], ids=["alike", "all different"])
def test_a_pod_that_fits_is_bound_within_two_seconds_beside_5000_that_do_not(tmp_path: Path, are_alike: bool) -> None:
    """While they are refused, when they are, and when all of them are woken at once."""
    with staged(tmp_path, nodes=100) as stage:
        stage.start()
        stage.hopeless(5000, are_alike=are_alike)
        found = {"as they come": stage.seconds_to_bind("at-once")}
        time.sleep(5.0)
        found["refused"] = stage.seconds_to_bind("later")
        for number in range(3):
            stage.wake_all(number)
            found[f"woken {number}"] = stage.seconds_to_bind(f"woken-{number}")
            time.sleep(4.0)  # longer than a backoff of theirs
        print({name: round(seconds, 2) for name, seconds in found.items()})
        assert all(seconds < bound_within_s() for seconds in found.values()), found
        assert stage.lives and stage.renewed()
        # Everybody is told in the end, at 250 a second.
        eventually(lambda: stage.told() >= 5000, within_s=120.0)
