"""Records as CSI shows them, and lists page by page.

A list goes by the order in which things were made, and a token is the number of the last one shown. So a page goes on
where the one before it ended, whatever was deleted meanwhile, and what was made meanwhile comes at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from google.protobuf.timestamp_pb2 import Timestamp

from tonnage.csi import csi_pb2 as csi
from tonnage.csi.errors import Code
from tonnage.driver.errors import StatusError
from tonnage.driver.state.records import SnapshotRecord, VolumeOrigin, VolumeRecord
from tonnage.driver.volumes.topology import topology_of

R = TypeVar("R", VolumeRecord, SnapshotRecord)


def volume_response(record: VolumeRecord) -> csi.Volume:
    """A volume, with the one place it can be used at."""
    return csi.Volume(
        volume_id=record.volume_id,
        capacity_bytes=record.capacity_bytes,
        content_source=_source_response(record.source),
        accessible_topology=[topology_of(record.node)],
    )


def snapshot_response(record: SnapshotRecord) -> csi.Snapshot:
    """A snapshot; it is ready as soon as it is there."""
    created_at = Timestamp()
    created_at.FromNanoseconds(record.created_at_ns)
    return csi.Snapshot(
        snapshot_id=record.snapshot_id,
        source_volume_id=record.source_volume_id,
        size_bytes=record.size_bytes,
        creation_time=created_at,
        ready_to_use=True,
    )


def condition_response(path: Path) -> csi.VolumeCondition:
    """How a volume is: well, unless somebody has removed its contents."""
    if path.exists():
        return csi.VolumeCondition(abnormal=False, message="the volume is in its pool")
    return csi.VolumeCondition(abnormal=True, message="the volume's contents are missing from its pool")


_MAX_TOKEN = 64
"""Ours are the digits of an order, which counts volumes."""


def page(records: Iterable[R], max_entries: int, starting_token: str) -> tuple[Sequence[R], str]:
    """The records of one page, and the token for the next.

    Raises StatusError with ABORTED for a token that is none of ours.
    """
    if max_entries < 0:
        raise StatusError(Code.INVALID_ARGUMENT, f"max_entries={max_entries} is negative")
    is_ours = starting_token.isascii() and starting_token.isdecimal() and len(starting_token) <= _MAX_TOKEN
    if starting_token and not is_ours:
        shown_token = starting_token[:_MAX_TOKEN]
        raise StatusError(Code.ABORTED, f'starting_token "{shown_token}" is not valid: start the list again')
    after = int(starting_token or 0)
    left = sorted((record for record in records if record.order > after), key=lambda record: record.order)
    shown = left[:max_entries] if max_entries else left
    return shown, str(shown[-1].order) if len(shown) < len(left) else ""


def _source_response(source: VolumeOrigin | None) -> csi.VolumeContentSource | None:
    if source is None:
        return None
    if source.kind == "snapshot":
        return csi.VolumeContentSource(snapshot=csi.VolumeContentSource.SnapshotSource(snapshot_id=source.id))
    return csi.VolumeContentSource(volume=csi.VolumeContentSource.VolumeSource(volume_id=source.id))
