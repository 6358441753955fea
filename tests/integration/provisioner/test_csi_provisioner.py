"""Upstream's csi-provisioner and hostpath driver, unmodified, beside our scheduler: no volume is counted twice.

csi-provisioner publishes the smaller figure before the claim is bound. Needs both binaries in the folder that
KUBEBUILDER_ASSETS names.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from support.eventually import eventually
from support.processes import ApiServerProcess, start_cluster

ASSETS = Path(os.environ.get("KUBEBUILDER_ASSETS", "/nowhere"))
BINARIES = ("csi-provisioner", "hostpathplugin")

pytestmark = [
    pytest.mark.envtest,
    pytest.mark.skipif(
        not all((ASSETS / each).exists() for each in BINARIES),
        reason="KUBEBUILDER_ASSETS names no folder with csi-provisioner and hostpathplugin",
    ),
]

DRIVER, TOPOLOGY = "hostpath.csi.k8s.io", "topology.hostpath.csi/node"
CORE, STORAGE = "/api/v1", "/apis/storage.k8s.io/v1"
PODS, CLAIMS = f"{CORE}/namespaces/default/pods", f"{CORE}/namespaces/default/persistentvolumeclaims"


@contextmanager
def running(log: Path, *command: str, **environment: str) -> Iterator[None]:
    with log.open("w") as told:
        process = subprocess.Popen(command, stdout=told, stderr=told, env={**os.environ, **environment})
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=20)


def node_of(cluster: ApiServerProcess, name: str) -> str | None:
    found: str | None = cluster.get(f"{PODS}/{name}").body["spec"].get("nodeName")
    return found


def test_five_pods_one_after_the_other_fill_a_disk_of_100gi(tmp_path: Path) -> None:
    cluster = start_cluster(tmp_path / "data")
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    labels = {TOPOLOGY: "node-1", "kubernetes.io/hostname": "node-1"}
    node = {"metadata": {"name": "node-1", "labels": labels}, "status": {"allocatable": room, "capacity": room}}
    registered = [{"name": DRIVER, "nodeID": "node-1", "topologyKeys": [TOPOLOGY]}]
    objects = {
        f"{CORE}/nodes": node,
        f"{STORAGE}/csinodes": {"metadata": {"name": "node-1"}, "spec": {"drivers": registered}},
        f"{STORAGE}/csidrivers": {
            "metadata": {"name": DRIVER},
            "spec": {"storageCapacity": True, "attachRequired": False},
        },
        f"{STORAGE}/storageclasses": {
            "metadata": {"name": "fast"},
            "provisioner": DRIVER,
            "parameters": {"kind": "fast"},
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    }
    for path, doc in objects.items():
        assert cluster.post(path, doc).code == 201, path
    socket, kubeconfig = f"unix://{tmp_path}/csi.sock", f"--kubeconfig={cluster.kubeconfig}"
    driver = [str(ASSETS / "hostpathplugin"), f"--endpoint={socket}", "--nodeid=node-1", "--capacity=fast=100Gi"]
    driver += [f"--statedir={tmp_path / 'state'}", f"--drivername={DRIVER}"]
    provisioner = [str(ASSETS / "csi-provisioner"), kubeconfig, f"--csi-address={tmp_path}/csi.sock"]
    provisioner += ["--enable-capacity", "--capacity-ownerref-level=-1", "--strict-topology"]
    ours = [sys.executable, "-m", "tonnage"]
    with ExitStack() as programs:
        programs.callback(cluster.stop)
        for name, command in (
            ("driver", driver),
            ("provisioner", provisioner),
            ("controllers", [*ours, "controllers", kubeconfig]),
            ("scheduler", [*ours, "scheduler", kubeconfig, "--secure-port=0", "--leader-elect=false"]),
        ):
            programs.enter_context(running(tmp_path / f"{name}.log", *command, NAMESPACE="default", POD_NAME="p"))
        for number in range(5):
            # Were the volumes that the figure shows still promised, the fourth would wait: 100 - 60 - 60 < 20.
            asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "20Gi"}}}
            claim = {"metadata": {"name": f"data-{number}"}, "spec": {"storageClassName": "fast", **asked}}
            volume = {"name": "data", "persistentVolumeClaim": {"claimName": f"data-{number}"}}
            spec = {"containers": [{"name": "c", "image": "i"}], "volumes": [volume]}
            assert cluster.post(CLAIMS, claim).code == 201
            assert cluster.post(PODS, {"metadata": {"name": f"db-{number}"}, "spec": spec}).code == 201
            eventually(
                partial(node_of, cluster, f"db-{number}"),
                f"db-{number} to be bound",
                within_s=30.0,
                details=lambda: "\n".join(each.read_text()[-1500:] for each in sorted(tmp_path.glob("*.log"))),
            )
