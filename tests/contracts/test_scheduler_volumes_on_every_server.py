"""The live scheduler sends claims to their nodes and waits for their volumes, on our server and on Kubernetes' own.

Kubernetes does not know KEP-5925's fields, and drops them; both are told by annotation here, as a provisioner that
notices it tells. The test is provisioner and binder.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.api_servers import ServerApi
from support.eventually import eventually
from support.http import Doc
from support.programs import RunningProgram, spawn

STORAGE = "/apis/storage.k8s.io/v1"
POOLS = "tonnage.dev/available-capacities"
SELECTED_NODE = "volume.kubernetes.io/selected-node"


@contextmanager
def scheduler(api: ServerApi, folder: Path, name: str) -> Iterator[RunningProgram]:
    """`tonnage scheduler` with one profile of that name."""
    kubeconfig = {
        "clusters": [{"name": "c", "cluster": {"server": api.url, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "u", "user": {"token": api.token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": name}],
    }
    (folder / "kubeconfig").write_text(json.dumps(kubeconfig))
    (folder / "scheduler.yaml").write_text(json.dumps(configuration))
    given = ("--kubeconfig", str(folder / "kubeconfig"), "--config", str(folder / "scheduler.yaml"))
    process = spawn("scheduler", *given, "--secure-port", "0", log=folder / "scheduler.log")
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0, (folder / "scheduler.log").read_text()
    finally:
        process.kill()
        process.wait(timeout=30)


class SchedulerOnServer:
    """One namespace with a node, a class and a driver of its own."""

    def __init__(self, api: ServerApi, ns: str, folder: Path) -> None:
        self.api, self.ns, self.folder = api, ns, folder
        self.claims = f"/api/v1/namespaces/{ns}/persistentvolumeclaims"
        self.pods = f"/api/v1/namespaces/{ns}/pods"
        self.capacity = f"{STORAGE}/namespaces/{ns}/csistoragecapacities"
        meta = {"name": ns}
        mode = {"provisioner": ns, "volumeBindingMode": "WaitForFirstConsumer"}
        api.create(f"{STORAGE}/storageclasses", {"metadata": meta, **mode})
        rebuilds = {"annotations": {"tonnage.dev/volume-rebuilding": "true"}}
        api.create(f"{STORAGE}/csidrivers", {"metadata": {**meta, **rebuilds}, "spec": {"storageCapacity": True}})

    def node(self, name: str, pools: str) -> None:
        room = {"cpu": "2", "memory": "4Gi", "pods": "10"}
        labels = {"mine": self.ns, "kubernetes.io/hostname": name}
        self.api.create(
            "/api/v1/nodes",
            {"metadata": {"name": name, "labels": labels}, "status": {"capacity": room, "allocatable": room}},
        )
        self.api.create(
            self.capacity,
            {
                "metadata": {"name": name, "annotations": {POOLS: pools}},
                "storageClassName": self.ns,
                "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": name}},
                "capacity": "60Gi",
            },
        )

    def claim(self, name: str, size: str) -> None:
        spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": self.ns}
        self.api.create(
            self.claims, {"metadata": {"name": name}, "spec": {**spec, "resources": {"requests": {"storage": size}}}}
        )

    def pod(self, name: str, *claims: str) -> None:
        volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
        spec = {"schedulerName": self.ns, "nodeSelector": {"mine": self.ns}, "volumes": volumes}
        container = {"name": "c", "image": "i"}
        self.api.create(self.pods, {"metadata": {"name": name}, "spec": {**spec, "containers": [container]}})

    def selected(self, claim: str) -> str:
        return str(self.api.get(f"{self.claims}/{claim}").meta.get("annotations", {}).get(SELECTED_NODE, ""))

    def node_of(self, pod: str) -> str:
        return str(self.api.get(f"{self.pods}/{pod}").body["spec"].get("nodeName", ""))

    def provision(self, claim: str, size: str) -> None:
        found = self.api.get(f"{self.claims}/{claim}").meta
        spec: Doc = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": self.ns,
            "csi": {"driver": self.ns, "volumeHandle": claim},
            "claimRef": {"namespace": self.ns, "name": claim, "uid": found["uid"]},
        }
        self.api.create("/api/v1/persistentvolumes", {"metadata": {"name": f"{self.ns}-{claim}"}, "spec": spec})
        done = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
        patch = {"metadata": done, "spec": {"volumeName": f"{self.ns}-{claim}"}}
        reply = self.api.patch(f"{self.claims}/{claim}", patch)
        assert reply.code == 200, reply.body

    def eventually(self, holds: Callable[[], Any]) -> Any:
        return eventually(holds, details=(self.folder / "scheduler.log").read_text)


def test_claims_are_packed_into_pools_reserved_for_and_waited_for(api: ServerApi, ns: str, tmp_path: Path) -> None:
    stage = SchedulerOnServer(api, ns, tmp_path)
    first, second = f"{ns}-a", f"{ns}-b"
    # Two claims of 50 Gi: only the pools tell that they fit, for the object says that 60 Gi are free.
    stage.node(first, "60Gi,60Gi")
    stage.claim("one", "50Gi")
    stage.claim("two", "50Gi")
    stage.claim("three", "20Gi")
    stage.pod("db", "one", "two")
    with scheduler(api, tmp_path, ns):
        stage.eventually(lambda: stage.selected("one") == stage.selected("two") == first)
        # 50 Gi of each pool are promised to the first pod until the figures show them.
        stage.pod("web", "three")
        told = stage.eventually(lambda: api.get(f"{stage.pods}/web").body["status"].get("conditions"))
        assert "node(s) did not have enough free storage" in told[0]["message"]
        assert stage.node_of("db") == "", "its volumes are not there yet"
        stage.provision("one", "50Gi")
        stage.provision("two", "50Gi")
        stage.eventually(lambda: stage.node_of("db") == first)
        for pools in ("10Gi,10Gi", "10Gi,30Gi"):  # the figures show them; then somebody adds a disk
            api.patch(f"{stage.capacity}/{first}", {"metadata": {"annotations": {POOLS: pools}}})
        stage.eventually(lambda: stage.selected("three") == first)
        stage.provision("three", "20Gi")
        stage.eventually(lambda: stage.node_of("web") == first)
        # The node goes away: the driver rebuilds the volume where there is room.
        api.delete(f"{stage.pods}/web?gracePeriodSeconds=0")
        api.delete(f"/api/v1/nodes/{first}")
        stage.node(second, "60Gi")
        stage.pod("web-again", "three")
        stage.eventually(lambda: stage.node_of("web-again") == second)
        assert stage.selected("three") == second

        def events() -> list[str]:
            items = api.get(f"/apis/events.k8s.io/v1/namespaces/{ns}/events").body["items"]
            return [each["reason"] for each in items if each["regarding"]["name"] == "three"]

        assert stage.eventually(events) == ["CapacityAwareRescheduling"]
    for name in ("db", "web-again"):
        api.delete(f"{stage.pods}/{name}?gracePeriodSeconds=0")
    api.delete(f"/api/v1/nodes/{second}")
