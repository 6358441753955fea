"""The four writes of a binding and what undoes them: what they change, what they leave, and when they are nothing."""

from __future__ import annotations

import pytest

from tonnage.behaviour.volumes import binding_plan as patches
from tonnage.errors import TonnageError
from tonnage.objects.core_v1 import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    PROVISIONED_BY,
    STORAGE_PROVISIONER,
    VOLUME_PROTECTION,
)
from tonnage.testing.storage_builders import claim, volume

VERSION = {"resourceVersion": "7"}
OWNER = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "namespace": "default",
    "name": "c",
    "uid": "default-c",
    "resourceVersion": "7",
}


def test_a_free_volume_is_bound_and_says_that_the_binder_did_it() -> None:
    patch = patches.volume_bound(volume("v", metadata=VERSION), claim("c", metadata=VERSION))
    assert patch == {
        "metadata": {"resourceVersion": "7", "annotations": {BOUND_BY_CONTROLLER: "yes"}},
        "spec": {"claimRef": OWNER},
    }


def test_a_volume_that_was_kept_by_name_gets_the_uid_and_no_mark() -> None:
    kept = volume("v", claim="default/c", claim_uid="", metadata=VERSION)
    patch = patches.volume_bound(kept, claim("c", metadata=VERSION))
    assert patch == {"metadata": VERSION, "spec": {"claimRef": OWNER}}


def test_a_volume_that_is_bound_already_is_left_alone() -> None:
    assert patches.volume_bound(volume("v", claim="default/c"), claim("c")) is None


def test_our_own_binding_is_undone_altogether_and_a_persons_stays_a_wish() -> None:
    ours = volume("v", claim="default/c", metadata={**VERSION, "annotations": {BOUND_BY_CONTROLLER: "yes"}})
    assert patches.volume_unbound(ours) == {
        "metadata": {"resourceVersion": "7", "annotations": {BOUND_BY_CONTROLLER: None}},
        "spec": {"claimRef": None},
    }
    theirs = volume("v", claim="default/c", metadata=VERSION)
    assert patches.volume_unbound(theirs) == {"metadata": VERSION, "spec": {"claimRef": {"uid": None}}}


def test_a_phase_is_written_when_it_changes() -> None:
    found = volume("v", phase="Bound", metadata=VERSION)
    assert patches.volume_phase(found, "Bound") is None
    status = {"phase": "Failed", "message": "why"}
    assert patches.volume_phase(found, "Failed", "why") == {"metadata": VERSION, "status": status}


def test_a_finalizer_comes_with_the_phase_unless_the_volume_has_it_or_goes() -> None:
    status = {"phase": "Bound", "message": None}
    found = volume("v", metadata={**VERSION, "finalizers": ["x"]})
    metadata = {"resourceVersion": "7", "finalizers": ["x", "y"]}
    assert patches.volume_phase(found, "Bound", finalizer="y") == {"metadata": metadata, "status": status}
    assert patches.volume_phase(found, "Bound", finalizer="x") == {"metadata": VERSION, "status": status}
    going = volume("v", metadata={**VERSION, "deletionTimestamp": "2026-11-15T00:00:00Z", "finalizers": ["x"]})
    assert patches.volume_phase(going, "Bound", finalizer="y") == {"metadata": VERSION, "status": status}


def test_a_claim_that_chose_its_volume_is_completed_without_the_binders_mark() -> None:
    chosen = claim("c", volume="v", bound=False, metadata=VERSION)
    finalizers = ["kubernetes.io/pvc-protection"]
    completed = {"resourceVersion": "7", "annotations": {BIND_COMPLETED: "yes"}, "finalizers": finalizers}
    assert patches.claim_bound(chosen, volume("v")) == {"metadata": completed}
    annotations = {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"}
    assert patches.claim_bound(claim("c", metadata=VERSION), volume("v")) == {
        "metadata": {"resourceVersion": "7", "annotations": annotations, "finalizers": finalizers},
        "spec": {"volumeName": "v"},
    }
    assert patches.claim_bound(claim("c", volume="v"), volume("v")) is None


def test_a_provisioners_hold_goes_with_the_binding_to_the_volume_that_was_made_for_it() -> None:
    held = claim("c", metadata={**VERSION, "finalizers": ["x", VOLUME_PROTECTION]})
    made = {"annotations": {PROVISIONED_BY: "pools"}}
    patch = patches.claim_bound(held, volume("v", claim="default/c", metadata=made))
    assert patch is not None and patch["metadata"]["finalizers"] == ["x", "kubernetes.io/pvc-protection"]
    # Another volume says nothing about what a driver may have made: one without an owner, and one that a person chose.
    for other in (volume("v", metadata=made), volume("v", claim="default/c")):
        patch = patches.claim_bound(held, other)
        assert patch is not None and VOLUME_PROTECTION in patch["metadata"]["finalizers"]
    # A claim that is being deleted is let go as well, and nothing else is put on it.
    going = {**VERSION, "deletionTimestamp": "2026-11-15T00:00:00Z", "finalizers": [VOLUME_PROTECTION]}
    patch = patches.claim_bound(claim("c", metadata=going), volume("v", claim="default/c", metadata=made))
    assert patch is not None and patch["metadata"]["finalizers"] == []


def test_a_claim_that_is_being_deleted_gets_no_finalizer_any_more() -> None:
    going = claim("c", metadata={**VERSION, "deletionTimestamp": "2026-11-15T00:00:00Z", "finalizers": ["x"]})
    patch = patches.claim_bound(going, volume("v"))
    assert patch is not None and "finalizers" not in patch["metadata"]


def test_a_claim_that_becomes_bound_shows_what_its_volume_offers() -> None:
    patch = patches.claim_status(claim("c", "1Gi", metadata=VERSION), "Bound", volume("v", "5Gi"))
    status = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "5Gi"}}
    assert patch == {"metadata": VERSION, "status": status}


def test_the_size_of_a_bound_claim_is_not_written_again() -> None:
    bound = claim("c", volume="v", phase="Bound")
    patch = patches.claim_status(bound, "Bound", volume("v", "9Gi"))
    assert patch is not None and patch["status"] == {"accessModes": ["ReadWriteOnce"]}


def test_a_volume_that_is_still_to_grow_shows_its_size_before() -> None:
    growing = volume("v", "9Gi", metadata={"annotations": {"volume.alpha.kubernetes.io/pre-resize-capacity": "5Gi"}})
    patch = patches.claim_status(claim("c"), "Bound", growing)
    assert patch is not None and patch["status"]["capacity"] == {"storage": "5Gi"}
    broken = volume("v", "9Gi", metadata={"annotations": {"volume.alpha.kubernetes.io/pre-resize-capacity": "5 GB"}})
    patch = patches.claim_status(claim("c"), "Bound", broken)
    assert patch is not None and patch["status"]["capacity"] == {"storage": "9Gi"}


def test_a_volume_without_a_size_cannot_be_bound() -> None:
    with pytest.raises(TonnageError, match=r'^PersistentVolume "v" is without a storage capacity$'):
        patches.claim_status(claim("c"), "Bound", volume("v", spec={"capacity": {}}))


def test_a_claim_that_is_pending_again_offers_nothing() -> None:
    assert patches.claim_status(claim("c"), "Pending", None) is None
    bound = claim("c", phase="Bound", metadata=VERSION)
    assert patches.claim_status(bound, "Pending", None) == {"metadata": VERSION, "status": {"phase": "Pending"}}


def test_a_provisioner_is_named_under_both_names_once() -> None:
    patch = patches.claim_provisioner(claim("c", metadata=VERSION), "csi.example")
    annotations = {"volume.beta.kubernetes.io/storage-provisioner": "csi.example", STORAGE_PROVISIONER: "csi.example"}
    assert patch == {"metadata": {"resourceVersion": "7", "annotations": annotations}}
    named = claim("c", metadata={"annotations": {STORAGE_PROVISIONER: "csi.example"}})
    assert patches.claim_provisioner(named, "csi.example") is None
