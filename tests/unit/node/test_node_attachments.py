"""Error code detection of KEP-4876, and errors that are older than the pod that looks at them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tonnage.node.mounts.pod_volumes import AttachState, attach_state
from tonnage.objects.codec import convert
from tonnage.objects.storage_v1 import VolumeAttachment, attachment_name
from tonnage.testing.storage_builders import meta

CAME_AT = datetime(2026, 1, 1, 12, 0, 0, 500_000, tzinfo=UTC)


def attachment(status: dict[str, Any], **metadata: Any) -> VolumeAttachment:
    source = {"persistentVolumeName": "pv-1"}
    return convert(
        VolumeAttachment,
        {
            "kind": "VolumeAttachment",
            "metadata": meta("csi-1", **metadata),
            "spec": {"attacher": "csi.example", "nodeName": "node-1", "source": source},
            "status": {"attached": False, **status},
        },
    )


def failed(code: int | None = 8, at: str | None = "2026-01-01T12:00:00Z") -> VolumeAttachment:
    failure: dict[str, Any] = {"message": "no slot left"}
    if code is not None:
        failure["errorCode"] = code
    if at is not None:
        failure["time"] = at
    return attachment({"attachError": failure})


# Upstream's TestIsResourceExhaustError, case by case.
@pytest.mark.parametrize(
    ("found", "is_exhausted"),
    [
        pytest.param(None, False, id="nil attachment"),
        pytest.param(attachment({}), False, id="nil AttachError"),
        pytest.param(failed(code=None), False, id="nil ErrorCode"),
        pytest.param(failed(code=5), False, id="non-resource exhausted error code"),
        pytest.param(failed(code=8), True, id="resource exhausted error code"),
    ],
)
def test_error_code_detection(found: VolumeAttachment | None, is_exhausted: bool):
    assert state(found) is (AttachState.EXHAUSTED if is_exhausted else AttachState.WAITING)


def test_an_error_while_detaching_plays_no_part():
    found = attachment({"detachError": {"message": "no slot left", "errorCode": 8}})
    assert state(found) is AttachState.WAITING


def test_the_name_is_what_everybody_computes():
    # printf vol-1csi.examplenode-1 | sha256sum
    assert (
        attachment_name("vol-1", "csi.example", "node-1")
        == "csi-f20516bb0708be9dc03626b69ff5871a92939c9852140d6de257409ba2f03ad7"
    )


def state(found: VolumeAttachment | None, waited_s: float = 1.0) -> AttachState:
    return attach_state(found, pod_came_at=CAME_AT, waited_s=waited_s)


def test_an_attachment_is_waited_for_until_it_says_attached():
    assert state(None) is AttachState.WAITING
    assert state(attachment({})) is AttachState.WAITING
    assert state(attachment({"attached": True})) is AttachState.ATTACHED


def test_an_attachment_that_is_being_deleted_is_not_relied_on():
    leaving = attachment({"attached": True}, deletionTimestamp="2026-01-01T12:00:00Z")
    assert state(leaving) is AttachState.WAITING


def test_an_error_of_the_second_in_which_the_pod_came_or_later_is_its_own():
    assert state(failed(at="2026-01-01T12:00:00Z")) is AttachState.EXHAUSTED
    assert state(failed(at="2026-01-01T12:00:09Z")) is AttachState.EXHAUSTED
    assert state(failed(at=None)) is AttachState.EXHAUSTED


def test_an_older_error_counts_only_when_it_is_still_there_after_the_long_wait():
    old = failed(at=(CAME_AT - timedelta(seconds=2)).isoformat().replace("+00:00", "Z"))
    assert state(old, waited_s=122.9) is AttachState.WAITING
    assert state(old, waited_s=123.0) is AttachState.EXHAUSTED
