"""A pool of nodes made from one template: their names, their manifests, how many there may be.

    template `burst`, max 3   ──►   burst-1, burst-2, burst-3

There are no other names, so no second scaler can create one node too many. A node belongs to the pool by its label.
Where a label or a topology of the template has the pool's name as its value, a node has its own name. A template may
have a CSINode and capacities beside its Node. They are never written: they are what a future node's driver is expected
to publish, so that pods with claims can be planned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from tonnage.errors import TonnageError
from tonnage.objects import codec, meta
from tonnage.objects.core_v1 import Node, pod
from tonnage.objects.document import Doc, copy, dig
from tonnage.objects.requirements import NO_SCHEDULE, NOT_READY, Taint
from tonnage.objects.storage_v1 import CSINode, CSIStorageCapacity
from tonnage.scheduling.cluster.storage import Storage

KINDS: Final[dict[str, type[CSINode] | type[CSIStorageCapacity]]] = {
    "CSINode": CSINode,
    "CSIStorageCapacity": CSIStorageCapacity,
}


def is_published(expected: meta.Object, storage: Storage) -> bool:
    if isinstance(expected, CSINode):
        csi_node = storage.csi_nodes.get(expected.name)
        return csi_node is not None and all(
            csi_node.driver(driver.name) is not None for driver in expected.spec.drivers
        )
    assert isinstance(expected, CSIStorageCapacity)
    said = (expected.storage_class_name, expected.node_topology)
    return any((each.storage_class_name, each.node_topology) == said for each in storage.capacities.values())


POOL_LABEL: Final = "tonnage.dev/node-pool"
TO_BE_DELETED: Final = "ToBeDeletedByClusterAutoscaler"
"""The taint before a node is removed. The name is the cluster autoscaler's, because others look for it; the value is
the time in seconds since 1970, as there."""
MAX_NODES: Final = 1000
_MAX_NAME: Final = 50
"""Leaves space for a number behind the pool's name: a label's value has at most 63 characters."""
_OF_ONE_NODE: Final = ("podCIDR", "podCIDRs", "providerID", "unschedulable", "externalID", "configSource")
"""Fields of a node's spec about that one node, which a template must not pass on."""


class InvalidPool(TonnageError):
    """A template or limits that no pool can have."""


@dataclass(kw_only=True)
class NodePool:
    """One template and its limits; the pool is named after the template. Raises InvalidPool."""

    template: Doc
    max_nodes: int
    min_nodes: int = 0
    unneeded_s: float = 600.0
    """How long a node is idle before it goes."""
    provision_s: float = 0.0
    """How long a wanted node takes to appear."""
    ready_s: float = 0.0
    """How long a new node is not ready."""
    settle_s: float = 5.0
    """How long a marked node takes no new pods before it goes, so that earlier decisions are seen."""
    storage: tuple[Doc, ...] = ()
    """Documents of `KINDS`: what a node's driver will publish."""

    def __post_init__(self) -> None:
        if self.template.get("kind") != "Node":
            raise InvalidPool(f"a template is a Node, and this is kind={self.template.get('kind')}")
        self.name: str = dig(self.template, "metadata", "name") or ""
        if not self.name or len(self.name) > _MAX_NAME:
            raise InvalidPool(
                f'metadata.name="{self.name}" names the pool and has {len(self.name)} characters; '
                f"it may have 1 to {_MAX_NAME}",
                hint="name the template as the pool: its nodes are named NAME-1, NAME-2 and so on",
            )
        if not 0 <= self.min_nodes <= self.max_nodes <= MAX_NODES:
            raise InvalidPool(
                f"a pool cannot have at least {self.min_nodes} and at most {self.max_nodes} nodes",
                hint=f"give limits with 0 <= min <= max <= {MAX_NODES}",
            )
        if not self.node(f"{self.name}-1").status.allocatable:
            raise InvalidPool(
                f"the template of pool {self.name} offers nothing: status.allocatable is not set",
                hint="write what a node has: status.allocatable with cpu, memory and pods",
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Every name of a node in this pool, in the order of their use."""
        return tuple(f"{self.name}-{number}" for number in range(1, self.max_nodes + 1))

    def is_named(self, node_name: str) -> bool:
        """True if a node of this pool could have that name, or could have had it under a higher limit."""
        number = node_name.removeprefix(f"{self.name}-")
        return number != node_name and number.isascii() and number.isdigit() and not number.startswith("0")

    def is_member(self, node: Node) -> bool:
        return node.metadata.labels.get(POOL_LABEL) == self.name

    def node(self, name: str) -> Node:
        """A node as it will be when it is ready."""
        return without_scaler_taints(codec.convert(Node, self.manifest(name)))

    def manifest(self, name: str) -> Doc:
        """The template under that name, not ready yet."""
        metadata: Doc = {"name": name, "labels": self.labels(name)}
        annotations = dig(self.template, "metadata", "annotations")
        if annotations:
            metadata["annotations"] = dict(annotations)
        spec = {key: copy(value) for key, value in self.template.get("spec", {}).items() if key not in _OF_ONE_NODE}
        taints = [taint for taint in spec.get("taints", ()) if taint.get("key") not in (NOT_READY, TO_BE_DELETED)]
        spec["taints"] = [*taints, {"key": NOT_READY, "effect": NO_SCHEDULE}]
        said = self.template.get("status", {})
        status = {key: copy(said[key]) for key in ("capacity", "allocatable", "nodeInfo", "images") if key in said}
        if "allocatable" not in status and "capacity" in status:
            status["allocatable"] = copy(status["capacity"])
        return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}

    def labels(self, name: str) -> dict[str, str]:
        said: Mapping[str, str] = dig(self.template, "metadata", "labels") or {}
        own = {key: name if value == self.name else value for key, value in said.items()}
        return {**own, pod.HOSTNAME: name, POOL_LABEL: self.name}

    def storage_of(self, node_name: str) -> tuple[meta.Object, ...]:
        return tuple(self._published(doc, node_name, number) for number, doc in enumerate(self.storage))

    def _published(self, doc: Doc, node_name: str, number: int) -> meta.Object:
        if doc["kind"] == "CSINode":
            return codec.convert(CSINode, {**doc, "metadata": {"name": node_name, "uid": f"to-come-{node_name}"}})
        namespace, name = dig(doc, "metadata", "namespace") or "default", f"{node_name}-to-come-{number}"
        metadata = {"namespace": namespace, "name": name, "uid": name, "resourceVersion": "1"}
        topology = self._renamed(doc.get("nodeTopology"), node_name)
        return codec.convert(CSIStorageCapacity, {**doc, "metadata": metadata, "nodeTopology": topology})

    def _renamed(self, value: Any, node_name: str) -> Any:
        """A selector with the pool's name replaced in the values of its labels and expressions."""
        if isinstance(value, dict):
            return {key: self._renamed(inner, node_name) for key, inner in value.items()}
        if isinstance(value, list):
            return [self._renamed(inner, node_name) for inner in value]
        return node_name if value == self.name else value


def without_scaler_taints(node: Node) -> Node:
    """The node without a scaler's taints: as it is when it is ready and stays."""
    taints = tuple(taint for taint in node.spec.taints if taint.key not in (NOT_READY, TO_BE_DELETED))
    return msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, taints=taints))


def taint_of(node: Node, key: str) -> Taint | None:
    """The scaler's taint of that key; None if the node does not have it."""
    return next((taint for taint in node.spec.taints if taint.key == key and taint.effect == NO_SCHEDULE), None)


def marked_at(node: Node) -> float | None:
    """When the node was marked for removal, in seconds since 1970; None if it is not. A mark without a time is old."""
    taint = taint_of(node, TO_BE_DELETED)
    if taint is None:
        return None
    return float(taint.value) if taint.value.isascii() and taint.value.isdigit() else 0.0
