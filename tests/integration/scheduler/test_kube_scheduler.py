"""An unmodified kube-scheduler on the embedded server: it takes its Lease, follows everything, and binds.

It speaks protobuf and lists by watching, as all of Kubernetes' own programs do; nothing here is written for it. Needs
`kube-scheduler` in the folder that KUBEBUILDER_ASSETS names.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from support.eventually import eventually
from support.processes import start_cluster

BINARY = Path(os.environ.get("KUBEBUILDER_ASSETS", "/nowhere")) / "kube-scheduler"

pytestmark = [
    pytest.mark.envtest,
    pytest.mark.skipif(not BINARY.exists(), reason="KUBEBUILDER_ASSETS names no folder with kube-scheduler"),
]

PODS = "/api/v1/namespaces/default/pods"


def test_kube_scheduler_leads_watches_and_binds(tmp_path):
    cluster = start_cluster(tmp_path / "data")
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    cluster.post("/api/v1/nodes", {"metadata": {"name": "only"}, "status": {"allocatable": room, "capacity": room}})
    cluster.post(PODS, {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    command = [str(BINARY), f"--kubeconfig={cluster.kubeconfig}", "--secure-port=0", f"--cert-dir={tmp_path / 'certs'}"]
    with (tmp_path / "kube-scheduler.log").open("w") as log:
        process = subprocess.Popen(command, stderr=log)
    try:
        bound = eventually(
            lambda: cluster.get(f"{PODS}/web").body["spec"].get("nodeName"),
            details=(tmp_path / "kube-scheduler.log").read_text,
        )
        assert bound == "only"
        lease = cluster.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler").body
        assert lease["spec"]["holderIdentity"]
    finally:
        process.terminate()
        process.wait(timeout=20)
        cluster.stop()
