"""Kubernetes' access modes as CSI has them, by csi-lib-utils' table.

    access mode           driver with SINGLE_NODE_MULTI_WRITER    without
    ReadWriteMany         MULTI_NODE_MULTI_WRITER                 MULTI_NODE_MULTI_WRITER
    ReadOnlyMany          MULTI_NODE_READER_ONLY                  MULTI_NODE_READER_ONLY
    ReadWriteOnce         SINGLE_NODE_MULTI_WRITER                SINGLE_NODE_WRITER
    ReadWriteOncePod      SINGLE_NODE_SINGLE_WRITER               SINGLE_NODE_WRITER

A driver with that capability knows a volume for one pod from one for all pods of a node. A VolumeCapability has one
mode: a sidecar that asks for several at once goes by `access_mode`, a kubelet by the mode it mounts with.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from tonnage.csi import csi_pb2 as csi
from tonnage.errors import TonnageError

AccessMode = csi.VolumeCapability.AccessMode

_MODES: Final = {
    "ReadWriteMany": AccessMode.MULTI_NODE_MULTI_WRITER,
    "ReadOnlyMany": AccessMode.MULTI_NODE_READER_ONLY,
    "ReadWriteOnce": AccessMode.SINGLE_NODE_WRITER,
    "ReadWriteOncePod": AccessMode.SINGLE_NODE_WRITER,
}
_MULTI_WRITER_MODES: Final = {
    **_MODES,
    "ReadWriteOnce": AccessMode.SINGLE_NODE_MULTI_WRITER,
    "ReadWriteOncePod": AccessMode.SINGLE_NODE_SINGLE_WRITER,
}


class UnsupportedAccessModes(TonnageError):
    """Access modes of one volume that CSI has no mode for."""


def single_access_mode(mode: str, *, single_node_multi_writer: bool) -> csi.VolumeCapability.AccessMode.Mode:
    """CSI's mode for one of Kubernetes'; UNKNOWN for a mode that is not in the table. Mirrors asCSIAccessModeV1."""
    modes = _MULTI_WRITER_MODES if single_node_multi_writer else _MODES
    return modes.get(mode, AccessMode.UNKNOWN)


def access_mode(modes: Collection[str], *, single_node_multi_writer: bool) -> csi.VolumeCapability.AccessMode.Mode:
    """CSI's one mode for a volume's several. Mirrors csi-lib-utils' ToCSIAccessMode.

    Raises UnsupportedAccessModes for combinations that CSI has no mode for.
    """
    asked = set(modes)
    if "ReadWriteOncePod" in asked and len(asked) > 1:
        raise UnsupportedAccessModes(
            "Kubernetes does not support use of ReadWriteOncePod with other access modes on the same PersistentVolume"
        )
    if "ReadWriteMany" not in asked and {"ReadOnlyMany", "ReadWriteOnce"} <= asked:
        raise UnsupportedAccessModes("CSI does not support ReadOnlyMany and ReadWriteOnce on the same PersistentVolume")
    widest = next((mode for mode in _MODES if mode in asked), None)
    if widest is None:
        raise UnsupportedAccessModes(f"unsupported AccessMode combination: [{' '.join(modes)}]")
    return single_access_mode(widest, single_node_multi_writer=single_node_multi_writer)
