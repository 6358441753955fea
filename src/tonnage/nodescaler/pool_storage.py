"""What the nodes of a pool will say about their storage: a template may have a CSINode and capacities beside its Node.

They are never written. On a node that exists its driver says them; for a node to come they are what the driver is
expected to say, so that a pod whose claims need room there can be planned for. A template without them promises no
room that is tracked by capacity.

As in the labels of the Node, the pool's own name in a topology stands for the node's.
"""

from __future__ import annotations

from typing import Any, Final

from tonnage.objects.codec import convert
from tonnage.objects.document import Doc, dig
from tonnage.objects.meta import Object
from tonnage.objects.storage_v1 import CSINode, CSIStorageCapacity
from tonnage.scheduling.cluster.storage import Storage

KINDS: Final[dict[str, type[CSINode] | type[CSIStorageCapacity]]] = {
    "CSINode": CSINode,
    "CSIStorageCapacity": CSIStorageCapacity,
}
"""What a template may hold besides its Node."""


class PoolStorage:
    """The storage of each node of one pool, from documents of `KINDS`."""

    def __init__(self, pool_name: str, docs: tuple[Doc, ...]) -> None:
        self._pool_name = pool_name
        self._docs = docs

    def of(self, node_name: str) -> tuple[Object, ...]:
        """The objects a node's driver will publish."""
        found: list[Object] = []
        for number, doc in enumerate(self._docs):
            if doc["kind"] == "CSINode":
                found.append(convert(CSINode, {**doc, "metadata": {"name": node_name, "uid": f"to-come-{node_name}"}}))
            else:
                found.append(convert(CSIStorageCapacity, self._capacity(doc, node_name, number)))
        return tuple(found)

    def missing(self, node_name: str, storage: Storage) -> tuple[Object, ...]:
        """Those of them that nobody has published yet."""
        return tuple(each for each in self.of(node_name) if not _is_published(each, storage))

    def _capacity(self, doc: Doc, node_name: str, number: int) -> Doc:
        namespace = dig(doc, "metadata", "namespace") or "default"
        name = f"{node_name}-to-come-{number}"
        metadata = {"namespace": namespace, "name": name, "uid": name, "resourceVersion": "1"}
        return {**doc, "metadata": metadata, "nodeTopology": self._renamed(doc.get("nodeTopology"), node_name)}

    def _renamed(self, value: Any, node_name: str) -> Any:
        """A selector with the pool's name replaced, among the values of its labels and expressions."""
        if isinstance(value, dict):
            return {key: self._renamed(inner, node_name) for key, inner in value.items()}
        if isinstance(value, list):
            return [self._renamed(inner, node_name) for inner in value]
        return node_name if value == self._pool_name else value


def _is_published(expected: Object, storage: Storage) -> bool:
    if isinstance(expected, CSINode):
        found = storage.csi_nodes.get(expected.name)
        return found is not None and all(found.driver(each.name) is not None for each in expected.spec.drivers)
    assert isinstance(expected, CSIStorageCapacity)
    said = (expected.storage_class_name, expected.node_topology)
    return any((each.storage_class_name, each.node_topology) == said for each in storage.capacities.values())
