"""The live scheduler does the same on our server and on Kubernetes' own: leads, places, tells, serves its health."""

from __future__ import annotations

import json
import signal
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.api_servers import ServerApi
from support.eventually import eventually
from support.http import free_port, unverified_tls
from support.programs import RunningProgram, spawn


@contextmanager
def scheduler(api: ServerApi, folder: Path, name: str, port: int) -> Iterator[RunningProgram]:
    """`tonnage scheduler` with one profile of that name, electing its leader on a lease of that name."""
    kubeconfig = {
        "clusters": [{"name": "c", "cluster": {"server": api.url, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "u", "user": {"token": api.token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": True, "resourceName": name},
        "profiles": [{"schedulerName": name}],
    }
    (folder / "kubeconfig").write_text(json.dumps(kubeconfig))
    (folder / "scheduler.yaml").write_text(json.dumps(configuration))
    given = ("--kubeconfig", str(folder / "kubeconfig"), "--config", str(folder / "scheduler.yaml"))
    served = ("--secure-port", str(port), "--unauthenticated-on-loopback")
    process = spawn("scheduler", *given, *served, log=folder / "scheduler.log")
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0, (folder / "scheduler.log").read_text()
    finally:
        process.kill()
        process.wait(timeout=30)


def test_the_scheduler_leads_places_and_tells(api: ServerApi, ns: str, pods: str, tmp_path: Path) -> None:
    room = {"cpu": "2", "memory": "4Gi", "pods": "10"}
    api.create(
        "/api/v1/nodes",
        {"metadata": {"name": ns, "labels": {"mine": ns}}, "status": {"capacity": room, "allocatable": room}},
    )

    def pod(name: str, cpu: str) -> dict[str, Any]:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        spec = {"schedulerName": ns, "nodeSelector": {"mine": ns}, "containers": [container]}
        return {"metadata": {"name": name}, "spec": spec}

    api.create(pods, pod("fits", "1500m"))
    port = free_port()
    with scheduler(api, tmp_path, ns, port):
        eventually(
            lambda: api.get(f"{pods}/fits").body["spec"].get("nodeName") == ns,
            details=(tmp_path / "scheduler.log").read_text,
        )
        api.create(pods, pod("waits", "1"))
        told = eventually(
            lambda: api.get(f"{pods}/waits").body["status"].get("conditions"),
            details=(tmp_path / "scheduler.log").read_text,
        )
        assert (told[0]["type"], told[0]["status"], told[0]["reason"]) == ("PodScheduled", "False", "Unschedulable")
        assert "1 Insufficient cpu" in told[0]["message"]
        lease = f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{ns}"
        assert api.get(lease).body["spec"]["holderIdentity"]
        assert [_read(port, path) for path in ("/healthz", "/livez", "/readyz")] == ["ok", "ok", "ok"]
        metrics = _read(port, "/metrics")
        assert f'scheduler_schedule_attempts_total{{profile="{ns}",result="scheduled"}} 1.0' in metrics
        assert 'scheduler_pending_pods{queue="unschedulable"} 1.0' in metrics
        # The room it waits for comes free.
        api.delete(f"{pods}/fits?gracePeriodSeconds=0")
        eventually(
            lambda: api.get(f"{pods}/waits").body["spec"].get("nodeName") == ns,
            details=(tmp_path / "scheduler.log").read_text,
        )
    # Asked to stop, it lets go of its lease, so that the next need not wait.
    assert not api.get(lease).body["spec"].get("holderIdentity")
    api.delete(f"{pods}/waits?gracePeriodSeconds=0")
    api.delete(f"/api/v1/nodes/{ns}")


def _read(port: int, path: str) -> str:
    with urllib.request.urlopen(f"https://127.0.0.1:{port}{path}", context=unverified_tls(), timeout=10) as answer:
        return str(answer.read().decode())
