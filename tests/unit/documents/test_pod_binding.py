"""Binding: one write gives a pod its node, and every refusal has upstream's words."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.documents.api_errors import UnknownReason
from tonnage.documents.subresources import bind, validate_binding
from tonnage.errors import BadRequest, Conflict
from tonnage.gates import Gates
from tonnage.objects.document import Doc, copy

NOW = "2024-05-01T12:00:00Z"


def pod(*, metadata: Doc | None = None, status: Doc | None = None, **spec: Any) -> Doc:
    meta = {"name": "p", "namespace": "ns", "uid": "u-1", "resourceVersion": "7", **(metadata or {})}
    return {"metadata": meta, "spec": spec, "status": status or {"phase": "Pending"}}


def binding(**metadata: Any) -> Doc:
    return {"metadata": {"name": "p", **metadata}, "target": {"kind": "Node", "name": "n1"}}


def test_a_bound_pod_has_its_node_and_says_when() -> None:
    loose = pod()
    bound = bind(loose, binding(), Gates(), now=NOW)
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["status"]["conditions"] == [{"type": "PodScheduled", "status": "True", "lastTransitionTime": NOW}]
    assert "nodeName" not in loose["spec"]  # the stored pod is not touched


def test_an_earlier_failure_to_schedule_is_replaced_where_it_stands() -> None:
    failed = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "no room",
        "lastTransitionTime": "2024-05-01T11:00:00Z",
    }
    ready = {"type": "Ready", "status": "False"}
    bound = bind(pod(status={"conditions": [failed, ready]}), binding(), Gates(), now=NOW)
    assert bound["status"]["conditions"] == [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": NOW},
        ready,
    ]


def test_labels_and_annotations_of_the_binding_win() -> None:
    loose = pod(metadata={"labels": {"a": "1", "b": "1"}, "annotations": {"x": "1"}})
    bound = bind(loose, binding(labels={"a": "2"}, annotations={"y": "2"}), Gates(), now=NOW)
    assert bound["metadata"]["labels"] == {"a": "2", "b": "1"}
    assert bound["metadata"]["annotations"] == {"x": "1", "y": "2"}


@pytest.mark.parametrize(
    ("gates", "is_cleared"),
    [
        ("", True),
        ("NominatedNodeNameForExpectation=false", False),
        ("ClearingNominatedNodeNameAfterBinding=false", False),
    ],
)
def test_a_nomination_ends_with_the_binding_when_both_gates_are_on(gates: str, is_cleared: bool) -> None:
    bound = bind(pod(status={"nominatedNodeName": "elsewhere"}), binding(), Gates.parse(gates), now=NOW)
    assert ("nominatedNodeName" not in bound["status"]) is is_cleared


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        (pod(nodeName="n1"), 'pod p is already assigned to node "n1"'),
        (pod(metadata={"deletionTimestamp": NOW}), "pod p is being deleted, cannot be assigned to a host"),
        (pod(schedulingGates=[{"name": "g"}]), "pod p has non-empty .spec.schedulingGates"),
    ],
)
def test_a_pod_that_may_not_be_bound_is_a_conflict(stored: Doc, told: str) -> None:
    with pytest.raises(Conflict) as refused:
        bind(stored, binding(), Gates(), now=NOW)
    assert refused.value.message == f'Operation cannot be fulfilled on pods/binding "p": {told}'
    assert (refused.value.kind, refused.value.name) == ("pods/binding", "p")


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({"uid": "u-2"}, "UID in precondition: u-2, UID in object meta: u-1"),
        ({"resourceVersion": "6"}, "ResourceVersion in precondition: 6, ResourceVersion in object meta: 7"),
    ],
)
def test_a_binding_of_another_pod_or_version_is_a_conflict_of_pods(wanted: Doc, told: str) -> None:
    with pytest.raises(Conflict) as refused:
        bind(pod(), binding(**wanted), Gates(), now=NOW)
    assert refused.value.message == (
        'Operation cannot be fulfilled on pods "p": StorageError: invalid object, Code: 4, '
        f"Key: /registry/pods/ns/p, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {told}"
    )
    assert refused.value.kind == "pods"


def test_the_preconditions_hold_when_they_name_this_pod() -> None:
    stored = pod()
    before = copy(stored)
    assert bind(stored, binding(uid="u-1", resourceVersion="7"), Gates(), now=NOW)["spec"]["nodeName"] == "n1"
    assert stored == before


def test_the_url_and_the_binding_name_the_same_pod() -> None:
    with pytest.raises(BadRequest, match="name in URL does not match name in Binding object"):
        validate_binding(binding(), "q")


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ({"kind": "Pod", "name": "n"}, 'target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"'),
        ({}, "target.name: Required value"),
        (
            {"kind": "Pod"},
            '[target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>", target.name: Required value]',
        ),
    ],
)
def test_a_target_that_is_no_node_is_upstreams_bare_500(target: Doc, told: str) -> None:
    with pytest.raises(UnknownReason) as refused:
        validate_binding({"metadata": {"name": "p"}, "target": target}, "p")
    assert refused.value.message == told
    assert (refused.value.code, refused.value.reason) == (500, "")


def test_a_target_without_a_kind_is_a_node() -> None:
    validate_binding({"metadata": {"name": "p"}, "target": {"name": "n"}}, "p")
