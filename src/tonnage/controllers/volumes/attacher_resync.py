"""Where a driver has its volumes, against where the attachments say they are.

Somebody may detach a disk behind everyone's back, or a driver may lose its memory. One that can list its volumes with
their nodes is asked now and then, and what differs is done again. Mirrors external-attacher's ReconcileVA.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from tonnage.client.cache import Cache
from tonnage.controllers.volumes.attacher_requests import CannotAttach, node_id
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.client import CsiClient
from tonnage.csi.errors import Code, CsiError
from tonnage.objects.core_v1 import PersistentVolume
from tonnage.objects.storage_v1 import CSINode, VolumeAttachment

_MOST_PAGES: Final = 10_000


async def published_nodes(driver: CsiClient) -> dict[str, set[str]]:
    """Where the driver's volumes are: handle -> node ids. Raises CsiError, also for a list that does not end."""
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
    """The driver's attachments whose status is not what the driver itself says."""
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
