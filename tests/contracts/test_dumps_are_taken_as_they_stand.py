"""A dump of a cluster is taken as it stands: every kind that decisions read, as servers store and list it."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from support.api_servers import ServerApi
from tonnage.gates import Gates
from tonnage.objects import codec
from tonnage.whatif.creation import Creation
from tonnage.whatif.manifests import READ
from tonnage.whatif.sources import from_files

Doc = dict[str, Any]

LABELS = {"app": "web", "pod-template-hash": "7f"}
SPREAD = {
    "maxSkew": 1,
    "topologyKey": "topology.kubernetes.io/zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
    "matchLabelKeys": ["pod-template-hash"],
}
AFFINITY = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"app": "web"}},
                "matchLabelKeys": ["pod-template-hash"],
                "mismatchLabelKeys": ["tenant"],
            }
        ]
    }
}
CONTAINER = {
    "name": "c",
    "image": "app:1",
    "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
    "ports": [{"containerPort": 80, "hostPort": 8080}],
}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": {"containers": [CONTAINER]}}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}}
EPHEMERAL = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM}}}


def documents(namespace: str) -> list[Doc]:
    """One object or more of each kind, with the fields whose stored form a server would not take a second time."""
    names = {"namespace": namespace}
    tenant = {**LABELS, "tenant": "t"}
    usual: Doc = {"containers": [CONTAINER], "volumes": [EPHEMERAL], "topologySpreadConstraints": [SPREAD]}
    source = {"csi": {"driver": "st.example", "volumeHandle": "h"}}
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["dump-1"]}]}
    return [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "dump-1", "labels": {
            "kubernetes.io/hostname": "dump-1", "topology.kubernetes.io/zone": "z"}},
         "spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"], "unschedulable": True},
         "status": {"capacity": {"cpu": "8", "memory": "16Gi", "pods": "110"}}},
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"{namespace}-other"}},
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "patient"},
         "value": 10, "preemptionPolicy": "Never"},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "labels": tenant, **names},
         "spec": {**usual, "affinity": AFFINITY, "priorityClassName": "patient"}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bound", "labels": tenant, **names},
         "spec": {**usual, "nodeName": "dump-1"}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "gated", **names},
         "spec": {"containers": [CONTAINER], "schedulingGates": [{"name": "wait"}]}},
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web", **names},
         "spec": {"minAvailable": "50%", "selector": {"matchLabels": LABELS}}},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "headless", **names},
         "spec": {"clusterIP": "None", "selector": {"app": "web"}}},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "plain", **names},
         "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}], "type": "NodePort"}},
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web", **names},
         "spec": {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}},
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", **names},
         "spec": {"serviceName": "headless", "selector": {"matchLabels": LABELS}, "template": TEMPLATE,
                  "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": CLAIM}]}},
        {"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "old", **names},
         "spec": {"selector": LABELS, "template": TEMPLATE}},
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "dump"},
         "provisioner": "st.example", "volumeBindingMode": "WaitForFirstConsumer"},
        {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "st.example"},
         "spec": {"storageCapacity": True, "volumeRebuilding": True}},
        {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "dump-1"},
         "spec": {"drivers": [{"name": "st.example", "nodeID": "dump-1", "topologyKeys": ["kubernetes.io/hostname"],
                               "allocatable": {"count": 4}}]}},
        {"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity", "metadata": {"name": "dump-1", **names},
         "storageClassName": "dump", "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": "dump-1"}},
         "capacity": "100Gi", "availableCapacities": ["60Gi", "40Gi"]},
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "dump-volume"},
         "spec": {"capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "dump",
                  "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}, **source}},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", **names,
            "annotations": {"volume.kubernetes.io/selected-node": "dump-1"}},
         "spec": {**CLAIM, "storageClassName": "dump", "volumeName": "dump-volume"}},
        {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "dump-attachment"},
         "spec": {"attacher": "st.example", "nodeName": "dump-1", "source": {"persistentVolumeName": "dump-volume"}}},
        {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "data.refused", **names},
         "involvedObject": {"kind": "PersistentVolumeClaim", "name": "data", **names},
         "type": "Warning", "reason": "ProvisioningFailed", "message": "rpc error: code = InvalidArgument desc = no"},
    ]  # fmt: skip


@pytest.fixture(scope="module")
def dump(api: ServerApi) -> list[Doc]:
    """What the server lists of them once it has stored them."""
    namespace = "dumped"
    api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    docs = documents(namespace)
    for doc in docs:
        resource = READ[doc["apiVersion"], doc["kind"]]
        made = api.create(resource.path(doc["metadata"].get("namespace", "")), doc)
        if "status" in doc:
            made.body["status"] = doc["status"]
            assert api.put(f"{resource.path()}/{doc['metadata']['name']}/status", made.body).code == 200
    ours = {(doc["kind"], doc["metadata"]["name"]) for doc in docs}
    listed: list[Doc] = []
    for (api_version, kind), resource in READ.items():
        found = [each for each in api.get(resource.path()).body["items"] if (kind, each["metadata"]["name"]) in ours]
        assert found, f"no {kind} in the dump: add one to documents()"
        listed += [{"apiVersion": api_version, "kind": kind, **each} for each in found]
    return listed


@pytest.mark.parametrize("left_out", ["", "resourceVersion", "uid", "managedFields"])
def test_a_dump_of_every_kind_is_taken_as_it_stands(dump, tmp_path: Path, left_out):
    docs = copy.deepcopy(dump)
    for doc in docs:
        doc["metadata"].pop(left_out, None)
    file = tmp_path / "dump.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": docs}))
    state = from_files([str(file)], Creation(Gates()))
    assert (list(state.warnings), list(state.notes)) == ([], [])
    if left_out != "uid":  # one is given where there is none
        assert [*state.objects] == [codec.decode_doc(doc) for doc in docs]
