"""How a volume is used and its secrets, from Kubernetes' objects to CSI messages.

Access modes follow csi-lib-utils' table:

    access mode           driver with SINGLE_NODE_MULTI_WRITER    without
    ReadWriteMany         MULTI_NODE_MULTI_WRITER                 MULTI_NODE_MULTI_WRITER
    ReadOnlyMany          MULTI_NODE_READER_ONLY                  MULTI_NODE_READER_ONLY
    ReadWriteOnce         SINGLE_NODE_MULTI_WRITER                SINGLE_NODE_WRITER
    ReadWriteOncePod      SINGLE_NODE_SINGLE_WRITER               SINGLE_NODE_WRITER

A VolumeCapability has one mode: a sidecar with several modes uses `access_mode`, a kubelet the mode it mounts with. A
Secret is read on every use and never kept. A value that is not text is refused by its key, and never shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from tonnage.csi import csi_pb2 as csi
from tonnage.errors import TonnageError
from tonnage.objects.core_v1 import Secret

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
    """Access modes of one volume for which CSI has no mode."""


def single_access_mode(mode: str, *, single_node_multi_writer: bool) -> csi.VolumeCapability.AccessMode.Mode:
    """CSI's mode for one of Kubernetes'; UNKNOWN for a mode that is not in the table. Mirrors asCSIAccessModeV1."""
    modes = _MULTI_WRITER_MODES if single_node_multi_writer else _MODES
    return modes.get(mode, AccessMode.UNKNOWN)


def access_mode(modes: Collection[str], *, single_node_multi_writer: bool) -> csi.VolumeCapability.AccessMode.Mode:
    """CSI's one mode for several. Mirrors ToCSIAccessMode of csi-lib-utils. Raises UnsupportedAccessModes."""
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


def volume_capability(
    mode: csi.VolumeCapability.AccessMode.Mode,
    *,
    is_block: bool,
    fs_type: str = "",
    mount_flags: Iterable[str] = (),
    volume_mount_group: str = "",
) -> csi.VolumeCapability:
    """The capability for a mode. Type, flags and group are left out for a block volume."""
    access_mode = AccessMode(mode=mode)
    if is_block:
        return csi.VolumeCapability(block=csi.VolumeCapability.BlockVolume(), access_mode=access_mode)
    mount = csi.VolumeCapability.MountVolume(
        fs_type=fs_type, mount_flags=list(mount_flags), volume_mount_group=volume_mount_group
    )
    return csi.VolumeCapability(mount=mount, access_mode=access_mode)


class UndecodableSecret(TonnageError):
    def __init__(self, secret: Secret, key: str) -> None:
        self.secret = secret.key
        self.key = key
        super().__init__(
            f'secret "{secret.key}": the value of key "{key}" is not UTF-8 text, which is all that a CSI driver takes',
            hint=f'write the value of "{key}" as text and encode it in base64 once',
        )


def secret_values(secret: Secret) -> dict[str, str]:
    values = {}
    for key, value in secret.data.items():
        try:
            values[key] = value.decode()
        except UnicodeDecodeError:
            # `from None`: the cause would show the value.
            raise UndecodableSecret(secret, key) from None
    return values
