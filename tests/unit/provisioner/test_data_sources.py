"""What volumes are filled from; refusals in the words of getPVCSource and getSnapshotSource."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.objects.document import Doc
from tonnage.provisioner.volumes.create_volume import NotProvisioned
from tonnage.provisioner.volumes.preparation import NoSource, check_kind, clone_source, snapshot_source, source_of
from tonnage.testing.storage_builders import DRIVER, claim, storage_class, volume

CLASS = storage_class()
NOT_BOUND = "claim in dataSource not bound or invalid"


def cloning(*, asked: Any = None, source: Any = None, found: Any = None) -> str:
    """The handle to copy, or why not."""
    try:
        content = clone_source(
            asked or claim("copy", "10Gi"),
            source or claim("data", "10Gi", volume="pv"),
            volume("pv", claim="default/data") if found is None else found or None,
            CLASS,
        )
    except NoSource as exc:
        return exc.message
    return content.volume.volume_id


def test_a_bound_claim_of_the_same_driver_is_copied() -> None:
    assert cloning() == "pv"


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (
            {"source": claim("data", volume="pv", bound=False)},
            "the PVC DataSource data must have a status of Bound.  Got Pending",
        ),
        (
            {"source": claim("data", volume="pv", metadata={"deletionTimestamp": "2026-11-15T00:00:00Z"})},
            "the PVC DataSource data is currently being deleted",
        ),
        (
            {"asked": claim("copy", "9Gi")},
            "error, new PVC request must be greater than or equal in size to the specified PVC data source, requested "
            "9663676416 but source is 10737418240",
        ),
        ({"found": False}, NOT_BOUND),
        ({"found": volume("pv", claim="default/data", driver="other")}, NOT_BOUND),
        ({"found": volume("pv", claim="default/data", claim_uid="another life")}, NOT_BOUND),
        ({"found": volume("pv", claim="default/data", phase="Released")}, NOT_BOUND),
        (
            {"asked": claim("copy", "10Gi", spec={"volumeMode": "Block"})},
            "the source PVC and destination PVCs must have the same volume mode for cloning.  Source is Filesystem, "
            "but new PVC requested Block",
        ),
    ],
)
def test_what_cannot_be_cloned(given: dict[str, Any], error: str) -> None:
    assert cloning(**given) == error


def snapshot(**status: Any) -> Doc:
    said = {"readyToUse": True, "restoreSize": "10Gi", **status}
    return {"metadata": {"name": "snap", "namespace": "default", "uid": "s1"}, "status": said}


def content(**spec: Any) -> Doc:
    referred = {"name": "snap", "namespace": "default", "uid": "s1"}
    said = {"driver": DRIVER, "volumeSnapshotRef": referred, **spec}
    return {"metadata": {"name": "content"}, "spec": said, "status": {"snapshotHandle": "handle"}}


def restoring(size: str, snap: Doc, found: Doc) -> str:
    try:
        return snapshot_source(
            claim("new", size), snap, found, CLASS, prevents_mode_conversion=True
        ).snapshot.snapshot_id
    except NoSource as exc:
        return exc.message


def test_a_snapshot_that_is_ready_is_restored() -> None:
    assert restoring("10Gi", snapshot(), content()) == "handle"


@pytest.mark.parametrize(
    ("size", "snap", "found", "error"),
    [
        ("10Gi", snapshot(readyToUse=False), content(), "snapshot snap is not Ready"),
        (
            "9Gi",
            snapshot(),
            content(),
            "requested volume size 9663676416 is less than the size 10737418240 for the source snapshot snap",
        ),
        (
            "10Gi",
            snapshot(),
            content(driver="other"),
            "snapshotcontent content for snapshot snap is not handled by CSI driver of StorageClass fast",
        ),
        (
            "10Gi",
            snapshot(),
            content(volumeSnapshotRef={"name": "snap", "namespace": "default", "uid": "s2"}),
            "snapshotcontent content for snapshot snap is bound to a different snapshot",
        ),
        (
            "10Gi",
            snapshot(),
            content(sourceVolumeMode="Block"),
            "requested volume default/new modifies the mode of the source volume but does not have permission to do "
            "so. snapshot.storage.kubernetes.io/allow-volume-mode-change annotation is not present on snapshotcontent "
            "content",
        ),
    ],
)
def test_what_cannot_be_restored(size: str, snap: Doc, found: Doc, error: str) -> None:
    assert restoring(size, snap, found) == error


def test_a_kind_that_nobody_here_knows_is_left_to_its_populator() -> None:
    asking = claim("new", spec={"dataSourceRef": {"kind": "Image", "name": "x", "apiGroup": "example.com"}})
    source = source_of(asking)
    assert source is not None
    with pytest.raises(NotProvisioned) as caught:
        check_kind(asking, source)
    assert not caught.value.is_ours
    assert caught.value.message == (
        "data source (Image) is not handled by the provisioner, assuming an external populator will provision it"
    )


def test_a_source_in_another_namespace_is_refused() -> None:
    asking = claim("new", spec={"dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "x", "namespace": "other"}})
    with pytest.raises(NotProvisioned) as caught:
        source_of(asking)
    assert caught.value.message == (
        "dataSourceRef namespace specified but the CrossNamespaceVolumeDataSource feature is disabled"
    )


def test_a_claim_without_a_source_is_empty() -> None:
    assert source_of(claim("new")) is None
