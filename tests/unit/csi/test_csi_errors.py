"""Refusals read as Go's gRPC writes them, and say whether the work may have been done all the same."""

from __future__ import annotations

import pytest

from tonnage.csi.errors import Code, CsiError, code_name, is_in_doubt

UPSTREAM = {
    Code.OK: "OK",
    Code.CANCELLED: "Canceled",
    Code.UNKNOWN: "Unknown",
    Code.INVALID_ARGUMENT: "InvalidArgument",
    Code.DEADLINE_EXCEEDED: "DeadlineExceeded",
    Code.NOT_FOUND: "NotFound",
    Code.ALREADY_EXISTS: "AlreadyExists",
    Code.PERMISSION_DENIED: "PermissionDenied",
    Code.RESOURCE_EXHAUSTED: "ResourceExhausted",
    Code.FAILED_PRECONDITION: "FailedPrecondition",
    Code.ABORTED: "Aborted",
    Code.OUT_OF_RANGE: "OutOfRange",
    Code.UNIMPLEMENTED: "Unimplemented",
    Code.INTERNAL: "Internal",
    Code.UNAVAILABLE: "Unavailable",
    Code.DATA_LOSS: "DataLoss",
    Code.UNAUTHENTICATED: "Unauthenticated",
}
IN_DOUBT = {Code.CANCELLED, Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE, Code.ABORTED, Code.DATA_LOSS}


def test_codes_have_gos_names() -> None:
    assert {code: code_name(code) for code in Code} == UPSTREAM


def test_a_refusal_is_one_sentence_with_method_code_and_the_drivers_words() -> None:
    refused = CsiError("/csi.v1.Controller/CreateVolume", Code.RESOURCE_EXHAUSTED, "no pool has room")
    assert refused.rpc_error == "rpc error: code = ResourceExhausted desc = no pool has room"
    assert refused.message == f"/csi.v1.Controller/CreateVolume: {refused.rpc_error}"
    assert refused.number == 8  # what goes into attachError.errorCode


@pytest.mark.parametrize("code", Code, ids=lambda code: str(code.name))
def test_codes_after_which_the_work_may_have_been_done(code: Code) -> None:
    assert is_in_doubt(code) == (code in IN_DOUBT)
