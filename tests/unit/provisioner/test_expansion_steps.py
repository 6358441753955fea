"""Growing volumes, step by step; states as in external-resizer's expandAndRecover."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tonnage.csi.errors import Code
from tonnage.objects.codec import convert, to_doc
from tonnage.objects.core_v1 import PersistentVolumeClaim
from tonnage.provisioner.volumes import resizer as steps
from tonnage.quantity import Quantity
from tonnage.testing.storage_builders import claim, volume

NOW = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)
AT = "2026-11-15T09:00:00Z"
GI = Quantity.parse


def asking(size: str, has: str = "10Gi", state: str = "", allocated: str = "", **status: Any) -> PersistentVolumeClaim:
    """A bound claim with this much, that asks for `size`."""
    said: dict[str, Any] = {"phase": "Bound", "capacity": {"storage": has}, **status}
    if state:
        said["allocatedResourceStatuses"] = {"storage": state}
    if allocated:
        said["allocatedResources"] = {"storage": allocated}
    return convert(PersistentVolumeClaim, {**to_doc(claim("data", size, volume="pv")), "status": said})


def reached(
    found: PersistentVolumeClaim, size: str, *, refused: bool = False, by_controller: bool = True
) -> str | None:
    target = steps.size_to_reach(
        found, volume("pv", size, claim="default/data"), by_controller=by_controller, was_refused=refused
    )
    return None if target is None else str(target)


@pytest.mark.parametrize(
    ("found", "volume_size", "target"),
    [
        (asking("10Gi"), "10Gi", None),
        (asking("20Gi"), "10Gi", "20Gi"),
        # What was begun without a clear answer is ended first.
        (asking("30Gi", state="ControllerResizeInProgress", allocated="20Gi"), "10Gi", "20Gi"),
        (asking("30Gi", state="ControllerResizeInfeasible", allocated="20Gi"), "10Gi", "30Gi"),
        # The node's turn: nothing is asked of the controller until it is done.
        (asking("20Gi", state="NodeResizePending", allocated="20Gi"), "20Gi", None),
        (asking("30Gi", state="NodeResizeInProgress", allocated="20Gi"), "20Gi", None),
        (asking("30Gi", state="NodeResizePending", allocated="20Gi"), "10Gi", "20Gi"),
        (asking("30Gi", state="NodeResizeInfeasible", allocated="20Gi"), "20Gi", "20Gi"),
        # The volume has grown, and that is not written on the claim yet.
        (asking("20Gi", state="ControllerResizeInProgress", allocated="20Gi"), "20Gi", "20Gi"),
        (asking("20Gi"), "20Gi", "20Gi"),
        (asking("20Gi", conditions=[{"type": "FileSystemResizePending", "status": "True"}]), "20Gi", None),
        (asking("20Gi", phase="Pending"), "10Gi", None),
    ],
)
def test_the_size_to_ask_for(found: PersistentVolumeClaim, volume_size: str, target: str | None) -> None:
    assert reached(found, volume_size) == target


def test_after_a_clear_refusal_a_smaller_request_counts() -> None:
    lowered = asking("15Gi", state="ControllerResizeInProgress", allocated="20Gi")
    assert (reached(lowered, "10Gi"), reached(lowered, "10Gi", refused=True)) == ("20Gi", "15Gi")


def test_a_volume_of_another_claim_is_not_touched() -> None:
    assert steps.belongs_to(volume("pv", claim="default/data"), asking("20Gi"))
    assert not steps.belongs_to(volume("pv", claim="default/data", claim_uid="another life"), asking("20Gi"))
    assert not steps.belongs_to(volume("pv"), asking("20Gi"))


def test_no_room_is_a_clear_answer_and_some_answers_are_forever() -> None:
    assert steps.is_final(Code.RESOURCE_EXHAUSTED) and steps.is_final(Code.INTERNAL)
    assert not steps.is_final(Code.DEADLINE_EXCEEDED) and not steps.is_final(Code.UNAVAILABLE)
    assert [steps.is_infeasible(code) for code in (Code.OUT_OF_RANGE, Code.RESOURCE_EXHAUSTED)] == [True, False]


def test_a_beginning_is_written_once() -> None:
    found = asking("20Gi")
    assert steps.begun(found, GI("20Gi"), NOW) == {
        "metadata": {"resourceVersion": found.metadata.resource_version},
        "status": {
            "conditions": [{"type": "Resizing", "status": "True", "lastTransitionTime": AT}],
            "allocatedResources": {"storage": "20Gi"},
            "allocatedResourceStatuses": {"storage": "ControllerResizeInProgress"},
        },
    }
    begun = asking(
        "20Gi",
        state="ControllerResizeInProgress",
        allocated="20Gi",
        conditions=[{"type": "Resizing", "status": "True", "lastTransitionTime": AT}],
    )
    assert steps.begun(begun, GI("20Gi"), NOW) == {}


def test_what_is_left_to_the_node_keeps_the_other_conditions() -> None:
    found = asking("20Gi", conditions=[{"type": "Resizing", "status": "True", "lastTransitionTime": AT}])
    assert steps.left_to_node(found, NOW)["status"] == {
        "conditions": [
            {"type": "Resizing", "status": "True", "lastTransitionTime": AT},
            {
                "type": "FileSystemResizePending",
                "status": "True",
                "lastTransitionTime": AT,
                "message": "Waiting for user to (re-)start a pod to finish file system resize of volume on node.",
            },
        ],
        "allocatedResourceStatuses": {"storage": "NodeResizePending"},
    }


def test_the_end_takes_conditions_about_size_off_and_leaves_others() -> None:
    conditions = [
        {"type": "Resizing", "status": "True", "lastTransitionTime": AT},
        {"type": "ModifyingVolume", "status": "True", "lastTransitionTime": AT},
    ]
    patch = steps.finished(asking("20Gi", conditions=conditions), GI("20Gi"))
    assert patch["status"] == {
        "capacity": {"storage": "20Gi"},
        "conditions": conditions[1:],
        "allocatedResourceStatuses": {"storage": None},
    }
    assert patch["metadata"]["annotations"] == {"volume.kubernetes.io/node-expansion-not-required": "true"}


def test_a_refusal_is_told_in_a_condition() -> None:
    told = "rpc error: code = OutOfRange desc = too large"
    patch = steps.refused(asking("20Gi"), told, NOW, infeasible=True)
    assert patch["status"] == {
        "conditions": [
            {
                "type": "ControllerResizeError",
                "status": "True",
                "lastTransitionTime": AT,
                "message": f"failed to expand pvc with {told}",
            }
        ],
        "allocatedResourceStatuses": {"storage": "ControllerResizeInfeasible"},
    }
    assert "allocatedResourceStatuses" not in steps.refused(asking("20Gi"), told, NOW, infeasible=False)["status"]


def test_a_volume_notes_its_size_before_while_the_node_has_work_left() -> None:
    found = volume("pv", "10Gi")
    patch = steps.grown(found, GI("20Gi"), GI("10Gi"), by_node=True)
    assert patch["spec"] == {"capacity": {"storage": "20Gi"}}
    assert patch["metadata"]["annotations"] == {"volume.alpha.kubernetes.io/pre-resize-capacity": "10Gi"}
    assert "annotations" not in steps.grown(found, GI("20Gi"), GI("10Gi"), by_node=False)["metadata"]
    noted = volume("pv", "20Gi", metadata={"annotations": {"volume.alpha.kubernetes.io/pre-resize-capacity": "10Gi"}})
    assert not steps.is_node_done(asking("20Gi", has="10Gi"), noted)
    assert steps.is_node_done(asking("20Gi", has="20Gi"), noted)
    assert not steps.is_node_done(asking("20Gi", has="20Gi"), found)
