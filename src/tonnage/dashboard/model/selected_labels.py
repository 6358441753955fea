"""Labels by which volumes and capacity objects name their nodes: what is looked up when a node comes, goes or changes.

A volume's affinity either names nodes (by a label that one node has) or places (zones, regions). Only the first says
where a volume is: one that a zone reaches is not on the zone's only node, but in the zone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tonnage.objects.core_v1 import PersistentVolume
from tonnage.objects.core_v1.node import BETA_REGION, BETA_ZONE, REGION, ZONE
from tonnage.objects.node_selectors import NodeSelectorTerm
from tonnage.objects.selectors import LabelSelector, Requirement
from tonnage.scheduling.volumes.volume_reach import affinity_of

Label = tuple[str, str]

_NODE_NAMES = ("hostname", "node", "nodename", "node-name", "nodeid", "node-id")
"""Last parts of the labels by which drivers name a single node: topology.topolvm.io/node, openebs.io/nodename, …"""


def is_zone_key(key: str) -> bool:
    """Whether a label says in which zone or region a node is: Kubernetes' own, or a driver's."""
    return key in (ZONE, REGION, BETA_ZONE, BETA_REGION) or key.endswith(("/zone", "/region"))


def names_a_node(key: str) -> bool:
    """Whether a label's value is, as far as a name can tell, that of one node."""
    return key.rpartition("/")[2] in _NODE_NAMES


def node_requirements(term: NodeSelectorTerm) -> list[Requirement]:
    """Those of a term that list labels of nodes, not of zones."""
    return [each for each in term.match_expressions if each.operator == "In" and not is_zone_key(each.key)]


def labels_of_affinity(volume: PersistentVolume) -> Iterator[Label]:
    """Every label of a node that may make a difference to where a volume is."""
    required = affinity_of(volume)
    for term in required.node_selector_terms if required is not None else ():
        for each in node_requirements(term):
            yield from ((each.key, value) for value in each.values)


def labels_of_topology(topology: LabelSelector) -> Sequence[Label]:
    """One of these every node has that a selector reaches; none at all when nothing of the sort can be said.

    One requirement is enough to find the nodes by; of several the one that fewest nodes are likely to have.
    """
    listed: list[tuple[str, tuple[str, ...]]] = [(key, (value,)) for key, value in topology.match_labels.items()]
    listed += [(each.key, each.values) for each in topology.match_expressions if each.operator == "In"]
    if not listed:
        return ()
    key, values = min(listed, key=lambda each: (is_zone_key(each[0]), not names_a_node(each[0]), len(each[1])))
    return [(key, value) for value in values]
