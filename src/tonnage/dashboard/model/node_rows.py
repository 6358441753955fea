"""Rows of nodes: where they are, whether they take pods, and their attach slots."""

from __future__ import annotations

from tonnage.dashboard.model.known_objects import KnownObjects
from tonnage.dashboard.wire.rows import AttachSlots, NodeRow
from tonnage.objects.core_v1 import Node
from tonnage.objects.core_v1.topology_labels import BETA_ZONE, ZONE


def row_of(objects: KnownObjects, name: str) -> NodeRow | None:
    """A node's row; None for one that is gone."""
    node = objects.nodes.get(name)
    if node is None:
        return None
    ready = node.condition("Ready")
    labels = node.metadata.labels
    return NodeRow(
        name=name,
        zone=labels.get(ZONE, labels.get(BETA_ZONE, "")),
        ready=node.is_ready,
        cordoned=node.spec.unschedulable,
        reason="" if node.is_ready or ready is None else ready.message or ready.reason,
        pods=len(objects.pods_of_node.get(name, ())),
        slots=_slots(objects, node),
    )


def _slots(objects: KnownObjects, node: Node) -> tuple[AttachSlots, ...]:
    used: dict[str, int] = {}
    for key in objects.attachments_of_node.get(node.name, ()):
        attacher = objects.attachments[key].spec.attacher
        used[attacher] = used.get(attacher, 0) + 1
    csi_node = objects.csi_nodes.get(node.name)
    limits = {each.name: each.allocatable.count for each in csi_node.spec.drivers} if csi_node is not None else {}
    return tuple(
        AttachSlots(driver=driver, used=used.get(driver, 0), limit=limits.get(driver))
        for driver in sorted(used.keys() | limits.keys())
    )
