"""What a failed attempt means; codes as in external-provisioner's TestProvisionErrorHandling."""

from __future__ import annotations

import random

import pytest

from tonnage.csi.errors import Code, CsiError, error_text
from tonnage.errors import (
    BadRequest,
    Forbidden,
    InternalError,
    Invalid,
    RequestEntityTooLarge,
    ServiceUnavailable,
    TonnageError,
)
from tonnage.provisioner.context import NodeDeployment
from tonnage.provisioner.volumes.claims import is_due, is_for, provisioner_of
from tonnage.provisioner.volumes.create_volume import (
    NotProvisioned,
    ProvisioningState,
    is_infeasible,
    is_out_of_room,
    is_refused_for_good,
    state_of,
)
from tonnage.provisioner.volumes.provisioning import delay_s
from tonnage.testing.storage_builders import DRIVER, claim, storage_class

METHOD = "/csi.v1.Controller/CreateVolume"
IN_DOUBT = {Code.CANCELLED, Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE, Code.ABORTED, Code.DATA_LOSS}


@pytest.mark.parametrize("code", [code for code in Code if code is not Code.OK])
def test_only_a_clear_answer_ends_an_attempt(code: Code) -> None:
    expected = ProvisioningState.IN_BACKGROUND if code in IN_DOUBT else ProvisioningState.FINISHED
    assert state_of(code, may_reschedule=False) is expected
    elsewhere = ProvisioningState.RESCHEDULE if code is Code.RESOURCE_EXHAUSTED else expected
    assert state_of(code, may_reschedule=True) is elsewhere


def test_a_refusal_is_told_in_upstreams_words() -> None:
    refused = CsiError(METHOD, Code.RESOURCE_EXHAUSTED, "no pool has room")
    assert error_text(refused) == "rpc error: code = ResourceExhausted desc = no pool has room"
    assert (is_out_of_room(refused), is_infeasible(refused)) == (True, False)
    assert is_infeasible(CsiError(METHOD, Code.INVALID_ARGUMENT, "no such tier"))
    assert error_text(NotProvisioned("storage class was nil", ProvisioningState.FINISHED)) == "storage class was nil"


def test_a_claim_is_ours_by_either_annotation_and_only_while_it_has_no_volume() -> None:
    new, old = "volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"
    assert is_for(claim("a", metadata={"annotations": {new: DRIVER}}), DRIVER)
    assert is_for(claim("a", metadata={"annotations": {old: DRIVER}}), DRIVER)
    both = claim("a", metadata={"annotations": {new: "other", old: DRIVER}})
    assert provisioner_of(both) == "other" and not is_for(both, DRIVER)
    assert not is_for(claim("a"), DRIVER)
    assert not is_for(claim("a", volume="pv", bound=False, metadata={"annotations": {new: DRIVER}}), DRIVER)


def test_a_class_that_waits_needs_a_selected_node() -> None:
    waiting, immediate = storage_class(), storage_class(delayed=False)
    assert [is_due(claim("a"), each) for each in (waiting, immediate)] == [False, True]
    assert is_due(claim("a", selected_node="node-1"), waiting)


def test_provisioners_of_nodes_wait_for_a_random_part_of_a_delay_that_grows() -> None:
    deployment = NodeDeployment(node_name="node-1")
    rng = random.Random(5)
    first = [delay_s(0, deployment, rng) for _ in range(200)]
    # 20 s less a random part of 20 s; the third: 80 cut to 60, less the same.
    assert 0.0 <= min(first) < 2.0 and 18.0 < max(first) <= 20.0
    third = [delay_s(2, deployment, rng) for _ in range(200)]
    assert min(third) >= 40.0 and max(third) <= 60.0


@pytest.mark.parametrize(
    ("failure", "is_for_good"),
    [
        (Invalid("no"), True),
        (BadRequest("no"), True),
        (RequestEntityTooLarge("no"), True),
        (InternalError("etcdserver: request is too large"), True),
        (InternalError("trying to send message larger than max (3 vs. 2)"), True),
        (InternalError("etcdserver: leader changed"), False),
        (Forbidden("no"), False),
        (ServiceUnavailable("no"), False),
    ],
)
def test_a_volume_is_given_up_when_its_object_is_refused_for_what_is_in_it(
    failure: TonnageError, is_for_good: bool
) -> None:
    assert is_refused_for_good(failure) is is_for_good
