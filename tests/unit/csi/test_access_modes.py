"""Access modes by csi-lib-utils' table, and what a volume capability says."""

from __future__ import annotations

import pytest

from tonnage.csi import csi_pb2 as csi
from tonnage.csi.conversion import UnsupportedAccessModes, access_mode, single_access_mode, volume_capability

Mode = csi.VolumeCapability.AccessMode


@pytest.mark.parametrize(
    ("modes", "plain", "apart"),
    [
        (["ReadWriteOnce"], Mode.SINGLE_NODE_WRITER, Mode.SINGLE_NODE_MULTI_WRITER),
        (["ReadWriteOncePod"], Mode.SINGLE_NODE_WRITER, Mode.SINGLE_NODE_SINGLE_WRITER),
        (["ReadOnlyMany"], Mode.MULTI_NODE_READER_ONLY, Mode.MULTI_NODE_READER_ONLY),
        (["ReadWriteMany"], Mode.MULTI_NODE_MULTI_WRITER, Mode.MULTI_NODE_MULTI_WRITER),
        (["ReadWriteOnce", "ReadWriteMany"], Mode.MULTI_NODE_MULTI_WRITER, Mode.MULTI_NODE_MULTI_WRITER),
    ],
)
def test_access_modes_become_one(modes: list[str], plain: int, apart: int) -> None:
    assert access_mode(modes, single_node_multi_writer=False) == plain
    assert access_mode(modes, single_node_multi_writer=True) == apart


@pytest.mark.parametrize(
    ("modes", "why"),
    [
        (
            ["ReadWriteOncePod", "ReadWriteOnce"],
            "Kubernetes does not support use of ReadWriteOncePod with other access modes on the same PersistentVolume",
        ),
        (
            ["ReadOnlyMany", "ReadWriteOnce"],
            "CSI does not support ReadOnlyMany and ReadWriteOnce on the same PersistentVolume",
        ),
        ([], "unsupported AccessMode combination: []"),
    ],
)
def test_what_csi_has_no_mode_for_is_refused(modes: list[str], why: str) -> None:
    with pytest.raises(UnsupportedAccessModes) as refused:
        access_mode(modes, single_node_multi_writer=True)
    assert refused.value.message == why


def test_a_mode_that_csi_does_not_know_is_unknown() -> None:
    assert single_access_mode("ReadWriteNever", single_node_multi_writer=True) == Mode.UNKNOWN


def test_a_block_volume_has_no_file_system() -> None:
    mounted = volume_capability(Mode.SINGLE_NODE_WRITER, is_block=False, fs_type="xfs", mount_flags=("noatime",))
    assert mounted.mount == csi.VolumeCapability.MountVolume(fs_type="xfs", mount_flags=["noatime"])
    block = volume_capability(Mode.SINGLE_NODE_WRITER, is_block=True, fs_type="xfs")
    assert block.WhichOneof("access_type") == "block"
    assert (mounted.access_mode, block.access_mode) == (Mode(mode=Mode.SINGLE_NODE_WRITER),) * 2
