"""Leaders that are stopped, cut off and held up, as real processes: whoever leads, no node is given more than it has.

Two schedulers meet at a lease of three seconds, each behind a proxy of its own. The nodes hold fewer pods than there
are, and bindings are throttled, so that at any moment some are decided and ready to be sent.
"""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from support.eventually import eventually
from support.faulty_proxy import FaultyProxy
from support.processes import start_cluster
from support.programs import RunningProgram, spawn

PODS = "/api/v1/namespaces/default/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
NODES, PODS_PER_NODE = 4, 6
ROOM = NODES * PODS_PER_NODE
ELECTION = {"leaderElect": True, "leaseDuration": "3s", "renewDeadline": "2s", "retryPeriod": "500ms"}
HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
LOST = 1
"""How a program exits that has lost its lease."""


class DeposedLeaders:
    """An API server, and programs each behind its own proxy."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self._stack = stack
        self.server = start_cluster(folder / "server")
        stack.callback(self.server.stop)
        self.port = int(self.server.url.rpartition(":")[2])

    def proxy(self) -> FaultyProxy:
        return self._stack.enter_context(FaultyProxy("127.0.0.1", self.port))

    def start(self, name: str, proxy: FaultyProxy, *args: str) -> RunningProgram:
        kubeconfig = proxy.kubeconfig(self.server.kubeconfig, self.folder / f"{name}.kubeconfig")
        program = spawn(*args, "--kubeconfig", str(kubeconfig), log=self.folder / f"{name}.log")
        self._stack.callback(_ended, program)
        return program

    def scheduler(self, name: str, proxy: FaultyProxy, qps: float = 20) -> RunningProgram:
        config = self.folder / f"{name}.json"
        connection = {"qps": qps, "burst": 1}
        config.write_text(json.dumps({**HEAD, "leaderElection": ELECTION, "clientConnection": connection}))
        return self.start(name, proxy, "scheduler", "--secure-port", "0", "--config", str(config))

    def add_nodes(self) -> None:
        room = {"cpu": str(PODS_PER_NODE), "memory": "64Gi", "pods": "110"}
        for number in range(NODES):
            body: dict[str, Any] = {
                "metadata": {"name": f"n{number}"},
                "status": {"allocatable": room, "capacity": room},
            }
            assert self.server.post("/api/v1/nodes", body).code == 201

    def add_pods(self, count: int, prefix: str = "p", priority: str = "") -> None:
        asked = {"requests": {"cpu": "1"}}
        spec: dict[str, Any] = {"containers": [{"name": "c", "image": "i", "resources": asked}]}
        if priority:
            spec["priorityClassName"] = priority
        for number in range(count):
            assert self.server.post(PODS, {"metadata": {"name": f"{prefix}{number}"}, "spec": spec}).code == 201

    def add_important_pods(self) -> None:
        """As many as there is room for; who leads next takes them first, and not those that are on their way."""
        important = {"metadata": {"name": "important"}, "value": 1000, "preemptionPolicy": "Never"}
        assert self.server.post("/apis/scheduling.k8s.io/v1/priorityclasses", important).code == 201
        self.add_pods(ROOM, "important", "important")

    def placed(self, prefix: str = "") -> Counter[str]:
        pods = self.server.get(PODS).body["items"]
        return Counter(
            pod["spec"]["nodeName"]
            for pod in pods
            if pod["spec"].get("nodeName") and pod["metadata"]["name"].startswith(prefix)
        )

    def pods(self) -> int:
        return len(self.server.get(PODS).body["items"])

    def holder(self, lease: str = "kube-scheduler") -> str:
        return str(self.server.get(f"{LEASES}/{lease}").body.get("spec", {}).get("holderIdentity", ""))

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def assert_nothing_is_over_committed(self) -> None:
        placed = self.placed()
        assert all(count <= PODS_PER_NODE for count in placed.values()), placed


def _ended(program: RunningProgram) -> None:
    if program.poll() is None:
        program.send_signal(signal.SIGCONT)
        program.send_signal(signal.SIGKILL)
    program.wait(timeout=20)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[DeposedLeaders]:
    with ExitStack() as stack:
        yield DeposedLeaders(tmp_path, stack)


def test_a_scheduler_stopped_for_longer_than_its_lease_binds_nothing_when_it_wakes(stage):
    a_way, b_way = stage.proxy(), stage.proxy()
    stage.add_nodes()
    stage.add_pods(ROOM)
    a = stage.scheduler("a", a_way, qps=5)  # all are decided at once, and sent one by one
    eventually(lambda: stage.placed().total() >= 2)
    a.send_signal(signal.SIGSTOP)
    first, sent = stage.holder(), stage.placed().total()
    stage.add_important_pods()
    stage.scheduler("b", b_way, qps=500)
    eventually(lambda: stage.placed().total() == ROOM, within_s=30)
    assert stage.holder() != first and sent < ROOM - 5
    a.send_signal(signal.SIGCONT)
    assert a.wait(timeout=20) == LOST and "lost the lease kube-system/kube-scheduler" in stage.log("a")
    stage.assert_nothing_is_over_committed()
    assert stage.placed("p").total() == sent  # not one of those it had ready


def test_bindings_that_lay_in_a_proxy_until_another_led_are_not_carried_out(stage):
    a_way, b_way = stage.proxy(), stage.proxy()
    stage.add_nodes()
    stage.add_pods(ROOM, "warm")
    a = stage.scheduler("a", a_way, qps=500)
    eventually(lambda: stage.placed().total() == ROOM)  # it has connections now, one for each of many bindings at once
    for number in range(ROOM):
        assert stage.server.delete(f"{PODS}/warm{number}?gracePeriodSeconds=0").code == 200
    first = stage.holder()
    a_way.hold()  # what it sends from now on is taken, and kept; what it hears still comes
    stage.add_pods(ROOM)
    assert a.wait(timeout=20) == LOST  # it cannot renew, and ends by itself
    stage.add_important_pods()
    stage.scheduler("b", b_way, qps=500)
    eventually(lambda: stage.placed("important").total() == ROOM, within_s=30)
    assert stage.holder() != first
    a_way.release()
    eventually(lambda: conflicts(stage) > 0, "bindings of a to be refused", within_s=15)
    stage.assert_nothing_is_over_committed()


def test_controllers_stopped_for_longer_than_their_lease_make_no_pods_when_they_wake(stage):
    a_way, b_way = stage.proxy(), stage.proxy()
    flags = [f"--leader-elect-{name}" for name in ("lease-duration=3s", "renew-deadline=2s", "retry-period=500ms")]
    command = ("controllers", "--secure-port", "0", "--leader-elect", *flags)
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    wanted = {
        "metadata": {"name": "web"},
        "spec": {"replicas": 40, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }
    a = stage.start("a", a_way, *command)
    assert a.readline() == "ready\n"
    a_way.delay_s = 0.2  # so that many are asked for and not yet made; before, a new connection would outlast its time
    assert stage.server.post("/apis/apps/v1/namespaces/default/replicasets", wanted).code == 201
    eventually(lambda: stage.pods() >= 3)
    a.send_signal(signal.SIGSTOP)
    first, made = stage.holder("tonnage-controllers"), stage.pods()
    stage.start("b", b_way, *command)
    eventually(lambda: stage.pods() == 40, within_s=30)
    assert stage.holder("tonnage-controllers") != first and made < 40
    since = stage.server.get(PODS).body["metadata"]["resourceVersion"]
    a.send_signal(signal.SIGCONT)
    assert a.wait(timeout=20) == LOST and "lost the lease kube-system/tonnage-controllers" in stage.log("a")
    seen = stage.server.watch_to_the_end(f"{PODS}?watch=true&resourceVersion={since}&timeoutSeconds=1")
    assert stage.pods() == 40 and [each for each in seen if each.type in ("ADDED", "DELETED")] == []


def conflicts(stage: DeposedLeaders) -> int:
    """Bindings that the server has refused."""
    metrics = str(stage.server.get("/metrics").body)
    lines = [line for line in metrics.splitlines() if 'subresource="binding"' in line and 'code="409"' in line]
    return sum(int(float(line.rpartition(" ")[2])) for line in lines if line.startswith("apiserver_request_total"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_random_stops_cuts_and_delays_never_over_commit(stage, seed):
    rng = random.Random(seed)
    stage.add_nodes()
    ways = {name: stage.proxy() for name in "ab"}
    running = {name: stage.scheduler(name, ways[name], qps=30) for name in "ab"}
    for round_ in range(6):
        stage.add_pods(12, f"r{round_}-")
        name = rng.choice("ab")
        match rng.choice(["stop", "hold", "cut", "delay"]):
            case "stop":
                running[name].send_signal(signal.SIGSTOP)
                time.sleep(rng.uniform(0.5, 6.0))
                running[name].send_signal(signal.SIGCONT)
            case "hold":
                ways[name].hold(both_ways=rng.random() < 0.5)
                time.sleep(rng.uniform(0.5, 6.0))
                ways[name].release()
            case "cut":
                ways[name].cut()
                time.sleep(rng.uniform(0.5, 6.0))
                ways[name].mend()
            case _:
                ways[name].delay_s = rng.uniform(0.1, 1.2)
                time.sleep(rng.uniform(0.5, 4.0))
                ways[name].delay_s = 0.0
        stage.assert_nothing_is_over_committed()
        for each, program in running.items():
            if program.poll() is not None:
                assert program.poll() == LOST, stage.log(each)
                running[each] = stage.scheduler(each, ways[each], qps=30)
    eventually(lambda: stage.placed().total() == ROOM, within_s=60)
    stage.assert_nothing_is_over_committed()
