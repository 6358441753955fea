"""What the binder decides about volumes; cases by the names of upstream's table (persistentvolume/binder_test.go)."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.behaviour.volumes.binding_plan import (
    Note,
    RecordEvents,
    SetPhase,
    VolumeAction,
    VolumeStep,
    reclaim_step,
    volume_step,
)
from tonnage.objects.core_v1 import PROVISIONED_BY, PersistentVolume, PersistentVolumeClaim
from tonnage.testing.storage_builders import claim, volume


def pv(**options: Any) -> PersistentVolume:
    return volume("v", "10Gi", **{"class_name": "", **options})


OURS = {"claim": "default/c"}
BLOCK = {"volumeMode": "Block"}
MADE = {"annotations": {PROVISIONED_BY: "csi.example"}}

RELEASE, UNBIND, QUEUE_CLAIM = VolumeAction

TABLE: list[tuple[str, PersistentVolume, PersistentVolumeClaim | None, VolumeStep]] = [
    ("4-1 - pending volume", pv(phase="Pending"), None, SetPhase("Available")),
    ("4-2 - pending prebound volume", pv(claim_uid="", **OURS), None, SetPhase("Available")),
    ("4-3 - bound volume with missing claim", pv(**OURS), None, RELEASE),
    ("4-5 - volume bound by controller to unbound claim", pv(**OURS), claim("c"), QUEUE_CLAIM),
    ("4-6 - volume bound by to bound claim", pv(phase="Available", **OURS), claim("c", volume="v"), SetPhase("Bound")),
    (
        "4-7 - volume bound by controller to claim bound somewhere else",
        pv(**OURS),
        claim("c", volume="x"),
        UNBIND,
    ),
    (
        "provisioned for a claim that got another volume, policy Delete",
        pv(metadata=MADE, spec={"persistentVolumeReclaimPolicy": "Delete"}, **OURS),
        claim("c", volume="x"),
        RELEASE,
    ),
    (
        "provisioned for a claim that got another volume, policy Retain",
        pv(metadata=MADE, spec={"persistentVolumeReclaimPolicy": "Retain"}, **OURS),
        claim("c", volume="x"),
        UNBIND,
    ),
    (
        "14-13 - output warning when pv is prebound to pvc with different volumeModes",
        pv(**OURS),
        claim("c", spec=BLOCK),
        RecordEvents(
            Note(
                "Warning",
                "VolumeMismatch",
                'Cannot bind PersistentVolume to requested PersistentVolumeClaim "c" due to incompatible volumeMode.',
            ),
            Note(
                "Warning",
                "VolumeMismatch",
                'Cannot bind PersistentVolume "v" to requested PersistentVolumeClaim due to incompatible volumeMode.',
            ),
        ),
    ),
    (
        "14-14 - wait for synClaim without warning",
        pv(spec=BLOCK, **OURS),
        claim("c", spec=BLOCK),
        QUEUE_CLAIM,
    ),
]


@pytest.mark.parametrize(("found", "owner", "expected"), [case[1:] for case in TABLE], ids=[case[0] for case in TABLE])
def test_upstreams_case(found: PersistentVolume, owner: PersistentVolumeClaim | None, expected: VolumeStep) -> None:
    assert volume_step(found, owner) == expected


def released(policy: str, **options: Any) -> SetPhase | None:
    return reclaim_step(pv(spec={"persistentVolumeReclaimPolicy": policy}, phase="Released", **OURS, **options))


def test_a_retained_volume_is_left_to_a_person() -> None:
    assert released("Retain") is None


def test_a_drivers_volume_is_left_to_its_provisioner() -> None:
    assert released("Delete") is None
    assert released("Delete", driver=None, metadata=MADE) is None


def test_a_volume_that_nobody_can_delete_or_clean_is_failed() -> None:
    text = 'error getting deleter volume plugin for volume "v": no deletable volume plugin matched'
    assert released("Delete", driver=None) == SetPhase("Failed", Note("Warning", "VolumeFailedDelete", text))
    text = "no volume plugin matched name: kubernetes.io/gce-pd"
    by_tree = {"annotations": {PROVISIONED_BY: "kubernetes.io/gce-pd"}}
    told = SetPhase("Failed", Note("Warning", "VolumeFailedDelete", text))
    assert released("Delete", driver=None, metadata=by_tree) == told
    text = "No recycler plugin found for the volume!"
    assert released("Recycle") == SetPhase("Failed", Note("Warning", "VolumeFailedRecycle", text))
    text = "Volume has unrecognized PersistentVolumeReclaimPolicy"
    assert released("Burn") == SetPhase("Failed", Note("Warning", "VolumeUnknownReclaimPolicy", text))


def test_a_volume_that_moved_to_a_driver_is_the_drivers_to_delete() -> None:
    moved = {"annotations": {"pv.kubernetes.io/migrated-to": "pd.csi.storage.gke.io"}}
    assert released("Delete", driver=None, metadata=moved) is None
