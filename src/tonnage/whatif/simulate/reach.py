"""Which nodes a volume can be used on, without asking every node for every volume.

Nearly all node affinities name values of a label. Nodes are found by such a value first, and only those are asked.
"""

from __future__ import annotations

from collections.abc import Iterable

from tonnage.objects.core_v1 import Node, PersistentVolume
from tonnage.objects.node_selectors import NodeSelectorTerm


class Reach:
    """The nodes of a moment, by their labels."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._nodes = list(nodes)
        self._by_label: dict[tuple[str, str], list[Node]] = {}
        for node in self._nodes:
            for item in node.metadata.labels.items():
                self._by_label.setdefault(item, []).append(node)

    def of(self, volume: PersistentVolume) -> list[Node]:
        """The nodes that the affinity of a volume admits; all of them for one without any."""
        required = volume.spec.node_affinity.required
        if required is None:
            return self._nodes
        found = {node.name: node for term in required.node_selector_terms for node in self._asked(term)}
        return [node for node in found.values() if required.matches(node.name, node.metadata.labels)]

    def _asked(self, term: NodeSelectorTerm) -> Iterable[Node]:
        """Those among which all that the term admits are."""
        named = next((each for each in term.match_expressions if each.operator == "In"), None)
        if named is None:
            return self._nodes
        return [node for value in named.values for node in self._by_label.get((named.key, value), ())]
