"""Programs run as their rendered pods say, by the rendered rights alone, and do all their work; nothing is refused."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from played import Played
from rendered import (
    NAMESPACE,
    ROOT,
    Document,
    chart_objects,
    documents,
    needs_helm,
    needs_kubectl,
    overlay_objects,
    template,
    the,
)

from support.api_servers import ServerApi, kube_apiserver
from support.processes import start_cluster
from tonnage.objects.storage_v1 import AVAILABLE_CAPACITIES

ASSETS = Path(os.environ.get("KUBEBUILDER_ASSETS", "/nowhere"))
POLICY = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
NODE = "node-1"

pytestmark = [pytest.mark.slow, needs_helm, needs_kubectl]


@pytest.fixture(params=["embedded", pytest.param("kube-apiserver", marks=pytest.mark.envtest)])
def cluster(request: pytest.FixtureRequest) -> Iterator[Played]:
    with tempfile.TemporaryDirectory(prefix="t") as short:  # sockets have short paths
        folder = Path(short)
        log, server = folder / "audit", folder / "s"
        server.mkdir()
        if request.param == "embedded":
            embedded = start_cluster(server, "--audit-log-path", str(log))
            with_api = Played(folder, ServerApi("embedded", embedded.url, embedded.token), log)
            try:
                yield with_api
            finally:
                with_api.stop()
                with_api.api.close()
                embedded.stop()
            return
        if not (ASSETS / "kube-apiserver").exists():
            pytest.skip("KUBEBUILDER_ASSETS does not name a folder with kube-apiserver and etcd")
        (folder / "policy.yaml").write_text(POLICY)
        flags = {"audit-log-path": str(log), "audit-policy-file": str(folder / "policy.yaml")}
        with kube_apiserver(server, ASSETS, flags=flags) as api:
            played = Played(folder, api, log)
            try:
                yield played
            finally:
                played.stop()


def claim(name: str, size: str, **spec: Any) -> Document:
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"storageClassName": "growing", **asked, **spec},
    }


def pod(name: str, *claims: str, scheduler: str = "") -> Document:
    mounts = [{"name": each, "mountPath": f"/{each}"} for each in claims]
    spec: Document = {
        "automountServiceAccountToken": False,
        "containers": [{"name": "c", "image": "c", "volumeMounts": mounts}],
        "volumes": [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims],
    }
    if scheduler:
        spec["schedulerName"] = scheduler
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def runs(cluster: Played, name: str) -> None:
    path = f"/api/v1/namespaces/default/pods/{name}"
    cluster.until(lambda: cluster.api.get(path).body.get("status", {}).get("phase") == "Running", f"{name} to run")


def holder(cluster: Played, namespace: str, name: str) -> str:
    found = cluster.api.get(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}")
    return str(found.body["spec"].get("holderIdentity") or "") if found.code == 200 else ""


def configured(cluster: Played, objects: list[Document]) -> dict[str, Path]:
    """The scheduler's ConfigMap as a folder."""
    folder = cluster.folder / "etc"
    folder.mkdir(exist_ok=True)
    (data,) = (each["data"] for each in objects if "scheduler.yaml" in each.get("data", {}))
    for name, text in data.items():
        (folder / name).write_text(text)
    return {"/etc/tonnage": folder}


def test_two_schedulers_and_a_provisioner_do_all_that_their_pods_are_for(cluster: Played):
    ours, drivers = overlay_objects("second-scheduler"), overlay_objects("provisioner")
    spaces = [each for each in (*ours, *drivers) if each["kind"] == "Namespace"]
    growing = {**the(drivers, "StorageClass", "example"), "metadata": {"name": "growing"}, "allowVolumeExpansion": True}
    cluster.apply(spaces)
    cluster.apply([each for each in (*ours, *drivers, growing) if each["kind"] != "Namespace"])

    socket = f"unix://{cluster.folder}/csi/csi.sock"
    (cluster.folder / "csi").mkdir()
    cluster.run_admin("controllers", "--secure-port", "0")
    own = "/api/v1/namespaces/example-driver/pods/example-driver-0"
    cluster.until(lambda: cluster.api.get(own).code == 200, "the driver's own pod")
    driver = the(drivers, "StatefulSet", "example-driver")
    paths = {"/csi/csi.sock": cluster.folder / "csi" / "csi.sock", "/volumes": cluster.folder / "volumes"}
    cluster.run_pod(driver, container="driver", node=NODE, paths=paths)
    cluster.run_pod(driver, container="tonnage-provisioner", node=NODE, paths=paths)
    cluster.run_admin("node", "--node-name", NODE, "--csi-address", socket, "--root-dir", cluster.folder / "root")
    etc = configured(cluster, ours)
    deployment = the(ours, "Deployment", "tonnage-scheduler")
    copies = ("tonnage-scheduler-a", "tonnage-scheduler-b")
    for copy in copies:  # leading or not: a copy that waits is healthy
        cluster.run_pod(deployment, name=copy, paths=etc)

    # Volumes are made, grown, copied, and room is told in the driver's namespace, with an owner.
    cluster.apply([claim("data", "1Gi"), pod("db", "data", scheduler="tonnage")])
    runs(cluster, "db")
    grown = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    path = "/api/v1/namespaces/default/persistentvolumeclaims/data"
    assert cluster.api.patch(path, grown).code == 200
    cluster.until(lambda: cluster.api.get(path)["status"]["capacity"]["storage"] == "2Gi", "the claim to have grown")
    source = {"kind": "PersistentVolumeClaim", "name": "data"}
    cluster.apply([claim("copy", "2Gi", dataSource=source), pod("reader", "copy", scheduler="tonnage")])
    runs(cluster, "reader")
    published = "/apis/storage.k8s.io/v1/namespaces/example-driver/csistoragecapacities"
    cluster.until(lambda: len(cluster.api.get(published)["items"]) >= 2, "room to be published")
    for each in cluster.api.get(published)["items"]:
        (owner,) = each["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"]) == ("StatefulSet", "example-driver")
    cluster.until(lambda: holder(cluster, "example-driver", "example-tonnage-dev"), "the provisioner's lease")

    # The leader dies; the other one goes on.
    first = holder(cluster, NAMESPACE, "tonnage-scheduler")
    (leading,) = (f"{copy}-scheduler" for copy in copies if "Became leader" in cluster.log(f"{copy}-scheduler"))
    cluster.stop(leading, number=signal.SIGKILL)
    cluster.apply([claim("late", "1Gi"), pod("late", "late", scheduler="tonnage")])
    runs(cluster, "late")
    assert holder(cluster, NAMESPACE, "tonnage-scheduler") not in ("", first)

    for name in ("db", "reader", "late"):
        cluster.kubectl("delete", "pod", name, "--wait=false")
    for name in ("data", "copy", "late"):
        cluster.kubectl("delete", "pvc", name, "--wait=false")
    cluster.until(lambda: not cluster.api.get("/api/v1/persistentvolumes")["items"], "the volumes to be deleted")
    cluster.stop()
    assert {("create", "pods/binding"), ("update", "leases")} <= cluster.calls("tonnage-scheduler")
    done = {("create", "persistentvolumes"), ("delete", "persistentvolumes"), ("create", "csistoragecapacities")}
    assert done | {("patch", "persistentvolumeclaims/status")} <= cluster.calls("example-driver")
    assert cluster.refused() == []


def test_the_only_scheduler_waits_for_kube_schedulers_lease_and_places_pods(cluster: Played):
    """kube-scheduler holds it and lets go of it; then every pod that names nobody is ours."""
    objects = overlay_objects("only-scheduler")
    cluster.apply([each for each in objects if each["kind"] == "Namespace"])
    cluster.apply([each for each in objects if each["kind"] != "Namespace"])
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    held = {"holderIdentity": "kube-scheduler-1", "leaseDurationSeconds": 3600, "leaseTransitions": 1}
    now = "2126-01-01T00:00:00.000000Z"
    spec = {**held, "acquireTime": now, "renewTime": now}
    made = cluster.api.post(leases, {"metadata": {"name": "kube-scheduler", "namespace": "kube-system"}, "spec": spec})
    assert made.code == 201, made.body
    cluster.run_admin("controllers", "--secure-port", "0")
    cluster.run_admin("node", "--node-name", NODE, "--root-dir", cluster.folder / "root")
    deployment = the(objects, "Deployment", "tonnage-scheduler")
    cluster.run_pod(deployment, paths=configured(cluster, objects))
    cluster.apply([pod("anyone")])
    assert holder(cluster, "kube-system", "kube-scheduler") == "kube-scheduler-1"
    freed = {"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}
    assert cluster.api.patch(f"{leases}/kube-scheduler", freed).code == 200
    runs(cluster, "anyone")
    cluster.until(lambda: holder(cluster, "kube-system", "kube-scheduler"), "the lease to be held")
    cluster.stop()
    assert holder(cluster, "kube-system", "kube-scheduler") == "", "it gives the lease back as it ends"
    assert cluster.refused() == []


LVM = "local.csi.openebs.io"
SOURCES: dict[str, tuple[str, str, str]] = {
    # values; whose classes; what the annotation says afterwards
    "openebs-lvm": ("pools.source=openebs-lvm,pools.setCapacityGroups=true", LVM, "60Gi"),
    "topolvm": ("pools.source=topolvm", "topolvm.io", "60Gi"),
    "nodes": (
        r"pools.source=nodes,pools.drivers[0]=any.example,pools.annotation=example\.com/pools",
        "any.example",
        "60Gi",
    ),
    "command": ("pools.source=command,pools.drivers[0]=any.example,pools.command=cat POOLS", "any.example", "60Gi"),
}


@pytest.mark.parametrize("source", SOURCES)
def test_pools_are_told_as_the_pod_says(cluster: Played, source: str):
    values, driver, told = SOURCES[source]
    pools = cluster.folder / "pools.json"
    pools.write_text(json.dumps({"pools": ["60Gi", "40Gi"]}))
    sets = f"scheduler.enabled=false,pools.enabled=true,{values.replace('POOLS', str(pools))}"
    done = template("--set", sets)
    assert done.returncode == 0, done.stderr
    objects = documents(done.stdout)
    (workload,) = (each for each in objects if each["kind"] in ("Deployment", "DaemonSet"))
    cluster.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    cluster.apply(objects)
    node = {
        "metadata": {
            "name": NODE,
            "labels": {"place": NODE, "kubernetes.io/hostname": NODE},
            "annotations": {
                "example.com/pools": "60Gi,40Gi",
                "capacity.topolvm.io/00default": str(60 << 30),
                "capacity.topolvm.io/ssd": str(60 << 30),
            },
        }
    }
    cluster.api.create("/api/v1/nodes", node)
    entry = {"name": driver, "nodeID": NODE, "topologyKeys": ["place"]}
    cluster.api.create("/apis/storage.k8s.io/v1/csinodes", {"metadata": {"name": NODE}, "spec": {"drivers": [entry]}})
    parameters = {"vgpattern": ".*"} if driver == LVM else {}
    cluster.api.create(
        CLASSES,
        {
            "metadata": {"name": "drawn"},
            "provisioner": driver,
            "parameters": parameters,
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    )
    capacities = "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities"
    cluster.api.create(
        capacities,
        {
            "metadata": {"name": "csisc-1", "namespace": "default"},
            "storageClassName": "drawn",
            "nodeTopology": {"matchLabels": {"place": NODE}},
            "capacity": "100Gi",
        },
    )
    if source == "openebs-lvm":
        cluster.apply(list(yaml.safe_load_all((ROOT / "examples" / "20-one-number" / "lvmnode-crd.yaml").read_text())))
        lvm_nodes = "/apis/local.openebs.io/v1alpha1/namespaces/default/lvmnodes"
        cluster.until(lambda: cluster.api.get(lvm_nodes).code == 200, "LVMNodes to be served")
        cluster.api.create(lvm_nodes, lvm_node("60Gi", "40Gi"))
    cluster.run_pod(workload, node=NODE)

    def annotation() -> str:
        found = cluster.api.get(f"{capacities}/csisc-1")["metadata"].get("annotations", {})
        return str(found.get(AVAILABLE_CAPACITIES, ""))

    cluster.until(lambda: told in annotation(), "the pools to be told")
    if source == "openebs-lvm":
        cluster.until(lambda: cluster.api.get(f"{CLASSES}/drawn")["metadata"].get("annotations"), "the class's notes")
    cluster.stop()
    if source != "command":
        assert ("update", "leases") in cluster.calls("tonnage-pools")
    assert cluster.refused() == []


def lvm_node(*free: str) -> Document:
    numbers = ("lvCount", "pvCount", "maxLv", "maxPv", "snapCount", "missingPvCount", "metadataCount")
    rest = (*numbers, "metadataUsedCount", "permissions", "allocationPolicy")
    groups = [
        {
            "name": f"vg-{idx}",
            "uuid": f"uuid-{idx}",
            "size": "100Gi",
            "free": each,
            "metadataFree": "0",
            "metadataSize": "0",
            **dict.fromkeys(rest, 0),
        }
        for idx, each in enumerate(free)
    ]
    metadata = {"name": NODE, "namespace": "default"}
    return {
        "apiVersion": "local.openebs.io/v1alpha1",
        "kind": "LVMNode",
        "metadata": metadata,
        "volumeGroups": groups,
    }


def test_no_choice_of_the_chart_is_left_unplayed():
    """A new kind of pod has to be run here as well."""
    found = {
        container["args"][0]
        for each in chart_objects("everything")
        if each["kind"] in ("Deployment", "DaemonSet", "StatefulSet")
        for container in each["spec"]["template"]["spec"]["containers"]
    }
    assert found == {"scheduler", "pools"}
