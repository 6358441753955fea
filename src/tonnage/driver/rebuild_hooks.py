"""What the driver asks of whoever watches the cluster's nodes: may a volume leave, and who is told once it has.

The driver itself knows nothing of Kubernetes. `RebuildHooks` is handed in by the part that does, or set later on
`Driver.hooks`; without it nothing ever leaves its node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


def _never(_node: str) -> bool:
    return False


def _nobody(*_: str) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildHooks:
    """All are asked from the event loop and must answer at once, from memory."""

    may_leave: Callable[[str], bool] = _never
    """Whether volumes may be taken away from this node: it is out of use."""
    is_gone: Callable[[str], bool] = _never
    """Whether nobody is left on this node to unpublish or unstage a volume: it is gone, or NotReady and out of service.
    What is still published or staged on a node that is merely cordoned keeps its volume there (its pod may be running);
    on one that is gone it does not."""
    on_rebuilt: Callable[[str, str, str], None] = _nobody
    """Told (volume_id, from_node, to_node) after the volume's record names its new node. It names what to look at: a
    driver that dies in between never tells, so that `Driver.node_of` is what to go by after a start."""
    on_refused: Callable[[str, str], None] = _nobody
    """Told (volume_id, to_node) when a volume was wanted on a node of which no pool has room for it."""
