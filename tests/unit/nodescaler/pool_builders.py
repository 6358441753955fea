"""Small worlds for the node scaler's decisions: a pool of nodes with 4 cores, pods that wait, nominations."""

from __future__ import annotations

from typing import Any

import msgspec

from tonnage.nodescaler.node_pool import TO_BE_DELETED, NodePool
from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import Node, Pod
from tonnage.objects.document import Doc
from tonnage.objects.requirements import NOT_READY
from tonnage.testing.builders import pod

ROOM = {"cpu": "4", "memory": "8Gi", "pods": "110"}
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def template(name: str = "burst", **status: Any) -> Doc:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": ROOM, "capacity": ROOM, **status},
    }


def burst(max_nodes: int = 3, **limits: Any) -> NodePool:
    """A pool named burst; its nodes have 4 cores."""
    return NodePool(template=template(), max_nodes=max_nodes, **limits)


def member(name: str, *taints: str, pool: NodePool | None = None, **metadata: Any) -> Node:
    """A node of the pool that exists; ready, unless it has a taint of ours."""
    doc = (pool or burst()).manifest(name)
    doc["metadata"] |= {"uid": f"node-{name}", "resourceVersion": "1", **metadata}
    doc["spec"]["taints"] = [_taint(text) for text in taints]
    return convert(Node, doc)


def not_ready(name: str) -> Node:
    return member(name, NOT_READY)


def marked(name: str, at_s: int = 0) -> Node:
    return member(name, f"{TO_BE_DELETED}={at_s}")


def stuck(name: str, cpu: str = "3", *, nominated: str = "", **options: Any) -> Pod:
    """A pod that the scheduler found no node for."""
    status = {"conditions": [UNSCHEDULABLE], "nominatedNodeName": nominated}
    return pod(name, cpu=cpu, status=status, **options)


def fresh(name: str, *, nominated: str = "", **options: Any) -> Pod:
    """A pod that nobody has looked at yet, or that a scheduler is binding."""
    return pod(name, cpu="1", status={"nominatedNodeName": nominated}, **options)


def nominated_to(each: Pod, node_name: str) -> Pod:
    return msgspec.structs.replace(each, status=msgspec.structs.replace(each.status, nominated_node_name=node_name))


def _taint(text: str) -> Doc:
    key, _, value = text.partition("=")
    return {"key": key, "effect": "NoSchedule", **({"value": value} if value else {})}
