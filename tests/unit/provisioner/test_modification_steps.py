"""To which VolumeAttributesClass a claim's volume is changed now, and what its status says at each step."""

from __future__ import annotations

from typing import Any

import pytest

from support.workload_builders import NOW, ago
from tonnage.controllers.volumes.protection import classes_of_claim
from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import PersistentVolumeClaim
from tonnage.provisioner.volumes.resizer import done, progress, target_class

OTHER = {"type": "Resizing", "status": "True"}


def claim(
    wanted: str | None = "fast", has: str = "slow", *, phase: str = "Bound", **status: Any
) -> PersistentVolumeClaim:
    spec: dict[str, Any] = {"volumeName": "pv", "volumeAttributesClassName": wanted}
    told = {"phase": phase, "currentVolumeAttributesClassName": has, **status}
    meta = {
        "name": "c",
        "namespace": "ns",
        "resourceVersion": "7",
        "annotations": {"pv.kubernetes.io/bind-completed": "y"},
    }
    return convert(PersistentVolumeClaim, {"metadata": meta, "spec": spec, "status": told})


def begun(target: str, status: str = "InProgress") -> dict[str, Any]:
    return {"modifyVolumeStatus": {"targetVolumeAttributesClassName": target, "status": status}}


@pytest.mark.parametrize(
    ("found", "target"),
    [
        (claim("fast", "slow"), "fast"),
        (claim("fast", "fast"), ""),
        (claim("fast", ""), "fast"),
        (claim(None, "slow"), ""),
        (claim("fast", "slow", phase="Pending"), ""),
        # What was begun and may be under way is ended first; what was not begun, or can never work, is not.
        (claim("other", "slow", **begun("fast")), "fast"),
        (claim("other", "slow", **begun("fast", "Infeasible")), "other"),
        (claim("other", "slow", **begun("fast", "Pending")), "other"),
        (claim("slow", "slow", **begun("fast")), "fast"),
    ],
)
def test_the_class_that_is_next(found: PersistentVolumeClaim, target: str):
    assert target_class(found) == target


def test_after_a_clear_refusal_another_class_counts_at_once():
    assert target_class(claim("other", "slow", **begun("fast")), was_refused=True) == "other"
    assert target_class(claim("slow", "slow", **begun("fast")), was_refused=True) == ""


def test_what_is_said_on_the_way():
    found = claim(conditions=[OTHER])
    patch = progress(found, "fast", "InProgress", NOW)
    assert patch["metadata"] == {"resourceVersion": "7"}
    assert patch["status"]["modifyVolumeStatus"] == {"targetVolumeAttributesClassName": "fast", "status": "InProgress"}
    assert [each["type"] for each in patch["status"]["conditions"]] == ["Resizing", "ModifyingVolume"]
    said = claim(conditions=[{"type": "ModifyingVolume", "status": "True"}], **begun("fast"))
    assert progress(said, "fast", "InProgress", NOW) == {}


def test_what_is_said_of_a_refusal_and_at_the_end():
    found = claim(conditions=[OTHER, {"type": "ModifyingVolume", "status": "True"}], **begun("fast"))
    refused = progress(found, "fast", "Infeasible", NOW, "no such thing")["status"]
    assert refused["conditions"][-1] == {
        "type": "ModifyVolumeError",
        "status": "True",
        "message": "no such thing",
        "lastTransitionTime": ago(0),
    }
    assert [each["type"] for each in refused["conditions"]] == ["Resizing", "ModifyVolumeError"]
    ended = done(found, "fast")["status"]
    assert (ended["currentVolumeAttributesClassName"], ended["modifyVolumeStatus"]) == ("fast", None)
    assert [each["type"] for each in ended["conditions"]] == ["Resizing"]


def test_a_claim_uses_what_it_asks_for_what_it_has_and_what_it_is_changed_to():
    assert set(classes_of_claim(claim("a", "b", **begun("c")))) == {"a", "b", "c"}
    assert set(classes_of_claim(claim(None, ""))) == set()
