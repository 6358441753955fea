"""Tonnage and an unmodified kube-scheduler on one API server: side by side, and one after the other.

Needs `kube-scheduler` in the folder that KUBEBUILDER_ASSETS names; with `kube-apiserver` and `etcd` there too, the same
is done on Kubernetes' own server.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from support.api_servers import kube_apiserver
from support.eventually import eventually
from support.http import ApiClient
from support.processes import start_cluster
from support.programs import RunningProgram, spawn

ASSETS = Path(os.environ.get("KUBEBUILDER_ASSETS", "/nowhere"))
BINARY = ASSETS / "kube-scheduler"

pytestmark = [
    pytest.mark.envtest,
    pytest.mark.skipif(not BINARY.exists(), reason="KUBEBUILDER_ASSETS names no folder with kube-scheduler"),
]

PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/api/v1/namespaces/default/events"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
QUICK = ("--leader-elect-lease-duration=5s", "--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=1s")
BESIDE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: tonnage}]
leaderElection: {leaderElect: true, resourceName: tonnage}
"""


class TwoSchedulers:
    """A server with one node, and schedulers that are started on it."""

    def __init__(self, api: ApiClient, kubeconfig: Path, folder: Path, stack: ExitStack) -> None:
        self.api, self.kubeconfig, self.folder, self._stack = api, kubeconfig, folder, stack
        room = {"cpu": "40", "memory": "80Gi", "pods": "110"}
        status = {"allocatable": room, "capacity": room}
        assert api.post("/api/v1/nodes", {"metadata": {"name": "only"}, "status": status}).code == 201

    def kube_scheduler(self, *flags: str) -> subprocess.Popen[bytes]:
        command = [str(BINARY), f"--kubeconfig={self.kubeconfig}", "--secure-port=0", *flags]
        with (self.folder / "kube-scheduler.log").open("a") as log:
            process = subprocess.Popen([*command, f"--cert-dir={self.folder / 'certs'}"], stderr=log)
        self._stack.callback(_end, process)
        return process

    def tonnage(self, *flags: str) -> RunningProgram:
        own = (f"--kubeconfig={self.kubeconfig}", "--secure-port=0")
        process = spawn("scheduler", *own, *flags, log=self.folder / "tonnage.log")
        self._stack.callback(_end, process)
        return process

    def pod(self, name: str, scheduler: str = "default-scheduler") -> None:
        spec = {"schedulerName": scheduler, "containers": [{"name": "c", "image": "i"}]}
        assert self.api.post(PODS, {"metadata": {"name": name}, "spec": spec}).code == 201

    def wait(self, condition: Callable[[], Any], what: str) -> Any:
        return eventually(condition, what, details=self.logs)

    def logs(self) -> str:
        return "\n".join(f"{path.name}:\n{path.read_text()[-2000:]}" for path in self.folder.glob("*.log"))

    def node_of(self, name: str) -> str:
        return str(self.api.get(f"{PODS}/{name}").body["spec"].get("nodeName", ""))

    def holder(self, lease: str) -> str:
        found = self.api.get(f"{LEASES}/{lease}")
        return str(found.body["spec"].get("holderIdentity") or "") if found.code == 200 else ""

    def placed_by(self, name: str) -> str:
        """Who says that it placed the pod."""

        def told() -> str:
            events = self.api.get(EVENTS).body["items"]
            mine = [each for each in events if each["involvedObject"]["name"] == name and each["reason"] == "Scheduled"]
            return "".join({each["reportingComponent"] or each["source"]["component"] for each in mine})

        return str(self.wait(told, f"an event about {name}"))


def _end(process: subprocess.Popen[bytes] | RunningProgram) -> None:
    process.kill()
    process.wait(timeout=30)


@pytest.fixture(params=["embedded", "kube-apiserver"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TwoSchedulers]:
    with ExitStack() as stack:
        if request.param == "embedded":
            cluster = start_cluster(tmp_path / "data")
            stack.callback(cluster.stop)
            yield TwoSchedulers(cluster, cluster.kubeconfig, tmp_path, stack)
            return
        if not (ASSETS / "kube-apiserver").exists():
            pytest.skip("KUBEBUILDER_ASSETS names no folder with kube-apiserver")
        api = stack.enter_context(kube_apiserver(tmp_path, ASSETS))
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "c",
                    "clusters": [{"name": "c", "cluster": {"server": api.url, "insecure-skip-tls-verify": True}}],
                    "users": [{"name": "u", "user": {"token": api.token}}],
                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                }
            )
        )
        kubeconfig.chmod(0o600)
        yield TwoSchedulers(api, kubeconfig, tmp_path, stack)


def test_side_by_side_each_has_its_lease_and_its_pods(stage: TwoSchedulers) -> None:
    config = stage.folder / "beside.yaml"
    config.write_text(BESIDE)
    stage.kube_scheduler()
    stage.tonnage(f"--config={config}")
    for number in range(5):
        stage.pod(f"kube-{number}")
        stage.pod(f"ours-{number}", "tonnage")
    names = [f"{whose}-{number}" for whose in ("kube", "ours") for number in range(5)]
    stage.wait(lambda: all(stage.node_of(name) for name in names), "all pods to be placed")
    holders = [stage.holder("kube-scheduler"), stage.holder("tonnage")]
    assert all(holders)
    assert holders[0] != holders[1]
    assert {stage.placed_by(f"kube-{number}") for number in range(5)} == {"default-scheduler"}
    assert {stage.placed_by(f"ours-{number}") for number in range(5)} == {"tonnage"}


@pytest.mark.parametrize("ends_by", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_one_waits_for_the_lease_of_the_other_and_goes_on_from_there(
    stage: TwoSchedulers, ends_by: signal.Signals
) -> None:
    first = stage.kube_scheduler(*QUICK)
    theirs = stage.wait(lambda: stage.holder("kube-scheduler"), "kube-scheduler to lead")
    second = stage.tonnage(*QUICK)
    waiting = stage.folder / "tonnage.log"
    stage.wait(lambda: "Waiting for the lease" in waiting.read_text(), "Tonnage to wait")
    stage.pod("before")
    stage.wait(lambda: stage.node_of("before"), "kube-scheduler to place a pod")
    assert stage.holder("kube-scheduler") == theirs
    first.send_signal(ends_by)
    first.wait(timeout=60)
    stage.pod("after")
    stage.wait(lambda: stage.node_of("after"), "Tonnage to place a pod")
    ours = stage.holder("kube-scheduler")
    assert ours
    assert ours != theirs
    # And back.
    stage.kube_scheduler(*QUICK)
    second.send_signal(ends_by)
    second.wait(timeout=60)
    stage.pod("again")
    stage.wait(lambda: stage.node_of("again"), "kube-scheduler to place a pod again")
    assert stage.holder("kube-scheduler") not in ("", ours)
