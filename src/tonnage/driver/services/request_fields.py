"""How the fields of a request are read: a missing one is refused by name, and so is what the driver cannot do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

from tonnage.csi import csi_pb2 as csi
from tonnage.csi.errors import Code
from tonnage.driver.errors import StatusError
from tonnage.driver.state.records import AccessType, Capability

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
"""A volume lives on one node, and can be used there only."""


def required(value: T, field: str) -> T:
    """The value of a field that must be set. Raises StatusError with INVALID_ARGUMENT."""
    if not value:
        raise StatusError(Code.INVALID_ARGUMENT, f"{field} is required")
    return value


def absolute(path: str, field: str) -> str:
    """A path that must be set and absolute. Raises StatusError with INVALID_ARGUMENT."""
    if not required(path, field).startswith("/"):
        raise StatusError(Code.INVALID_ARGUMENT, f'{field}="{path}" is not an absolute path')
    return path


def read_capability(asked: csi.VolumeCapability) -> Capability:
    """One capability. Raises StatusError with INVALID_ARGUMENT for one that is not complete or not supported."""
    access_type: AccessType
    if asked.HasField("block"):
        access_type = "block"
    elif asked.HasField("mount"):
        access_type = "mount"
    else:
        raise StatusError(Code.INVALID_ARGUMENT, "volume_capability: access_type is required")
    mode = asked.access_mode.mode
    if mode not in MODES:
        raise StatusError(
            Code.INVALID_ARGUMENT,
            f"volume_capability: access mode {_name(mode)} is not supported, a volume can be used on one node only",
        )
    return Capability(access_type, int(mode))


def required_capability(asked: csi.VolumeCapability, is_set: bool) -> Capability:
    """The capability of a request that has to have one. Raises StatusError with INVALID_ARGUMENT."""
    required(is_set, "volume_capability")
    return read_capability(asked)


def common_access_type(asked: Iterable[csi.VolumeCapability]) -> AccessType:
    """How a volume of these capabilities is made.

    Raises StatusError with INVALID_ARGUMENT for none, or both at once.
    """
    types = {read_capability(capability).access_type for capability in asked}
    if len(types) > 1:
        raise StatusError(
            Code.INVALID_ARGUMENT, "volume_capabilities: a volume is either mounted or used as blocks, not both"
        )
    required(types, "volume_capabilities")
    return types.pop()


def _name(mode: int) -> str:
    return Mode.Mode.Name(mode) if mode in Mode.Mode.values() else str(mode)
