"""What the binder decides about claims; cases by the names of upstream's table (persistentvolume/binder_test.go)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from tonnage.behaviour.volumes.binding_plan import (
    AssignClass,
    Bind,
    ClaimInputs,
    ClaimStep,
    MarkLost,
    Note,
    ProvisionClaim,
    RecordEvent,
    StayPending,
    claim_step,
    provisioning_note,
)
from tonnage.objects.core_v1 import BIND_COMPLETED, BOUND_BY_CONTROLLER, PersistentVolume, PersistentVolumeClaim
from tonnage.objects.storage_v1 import StorageClass
from tonnage.testing.storage_builders import claim as claim_of
from tonnage.testing.storage_builders import storage_class, volume

WAIT = storage_class("wait", delayed=True)
NO_CLASS = Note("Normal", "FailedBinding", "no persistent volumes available for this claim and no storage class is set")
FIRST_CONSUMER = Note("Normal", "WaitForFirstConsumer", "waiting for first consumer to be created before binding")


def claim(size: str = "1Gi", **options: Any) -> PersistentVolumeClaim:
    """A claim without a class, not completed, unless told otherwise."""
    return claim_of("c", size, **{"class_name": None, "bound": False, **options})


def completed(volume_name: str = "", **options: Any) -> PersistentVolumeClaim:
    return claim("10Gi", volume=volume_name, metadata={"annotations": {BIND_COMPLETED: "yes"}}, **options)


def pv(name: str, size: str = "1Gi", **options: Any) -> PersistentVolume:
    return volume(name, size, **{"class_name": "", "phase": "Available", **options})


def decide(
    asked: PersistentVolumeClaim,
    volumes: Iterable[PersistentVolume] = (),
    *,
    classes: Iterable[StorageClass] = (),
    default: str | None = None,
    pods: Sequence[str] = (),
) -> str | ClaimStep:
    """The name of the volume that a claim is bound to, or the step that is taken instead."""
    known = {each.name: each for each in volumes}
    named = {each.name: each for each in classes}
    inputs = ClaimInputs(
        volume=known.get,
        candidates=known.values(),
        storage_class=named.get(asked.spec.storage_class_name or ""),
        default_class=default,
        waiting_pods=lambda: pods,
    )
    step = claim_step(asked, inputs)
    return step.volume.name if isinstance(step, Bind) else step


LABELS = {"foo": "true", "bar": "false"}
SELECTOR = {"selector": {"matchLabels": LABELS}}
BLOCK = {"volumeMode": "Block"}
GOLD_VAC = {"volumeAttributesClassName": "gold"}


def mismatch_of(name: str, why: str) -> StayPending:
    return StayPending(Note("Warning", "VolumeMismatch", f'Cannot bind to requested volume "{name}": {why}'))


TABLE: list[tuple[str, PersistentVolumeClaim, list[PersistentVolume], str | ClaimStep]] = [
    ("1-1 - successful bind", claim(), [pv("v")], "v"),
    ("1-2 - noop", claim("10Gi"), [pv("v")], StayPending(NO_CLASS)),
    ("1-3 - reset to Pending", claim("10Gi", phase="Bound"), [pv("v")], StayPending(NO_CLASS)),
    ("1-4 - smallest volume", claim(), [pv("v1", "10Gi"), pv("v2", "1Gi")], "v2"),
    (
        "1-5 - prebound volume by name - success",
        claim(),
        [pv("v1", "10Gi", claim="default/c", claim_uid=""), pv("v2", "1Gi")],
        "v1",
    ),
    ("1-6 - prebound volume by UID - success", claim(), [pv("v1", "10Gi", claim="default/c"), pv("v2", "1Gi")], "v1"),
    (
        "1-7 - prebound volume to different claim",
        claim(),
        [pv("v", "10Gi", claim="default/c", claim_uid="another")],
        StayPending(NO_CLASS),
    ),
    ("1-8 - complete bind after crash - PV bound", claim(), [pv("v", claim="default/c")], "v"),
    ("1-9 - complete bind after crash - PV status saved", claim(), [pv("v", claim="default/c", phase="Bound")], "v"),
    (
        "1-10 - complete bind after crash - PVC bound",
        completed("v"),
        [pv("v", "10Gi", claim="default/c", phase="Bound")],
        "v",
    ),
    ("1-11 - bind when selector matches", claim(spec=SELECTOR), [pv("v", labels=LABELS)], "v"),
    ("1-12 - do not bind when selector does not match", claim(spec=SELECTOR), [pv("v")], StayPending(NO_CLASS)),
    (
        "1-13 - delayed binding",
        claim(class_name="wait"),
        [pv("v", class_name="wait")],
        StayPending(FIRST_CONSUMER),
    ),
    (
        "1-14 - successful prebound PV",
        claim(class_name="wait"),
        [pv("v", class_name="wait", claim="default/c", claim_uid="")],
        "v",
    ),
    ("1-15 - successful prebound PVC", claim(volume="v1"), [pv("v1", "10Gi"), pv("v2")], "v1"),
    (
        "1-16 - successful prebound PVC",
        claim(volume="v", modes=["ReadWriteMany"]),
        [pv("v")],
        mismatch_of("v", "incompatible accessMode"),
    ),
    (
        "1-17 - skip non-available PV if it's not pre-bind",
        claim(),
        [pv("pending", phase="Pending"), pv("failed", phase="Failed"), pv("released", phase="Released")],
        StayPending(NO_CLASS),
    ),
    (
        "1-18 - successful pre-bound PV to PVC provisioning",
        claim(class_name="wait", selected_node="node1"),
        [pv("v", class_name="wait", claim="default/c")],
        "v",
    ),
    ("2-1 - claim prebound to non-existing volume - noop", claim(volume="v"), [], StayPending()),
    ("2-3 - claim prebound to unbound volume", claim(volume="v"), [pv("v")], "v"),
    (
        "2-4 - claim prebound to prebound volume by name",
        claim(volume="v"),
        [pv("v", claim="default/c", claim_uid="")],
        "v",
    ),
    ("2-5 - claim prebound to prebound volume by UID", claim(volume="v"), [pv("v", claim="default/c")], "v"),
    (
        "2-6 - claim prebound to already bound volume",
        claim(volume="v"),
        [pv("v", claim="default/other")],
        StayPending(Note("Warning", "FailedBinding", 'volume "v" already bound to a different claim.')),
    ),
    (
        "2-7 - claim bound by controller to already bound volume",
        claim(volume="v", metadata={"annotations": {BOUND_BY_CONTROLLER: "yes"}}),
        [pv("v", claim="default/other")],
        RecordEvent(Note("Warning", "FailedBinding", 'volume "v" already bound to a different claim.'), is_broken=True),
    ),
    (
        "2-8 - claim prebound to unbound volume that does not match the selector",
        claim(volume="v", spec={**SELECTOR, "volumeName": "v"}),
        [pv("v")],
        "v",
    ),
    (
        "2-9 - claim prebound to unbound volume that size is smaller than requested",
        claim("2Gi", volume="v"),
        [pv("v", "1Gi")],
        mismatch_of("v", "requested PV is too small"),
    ),
    (
        "2-10 - claim prebound to unbound volume that class is different",
        claim(volume="v"),
        [pv("v", class_name="gold")],
        mismatch_of("v", "storageClassName does not match"),
    ),
    (
        "2-11 - claim prebound to unbound volume that volume attributes class is different",
        claim(volume="v"),
        [pv("v", spec=GOLD_VAC)],
        mismatch_of("v", "volumeAttributesClassName does not match"),
    ),
    (
        "2-12 - claim prebound to unbound volume that volume attributes class is same",
        claim(volume="v", spec=GOLD_VAC),
        [pv("v", spec=GOLD_VAC)],
        "v",
    ),
    (
        "3-1 - bound claim with missing VolumeName",
        completed(),
        [],
        MarkLost(
            Note(
                "Warning",
                "ClaimLost",
                "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
            )
        ),
    ),
    (
        "3-2 - bound claim with missing volume",
        completed("v"),
        [],
        MarkLost(
            Note("Warning", "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
        ),
    ),
    ("3-3 - bound claim with unbound volume", completed("v"), [pv("v", "10Gi")], "v"),
    (
        "3-4 - bound claim with prebound volume",
        completed("v"),
        [pv("v", "10Gi", claim="default/c", claim_uid="x")],
        MarkLost(
            Note("Warning", "ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
        ),
    ),
    ("3-5 - bound claim with bound volume", completed("v"), [pv("v", "10Gi", claim="default/c")], "v"),
    ("3-7 - bound claim with unbound volume where selector doesn't match", completed("v"), [pv("v")], "v"),
    (
        "13-1 - binding to class",
        claim(class_name="gold"),
        [pv("v1"), pv("v2", "10Gi", class_name="gold")],
        "v2",
    ),
    ("13-2 - binding without a class", claim(), [pv("v1", class_name="gold"), pv("v2", "10Gi")], "v2"),
    (
        "13-3 - binding to specific a class",
        claim(class_name="gold"),
        [pv("v1", class_name="silver"), pv("v2", "10Gi", class_name="gold")],
        "v2",
    ),
    ("13-4 - empty class", claim(class_name=""), [pv("v")], "v"),
    ("14-1 - binding to volumeMode block", claim(spec=BLOCK), [pv("v", spec=BLOCK)], "v"),
    (
        "14-3 - do not bind pv volumeMode filesystem and pvc volumeMode block",
        claim(spec=BLOCK),
        [pv("v")],
        StayPending(NO_CLASS),
    ),
    (
        "14-4 - do not bind pv volumeMode block and pvc volumeMode filesystem",
        claim(),
        [pv("v", spec=BLOCK)],
        StayPending(NO_CLASS),
    ),
    (
        "14-5 - do not bind when matching class but not volumeMode",
        claim(class_name="gold", spec=BLOCK),
        [pv("v", class_name="gold")],
        RecordEvent(Note("Warning", "ProvisioningFailed", 'storageclass.storage.k8s.io "gold" not found')),
    ),
    (
        "14-8 - do not bind when pvc is prebound to pv with mismatching volumeModes",
        claim(volume="v"),
        [pv("v", spec=BLOCK)],
        mismatch_of("v", "incompatible volumeMode"),
    ),
    (
        "14-8-1 - do not bind when pvc is prebound to pv with mismatching volumeModes",
        claim(),
        [pv("v", spec=BLOCK, claim="default/c", claim_uid="")],
        StayPending(NO_CLASS),
    ),
]


@pytest.mark.parametrize(
    ("asked", "volumes", "expected"), [case[1:] for case in TABLE], ids=[case[0] for case in TABLE]
)
def test_upstreams_case(
    asked: PersistentVolumeClaim, volumes: list[PersistentVolume], expected: str | ClaimStep
) -> None:
    assert decide(asked, volumes, classes=[WAIT]) == expected


def test_a_kept_volume_is_taken_though_a_free_one_offers_fewer_access_modes() -> None:
    kept = pv("kept", "10Gi", modes=["ReadWriteOnce", "ReadOnlyMany"], claim="default/c")
    assert decide(claim(), [pv("free"), kept]) == "kept"


def test_of_free_volumes_the_one_with_the_fewest_access_modes_comes_first() -> None:
    many = pv("many", "1Gi", modes=["ReadWriteOnce", "ReadOnlyMany"])
    # 1 mode and 10Gi before 2 modes and 1Gi: the size is asked only among equals.
    assert decide(claim(), [many, pv("one", "10Gi")]) == "one"


def test_a_volume_that_is_being_deleted_is_nobodys() -> None:
    going = pv("v", metadata={"deletionTimestamp": "2026-11-15T00:00:00Z"})
    assert decide(claim(), [going]) == StayPending(NO_CLASS)
    told = mismatch_of("v", 'the volume is marked for deletion "v"')
    assert decide(claim(volume="v"), [going]) == told


def test_a_claim_waits_for_the_pods_that_mount_it() -> None:
    asked = claim(class_name="wait")
    one = Note("Normal", "WaitForPodScheduled", "waiting for pod db-0 to be scheduled")
    assert decide(asked, classes=[WAIT], pods=["db-0"]) == StayPending(one)
    two = Note("Normal", "WaitForPodScheduled", "waiting for pods db-0,db-1 to be scheduled")
    assert decide(asked, classes=[WAIT], pods=["db-0", "db-1"]) == StayPending(two)


def test_a_delayed_claim_is_provisioned_once_its_node_is_chosen() -> None:
    asked = claim(class_name="wait", selected_node="node-1")
    assert decide(asked, classes=[WAIT]) == ProvisionClaim("csi.example")


def test_an_empty_selected_node_is_none() -> None:
    empty = claim(class_name="wait", metadata={"annotations": {"volume.kubernetes.io/selected-node": ""}})
    assert decide(empty, classes=[WAIT]) == decide(claim(class_name="wait"), classes=[WAIT])


def test_an_immediate_claim_is_provisioned_when_no_volume_suits() -> None:
    now = storage_class("now", delayed=False)
    assert decide(claim(class_name="now"), classes=[now]) == ProvisionClaim("csi.example")
    assert provisioning_note("csi.example").message == (
        "Waiting for a volume to be created either by the external provisioner 'csi.example' or manually by the system "
        "administrator. If volume creation is delayed, please verify that the provisioner is running and correctly "
        "registered."
    )


def test_a_class_without_a_provisioner_of_its_own_cannot_provision() -> None:
    local = storage_class("local", delayed=False, provisioner="kubernetes.io/no-provisioner")
    text = "no volume plugin matched name: kubernetes.io/no-provisioner"
    assert decide(claim(class_name="local"), classes=[local]) == RecordEvent(
        Note("Warning", "ProvisioningFailed", text)
    )


def test_a_claim_without_a_class_gets_the_default_only_when_no_volume_suits() -> None:
    assert decide(claim(), default="pools") == AssignClass("pools")
    assert decide(claim(), [pv("v")], default="pools") == "v"
