"""Objects in one line, for tests: name what matters, the rest is as an API server would fill it in.

node("a", cpu="4", labels={"zone": "z1"}, taints=["dedicated=db:NoSchedule"])
pod("web", cpu="100m", node_selector={"zone": "z1"}, labels={"app": "web"})
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import Node, Pod
from tonnage.objects.meta import Object
from tonnage.scheduling.cluster.cluster import Cluster, place
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.engine.profiles import add_indexes

Doc = dict[str, Any]


def node(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "8Gi",
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Iterable[str] = (),
    unschedulable: bool = False,
    images: Mapping[str, int] | None = None,
    **extended: str,
) -> Node:
    """A node. Taints read `key=value:Effect` or `key:Effect`; images are name -> bytes; `extended` more resources."""
    allocatable = {"cpu": cpu, "memory": memory, "pods": str(pods), **extended}
    return convert(
        Node,
        {
            "kind": "Node",
            "metadata": {
                "name": name,
                "uid": f"node-{name}",
                "labels": {"kubernetes.io/hostname": name, **(labels or {})},
                "annotations": dict(annotations or {}),
            },
            "spec": {"unschedulable": unschedulable, "taints": [_taint(text) for text in taints]},
            "status": {
                "allocatable": allocatable,
                "capacity": allocatable,
                "images": [{"names": [image], "sizeBytes": size} for image, size in (images or {}).items()],
            },
        },
    )


def pod(
    name: str,
    *,
    namespace: str = "default",
    cpu: str | None = None,
    memory: str | None = None,
    image: str = "app:1",
    labels: Mapping[str, str] | None = None,
    on: str = "",
    priority: int = 0,
    tolerations: Iterable[Doc] = (),
    node_selector: Mapping[str, str] | None = None,
    host_ports: Iterable[int] = (),
    spec: Doc | None = None,
    status: Doc | None = None,
    metadata: Doc | None = None,
    **extended: str,
) -> Pod:
    """A pod with one container. `on` binds it to a node; `spec`, `status` and `metadata` add other fields."""
    asked = {"cpu": cpu, "memory": memory, **extended}
    container = {
        "name": "main",
        "image": image,
        "resources": {"requests": {key: value for key, value in asked.items() if value is not None}},
        "ports": [{"containerPort": port, "hostPort": port} for port in host_ports],
    }
    return convert(
        Pod,
        {
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": f"{namespace}-{name}",
                "labels": dict(labels or {}),
                **(metadata or {}),
            },
            "spec": {
                "containers": [container],
                "nodeName": on,
                "priority": priority,
                "nodeSelector": dict(node_selector or {}),
                "tolerations": list(tolerations),
                **(spec or {}),
            },
            "status": status or {},
        },
    )


def info(name: str, **options: Any) -> PodInfo:
    return PodInfo(pod(name, **options))


def cluster_of(*objects: Object) -> Cluster:
    """A cluster of these nodes, pods (on their nodes) and storage objects, with all indexes."""
    cluster = Cluster()
    for each in objects:
        if isinstance(each, Node):
            cluster.put_node(each)
        elif isinstance(each, Pod):
            place(cluster, each)
        else:
            cluster.storage.put(each)
    return add_indexes(cluster)


def _taint(text: str) -> Doc:
    start, _, effect = text.rpartition(":")
    key, _, value = start.partition("=")
    return {"key": key, "value": value, "effect": effect}
