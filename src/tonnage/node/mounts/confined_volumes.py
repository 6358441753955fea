"""Pods that were sent to a node from which one of their volumes cannot be reached (KEP-5381).

A volume's node affinity may be set anew while a pod is on its way by the old one: the scheduler had not seen it, or the
volume was free to move then and has gone elsewhere. Such a pod waits for ever, and its volume may be in use where it
is. So its node turns it away, and whoever made it makes another, which goes where the volume is.

    confined elsewhere, neither attached here nor mounted ──for a while──► read from the server, still so ──► rejected

The while is for a driver that has the volume on its way here and has not said so yet. A pod that runs is left alone.
"""

from __future__ import annotations

from tonnage.objects.core_v1 import Node, PersistentVolume
from tonnage.objects.storage_v1 import CSINode


def is_confined_elsewhere(volume: PersistentVolume, node: Node, csi_node: CSINode | None) -> bool:
    """Whether a volume of a CSI driver cannot be reached from a node, as far as the node's labels tell.

    A node has its topology once the driver has registered: without, nothing can be told.
    """
    source = volume.spec.csi
    driver = csi_node.driver(source.driver) if source is not None and csi_node is not None else None
    labels = node.metadata.labels
    if driver is None or not all(key in labels for key in driver.topology_keys):
        return False
    return not volume.spec.node_affinity.admits(node.name, labels)


def rejection(volume: PersistentVolume, claim: str) -> str:
    """What people are told of the pod."""
    return (
        f'Node does not match the node affinity of volume "{volume.name}", rejecting pod: '
        f"claim {claim} can be used on other nodes only"
    )
