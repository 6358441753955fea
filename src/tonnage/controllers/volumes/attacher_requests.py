"""The requests by which a driver attaches a volume, the text of its errors, and the nodes it reports for its volumes.

Words and names are external-attacher's.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Final

from tonnage.client.cache import Cache
from tonnage.client.recorder import truncated
from tonnage.clock import rfc3339
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.client import CsiClient
from tonnage.csi.conversion import UnsupportedAccessModes, access_mode, volume_capability
from tonnage.csi.driver_capabilities import ControllerCapabilities
from tonnage.csi.errors import Code, CsiError, error_text
from tonnage.errors import TonnageError
from tonnage.objects.core_v1 import CSIPersistentVolumeSource, PersistentVolume
from tonnage.objects.document import Doc
from tonnage.objects.storage_v1 import CSINode, VolumeAttachment

NODE_ID_ANNOTATION: Final = "csi.alpha.kubernetes.io/node-id"
"""On a VolumeAttachment: the driver's id of the node, for when the node and its CSINode are gone."""
MESSAGE_BYTES: Final = 1024
"""The longest message of an attachError or detachError that the API accepts."""


class CannotAttach(TonnageError):
    """The request to the driver cannot be built; the reason goes to the attachment's status."""


def finalizer_name(driver: str) -> str:
    """The attacher's finalizer on attachments and volumes. Characters that finalizers cannot have become dashes."""
    name = re.sub("[^a-zA-Z0-9-]", "-", driver)
    return f"external-attacher/{name}X" if name.endswith("-") else f"external-attacher/{name}"


def publish_request(
    volume: PersistentVolume, node_id: str, secrets: Mapping[str, str], capabilities: ControllerCapabilities
) -> csi.ControllerPublishVolumeRequest:
    """Raises CannotAttach as `capability` does, and for a volume that is no CSI volume."""
    source = source_of(volume)
    return csi.ControllerPublishVolumeRequest(
        volume_id=source.volume_handle,
        node_id=node_id,
        volume_capability=capability(volume, capabilities),
        # A driver that cannot publish read-only must not be asked to.
        readonly=source.read_only and capabilities.publish_readonly,
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


def capability(volume: PersistentVolume, capabilities: ControllerCapabilities) -> csi.VolumeCapability:
    """Raises CannotAttach if CSI has no mode for the volume's access modes."""
    try:
        mode = access_mode(volume.spec.access_modes, single_node_multi_writer=capabilities.single_node_multi_writer)
    except UnsupportedAccessModes as exc:
        raise CannotAttach(exc.message) from exc
    return volume_capability(
        mode,
        is_block=volume.spec.volume_mode == "Block",
        fs_type=source_of(volume).fs_type,
        mount_flags=volume.spec.mount_options,
    )


def node_id(driver: str, node: str, csi_node: CSINode | None, attachment: VolumeAttachment | None = None) -> str:
    """The driver's id of the node, from its CSINode or else from the attachment's annotation. Raises CannotAttach."""
    entry = csi_node.driver(driver) if csi_node is not None else None
    if entry is not None:
        return entry.node_id
    kept = attachment.metadata.annotations.get(NODE_ID_ANNOTATION) if attachment is not None else None
    if kept is not None:
        return kept
    if csi_node is None:
        raise CannotAttach(f'csinode.storage.k8s.io "{node}" not found')
    raise CannotAttach(f"CSINode {node} does not contain driver {driver}")


def volume_error(failure: TonnageError, now: datetime, *, has_codes: bool) -> Doc:
    """A failed attach or detach for the status, its message cut to what the API takes.

    `has_codes` adds the gRPC code, which attach limits read (KEP-4876): 8 is a full node.
    """
    code = failure.number if has_codes and isinstance(failure, CsiError) else None
    return {"time": rfc3339(now), "message": truncated(error_text(failure), MESSAGE_BYTES), "errorCode": code}


_MOST_PAGES: Final = 10_000


async def published_nodes(driver: CsiClient) -> dict[str, set[str]]:
    """Where the driver's volumes are: handle -> node ids. Raises CsiError, also for a list that never ends."""
    found: dict[str, set[str]] = {}
    token, tokens = "", {""}
    while len(tokens) <= _MOST_PAGES:
        page = await driver.list_volumes(csi.ListVolumesRequest(starting_token=token))
        for entry in page.entries:
            found[entry.volume.volume_id] = set(entry.status.published_node_ids)
        token = page.next_token
        if not token:
            return found
        if token in tokens:
            break
        tokens.add(token)
    told = f"the list does not end: page {len(tokens)} leads to another, or to one that was read already"
    raise CsiError("/csi.v1.Controller/ListVolumes", Code.DATA_LOSS, told, address=driver.address)


def mismatched_attachments(
    driver: str,
    attachments: Iterable[VolumeAttachment],
    volumes: Cache[PersistentVolume],
    csi_nodes: Cache[CSINode],
    found: Mapping[str, Collection[str]],
) -> list[VolumeAttachment]:
    """The driver's attachments whose status differs from what the driver reports."""
    differ = []
    for attachment in attachments:
        volume = volumes.get(attachment.spec.source.persistent_volume_name)
        if attachment.spec.attacher != driver or volume is None or volume.spec.csi is None:
            continue
        name = attachment.spec.node_name
        try:
            node = node_id(driver, name, csi_nodes.get(name), attachment)
        except CannotAttach:
            continue
        is_there = node in found.get(volume.spec.csi.volume_handle, ())
        if is_there != attachment.status.attached:
            differ.append(attachment)
    return differ
