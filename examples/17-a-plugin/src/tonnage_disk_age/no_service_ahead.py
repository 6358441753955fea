"""NoServiceAhead: pods with volumes stay away from nodes that are about to be serviced."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tonnage.scheduling.events import ActionType, ClusterEvent, EventResource
from tonnage.scheduling.framework import Cycle, EventHint, Status, unresolvable
from tonnage.scheduling.per_node import NodeFilter, NodeView

ANNOTATION = "example.com/service-on"


class NoServiceAhead(NodeFilter):
    """The per-node form: `filter_node` is asked about one node after another."""

    name = "NoServiceAhead"
    reason = "node(s) were about to be serviced"

    def __init__(self, args: dict[str, Any] | None) -> None:
        """`args` are those of `pluginConfig`, None when there are none."""
        self._annotation = (args or {}).get("annotation", ANNOTATION)

    def events(self) -> Iterable[EventHint]:
        """A pod that was refused here is worth another try when a node comes, or changes its annotations."""
        return [(ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_ANNOTATION), None)]

    def filter_node(self, cycle: Cycle, view: NodeView) -> Status | None:
        """Evicting others does not help against a service: the refusal is unresolvable."""
        is_serviced = self._annotation in view.node.metadata.annotations
        return unresolvable(self.reason) if is_serviced and cycle.pod.has_claims else None
