"""What a driver is asked when a volume is attached, and how its refusal is told: from API objects and back.

Words, names and the table of access modes are external-attacher's:

    access modes          the driver tells writers of one node apart    it does not
    ReadWriteMany         MULTI_NODE_MULTI_WRITER                       MULTI_NODE_MULTI_WRITER
    ReadOnlyMany          MULTI_NODE_READER_ONLY                        MULTI_NODE_READER_ONLY
    ReadWriteOnce         SINGLE_NODE_MULTI_WRITER                      SINGLE_NODE_WRITER
    ReadWriteOncePod      SINGLE_NODE_SINGLE_WRITER                     SINGLE_NODE_WRITER
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from tonnage.clock import rfc3339
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.errors import CsiError
from tonnage.errors import TonnageError
from tonnage.objects.core_v1 import CSIPersistentVolumeSource, PersistentVolume
from tonnage.objects.document import Doc
from tonnage.objects.storage_v1 import CSINode, VolumeAttachment

NODE_ID_ANNOTATION: Final = "csi.alpha.kubernetes.io/node-id"
"""On a VolumeAttachment: what the driver calls its node, for when node and CSINode are gone."""

_Mode = csi.VolumeCapability.AccessMode
_Rpc = csi.ControllerServiceCapability.RPC


class CannotAttach(TonnageError):
    """Something that the driver would need to know cannot be had; said in the attachment's status."""


@dataclass(frozen=True, slots=True)
class DriverFacts:
    """What a driver said about itself."""

    name: str
    rpcs: frozenset[int] = field(default_factory=frozenset)

    @property
    def attaches(self) -> bool:
        return _Rpc.PUBLISH_UNPUBLISH_VOLUME in self.rpcs

    @property
    def publishes_read_only(self) -> bool:
        return _Rpc.PUBLISH_READONLY in self.rpcs

    @property
    def tells_writers_apart(self) -> bool:
        return _Rpc.SINGLE_NODE_MULTI_WRITER in self.rpcs

    @property
    def lists_published_nodes(self) -> bool:
        return {_Rpc.LIST_VOLUMES, _Rpc.LIST_VOLUMES_PUBLISHED_NODES} <= self.rpcs


def finalizer_name(driver: str) -> str:
    """The attacher's finalizer on attachments and volumes: what no finalizer may contain becomes a dash."""
    name = re.sub("[^a-zA-Z0-9-]", "-", driver)
    return f"external-attacher/{name}X" if name.endswith("-") else f"external-attacher/{name}"


def publish_request(
    volume: PersistentVolume, node_id: str, secrets: Mapping[str, str], facts: DriverFacts, *, default_fs_type: str = ""
) -> csi.ControllerPublishVolumeRequest:
    """Raises CannotAttach for a volume whose access modes CSI cannot say."""
    source = source_of(volume)
    return csi.ControllerPublishVolumeRequest(
        volume_id=source.volume_handle,
        node_id=node_id,
        volume_capability=capability(volume, facts, default_fs_type=default_fs_type),
        # A driver that cannot publish read-only must not be asked to.
        readonly=source.read_only and facts.publishes_read_only,
        volume_context=dict(source.volume_attributes),
        secrets=dict(secrets),
    )


def unpublish_request(
    volume: PersistentVolume, node_id: str, secrets: Mapping[str, str]
) -> csi.ControllerUnpublishVolumeRequest:
    return csi.ControllerUnpublishVolumeRequest(
        volume_id=source_of(volume).volume_handle, node_id=node_id, secrets=dict(secrets)
    )


def source_of(volume: PersistentVolume) -> CSIPersistentVolumeSource:
    if volume.spec.csi is None:
        raise CannotAttach("pv spec contained non-csi source that was not migrated")
    return volume.spec.csi


def capability(volume: PersistentVolume, facts: DriverFacts, *, default_fs_type: str = "") -> csi.VolumeCapability:
    mode = _Mode(mode=access_mode(volume.spec.access_modes, tells_writers_apart=facts.tells_writers_apart))
    if volume.spec.volume_mode == "Block":
        return csi.VolumeCapability(block=csi.VolumeCapability.BlockVolume(), access_mode=mode)
    mount = csi.VolumeCapability.MountVolume(
        fs_type=source_of(volume).fs_type or default_fs_type, mount_flags=volume.spec.mount_options
    )
    return csi.VolumeCapability(mount=mount, access_mode=mode)


def access_mode(modes: Collection[str], *, tells_writers_apart: bool) -> csi.VolumeCapability.AccessMode.Mode:
    """CSI's one mode for a volume's several. Raises CannotAttach for combinations it has no word for."""
    asked = set(modes)
    if "ReadWriteOncePod" in asked:
        if len(asked) > 1:
            raise CannotAttach(
                "Kubernetes does not support use of ReadWriteOncePod with other access modes "
                "on the same PersistentVolume"
            )
        return _Mode.SINGLE_NODE_SINGLE_WRITER if tells_writers_apart else _Mode.SINGLE_NODE_WRITER
    if "ReadWriteMany" in asked:
        return _Mode.MULTI_NODE_MULTI_WRITER
    if {"ReadOnlyMany", "ReadWriteOnce"} <= asked:
        raise CannotAttach("CSI does not support ReadOnlyMany and ReadWriteOnce on the same PersistentVolume")
    if "ReadOnlyMany" in asked:
        return _Mode.MULTI_NODE_READER_ONLY
    if "ReadWriteOnce" in asked:
        return _Mode.SINGLE_NODE_MULTI_WRITER if tells_writers_apart else _Mode.SINGLE_NODE_WRITER
    raise CannotAttach(f"unsupported AccessMode combination: [{' '.join(modes)}]")


def node_id(driver: str, node: str, csi_node: CSINode | None, attachment: VolumeAttachment | None = None) -> str:
    """What the driver calls the node: its CSINode says so; for a detach, the attachment has kept it. Or CannotAttach.

    A driver that is not registered (any more) is like a node that is gone: that must not keep a volume attached.
    """
    entry = csi_node.driver(driver) if csi_node is not None else None
    if entry is not None:
        return entry.node_id
    kept = attachment.metadata.annotations.get(NODE_ID_ANNOTATION) if attachment is not None else None
    if kept is not None:
        return kept
    if csi_node is None:
        raise CannotAttach(f'csinode.storage.k8s.io "{node}" not found')
    raise CannotAttach(f"CSINode {node} does not contain driver {driver}")


def volume_error(failure: TonnageError, now: datetime) -> Doc:
    """A failure as a status tells it: a driver's in its own words, since which call it was is plain from the place."""
    prefix = f"{failure.method}: " if isinstance(failure, CsiError) else ""
    message = failure.message.removeprefix(prefix)
    return {"time": rfc3339(now), "message": message}


def attach_error(failure: TonnageError, now: datetime, *, has_codes: bool) -> Doc:
    """The same for an attach, with the driver's code where attach limits follow it (KEP-4876): 8 is a full node."""
    code = failure.number if has_codes and isinstance(failure, CsiError) else None
    return {**volume_error(failure, now), "errorCode": code}
