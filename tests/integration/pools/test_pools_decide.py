"""What the scheduler makes of pools that `tonnage pools` keeps, on this API server and on Kubernetes' own.

A class of OpenEBS LVM LocalPV and its LVMNode objects, without the driver: where its claims are sent is what counts.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.api_servers import ServerApi, embedded, kube_apiserver
from support.eventually import eventually
from support.programs import spawn
from tonnage.objects.core_v1.persistent_volume import SELECTED_NODE
from tonnage.objects.storage_v1 import AVAILABLE_CAPACITIES, POOL_POLICY

Doc = dict[str, Any]
EXAMPLE = Path(__file__).parent.parent.parent.parent / "examples" / "20-one-number"
DRIVER = "local.csi.openebs.io"
STORAGE = "/apis/storage.k8s.io/v1"
LVM_NODES = "/apis/local.openebs.io/v1alpha1/namespaces/openebs/lvmnodes"
CORE = "/api/v1/namespaces/default"
CAPACITIES = f"{STORAGE}/namespaces/openebs/csistoragecapacities"
WITHIN_S = 120.0


@pytest.fixture(params=["embedded", pytest.param("kube-apiserver", marks=pytest.mark.envtest)])
def api(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerApi]:
    if request.param == "embedded":
        with embedded(tmp_path) as api:
            yield api
        return
    assets = Path(os.environ.get("KUBEBUILDER_ASSETS", "/nowhere"))
    if not (assets / "kube-apiserver").exists():
        pytest.skip("KUBEBUILDER_ASSETS does not name a folder with kube-apiserver and etcd")
    with kube_apiserver(tmp_path, assets) as api:
        yield api


@contextmanager
def program(api: ServerApi, folder: Path, name: str, *flags: str) -> Iterator[None]:
    kubeconfig = folder / "to-server.json"
    cluster = {"server": api.url, "insecure-skip-tls-verify": True}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": api.token}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    kubeconfig.write_text(json.dumps(config))
    process = spawn(name, "--kubeconfig", str(kubeconfig), *flags, log=folder / f"{name}.log")
    try:
        if name == "pools":
            assert process.readline() == "ready\n", (folder / f"{name}.log").read_text()
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def create(api: ServerApi, path: str, doc: Doc) -> Doc:
    reply = api.post(path, doc)
    assert reply.code == 201, reply.body
    found: Doc = reply.body
    return found


def is_created(api: ServerApi, path: str, doc: Doc) -> bool:
    return api.post(path, doc).code == 201


def group(name: str, free: str) -> Doc:
    zeros = dict.fromkeys(("lvCount", "maxLv", "maxPv", "snapCount", "missingPvCount", "permissions"), 0)
    counts = {"pvCount": 1, "metadataCount": 1, "metadataUsedCount": 1, "allocationPolicy": 0}
    sizes = {"size": "100Gi", "free": free, "metadataFree": "507Ki", "metadataSize": "1020Ki"}
    return {"name": name, "uuid": f"uuid-{name}", **sizes, **zeros, **counts}


def set_the_scene(api: ServerApi) -> None:
    definition = yaml.safe_load((EXAMPLE / "lvmnode-crd.yaml").read_text())
    create(api, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    if api.get("/api/v1/namespaces/openebs").code == 404:
        create(api, "/api/v1/namespaces", {"metadata": {"name": "openebs"}})
    create(api, f"{STORAGE}/csidrivers", {"metadata": {"name": DRIVER}, "spec": {"storageCapacity": True}})
    waits = {"volumeBindingMode": "WaitForFirstConsumer", "parameters": {"vgpattern": "^vg-"}}
    create(api, f"{STORAGE}/storageclasses", {"metadata": {"name": "lvm"}, "provisioner": DRIVER, **waits})
    for name, second in (("node-1", "100Gi"), ("node-2", "20Gi")):
        labels = {"openebs.io/nodename": name, "kubernetes.io/hostname": name}
        room = {"cpu": "4", "memory": "8Gi", "pods": "10"}
        ready = [{"type": "Ready", "status": "True"}]
        status = {"allocatable": room, "capacity": room, "conditions": ready}
        create(api, "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}, "status": status})
        reply = api.patch(f"/api/v1/nodes/{name}/status", {"status": status})
        assert reply.code == 200, reply.body
        topology = {"matchLabels": {"openebs.io/nodename": name}}
        figure = {"storageClassName": "lvm", "nodeTopology": topology, "capacity": "100Gi"}
        create(api, CAPACITIES, {"metadata": {"name": f"csisc-{name}"}, **figure})
        driver = {"name": DRIVER, "nodeID": name, "topologyKeys": ["openebs.io/nodename"]}
        create(api, f"{STORAGE}/csinodes", {"metadata": {"name": name}, "spec": {"drivers": [driver]}})
        doc = {"apiVersion": "local.openebs.io/v1alpha1", "kind": "LVMNode", "metadata": {"name": name}}
        groups = [group("vg-1", "100Gi"), group("vg-2", second)]
        eventually(
            partial(is_created, api, LVM_NODES, {**doc, "volumeGroups": groups}),
            "the definition to be served",
            within_s=WITHIN_S,
        )


def apply_pod(api: ServerApi) -> None:
    for doc in yaml.safe_load_all((EXAMPLE / "pod.yaml").read_text()):
        plural = {"Pod": "pods", "PersistentVolumeClaim": "persistentvolumeclaims"}[doc["kind"]]
        if doc["kind"] == "Pod":
            doc["spec"]["schedulerName"] = "tonnage-scheduler"
        create(api, f"{CORE}/{plural}", doc)


def message(api: ServerApi) -> str:
    conditions = api.get(f"{CORE}/pods/two-groups").body.get("status", {}).get("conditions", [])
    return next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")


def selected(api: ServerApi) -> list[str | None]:
    items = api.get(f"{CORE}/persistentvolumeclaims").body["items"]
    return [each["metadata"].get("annotations", {}).get(SELECTED_NODE) for each in items]


def pools(api: ServerApi, name: str) -> str | None:
    found: str | None = (
        api.get(f"{CAPACITIES}/{name}").body["metadata"].get("annotations", {}).get(AVAILABLE_CAPACITIES)
    )
    return found


def test_a_pod_that_one_number_turns_away_goes_where_its_pools_fit(api: ServerApi, tmp_path: Path) -> None:
    set_the_scene(api)
    config = tmp_path / "scheduler.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"clientConnection: {{kubeconfig: {tmp_path / 'to-server.json'}}}\nleaderElection: {{leaderElect: false}}\n"
        "profiles: [{schedulerName: tonnage-scheduler}]\n"
    )
    with ExitStack() as stack:
        stack.enter_context(program(api, tmp_path, "scheduler", "--config", str(config), "--secure-port", "0"))
        apply_pod(api)
        eventually(
            lambda: "2 node(s) did not have enough free storage" in message(api),
            "it to be turned away",
            within_s=WITHIN_S,
            details=lambda: message(api) + (tmp_path / "scheduler.log").read_text()[-2000:],
        )
        stack.enter_context(program(api, tmp_path, "pools", "--source", "openebs-lvm"))
        eventually(
            lambda: selected(api) == ["node-1", "node-1"],
            "it to be sent to node-1",
            within_s=WITHIN_S,
            details=lambda: f"{selected(api)} {message(api)} {(tmp_path / 'pools.log').read_text()[-2000:]}",
        )
        assert (pools(api, "csisc-node-1"), pools(api, "csisc-node-2")) == ("100Gi,100Gi", "100Gi,20Gi")
        eventually(
            lambda: (
                api.get(f"{STORAGE}/storageclasses/lvm").body["metadata"].get("annotations", {}).get(POOL_POLICY)
                == "best-fit"
            ),
            "the policy to be told",
            within_s=WITHIN_S,
        )
        # The definition goes, its objects with it, and so do the pools.
        api.delete("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/lvmnodes.local.openebs.io")
        eventually(lambda: pools(api, "csisc-node-1") is None, "the pools to go", within_s=WITHIN_S)
