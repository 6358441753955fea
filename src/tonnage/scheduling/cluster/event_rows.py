"""Where in a cluster something happened: the row of the node that an object is about."""

from __future__ import annotations

from typing import Any

from tonnage.objects.core_v1 import Node, Pod
from tonnage.objects.storage_v1 import CSINode, VolumeAttachment
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import Rows

_NOWHERE = slice(0, 0)


def row_about(cluster: Cluster, changed: Any) -> Rows | None:
    """The row of a node, its CSINode, an attachment to it, or a pod that is or was there or expected there.

    No row when the node is not known; None for what is about no node.
    """
    if isinstance(changed, Node | CSINode):
        name = changed.metadata.name
    elif isinstance(changed, VolumeAttachment):
        name = changed.spec.node_name
    elif isinstance(changed, Pod):
        name = changed.spec.node_name or changed.status.nominated_node_name
    else:
        return None
    row = cluster.row_of.get(name, -1)
    return slice(row, row + 1) if row >= 0 else _NOWHERE
