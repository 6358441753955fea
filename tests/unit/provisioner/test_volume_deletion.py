"""Which volumes are ours to delete, and when."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.objects.core_v1 import PersistentVolume
from tonnage.provisioner.volumes.create_volume import FINALIZER
from tonnage.provisioner.volumes.deletion import finalizers_for, is_responsible, is_to_be_deleted
from tonnage.testing.storage_builders import DRIVER, volume

GOING = {"deletionTimestamp": "2026-11-15T00:00:00Z"}
PROTECTION = "kubernetes.io/pv-protection"


def kept(
    policy: str = "Delete", phase: str = "Bound", finalizers: tuple[str, ...] = (), **metadata: Any
) -> PersistentVolume:
    return volume(
        "pv",
        phase=phase,
        metadata={"finalizers": list(finalizers), **metadata},
        spec={"persistentVolumeReclaimPolicy": policy},
    )


def test_a_volume_is_ours_by_who_made_it_else_by_its_driver() -> None:
    by = "pv.kubernetes.io/provisioned-by"
    assert is_responsible(volume("pv", metadata={"annotations": {by: DRIVER}}), DRIVER)
    assert not is_responsible(volume("pv", metadata={"annotations": {by: "other"}}), DRIVER)
    migrated = {by: "kubernetes.io/old", "pv.kubernetes.io/migrated-to": DRIVER}
    assert is_responsible(volume("pv", metadata={"annotations": migrated}), DRIVER)
    assert is_responsible(volume("pv"), DRIVER)
    assert not is_responsible(volume("pv", driver=None), DRIVER)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (kept(finalizers=(PROTECTION,)), (PROTECTION, FINALIZER)),
        (kept(finalizers=(FINALIZER,)), (FINALIZER,)),
        (kept(phase="Available"), ()),
        (kept(**GOING, finalizers=(PROTECTION,)), (PROTECTION,)),
        (kept("Retain", finalizers=(PROTECTION, FINALIZER)), (PROTECTION,)),
        (kept("Retain"), ()),
    ],
)
def test_bound_volumes_that_will_be_deleted_are_protected(found: PersistentVolume, wanted: tuple[str, ...]) -> None:
    assert finalizers_for(found) == wanted


@pytest.mark.parametrize(
    ("found", "goes"),
    [
        (kept(phase="Released"), True),
        (kept(phase="Released", finalizers=(FINALIZER,), **GOING), True),
        (kept(phase="Released", finalizers=(PROTECTION,), **GOING), False),  # dealt with already
        (kept(phase="Bound", finalizers=(FINALIZER,), **GOING), False),
        (kept("Retain", phase="Released"), False),
    ],
)
def test_a_released_volume_of_policy_delete_goes(found: PersistentVolume, goes: bool) -> None:
    assert is_to_be_deleted(found) is goes
