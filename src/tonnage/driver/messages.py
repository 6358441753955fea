"""Reads fields of requests, and shows records as CSI messages. Missing and unsupported values are refused.

Lists are in order of creation, and a token is the number of the last entry shown: a page continues where the last one
ended, whatever was deleted or created meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from google.protobuf.timestamp_pb2 import Timestamp

from tonnage.csi import csi_pb2 as csi
from tonnage.csi.errors import Code, StatusError, invalid_argument
from tonnage.driver.state.records import AccessType, Capability, SnapshotRecord, VolumeOrigin, VolumeRecord
from tonnage.driver.volumes.parameters import topology_of

T = TypeVar("T")

Mode = csi.VolumeCapability.AccessMode
MODES: Final = frozenset(
    {
        Mode.SINGLE_NODE_WRITER,
        Mode.SINGLE_NODE_READER_ONLY,
        Mode.SINGLE_NODE_SINGLE_WRITER,
        Mode.SINGLE_NODE_MULTI_WRITER,
    }
)
"""A volume is on one node, and can be used only there."""


def required(value: T, field: str) -> T:
    """The value of a field that must be set. Raises StatusError with INVALID_ARGUMENT."""
    if not value:
        raise invalid_argument(f"{field} is required")
    return value


def absolute(path: str, field: str) -> str:
    """A path that must be set and absolute. Raises StatusError with INVALID_ARGUMENT."""
    if not required(path, field).startswith("/"):
        raise invalid_argument(f'{field}="{path}" is not an absolute path')
    return path


def read_capability(asked: csi.VolumeCapability) -> Capability:
    """Read a capability. Raises StatusError with INVALID_ARGUMENT if it is incomplete or unsupported."""
    access_type: AccessType
    if asked.HasField("block"):
        access_type = "block"
    elif asked.HasField("mount"):
        access_type = "mount"
    else:
        raise invalid_argument("volume_capability: access_type is required")
    mode = asked.access_mode.mode
    if mode not in MODES:
        raise invalid_argument(
            f"volume_capability: access mode {_name(mode)} is not supported, a volume can be used on one node only"
        )
    return Capability(access_type, int(mode))


def required_capability(request: Any) -> Capability:
    """The capability of a request that must have one. Raises StatusError with INVALID_ARGUMENT."""
    required(request.HasField("volume_capability"), "volume_capability")
    return read_capability(request.volume_capability)


def common_access_type(asked: Iterable[csi.VolumeCapability]) -> AccessType:
    """The one access type of these capabilities. Raises StatusError for none, or for both."""
    types = {read_capability(capability).access_type for capability in asked}
    if len(types) > 1:
        raise invalid_argument("volume_capabilities: a volume is either mounted or used as blocks, not both")
    required(types, "volume_capabilities")
    return types.pop()


def _name(mode: int) -> str:
    return Mode.Mode.Name(mode) if mode in Mode.Mode.values() else str(mode)


R = TypeVar("R", VolumeRecord, SnapshotRecord)


def volume_response(record: VolumeRecord) -> csi.Volume:
    return csi.Volume(
        volume_id=record.volume_id,
        capacity_bytes=record.capacity_bytes,
        content_source=_source_response(record.source),
        accessible_topology=[topology_of(record.node)],
    )


def snapshot_response(record: SnapshotRecord) -> csi.Snapshot:
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
    """A volume is abnormal if somebody has removed its contents."""
    if path.exists():
        return csi.VolumeCondition(abnormal=False, message="the volume is in its pool")
    return csi.VolumeCondition(abnormal=True, message="the volume's contents are missing from its pool")


_MAX_TOKEN = 64
"""Our tokens are the digits of a count of volumes."""


def page(records: Iterable[R], max_entries: int, starting_token: str) -> tuple[Sequence[R], str]:
    """The records of one page, and the token for the next. Raises StatusError, ABORTED for a foreign token."""
    if max_entries < 0:
        raise invalid_argument(f"max_entries={max_entries} is negative")
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
