"""Clusters whose nodes are drained in tests: sets of pods with claims on nodes with pools."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tonnage.gates import Gates
from tonnage.objects import codec
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Object
from tonnage.scheduling.configuration.configuration import default_configuration
from tonnage.testing.builders import pod
from tonnage.testing.storage_builders import capacity, claim, pod_with, volume
from tonnage.whatif.drain.preview import Preview
from tonnage.whatif.drain.rehearsal import Scene
from tonnage.whatif.sources import ClusterState, clock_of

RUNNING = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def scene(*objects: Any) -> Scene:
    typed: list[Object] = []
    for each in objects:
        typed += [each] if isinstance(each, Object) else [codec.decode_doc(each)] if isinstance(each, dict) else each
    state = ClusterState(typed, "the test", clock_of(typed))
    return Scene(state, default_configuration(gates=Gates()).profiles)


def preview(*objects: Any, nodes: Iterable[str], one_by_one: bool = False) -> Preview:
    found = Preview(scene(*objects), tuple(nodes), is_one_by_one=one_by_one)
    found.run()
    return found


def owned(kind: str, name: str) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": f"{kind}-{name}", "controller": True}
    return {"ownerReferences": [owner]}


def member(name: str, node: str, *claims: str, kind: str = "StatefulSet", **options: Any) -> Pod:
    """A running pod of the set that its name tells."""
    metadata = {**owned(kind, name.rpartition("-")[0]), **options.pop("metadata", {})}
    return pod_with(name, *claims, on=node, status=options.pop("status", RUNNING), metadata=metadata, **options)


def plain(name: str, node: str, **options: Any) -> Pod:
    return pod(name, on=node, status=options.pop("status", RUNNING), **options)


def stored(name: str, node: str, size: str, *, class_name: str = "fast", **options: Any) -> list[Object]:
    """A bound claim and its volume, on one node."""
    return [
        claim(name, size, volume=f"pv-{name}", selected_node=node, class_name=class_name),
        volume(f"pv-{name}", size, on=node, claim=f"default/{name}", class_name=class_name, **options),
    ]


def pools(node: str, *free: str) -> Object:
    total = sum(int(each.removesuffix("Gi")) for each in free)
    return capacity("fast", node, f"{total}Gi", pools=free)


def stateful_set(name: str, replicas: int, **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": "default", "uid": f"StatefulSet-{name}"},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": []}},
            **spec,
        },
    }


def budget(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default", "uid": f"budget-{name}"},
        "spec": {"selector": {"matchLabels": {"app": name}}, **spec},
    }
