"""Every verb on every kind: made, read, listed, replaced, patched four ways, shown in every form, deleted."""

from __future__ import annotations

from typing import Any

import pytest
from contract_documents import METADATA, TABLE, owners_of

from support.api_servers import ServerApi
from support.eventually import eventually

Doc = dict[str, Any]
TEMPLATE: Doc = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
SELECTOR: Doc = {"matchLabels": {"a": "b"}}
JOB: Doc = {"template": {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}}
WORKLOAD: Doc = {"selector": SELECTOR, "template": TEMPLATE}
BUDGET: Doc = {"minAvailable": 1, "selector": SELECTOR}
REQUESTS: Doc = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}
CLAIM: Doc = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
VOLUME: Doc = {
    "capacity": {"storage": "1Gi"},
    "accessModes": ["ReadWriteOnce"],
    "csi": {"driver": "d.example", "volumeHandle": "h"},
}
ATTACHED: Doc = {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "p"}}
SLICE: Doc = {
    "driver": "d.example",
    "nodeName": "n",
    "pool": {"name": "p", "resourceSliceCount": 1, "generation": 1},
}
DRIVER: Doc = {"name": "d.example", "nodeID": "n", "topologyKeys": ["k"], "allocatable": {"count": 3}}
RBAC = "rbac.authorization.k8s.io"
RULE: Doc = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
BINDING: Doc = {
    "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"},
    "subjects": [{"kind": "User", "apiGroup": RBAC, "name": "u"}],
}
REGARDING: Doc = {"kind": "Node", "name": "n"}
NEW_EVENT: Doc = {
    "regarding": REGARDING,
    "reason": "R",
    "type": "Normal",
    "action": "A",
    "reportingController": "e.com/c",
    "reportingInstance": "i",
    "eventTime": "2020-01-01T00:00:00.000000Z",
}

# (root, plural, kind, body); "*" before the plural marks what is in a namespace.
KINDS: list[tuple[str, str, str, Doc]] = [
    ("/api/v1", "*configmaps", "ConfigMap", {"data": {"k": "v"}}),
    ("/api/v1", "*limitranges", "LimitRange", {"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}}),
    ("/api/v1", "*persistentvolumeclaims", "PersistentVolumeClaim", {"spec": {**CLAIM, "storageClassName": "s"}}),
    ("/api/v1", "*pods", "Pod", {"spec": TEMPLATE["spec"]}),
    ("/api/v1", "*podtemplates", "PodTemplate", {"template": TEMPLATE}),
    ("/api/v1", "*replicationcontrollers", "ReplicationController", {"spec": {**WORKLOAD, "selector": {"a": "b"}}}),
    ("/api/v1", "*resourcequotas", "ResourceQuota", {"spec": {"hard": {"pods": "5"}}}),
    ("/api/v1", "*secrets", "Secret", {"data": {"k": "dg=="}}),
    ("/api/v1", "*serviceaccounts", "ServiceAccount", {}),
    ("/api/v1", "*services", "Service", {"spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}}),
    ("/api/v1", "nodes", "Node", {}),
    ("/api/v1", "persistentvolumes", "PersistentVolume", {"spec": VOLUME}),
    ("/apis/apps/v1", "*daemonsets", "DaemonSet", {"spec": WORKLOAD}),
    ("/apis/apps/v1", "*deployments", "Deployment", {"spec": WORKLOAD}),
    ("/apis/apps/v1", "*replicasets", "ReplicaSet", {"spec": WORKLOAD}),
    ("/apis/apps/v1", "*statefulsets", "StatefulSet", {"spec": {**WORKLOAD, "serviceName": "s"}}),
    ("/apis/batch/v1", "*cronjobs", "CronJob", {"spec": {"schedule": "@daily", "jobTemplate": {"spec": JOB}}}),
    ("/apis/batch/v1", "*jobs", "Job", {"spec": JOB}),
    ("/apis/coordination.k8s.io/v1", "*leases", "Lease", {"spec": {"holderIdentity": "h"}}),
    ("/apis/events.k8s.io/v1", "*events", "Event", NEW_EVENT),
    (
        "/apis/networking.k8s.io/v1",
        "*networkpolicies",
        "NetworkPolicy",
        {"spec": {"podSelector": SELECTOR, "ingress": [{"ports": [{"port": "https"}]}]}},
    ),
    ("/apis/node.k8s.io/v1", "runtimeclasses", "RuntimeClass", {"handler": "h"}),
    ("/apis/policy/v1", "*poddisruptionbudgets", "PodDisruptionBudget", {"spec": BUDGET}),
    (f"/apis/{RBAC}/v1", "*rolebindings", "RoleBinding", BINDING),
    (f"/apis/{RBAC}/v1", "*roles", "Role", {"rules": [RULE]}),
    (f"/apis/{RBAC}/v1", "clusterrolebindings", "ClusterRoleBinding", BINDING),
    (
        f"/apis/{RBAC}/v1",
        "clusterroles",
        "ClusterRole",
        {"rules": [RULE, {"verbs": ["get"], "nonResourceURLs": ["/x"]}]},
    ),
    ("/apis/resource.k8s.io/v1", "*resourceclaims", "ResourceClaim", {"spec": REQUESTS}),
    ("/apis/resource.k8s.io/v1", "*resourceclaimtemplates", "ResourceClaimTemplate", {"spec": {"spec": REQUESTS}}),
    ("/apis/resource.k8s.io/v1", "deviceclasses", "DeviceClass", {"spec": {}}),
    ("/apis/resource.k8s.io/v1", "resourceslices", "ResourceSlice", {"spec": SLICE}),
    ("/apis/scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", {"value": 5}),
    ("/apis/storage.k8s.io/v1", "*csistoragecapacities", "CSIStorageCapacity", {"storageClassName": "s"}),
    ("/apis/storage.k8s.io/v1", "csidrivers", "CSIDriver", {"spec": {"storageCapacity": True}}),
    ("/apis/storage.k8s.io/v1", "csinodes", "CSINode", {"spec": {"drivers": [DRIVER]}}),
    ("/apis/storage.k8s.io/v1", "storageclasses", "StorageClass", {"provisioner": "p"}),
    ("/apis/storage.k8s.io/v1", "volumeattachments", "VolumeAttachment", {"spec": ATTACHED}),
    (
        "/apis/storage.k8s.io/v1",
        "volumeattributesclasses",
        "VolumeAttributesClass",
        {"driverName": "d.example", "parameters": {"k": "v"}},
    ),
]
WITHOUT_GENERATION = {
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ConfigMap",
    "CSIDriver",  # it has one from its first change on
    "CSINode",
    "CSIStorageCapacity",
    "Event",
    "Lease",
    "LimitRange",
    "Node",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "ResourceQuota",
    "RuntimeClass",
    "Secret",
    "Service",
    "ServiceAccount",
    "StorageClass",
    "VolumeAttachment",
    "VolumeAttributesClass",
}


@pytest.mark.parametrize(("root", "plural", "kind", "body"), KINDS, ids=[row[2] for row in KINDS])
def test_a_life(api: ServerApi, ns: str, root: str, plural: str, kind: str, body: Doc) -> None:
    namespaced = plural.startswith("*")
    plural = plural.removeprefix("*")
    path = f"{root}/namespaces/{'default' if kind == 'Event' else ns}/{plural}" if namespaced else f"{root}/{plural}"
    one, head = f"{path}/{ns}", {"apiVersion": root.removeprefix("/apis/").removeprefix("/api/"), "kind": kind}

    def doc(**labels: str) -> Doc:
        return {**head, "metadata": {"name": ns, "labels": labels}, **body}

    made = api.post(path, doc(step="made"))
    assert made.code == 201, made.body
    assert {field: made.body[field] for field in head} == head
    assert ("generation" in made.meta) is (kind not in WITHOUT_GENERATION)
    assert owners_of(made.body) == [("contract", "Update", "")]
    assert api.post(path, doc()).reason == "AlreadyExists"
    assert api.get(one).body == made.body

    assert ns in api.get(path).names and api.get(f"{root}/{plural}")["kind"] == f"{kind}List"
    assert api.get(f"{path}?fieldSelector=metadata.name%3D{ns}").names == [ns]
    assert api.get(one, accept=TABLE)["rows"][0]["cells"][0] is not None
    assert api.get(one, accept=METADATA).meta["uid"] == made.meta["uid"]

    # Upstream may write the same a second time, in another encoding; from then on it knows that nothing changes.
    again = api.put(one, made.body)
    assert api.put(one, again.body).version == again.version
    put = api.put(one, {**again.body, "metadata": {**again.meta, "labels": {"step": "put"}}})
    assert (put.code, put.meta["labels"]) == (200, {"step": "put"})
    assert api.put(one, {**again.body, "metadata": {**again.meta, "labels": {"step": "late"}}}).reason == "Conflict"

    assert api.patch(one, {"metadata": {"labels": {"step": "merge"}}}).meta["labels"] == {"step": "merge"}
    assert api.patch(one, {"metadata": {"labels": {"step": "strategic"}}}, "strategic").code == 200
    replace = [{"op": "replace", "path": "/metadata/labels/step", "value": "json"}]
    assert api.patch(one, replace, "json").meta["labels"] == {"step": "json"}
    applied = api.apply(one, {**head, "metadata": {"name": ns, "labels": {"mine": "1"}}}, "applier")
    assert applied.meta["labels"] == {"step": "json", "mine": "1"}
    assert owners_of(applied.body) == [("applier", "Apply", ""), ("contract", "Update", "")]

    events = api.watch(f"{path}?watch=1&resourceVersion={again.version}&fieldSelector=metadata.name%3D{ns}", 5)
    assert [event.type for event in events] == ["MODIFIED"] * 5
    assert events[-1].object == applied.body

    assert api.delete(f"{one}?dryRun=All").code == 200
    api.delete(f"{one}?propagationPolicy=Background")
    assert api.get(one).reason == "NotFound"
    [gone] = api.watch(f"{path}?watch=1&resourceVersion={applied.version}&fieldSelector=metadata.name%3D{ns}", 1)[-1:]
    assert gone.name == ns
    assert api.delete(f"{path}?labelSelector=nobody%3Dhas").names == []


@pytest.mark.parametrize(("root", "plural", "kind", "body"), KINDS, ids=[row[2] for row in KINDS])
def test_what_is_left_out_is_told_the_same_way(
    api: ServerApi, ns: str, root: str, plural: str, kind: str, body: Doc
) -> None:
    plural = plural.removeprefix("*")
    missing = api.get(
        f"{root}/namespaces/{ns}/{plural}/nobody" if f"*{plural}" in NAMESPACED else f"{root}/{plural}/nobody"
    )
    group = root.removeprefix("/apis/").removeprefix("/api/").rpartition("/")[0]
    assert missing.message == f'{plural}{"." if group else ""}{group} "nobody" not found'
    assert missing["details"] == {"name": "nobody", "kind": plural, **({"group": group} if group else {})}


def test_a_revision_of_a_template_is_only_renumbered(api: ServerApi, ns: str) -> None:
    path = f"/apis/apps/v1/namespaces/{ns}/controllerrevisions"
    made = api.create(path, {"metadata": {"name": "a"}, "revision": 1, "data": {"a": "b"}})
    assert api.put(f"{path}/a", {**made.body, "revision": 2})["revision"] == 2
    refused = api.put(f"{path}/a", {"metadata": {"name": "a"}, "revision": 2, "data": {"a": "c"}})
    assert (refused.code, [field for field, _ in refused.causes]) == (422, ["data"])


NAMESPACED = {row[1] for row in KINDS if row[1].startswith("*")}


def test_a_fresh_cluster_has_the_service_kubernetes(api: ServerApi) -> None:
    path = "/api/v1/namespaces/default/services/kubernetes"
    eventually(lambda: api.get(path).code == 200, "the server to tell where it is")
    made = api.get(path)
    assert made["metadata"]["labels"] == {"component": "apiserver", "provider": "kubernetes"}
    spec = dict(made["spec"])
    [port] = spec.pop("ports")
    assert isinstance(port.pop("targetPort"), int) and port == {"name": "https", "port": 443, "protocol": "TCP"}
    assert spec == {
        "clusterIP": "10.0.0.1",
        "clusterIPs": ["10.0.0.1"],
        "internalTrafficPolicy": "Cluster",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "sessionAffinity": "None",
        "type": "ClusterIP",
    }
