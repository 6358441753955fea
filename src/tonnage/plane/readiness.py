"""When a cluster counts as started: which nodes will come, and when one is ready.

A cluster that is taken up again is the one it was: what people asked of its nodes (a cordon, a taint, a fault) still
holds, and is nothing to wait for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tonnage.faults import Fault
from tonnage.objects.core_v1 import Node
from tonnage.objects.taints import NOT_READY, UNREACHABLE

_LIFECYCLE_TAINTS: Final = frozenset({NOT_READY, UNREACHABLE})
"""What the node lifecycle controller takes away when it has seen that a node lives; every other was asked for."""
_IDLE: Final = frozenset({"node-stopped", "node-removed"})


def expected_nodes(names: Sequence[str], faults: Iterable[Fault]) -> list[str]:
    """The nodes that will come: one that is stopped or removed on request will not."""
    idle = {fault.node for fault in faults if fault.kind in _IDLE}
    return [] if "" in idle else [name for name in names if name not in idle]


def is_ready(node: Node | None) -> bool:
    """Whether a node is Ready, and the controllers know it."""
    if node is None or any(taint.key in _LIFECYCLE_TAINTS for taint in node.spec.taints):
        return False
    return node.is_ready
