"""What a driver is asked when a volume is attached; access modes by external-attacher's table."""

from __future__ import annotations

import pytest

from tonnage.clock import parse_rfc3339
from tonnage.controllers.volumes.attacher_requests import (
    NODE_ID_ANNOTATION,
    CannotAttach,
    DriverFacts,
    access_mode,
    attach_error,
    finalizer_name,
    node_id,
    publish_request,
    unpublish_request,
    volume_error,
)
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.errors import Code, CsiError
from tonnage.objects.codec import convert
from tonnage.objects.storage_v1 import VolumeAttachment
from tonnage.testing.storage_builders import csi_node, volume

Mode = csi.VolumeCapability.AccessMode
Rpc = csi.ControllerServiceCapability.RPC
FACTS = DriverFacts("csi.example", frozenset({Rpc.PUBLISH_UNPUBLISH_VOLUME}))


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
    assert access_mode(modes, tells_writers_apart=False) == plain
    assert access_mode(modes, tells_writers_apart=True) == apart


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
def test_what_csi_has_no_word_for_cannot_be_attached(modes: list[str], why: str) -> None:
    with pytest.raises(CannotAttach) as refused:
        access_mode(modes, tells_writers_apart=True)
    assert refused.value.message == why


def test_a_request_holds_what_the_volume_says() -> None:
    source = {
        "driver": "csi.example",
        "volumeHandle": "h",
        "readOnly": True,
        "fsType": "xfs",
        "volumeAttributes": {"pool": "a"},
    }
    found = volume("v", spec={"csi": source, "mountOptions": ["noatime"]})
    asked = publish_request(found, "id", {"user": "ann"}, FACTS)
    mount = csi.VolumeCapability.MountVolume(fs_type="xfs", mount_flags=["noatime"])
    assert asked == csi.ControllerPublishVolumeRequest(
        volume_id="h",
        node_id="id",
        volume_capability=csi.VolumeCapability(mount=mount, access_mode=Mode(mode=Mode.SINGLE_NODE_WRITER)),
        readonly=False,  # the driver cannot publish read-only, and must not be asked to
        volume_context={"pool": "a"},
        secrets={"user": "ann"},
    )
    able = DriverFacts("csi.example", FACTS.rpcs | {Rpc.PUBLISH_READONLY})
    assert publish_request(found, "id", {}, able).readonly
    assert unpublish_request(found, "id", {}) == csi.ControllerUnpublishVolumeRequest(volume_id="h", node_id="id")


def test_a_block_volume_has_no_file_system_and_a_default_fills_in_for_others() -> None:
    block = publish_request(volume("v", spec={"volumeMode": "Block"}), "id", {}, FACTS)
    assert block.volume_capability.WhichOneof("access_type") == "block"
    plain = publish_request(volume("v"), "id", {}, FACTS, default_fs_type="ext4")
    assert plain.volume_capability.mount.fs_type == "ext4"


def test_a_volume_that_is_no_drivers_cannot_be_attached() -> None:
    with pytest.raises(CannotAttach, match=r"^pv spec contained non-csi source that was not migrated$"):
        publish_request(volume("v", driver=None), "id", {}, FACTS)


def test_finalizers_are_named_by_the_driver_as_far_as_a_name_allows() -> None:
    assert finalizer_name("pools.tonnage.dev") == "external-attacher/pools-tonnage-dev"
    assert finalizer_name("a_b.") == "external-attacher/a-b-X"


def kept(*annotations: tuple[str, str]) -> VolumeAttachment:
    return convert(
        VolumeAttachment,
        {
            "kind": "VolumeAttachment",
            "metadata": {"name": "csi-1", "annotations": dict(annotations)},
            "spec": {"attacher": "csi.example", "nodeName": "node-1", "source": {"persistentVolumeName": "v"}},
        },
    )


def test_a_nodes_id_is_the_csinodes_and_for_a_detach_the_one_that_was_kept() -> None:
    there, kept_id = csi_node("node-1", {"csi.example": None}), kept((NODE_ID_ANNOTATION, "old"))
    assert node_id("csi.example", "node-1", there, kept_id) == "node-1"
    assert node_id("csi.example", "node-1", None, kept_id) == "old"
    without = csi_node("node-1", {"other": None})
    assert node_id("csi.example", "node-1", without, kept_id) == "old"


def test_a_node_that_nobody_knows_cannot_be_attached_to() -> None:
    with pytest.raises(CannotAttach, match=r'^csinode\.storage\.k8s\.io "node-1" not found$'):
        node_id("csi.example", "node-1", None)
    with pytest.raises(CannotAttach, match=r"^CSINode node-1 does not contain driver csi\.example$"):
        node_id("csi.example", "node-1", csi_node("node-1", {}), kept())


def test_what_a_driver_can_is_read_from_its_capabilities() -> None:
    assert FACTS.attaches and not FACTS.tells_writers_apart and not FACTS.lists_published_nodes
    assert not DriverFacts("csi.example").attaches
    lists = DriverFacts("csi.example", frozenset({Rpc.LIST_VOLUMES, Rpc.LIST_VOLUMES_PUBLISHED_NODES}))
    assert lists.lists_published_nodes


def test_a_refusal_is_told_in_the_drivers_words_and_with_its_code_where_that_is_read() -> None:
    now = parse_rfc3339("2026-11-15T08:00:00Z")
    full = CsiError("/csi.v1.Controller/ControllerPublishVolume", Code.RESOURCE_EXHAUSTED, "no slot")
    told = {
        "time": "2026-11-15T08:00:00Z",
        "message": "rpc error: code = ResourceExhausted desc = no slot",
        "errorCode": 8,
    }
    assert attach_error(full, now, has_codes=True) == told
    assert attach_error(full, now, has_codes=False) == {**told, "errorCode": None}
    missing = attach_error(CannotAttach("no such secret"), now, has_codes=True)
    assert missing == {"time": "2026-11-15T08:00:00Z", "message": "no such secret", "errorCode": None}
    assert volume_error(full, now) == {"time": told["time"], "message": told["message"]}
