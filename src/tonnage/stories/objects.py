"""The objects of the stories, as short as a person would write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tonnage.objects.document import Doc

IMAGE = "pause:3.10"


def claim(name: str, size: str) -> Doc:
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": claim_spec(size)}


def claim_spec(size: str) -> Doc:
    return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}


def pod(name: str, claims: Sequence[str] = (), **options: Any) -> Doc:
    """A pod that mounts these claims, with options of `pod_spec`."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": pod_spec(claims, **options),
    }


def pod_spec(
    claims: Sequence[str] = (),
    *,
    node: str = "",
    scheduler: str = "",
    cpu: str = "",
    is_gated: bool = False,
    ephemeral: Sequence[str] = (),
    prefers: str = "",
) -> Doc:
    """`node` is the only node it may go to, `prefers` the one it prefers; `ephemeral` are sizes of volumes."""
    volumes: list[Any] = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    volumes += [
        {"name": f"scratch-{number}", "ephemeral": {"volumeClaimTemplate": {"spec": claim_spec(size)}}}
        for number, size in enumerate(ephemeral)
    ]
    container: Doc = {
        "name": "main",
        "image": IMAGE,
        "volumeMounts": [{"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in volumes],
    }
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}
    spec: Doc = {"containers": [container], "volumes": volumes, "terminationGracePeriodSeconds": 1}
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    if scheduler:
        spec["schedulerName"] = scheduler
    if is_gated:
        spec["schedulingGates"] = [{"name": "example.com/plan"}]
    if prefers:
        term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [prefers]}]}
        wish = {"weight": 100, "preference": term}
        spec["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}
    return spec


def stateful_set(name: str, size: str, *, cpu: str = "") -> Doc:
    """One replica with one claim."""
    mount = {"name": "main", "image": IMAGE, "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    claims = [{"metadata": {"name": "data"}, "spec": claim_spec(size)}]
    template = pod_spec(cpu=cpu) | {"containers": [mount]}
    return _workload("StatefulSet", name, template, serviceName=name, volumeClaimTemplates=claims)


def deployment(name: str, template: Doc) -> Doc:
    return _workload("Deployment", name, template)


def _workload(kind: str, name: str, template: Doc, **more: Any) -> Doc:
    labels = {"app": name}
    pods = {"metadata": {"labels": labels}, "spec": template}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": pods, **more}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def pod_of(doc: Doc) -> tuple[Doc | None, list[Doc]]:
    """The pod that an object is or creates, unless it is gated, and the claims created for it."""
    kind, name = doc["kind"], doc["metadata"]["name"]
    if kind == "Pod":
        return (None if doc["spec"].get("schedulingGates") else doc), []
    if kind not in ("StatefulSet", "Deployment"):
        return None, []
    spec = doc["spec"]["template"]["spec"]
    volumes, claims = list(spec["volumes"]), []
    for template in doc["spec"].get("volumeClaimTemplates", ()):
        claims.append(claim(f"{template['metadata']['name']}-{name}-0", _size(template["spec"])))
    for volume in [each for each in volumes if "ephemeral" in each]:
        claims.append(claim(f"{name}-{volume['name']}", _size(volume["ephemeral"]["volumeClaimTemplate"]["spec"])))
        volumes.remove(volume)
    mounted = [each["metadata"]["name"] for each in claims]
    volumes += [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in mounted]
    metadata = {"name": f"{name}-0", "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**spec, "volumes": volumes}}, claims


def _size(spec: Doc) -> str:
    size: str = spec["resources"]["requests"]["storage"]
    return size


def described(doc: Doc) -> str:
    """The object on one line: `PersistentVolumeClaim data-0 100Gi`."""
    kind, name, spec = doc["kind"], doc["metadata"]["name"], doc.get("spec", {})
    if kind == "PersistentVolumeClaim":
        return f"{kind} {name}: {spec['resources']['requests']['storage']}"
    if kind == "Pod":
        return f"{kind} {name}: {_pod(spec)}"
    if kind == "StatefulSet":
        sizes = [each["spec"]["resources"]["requests"]["storage"] for each in spec["volumeClaimTemplates"]]
        return f"{kind} {name}: {spec['replicas']} replica with a claim of {', '.join(sizes)}"
    if kind == "Deployment":
        return f"{kind} {name}: {spec['replicas']} replica, {_pod(spec['template']['spec'])}"
    return f"{kind} {name}"


def _pod(spec: Doc) -> str:
    told = []
    claims = [each["persistentVolumeClaim"]["claimName"] for each in spec["volumes"] if "persistentVolumeClaim" in each]
    if claims:
        told.append(f"claims {', '.join(claims)}")
    scratch = [each for each in spec["volumes"] if "ephemeral" in each]
    if scratch:
        told.append(f"{len(scratch)} volumes of its own")
    if "nodeSelector" in spec:
        told.append(f"only on {spec['nodeSelector']['kubernetes.io/hostname']}")
    if "affinity" in spec:
        told.append("prefers a node")
    if "schedulerName" in spec:
        told.append(f"profile {spec['schedulerName']}")
    if "schedulingGates" in spec:
        told.append("held by a scheduling gate")
    return "; ".join(told) or "no claims"
