"""What makes the programs of a cluster use what they may: everyday life, and what happens once in a while."""

from __future__ import annotations

from functools import partial
from typing import Any

from rights_stage import NAMESPACE, RightsStage

from tonnage.faults import Fault
from tonnage.node.pods.containers import RUN_SECONDS
from tonnage.stories.story_runner import claim, claim_spec, pod, pod_spec

Doc = dict[str, Any]
DRIVER = "pools.tonnage.dev"


def labelled(app: str, spec: Doc) -> Doc:
    return {"metadata": {"labels": {"app": app}}, "spec": spec}


def workload(kind: str, name: str, template: Doc, *, api: str = "apps/v1", of: str = "", **spec: Any) -> Doc:
    labels = {"app": of or name}
    selector: Doc = labels if kind == "ReplicationController" else {"matchLabels": labels}
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"selector": selector, "template": template, **spec},
    }


def environment(value: str | None) -> Doc:
    """A change of a pod template that nothing else depends on."""
    return {"spec": {"template": {"metadata": {"annotations": {"round": value}}}}}


def workloads_are_rolled_out(stage: RightsStage) -> None:
    """Deployment, StatefulSet, DaemonSet, ReplicationController: made, adopting, released, rolled out and back."""
    for name, app in (("stray", "web"), ("db-0", "db"), ("found", "agent"), ("former", "old")):
        stage.apply({**pod(name, node="node-1"), "metadata": {"name": name, "labels": {"app": app}}})
    stage.running("stray", "db-0", "found", "former")
    stage.apply(
        {
            **workload("ReplicaSet", "first", labelled("web", pod_spec(node="node-1")), of="web", replicas=1),
            "metadata": {"name": "first", "labels": {"app": "web"}},
        },
        workload("Deployment", "web", labelled("web", pod_spec()), replicas=2, revisionHistoryLimit=0),
        workload(
            "StatefulSet",
            "db",
            labelled("db", pod_spec()),
            replicas=1,
            serviceName="db",
            revisionHistoryLimit=1,
            volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": claim_spec("1Gi")}],
            persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete", "whenScaled": "Delete"},
        ),
        workload("DaemonSet", "agent", labelled("agent", pod_spec()), revisionHistoryLimit=0),
        workload("ReplicationController", "old", labelled("old", pod_spec()), api="v1", replicas=1),
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        },
    )
    stage.until(lambda: ready(stage, "Deployment", "web") == 2, "the Deployment")
    stage.until(lambda: ready(stage, "ReplicationController", "old") == 1, "the ReplicationController")
    stage.until(lambda: stage.get("DaemonSet", "agent")["status"].get("numberReady") == 3, "the DaemonSet")  # type: ignore[index]
    for value in ("2", None):  # and back: the first revision is the newest again
        for kind, name in (("Deployment", "web"), ("StatefulSet", "db"), ("DaemonSet", "agent")):
            stage.patch(kind, name, environment(value), "strategic")
        for kind, name in (("Deployment", "web"), ("StatefulSet", "db")):
            stage.until(partial(is_rolled_out, stage, kind, name), f"the {kind}'s round {value}")
    stage.until(lambda: len(stage.objects("ReplicaSet")) == 1, "older ReplicaSets to go")
    stage.patch("Pod", "former", {"metadata": {"labels": {"app": "free"}}})
    stage.until(lambda: not stage.get("Pod", "former")["metadata"].get("ownerReferences"), "the pod to be released")  # type: ignore[index]
    orphan = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Orphan"}
    stage.delete("ReplicationController", "old", orphan)
    stage.gone("ReplicationController", "old")
    for kind, name in (("Deployment", "web"), ("StatefulSet", "db"), ("DaemonSet", "agent")):
        stage.delete(kind, name)
        stage.gone(kind, name)
    stage.gone("PersistentVolumeClaim", "data-db-0")


def jobs_are_run(stage: RightsStage) -> None:
    """A Job that ends and goes when its time is up, and one that a CronJob makes."""
    spec = {**pod_spec(), "restartPolicy": "Never"}
    template = {"metadata": {"annotations": {RUN_SECONDS: "0"}}, "spec": spec}
    job = {"template": template, "ttlSecondsAfterFinished": 0}
    stage.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once"}, "spec": job})
    stage.apply(
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": "often"},
            "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}},
        }
    )
    stage.gone("Job", "once")
    stage.until(lambda: stage.asked("controllers", "create", "jobs"), "the CronJob's turn")
    stage.until(lambda: stage.asked("controllers", "patch", "cronjobs/status"), "the CronJob to tell")
    stage.delete("CronJob", "often")


def ready(stage: RightsStage, kind: str, name: str) -> int:
    found = stage.get(kind, name)
    return int(found["status"].get("readyReplicas", 0)) if found is not None else 0


def is_rolled_out(stage: RightsStage, kind: str, name: str) -> bool:
    found = stage.get(kind, name)
    assert found is not None
    status = found["status"]
    wanted = found["spec"]["replicas"]
    return bool(
        status.get("observedGeneration") == found["metadata"]["generation"]
        and status.get("updatedReplicas") == wanted
        and status.get("readyReplicas") == wanted
        and status.get("replicas") == wanted
    )


def volumes_live_and_grow(stage: RightsStage) -> None:
    """Claims of pods, ephemeral ones, static volumes, expansion, cloning, Secrets, snapshots, deletion."""
    stage.trouble.twice += [("POST", "/volumeattachments$"), *[("PATCH", "/persistentvolumes/pvc-[^/]*$")] * 12]
    stage.apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"k": "v"}},
        storage_class("secret", parameters=secrets_of("key")),
        storage_class("local", provisioner="kubernetes.io/no-provisioner"),
        static_volume("static-1", "node-1"),
    )
    stage.apply(
        claim("data", "1Gi"),
        classed(claim("sealed", "1Gi"), "secret"),
        classed(claim("still", "1Gi"), "local"),
        pod("grower", ["data"]),
        pod("sealed", ["sealed"]),
        pod("still", ["still"]),
        {**pod("scratch"), "spec": pod_spec(ephemeral=["1Gi"])},
    )
    stage.running("grower", "sealed", "scratch")
    stage.until(lambda: stage.get("PersistentVolume", "static-1")["status"]["phase"] == "Bound", "the static volume")  # type: ignore[index]
    grown: Doc = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    stage.patch("PersistentVolumeClaim", "data", grown)
    stage.patch("PersistentVolumeClaim", "sealed", grown)

    def has_grown() -> bool:
        found = stage.get("PersistentVolumeClaim", "data")
        return found is not None and found["status"]["capacity"]["storage"] == "2Gi"

    stage.until(has_grown, "the claim to have grown")
    copy = claim("copy", "2Gi")
    copy["spec"]["dataSource"] = {"kind": "PersistentVolumeClaim", "name": "data"}
    stage.apply(copy, pod("copier", ["copy"]))
    stage.running("copier")
    for name in ("scratch", "sealed", "still", "copier"):
        stage.delete("Pod", name)
    for name in ("scratch", "sealed", "still", "copier"):
        stage.gone("Pod", name)
    attached_without_finalizer(stage, "copy")
    for name in ("sealed", "still", "copy"):
        stage.delete("PersistentVolumeClaim", name)
        stage.gone("PersistentVolumeClaim", name)
    stage.gone("PersistentVolumeClaim", "scratch-scratch-0")


def attached_without_finalizer(stage: RightsStage, claim_name: str) -> None:
    """The attacher's finalizer comes with the volume's phase; one that somebody took off is put on again, beside others
    who write the volume."""
    bound = stage.get("PersistentVolumeClaim", claim_name)
    assert bound is not None
    volume = bound["spec"]["volumeName"]

    def is_detached() -> bool:
        sources = [each["spec"]["source"] for each in stage.objects("VolumeAttachment")]
        return all(each.get("persistentVolumeName") != volume for each in sources)

    stage.until(is_detached, "the volume to be detached")
    stage.patch("PersistentVolume", volume, {"metadata": {"finalizers": ["kubernetes.io/pv-protection"]}})
    stage.trouble.twice += [("PATCH", "/persistentvolumes/pvc-[^/]*$")] * 4
    stage.apply(pod("again", [claim_name]))
    stage.running("again")
    stage.delete("Pod", "again")
    stage.gone("Pod", "again")


def volumes_find_no_room(stage: RightsStage) -> None:
    """Refused by the driver, sent to a node that is gone, or to one without the driver: taken back, and told."""
    stage.fault(Fault("out-of-space", "node-1"))
    stage.apply(claim("large", "1Gi"), pod("large", ["large"], node="node-1"))
    stage.until(lambda: stage.asked("provisioner", "list", "pods"), "pods to be told")
    stage.until(lambda: stage.asked("provisioner", "patch", "events"), "the refusal to be counted")
    stage.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "bare"}})
    for node in ("ghost", "bare"):
        sent = claim(f"to-{node}", "1Gi")
        sent["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": node}
        stage.apply(sent)
    stage.until(lambda: stage.has_asked("provisioner", "get", "nodes"), "the server to be asked for the node")
    stage.until(lambda: stage.has_asked("provisioner", "get", "csinodes"), "the server to be asked for its driver")
    stage.fault()
    stage.delete("Node", "bare")
    stage.delete("Pod", "large")
    for name in ("large", "to-ghost", "to-bare"):
        stage.delete("PersistentVolumeClaim", name)
        stage.gone("PersistentVolumeClaim", name)


def snapshots_are_restored(stage: RightsStage) -> None:
    """A claim that is filled from a snapshot; that the driver does not have it is another matter."""
    for plural, kind, scope in (
        ("volumesnapshots", "VolumeSnapshot", "Namespaced"),
        ("volumesnapshotcontents", "VolumeSnapshotContent", "Cluster"),
    ):
        stage.define("snapshot.storage.k8s.io", "v1", plural, kind, scope)
    root = "/apis/snapshot.storage.k8s.io/v1"
    snapshot = {
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshot",
        "metadata": {"name": "shot"},
        "status": {"boundVolumeSnapshotContentName": "shot", "readyToUse": True},
    }
    content = {**snapshot, "kind": "VolumeSnapshotContent", "status": {"snapshotHandle": "none"}}
    stage.until(
        lambda: stage.api.post(f"{root}/namespaces/{NAMESPACE}/volumesnapshots", snapshot).code in (201, 409),
        "snapshots to be served",
    )
    stage.until(lambda: stage.api.post(f"{root}/volumesnapshotcontents", content).code in (201, 409), "contents, too")
    restored = claim("restored", "1Gi")
    group = "snapshot.storage.k8s.io"
    restored["spec"]["dataSource"] = {"apiGroup": group, "kind": "VolumeSnapshot", "name": "shot"}
    stage.apply(restored, pod("restored", ["restored"]))
    stage.until(lambda: stage.asked("provisioner", "get", "volumesnapshotcontents"), "the snapshot to be looked at")
    stage.delete("Pod", "restored")
    stage.delete("PersistentVolumeClaim", "restored")
    stage.gone("PersistentVolumeClaim", "restored")


def storage_class(name: str, *, provisioner: str = DRIVER, parameters: Doc | None = None) -> Doc:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "parameters": parameters or {},
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": True,
    }


def secrets_of(name: str) -> Doc:
    calls = ("provisioner", "controller-publish", "node-stage", "node-publish", "controller-expand", "node-expand")
    return {f"csi.storage.k8s.io/{call}-secret-name": name for call in calls} | {
        f"csi.storage.k8s.io/{call}-secret-namespace": NAMESPACE for call in calls
    }


def classed(doc: Doc, storage_class_name: str) -> Doc:
    return {**doc, "spec": {**doc["spec"], "storageClassName": storage_class_name}}


def static_volume(name: str, node: str) -> Doc:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "local": {"path": "/mnt"},
            "persistentVolumeReclaimPolicy": "Retain",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        },
    }


def pods_give_way(stage: RightsStage) -> None:
    """Preemption: a pod of more priority on a node that is full; and a binding whose answer is lost."""
    stage.apply(
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    )
    stage.apply(pod("low", cpu="5", node="node-1"))
    stage.running("low")
    high = pod("high", cpu="5", node="node-1")
    high["spec"]["priorityClassName"] = "high"
    stage.apply(high)
    stage.running("high")
    stage.trouble.lost.append(("POST", "/pods/unsure/binding$"))
    stage.apply(pod("unsure"))
    stage.running("unsure")
    stage.until(lambda: stage.asked("scheduler", "get", "pods", name="unsure"), "the pod to be looked after")
    stage.apply(lonely("lonely", "friend"))
    stage.until(lambda: stage.told("lonely", "FailedScheduling"), "the pod to be refused")
    friends = iter(range(8))

    def is_counted() -> bool:
        """A pod comes that the waiting one wants to be near, and it is tried again, in vain."""
        if (number := next(friends, None)) is not None:
            friend = pod(f"friend-{number}", cpu="10m")
            friend["metadata"]["labels"] = {"app": "friend"}
            stage.apply(friend)
            stage.running(f"friend-{number}")
        return stage.asked("scheduler", "patch", "events")

    stage.until(is_counted, "the event that repeats to be counted")
    stage.delete("Pod", "lonely")


def lonely(name: str, friend: str) -> Doc:
    """A pod that wants to be near another, by a label that no node has."""
    near = {"labelSelector": {"matchLabels": {"app": friend}}, "topologyKey": "example.com/none"}
    doc = pod(name)
    doc["spec"]["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    return doc


def nodes_come_and_go(stage: RightsStage) -> None:
    """A node that is cordoned gives its volumes away; one that stops is tainted; one that is removed is forgotten."""
    stage.apply(workload("StatefulSet", "mover", labelled("mover", pod_spec(["m"])), replicas=1, serviceName="m"))
    stage.apply(claim("m", "1Gi"))
    stage.running("mover-0")
    found = stage.get("Pod", "mover-0")
    assert found is not None
    home = found["spec"]["nodeName"]
    stage.patch("Node", home, {"spec": {"unschedulable": True}})
    stage.delete("Pod", "mover-0")

    def has_moved() -> bool:
        now = stage.get("Pod", "mover-0")
        return now is not None and now["status"].get("phase") == "Running" and now["spec"]["nodeName"] != home

    stage.until(has_moved, "the volume to be rebuilt elsewhere")
    stage.patch("Node", home, {"spec": {"unschedulable": False}})
    # Where it went, a pod is sent by hand that cannot have it; and it is called back while it cannot leave.
    wrong = pod("wrong", ["m"])
    wrong["spec"]["nodeName"] = home
    stage.apply(wrong)
    stage.until(lambda: stage.asked("node", "get", "persistentvolumes"), "the node to look at the volume again")
    stage.delete("Pod", "wrong")
    stage.gone("Pod", "wrong")
    home = stage.get("Pod", "mover-0")["spec"]["nodeName"]  # type: ignore[index]
    stage.fault(*(Fault("out-of-space", f"node-{number}") for number in (1, 2, 3)))
    stage.patch("Node", home, {"spec": {"unschedulable": True}})
    stage.delete("Pod", "mover-0")

    def is_sent() -> bool:
        now = stage.get("Pod", "mover-0")
        return now is not None and now["spec"].get("nodeName", home) != home

    stage.until(is_sent, "the pod to be sent elsewhere")
    stage.patch("Node", home, {"spec": {"unschedulable": False}})
    stage.until(lambda: stage.asked("csi-driver", "list", "pods"), "the driver to see who wants the volume")
    stage.fault()
    stage.delete("StatefulSet", "mover")


def attachments_are_refused(stage: RightsStage) -> None:
    """KEP-4876: a node without slots fails the pod, and its limit is corrected."""
    stage.apply(claim("slot", "1Gi"))
    stage.fault(Fault("out-of-slots", "node-2"))
    stage.apply(pod("slot", ["slot"], node="node-2"))
    stage.until(lambda: stage.phase("slot") == "Failed", "the pod to be failed")
    stage.fault()
    stage.delete("Pod", "slot")
    stage.gone("Pod", "slot")


def a_node_stops_and_another_is_removed(stage: RightsStage) -> None:
    tolerant = pod("tolerant", node="node-3")
    tolerant["spec"]["tolerations"] = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}
        for key in ("unreachable", "not-ready")
    ]
    stage.apply(tolerant, claim("left", "1Gi"), pod("left", ["left"], node="node-2"))
    stage.running("tolerant", "left")
    stage.fault(Fault("node-stopped", "node-3"), Fault("node-removed", "node-2"))
    stage.gone("Node", "node-2")
    stage.gone("Pod", "left")
    stage.until(lambda: stage.asked("controllers", "patch", "nodes"), "the node that stopped to be tainted")

    def is_evicted() -> bool:
        now = stage.get("Pod", "tolerant")
        return now is None or "deletionTimestamp" in now["metadata"]

    stage.until(is_evicted, "its pods to be evicted")
    stage.fault()
    stage.until(lambda: stage.get("Node", "node-2") is not None, "the node to come back")


def namespaces_are_kept_and_emptied(stage: RightsStage) -> None:
    """Quotas are counted, the server's certificate is put right, owners are followed, and a namespace is deleted."""
    stage.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "passing"}})
    stage.apply(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "few", "namespace": "passing"},
            "spec": {"hard": {"configmaps": "5"}},
        },
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner", "namespace": "passing"}, "data": {}},
    )
    stage.until(
        lambda: stage.get("ResourceQuota", "few", namespace="passing")["status"].get("used"),  # type: ignore[index]
        "the quota to be counted",
    )
    stage.patch("ConfigMap", "kube-root-ca.crt", {"data": {"ca.crt": "forged"}}, namespace="passing")
    stage.until(lambda: stage.asked("controllers", "patch", "configmaps"), "the certificate to be put right")
    owner = stage.get("ConfigMap", "owner", namespace="passing")
    assert owner is not None
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    metadata = {"name": "owned", "namespace": "passing", "ownerReferences": [reference]}
    stage.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {}})
    stage.delete("ConfigMap", "owner", namespace="passing")
    stage.gone("ConfigMap", "owned", namespace="passing")
    stage.delete("Namespace", "passing")
    stage.gone("Namespace", "passing")
