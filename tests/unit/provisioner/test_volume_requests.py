"""From a claim to CreateVolume, and from its answer to a PersistentVolume."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.csi import csi_pb2 as csi
from tonnage.csi.driver_capabilities import (
    ControllerCapabilities,
    ControllerRpc,
    DriverInfo,
    PluginCapabilities,
    Service,
)
from tonnage.objects.codec import convert, to_doc
from tonnage.objects.core_v1 import PersistentVolumeClaim
from tonnage.objects.storage_v1 import StorageClass
from tonnage.provisioner.context import InvalidClaim, ProvisionerOptions
from tonnage.provisioner.volumes.create_volume import missing_capability, persistent_volume, prepared
from tonnage.testing.storage_builders import DRIVER, claim, storage_class

Mode = csi.VolumeCapability.AccessMode
DRIVER_INFO = DriverInfo(
    DRIVER,
    PluginCapabilities(frozenset({Service.CONTROLLER_SERVICE, Service.VOLUME_ACCESSIBILITY_CONSTRAINTS})),
    ControllerCapabilities(frozenset({ControllerRpc.CREATE_DELETE_VOLUME})),
)
UID = "6d9b6d2e-4f0a-4c3e-9a1e-0a6b1f3f2c11"


def class_with(**more: Any) -> StorageClass:
    doc = to_doc(storage_class())
    return convert(StorageClass, {**doc, **more})


def made(asking: PersistentVolumeClaim, found: StorageClass, answer: csi.Volume, **options: Any) -> dict[str, Any]:
    said = ProvisionerOptions(**options)
    volume = persistent_volume(prepared(asking, found, DRIVER_INFO, said), answer, DRIVER_INFO, said, identity="me")
    return to_doc(volume)


@pytest.mark.parametrize(("length", "name"), [(-1, f"pvc-{UID}"), (8, "pvc-6d9b6d2e"), (0, "pvc-")])
def test_a_volume_is_named_by_its_claims_uid(length: int, name: str) -> None:
    assert ProvisionerOptions(volume_name_uuid_length=length).volume_name(UID) == name


def test_a_name_needs_a_prefix_and_a_uid() -> None:
    with pytest.raises(InvalidClaim, match="volume name prefix cannot be of length 0"):
        ProvisionerOptions(volume_name_prefix="").volume_name(UID)
    with pytest.raises(InvalidClaim, match="corrupted PVC object, it is missing UID"):
        ProvisionerOptions().volume_name("")


def test_access_modes_that_csi_does_not_have_are_the_claims_mistake() -> None:
    with pytest.raises(InvalidClaim, match=r"^unsupported AccessMode combination: \[ReadWriteNever\]$"):
        prepared(claim("data", modes=["ReadWriteNever"]), class_with(), DRIVER_INFO, ProvisionerOptions())


def test_a_request_says_what_the_claim_and_its_class_say() -> None:
    found = class_with(parameters={"tier": "gold", "csi.storage.k8s.io/fstype": "xfs"}, mountOptions=["noatime"])
    asked = prepared(
        claim("data", "10Gi", modes=["ReadWriteOnce", "ReadOnlyMany"]), found, DRIVER_INFO, ProvisionerOptions()
    )
    request = asked.request
    assert (request.name, request.capacity_range.required_bytes) == ("pvc-default-data", 10 << 30)
    assert dict(request.parameters) == {"tier": "gold"}
    # One capability for each mode, both mounted in the same way.
    assert [each.access_mode.mode for each in request.volume_capabilities] == [
        Mode.SINGLE_NODE_WRITER,
        Mode.MULTI_NODE_READER_ONLY,
    ]
    assert {(each.mount.fs_type, *each.mount.mount_flags) for each in request.volume_capabilities} == {
        ("xfs", "noatime")
    }
    assert not request.HasField("accessibility_requirements") and not request.HasField("volume_content_source")


def test_a_block_volume_is_not_mounted() -> None:
    asking = claim("data", spec={"volumeMode": "Block"})
    request = prepared(asking, class_with(), DRIVER_INFO, ProvisionerOptions(default_fstype="ext4")).request
    assert request.volume_capabilities[0].HasField("block")
    doc = made(asking, class_with(), csi.Volume(volume_id="v"), default_fstype="ext4")
    assert doc["spec"]["volumeMode"] == "Block" and "fsType" not in doc["spec"]["csi"]


def test_extra_metadata_is_told_when_asked_for() -> None:
    request = prepared(claim("data"), class_with(), DRIVER_INFO, ProvisionerOptions(extra_create_metadata=True)).request
    assert dict(request.parameters) == {
        "csi.storage.k8s.io/pvc/name": "data",
        "csi.storage.k8s.io/pvc/namespace": "default",
        "csi.storage.k8s.io/pv/name": "pvc-default-data",
    }


def test_a_claim_with_a_selector_is_refused() -> None:
    with pytest.raises(InvalidClaim, match="claim Selector is not supported"):
        prepared(claim("data", spec={"selector": {}}), class_with(), DRIVER_INFO, ProvisionerOptions())


def test_a_volume_says_what_the_driver_made_of_the_claim() -> None:
    asking = claim("data", "10Gi")
    parameters = {
        "csi.storage.k8s.io/fstype": "xfs",
        "csi.storage.k8s.io/provisioner-secret-name": "key",
        "csi.storage.k8s.io/provisioner-secret-namespace": "${pvc.namespace}",
        "csi.storage.k8s.io/node-stage-secret-name": "stage",
        "csi.storage.k8s.io/node-stage-secret-namespace": "ns",
    }
    answer = csi.Volume(
        volume_id="vol-1",
        capacity_bytes=11 << 30,
        volume_context={"pool": "1"},
        accessible_topology=[csi.Topology(segments={"host": "a"})],
    )
    assert made(asking, class_with(parameters=parameters, mountOptions=["noatime"]), answer) == {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": "pvc-default-data",
            "annotations": {
                "pv.kubernetes.io/provisioned-by": DRIVER,
                "volume.kubernetes.io/provisioner-deletion-secret-name": "key",
                "volume.kubernetes.io/provisioner-deletion-secret-namespace": "default",
            },
            "finalizers": ["external-provisioner.volume.kubernetes.io/finalizer", "kubernetes.io/pv-protection"],
        },
        "spec": {
            "capacity": {"storage": "11Gi"},
            "accessModes": ["ReadWriteOnce"],
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": "default",
                "name": "data",
                "uid": "default-data",
                "resourceVersion": asking.metadata.resource_version,
            },
            "storageClassName": "fast",
            "persistentVolumeReclaimPolicy": "Delete",
            "mountOptions": ["noatime"],
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "host", "operator": "In", "values": ["a"]}]}]
                }
            },
            "csi": {
                "driver": DRIVER,
                "volumeHandle": "vol-1",
                "fsType": "xfs",
                "volumeAttributes": {"storage.kubernetes.io/csiProvisionerIdentity": "me", "pool": "1"},
                "nodeStageSecretRef": {"name": "stage", "namespace": "ns"},
            },
        },
    }


def test_a_driver_that_tells_no_size_made_what_was_asked() -> None:
    assert made(claim("data", "10Gi"), class_with(), csi.Volume(volume_id="v"))["spec"]["capacity"] == {
        "storage": "10Gi"
    }


def test_read_only_many_alone_is_read_only_when_that_is_asked_for() -> None:
    asking = claim("data", modes=["ReadOnlyMany"])
    answer = csi.Volume(volume_id="v")
    assert made(asking, class_with(), answer, controller_publish_readonly=True)["spec"]["csi"]["readOnly"] is True
    assert "readOnly" not in made(asking, class_with(), answer)["spec"]["csi"]


def test_what_a_driver_lacks_is_said_in_upstreams_words() -> None:
    assert missing_capability(DRIVER_INFO) == ""
    assert missing_capability(DriverInfo("d")) == (
        "CSI driver does not support dynamic provisioning: plugin CONTROLLER_SERVICE capability is not reported"
    )
    assert missing_capability(DRIVER_INFO, clone=True) == (
        "CSI driver does not support clone operations: controller CLONE_VOLUME capability is not reported"
    )
