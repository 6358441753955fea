"""Which volume should be attached where: the rules of the attach/detach controller, without I/O.

A volume for one node is never requested on two: while a VolumeAttachment for another node exists, also a terminating
one, none is created. So a driver always sees ControllerUnpublish there, then ControllerPublish here, during which it
may rebuild the volume (KEP-5925).

A volume is detached from a node when no pod needs it there and the node does not list it in `volumesInUse`. It is
detached although listed if the node is gone, has the taint node.kubernetes.io/out-of-service, or has been not ready for
six minutes. Mirrors attachdetach's reconciler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tonnage.objects.core_v1 import Node, PersistentVolume
from tonnage.objects.storage_v1 import CSIDriver, CSINode, VolumeAttachment, attachment_name, unique_volume_name

MAX_WAIT_FOR_UNMOUNT_S: Final = 360.0
"""How long a node that is not ready may keep a volume that no pod needs there."""
_MANY_NODES: Final = frozenset({"ReadWriteMany", "ReadOnlyMany"})


def needs_attaching(volume: PersistentVolume, driver: CSIDriver | None) -> bool:
    """True for a CSI volume whose driver attaches. A driver without CSIDriver object attaches."""
    return volume.spec.csi is not None and (driver is None or driver.spec.attach_required)


def allows_many_nodes(volume: PersistentVolume) -> bool:
    """True if several nodes may have it at once. Without access modes it is unknown, and the driver may refuse."""
    modes = volume.spec.access_modes
    return not modes or not _MANY_NODES.isdisjoint(modes)


@dataclass(frozen=True, slots=True)
class AttachDetachPlan:
    """What to do about one volume: detach first, then attach."""

    detach: tuple[tuple[VolumeAttachment, bool], ...] = ()
    """Attachments to remove; True: by force, without waiting for the node to unmount the volume."""
    attach: tuple[str, ...] = ()
    """Names of nodes."""
    attached_elsewhere: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Nodes that must wait (multi-attach), with the nodes that have the volume."""
    without_driver: tuple[str, ...] = ()
    """Nodes that must wait until the driver is installed on them."""
    again_s: float | None = None
    """Seconds until an attachment is detached by force, if nothing happens before."""


def plan(
    volume: PersistentVolume,
    wanted: Sequence[str],
    attachments: Sequence[VolumeAttachment],
    nodes: Callable[[str], Node | None],
    csi_nodes: Callable[[str], CSINode | None],
    unwanted_s: Callable[[str], float],
    *,
    max_wait_s: float = MAX_WAIT_FOR_UNMOUNT_S,
    force_on_timeout: bool = True,
) -> AttachDetachPlan:
    """Plan a volume that pods on the `wanted` nodes need. `unwanted_s`: for how long no pod has needed it on a node."""
    source = volume.spec.csi
    if source is None:
        return AttachDetachPlan()
    name = unique_volume_name(source.driver, source.volume_handle)
    # An attachment made by hand has another name. Its author deletes it, and the volume is where it says.
    ours = {
        each.spec.node_name: each
        for each in attachments
        if each.name == attachment_name(source.volume_handle, source.driver, each.spec.node_name)
    }
    detach, waits_s = [], []
    for node, attachment in ours.items():
        if node in wanted or attachment.metadata.is_terminating:
            continue
        wait_s = _wait_s(name, nodes(node), unwanted_s(node), max_wait_s, force_on_timeout)
        if wait_s is None:
            continue
        if wait_s > 0:
            waits_s.append(wait_s)
        else:
            found = nodes(node)
            detach.append((attachment, found is not None and name in found.status.volumes_in_use))
    attach: list[str] = []
    attached_elsewhere: dict[str, tuple[str, ...]] = {}
    without_driver: list[str] = []
    holders = {attachment.spec.node_name for attachment in attachments}
    for node in wanted:
        if node in ours:
            continue  # attached, being attached, or being detached: the next change is looked at again
        others = tuple(sorted((holders | set(attach)) - {node}))
        if nodes(node) is None:
            continue
        csi_node = csi_nodes(node)
        if others and not allows_many_nodes(volume):
            attached_elsewhere[node] = others
        elif csi_node is None or csi_node.driver(source.driver) is None:
            without_driver.append(node)
        else:
            attach.append(node)
    return AttachDetachPlan(
        tuple(detach), tuple(attach), attached_elsewhere, tuple(without_driver), min(waits_s, default=None)
    )


def _wait_s(name: str, node: Node | None, unwanted_s: float, max_wait_s: float, force_on_timeout: bool) -> float | None:
    """Seconds to leave the volume on the node: 0 to detach now, None to wait for the node."""
    if node is None or node.is_out_of_service or name not in node.status.volumes_in_use:
        return 0.0
    if node.is_ready or not force_on_timeout:
        return None
    return max(max_wait_s - unwanted_s, 0.0)
