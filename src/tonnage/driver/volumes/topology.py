"""Where a volume may be: from CSI's topologies to nodes of this driver.

Every node has one label, `topology.tonnage.dev/node`, and its value is the node's id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tonnage.csi import csi_pb2 as csi
from tonnage.driver.names import TOPOLOGY_KEY


def topology_of(node: str) -> csi.Topology:
    """The topology that a node is, and the only one its volumes can be reached from."""
    return csi.Topology(segments={TOPOLOGY_KEY: node})


def nodes_within(topology: csi.Topology, nodes: Iterable[str]) -> tuple[str, ...]:
    """The nodes that a topology takes in. One without segments takes in all, one with a foreign label none."""
    if any(key != TOPOLOGY_KEY for key in topology.segments):
        return ()
    wanted = topology.segments.get(TOPOLOGY_KEY)
    return tuple(node for node in nodes if wanted in (None, node))


def groups_within(requirement: csi.TopologyRequirement, nodes: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Nodes to try, group after group: each preferred topology in its turn, then the rest of what is allowed.

    What is allowed is what `requisite` says, or every node if it says nothing. No node appears twice.
    """
    allowed: tuple[str, ...] = tuple(nodes)
    if requirement.requisite:
        within = {node for topology in requirement.requisite for node in nodes_within(topology, nodes)}
        allowed = tuple(node for node in nodes if node in within)
    groups: list[tuple[str, ...]] = []
    left = dict.fromkeys(allowed)
    for topology in requirement.preferred:
        group = nodes_within(topology, tuple(left))
        if group:
            groups.append(group)
        for node in group:
            del left[node]
    if left:
        groups.append(tuple(left))
    return tuple(groups)


def admits(requirement: csi.TopologyRequirement, node: str) -> bool:
    """Whether a volume on this node is where the requirement says that it must be; preferences are only wishes."""
    return not requirement.requisite or any(nodes_within(topology, (node,)) for topology in requirement.requisite)
