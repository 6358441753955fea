"""Scheduler, provisioner, controllers and node beside a driver that is not ours: kubernetes-csi's csi-driver-host-path.

Its program is named by CSI_HOSTPATH (built with a version, which it asks for). It mounts, and so needs root.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from support.eventually import eventually
from support.processes import ApiServerProcess, start_cluster

PLUGIN = os.environ.get("CSI_HOSTPATH", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PLUGIN, reason="CSI_HOSTPATH does not name a program of csi-driver-host-path"),
]

DRIVER = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "CSIDriver",
    "metadata": {"name": "hostpath.csi.k8s.io"},
    "spec": {"attachRequired": True, "podInfoOnMount": True, "storageCapacity": True},
}
CLASS = {
    "metadata": {"name": "fast"},
    "provisioner": "hostpath.csi.k8s.io",
    "parameters": {"kind": "fast"},
    "volumeBindingMode": "WaitForFirstConsumer",
    "allowVolumeExpansion": True,
}
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {
        "storageClassName": "fast",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "10Gi"}},
    },
}
POD = {
    "metadata": {"name": "db"},
    "spec": {
        "containers": [{"name": "main", "image": "x", "volumeMounts": [{"name": "d", "mountPath": "/d"}]}],
        "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}],
    },
}
STORAGE, CORE = "/apis/storage.k8s.io/v1", "/api/v1/namespaces/default"


@contextmanager
def running(*command: str, log: Path) -> Iterator[None]:
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=20)


@pytest.fixture
def cluster() -> Iterator[ApiServerProcess]:
    with tempfile.TemporaryDirectory(prefix="t") as name, ExitStack() as stack:
        folder = Path(name)
        socket = f"unix://{folder}/csi.sock"
        flags = [
            "--nodeid",
            "node-a",
            "--capacity",
            "fast=30Gi",
            "--statedir",
            str(folder / "state"),
            "--enable-attach",
        ]
        (folder / "state").mkdir()
        stack.enter_context(running(PLUGIN, "--endpoint", socket, *flags, log=folder / "plugin.log"))
        cluster = start_cluster(folder / "api")
        stack.callback(cluster.stop)
        assert cluster.post(f"{STORAGE}/csidrivers", DRIVER).code == 201
        assert cluster.post(f"{STORAGE}/storageclasses", CLASS).code == 201
        for program, *more in (
            ("controllers", "--csi-address", socket, "--secure-port", "0"),
            ("scheduler", "--no-leader-elect", "--secure-port", "0"),
            ("provisioner", "--csi-address", socket),
            ("node", "--node-name", "node-a", "--root-dir", str(folder / "node"), "--csi-address", socket),
        ):
            command = [sys.executable, "-m", "tonnage", program, "--kubeconfig", str(cluster.kubeconfig), *more]
            stack.enter_context(running(*command, log=folder / f"{program}.log"))
        yield cluster


def capacity(cluster: ApiServerProcess) -> list[str]:
    return [each["capacity"] for each in cluster.get(f"{STORAGE}/csistoragecapacities").body["items"]]


def test_a_volume_of_upstreams_own_driver_is_made_mounted_grown_and_deleted(cluster: ApiServerProcess):
    eventually(lambda: capacity(cluster) == ["30Gi"])
    cluster.post(f"{CORE}/persistentvolumeclaims", CLAIM)
    cluster.post(f"{CORE}/pods", POD)
    eventually(lambda: cluster.get(f"{CORE}/pods/db").body["status"]["phase"] == "Running")
    eventually(lambda: capacity(cluster) == ["20Gi"])
    grown = {"spec": {"resources": {"requests": {"storage": "15Gi"}}}}
    cluster.patch(f"{CORE}/persistentvolumeclaims/data", grown)
    claim = f"{CORE}/persistentvolumeclaims/data"
    eventually(lambda: cluster.get(claim).body["status"]["capacity"]["storage"] == "15Gi")
    cluster.delete(f"{CORE}/pods/db")
    cluster.delete(claim)
    eventually(lambda: cluster.get("/api/v1/persistentvolumes").body["items"] == [])
    eventually(lambda: capacity(cluster) == ["30Gi"])
