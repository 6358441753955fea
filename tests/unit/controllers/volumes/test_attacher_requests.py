"""What a driver is asked when a volume is attached, in external-attacher's words."""

from __future__ import annotations

import pytest

from tonnage.clock import parse_rfc3339
from tonnage.controllers.volumes.attacher import (
    MESSAGE_BYTES,
    NODE_ID_ANNOTATION,
    CannotAttach,
    finalizer_name,
    node_id,
    publish_request,
    unpublish_request,
    volume_error,
)
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.driver_capabilities import ControllerCapabilities
from tonnage.csi.errors import Code, CsiError
from tonnage.objects.codec import convert
from tonnage.objects.storage_v1 import VolumeAttachment
from tonnage.testing.storage_builders import csi_node, volume

Mode = csi.VolumeCapability.AccessMode
Rpc = csi.ControllerServiceCapability.RPC
ATTACHES = ControllerCapabilities(frozenset({Rpc.PUBLISH_UNPUBLISH_VOLUME}))


def test_what_csi_has_no_mode_for_cannot_be_attached() -> None:
    found = volume("v", spec={"accessModes": ["ReadOnlyMany", "ReadWriteOnce"]})
    with pytest.raises(CannotAttach) as refused:
        publish_request(found, "id", {}, ATTACHES)
    assert refused.value.message == "CSI does not support ReadOnlyMany and ReadWriteOnce on the same PersistentVolume"


def test_a_request_holds_what_the_volume_says() -> None:
    source = {
        "driver": "csi.example",
        "volumeHandle": "h",
        "readOnly": True,
        "fsType": "xfs",
        "volumeAttributes": {"pool": "a"},
    }
    found = volume("v", spec={"csi": source, "mountOptions": ["noatime"]})
    asked = publish_request(found, "id", {"user": "ann"}, ATTACHES)
    mount = csi.VolumeCapability.MountVolume(fs_type="xfs", mount_flags=["noatime"])
    assert asked == csi.ControllerPublishVolumeRequest(
        volume_id="h",
        node_id="id",
        volume_capability=csi.VolumeCapability(mount=mount, access_mode=Mode(mode=Mode.SINGLE_NODE_WRITER)),
        readonly=False,  # the driver cannot publish read-only, and must not be asked to
        volume_context={"pool": "a"},
        secrets={"user": "ann"},
    )
    able = ControllerCapabilities(ATTACHES.rpcs | {Rpc.PUBLISH_READONLY})
    assert publish_request(found, "id", {}, able).readonly
    assert unpublish_request(found, "id", {}) == csi.ControllerUnpublishVolumeRequest(volume_id="h", node_id="id")


def test_a_block_volume_has_no_file_system() -> None:
    block = publish_request(volume("v", spec={"volumeMode": "Block"}), "id", {}, ATTACHES)
    assert block.volume_capability.WhichOneof("access_type") == "block"


def test_a_volume_that_is_no_drivers_cannot_be_attached() -> None:
    with pytest.raises(CannotAttach, match=r"^pv spec contained non-csi source that was not migrated$"):
        publish_request(volume("v", driver=None), "id", {}, ATTACHES)


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


def test_a_refusal_is_told_in_the_drivers_words_and_with_its_code_where_that_is_read() -> None:
    now = parse_rfc3339("2026-11-15T08:00:00Z")
    full = CsiError("/csi.v1.Controller/ControllerPublishVolume", Code.RESOURCE_EXHAUSTED, "no slot")
    told = {
        "time": "2026-11-15T08:00:00Z",
        "message": "rpc error: code = ResourceExhausted desc = no slot",
        "errorCode": 8,
    }
    assert volume_error(full, now, has_codes=True) == told
    assert volume_error(full, now, has_codes=False) == {**told, "errorCode": None}
    missing = volume_error(CannotAttach("no such secret"), now, has_codes=True)
    assert missing == {"time": "2026-11-15T08:00:00Z", "message": "no such secret", "errorCode": None}


def test_a_message_is_cut_to_what_the_api_takes_so_that_the_code_is_not_lost() -> None:
    now = parse_rfc3339("2026-11-15T08:00:00Z")
    wordy = CsiError("/csi.v1.Controller/ControllerPublishVolume", Code.RESOURCE_EXHAUSTED, "é" * 2000)
    told = volume_error(wordy, now, has_codes=True)
    # "rpc error: code = ResourceExhausted desc = " has 43 bytes and " ..." 4: (1024 - 47) // 2 = 488 letters of two.
    assert told["message"] == f"rpc error: code = ResourceExhausted desc = {'é' * 488} ..."
    assert len(told["message"].encode()) <= MESSAGE_BYTES and told["errorCode"] == 8
