"""Rules of pods that depend on what was stored before; the rest is judged against a real server in tests/parity."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.clock import SystemClock
from tonnage.documents.creation import strategies
from tonnage.documents.kinds.pods.pod_defaults import default_pod
from tonnage.documents.validation.internal_form import pod_spec_diff, pod_spec_unchanged
from tonnage.gates import Gates
from tonnage.objects.document import Doc, copy
from tonnage.objects.field_errors import Errors
from tonnage.objects.field_rules import amount_of, at_most_all, count_or_percent

RULES = strategies(Gates(), SystemClock())["", "pods"]


def pod(status: Doc | None = None, **spec: Any) -> Doc:
    made: Doc = {
        "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"containers": [{"name": "c", "image": "x"}], **spec},
        "status": {"phase": "Pending", "qosClass": "BestEffort", **(status or {})},
    }
    default_pod(made)
    return made


def with_status(stored: Doc, **status: Any) -> Doc:
    return {**copy(stored), "status": {**stored["status"], **status}}


def told(errors: Errors) -> list[str]:
    return [str(error) for error in errors]


def affinity_on(value: str) -> Doc:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [value]}]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def test_a_bad_label_value_that_is_already_stored_does_not_stop_other_changes() -> None:
    stored = pod(affinity=affinity_on("a b"))
    changed = copy(stored)
    changed["metadata"]["labels"] = {"a": "b"}
    assert told(RULES.validate(stored)) != []
    assert told(RULES.validate_update(changed, stored)) == []


def test_a_pod_read_and_put_back_by_a_typed_client_is_unchanged() -> None:
    stored = pod(hostNetwork=False, containers=[{"name": "c", "image": "x", "stdin": False}])
    put_back = copy(stored)
    del put_back["spec"]["containers"][0]["resources"]  # an empty struct, which such a client may leave out
    assert pod_spec_unchanged(put_back["spec"], stored["spec"])


def test_amounts_are_compared_by_value() -> None:
    one = pod(containers=[{"name": "c", "image": "x", "resources": {"requests": {"memory": "1Gi"}}}])
    same = pod(containers=[{"name": "c", "image": "x", "resources": {"requests": {"memory": "1024Mi"}}}])
    assert pod_spec_unchanged(one["spec"], same["spec"])


def test_labels_of_an_ephemeral_claim_are_part_of_the_spec() -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    stored = pod(volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}])
    changed = copy(stored)
    changed["spec"]["volumes"][0]["ephemeral"]["volumeClaimTemplate"]["metadata"]["labels"]["a"] = "c"
    assert not pod_spec_unchanged(changed["spec"], stored["spec"])


def test_a_diff_is_told_by_upstreams_internal_names() -> None:
    stored = pod()
    changed = copy(stored)
    changed["spec"]["hostPID"] = True
    assert '-  "HostPID": false,\n+  "HostPID": true,\n' in pod_spec_diff(stored["spec"], changed["spec"])


# -- status -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ends", [True, False])
def test_a_bound_pod_is_nominated_only_where_binding_does_not_end_nominations(ends: bool) -> None:
    stored, gates = pod(nodeName="n1"), Gates(ClearingNominatedNodeNameAfterBinding=ends)
    errors = strategies(gates, SystemClock())["", "pods"].validate_status(
        with_status(stored, nominatedNodeName="n2"), stored
    )
    refusal = "status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node"
    assert told(errors) == ([refusal] if ends else [])


def test_a_nomination_from_before_the_binding_may_be_kept_or_emptied() -> None:
    stored = pod(nodeName="n1", status={"nominatedNodeName": "n1"})
    emptied = copy(stored)
    del emptied["status"]["nominatedNodeName"]
    for new in (copy(stored), emptied):
        assert RULES.validate_status(new, stored) == []


def ended(exit_code: int) -> list[Doc]:
    return [{"name": "c", "state": {"terminated": {"exitCode": exit_code}}}]


RUNNING = [{"name": "c", "state": {"running": {}}}]
STAYS_ENDED = "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"


@pytest.mark.parametrize(
    ("spec", "exit_code", "may_run_again"),
    [
        ({"restartPolicy": "Always"}, 0, True),
        ({"restartPolicy": "OnFailure"}, 0, False),
        ({"restartPolicy": "OnFailure"}, 1, True),
        ({"restartPolicy": "Never"}, 1, False),
        # The container's own policy comes before the pod's.
        ({"restartPolicy": "Never", "containers": [{"name": "c", "image": "x", "restartPolicy": "Always"}]}, 0, True),
    ],
)
def test_a_container_that_ended_runs_again_only_by_its_restart_policy(
    spec: Doc, exit_code: int, may_run_again: bool
) -> None:
    stored = pod(status={"containerStatuses": ended(exit_code)}, **spec)
    errors = RULES.validate_status(with_status(stored, containerStatuses=RUNNING), stored)
    assert told(errors) == ([] if may_run_again else [STAYS_ENDED])


def test_a_rule_by_exit_code_comes_before_any_policy() -> None:
    rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}
    container = {"name": "c", "image": "x", "restartPolicy": "Never", "restartPolicyRules": [rule]}
    for exit_code, expected in ((42, []), (43, [STAYS_ENDED])):
        stored = pod(status={"containerStatuses": ended(exit_code)}, restartPolicy="Never", containers=[container])
        errors = RULES.validate_status(with_status(stored, containerStatuses=RUNNING), stored)
        assert told(errors) == expected


def test_an_address_that_was_stored_before_anyone_was_strict_may_stay() -> None:
    stored = pod(status={"podIP": "010.0.0.1", "podIPs": [{"ip": "010.0.0.1"}]})
    assert RULES.validate_status(copy(stored), stored) == []


# -- numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "amount"), [(3, 3), ("25%", 25), ("0%", 0), ("7", 7), ("many", 0)])
def test_the_number_in_a_count_or_a_percentage(value: int | str, amount: int) -> None:
    assert amount_of(value) == amount


def test_a_percentage_is_of_no_more_than_everything() -> None:
    assert told(at_most_all("101%", "f")) == ['f: Invalid value: "101%": must not be greater than 100%']
    assert at_most_all("100%", "f") == at_most_all(500, "f") == count_or_percent(500, "f") == []
