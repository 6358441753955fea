"""Namespaces, services and events: what their strategies keep, drop and hold back."""

from __future__ import annotations

import pytest

from tonnage.documents.kinds.event import EventStrategy
from tonnage.documents.kinds.namespace import NamespaceStrategy, finalize
from tonnage.documents.kinds.resource_claim import ResourceSliceStrategy
from tonnage.documents.kinds.secret import SecretStrategy
from tonnage.documents.kinds.service import ServiceStrategy
from tonnage.documents.kinds.workloads.apps import ControllerRevisionStrategy, ReplicaSetStrategy, StatefulSetStrategy
from tonnage.errors import Invalid
from tonnage.gates import Gates
from tonnage.objects.document import Doc, copy
from tonnage.objects.resources import BY_PATH, BY_PLURAL

NAMESPACES = NamespaceStrategy(BY_PLURAL["", "namespaces"], Gates())
SERVICES = ServiceStrategy(BY_PLURAL["", "services"], Gates())


def namespace(*finalizers: str) -> Doc:
    return {"metadata": {"name": "ns"}, "spec": {"finalizers": list(finalizers)}, "status": {"phase": "Active"}}


def service(**spec: object) -> Doc:
    doc: Doc = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], **spec}}
    SERVICES.default(doc)
    SERVICES.prepare_create(doc)
    return doc


def test_a_namespace_waits_for_its_finalizers_and_says_that_it_is_going() -> None:
    doc = namespace("kubernetes")
    assert NAMESPACES.holds_back_deletion(doc)
    NAMESPACES.prepare_deletion(doc)
    assert doc["status"]["phase"] == "Terminating"
    emptied = finalize(doc, {"spec": {}})
    assert not NAMESPACES.holds_back_deletion(emptied)
    assert emptied["status"]["phase"] == "Terminating"


def test_a_plain_update_does_not_take_finalizers_away() -> None:
    old = namespace("kubernetes")
    new: Doc = {"metadata": {"name": "ns", "labels": {"a": "b"}}, "spec": {"finalizers": ["a.example/b"]}}
    NAMESPACES.prepare_update(new, old)
    assert new["spec"] == {"finalizers": ["kubernetes"]}


def test_finalize_judges_the_names_it_is_given() -> None:
    with pytest.raises(Invalid) as refused:
        finalize(namespace("kubernetes"), {"spec": {"finalizers": ["odd"]}})
    assert refused.value.message == (
        'Namespace "ns" is invalid: spec.finalizers[0]: Invalid value: "odd": '
        "name is neither a standard finalizer name nor is it fully qualified"
    )


@pytest.mark.parametrize(
    ("deleting", "phase", "told"),
    [
        (False, "Active", []),
        (
            False,
            "Terminating",
            ["status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"],
        ),
        (True, "Terminating", []),
        (
            True,
            "Active",
            ["status.Phase: Invalid value: \"Active\": may only be 'Terminating' if `deletionTimestamp` is not empty"],
        ),
    ],
)
def test_the_phase_of_a_namespace_follows_its_deletion(deleting: bool, phase: str, told: list[str]) -> None:
    doc = namespace("kubernetes")
    doc["status"]["phase"] = phase
    if deleting:
        doc["metadata"]["deletionTimestamp"] = "2024-05-01T12:00:00Z"
    assert [str(error) for error in NAMESPACES.validate_status(doc, doc)] == told


def test_a_service_is_given_no_address() -> None:
    doc = service()
    assert "clusterIP" not in doc["spec"]
    assert SERVICES.validate(doc) == []


def test_an_address_that_was_given_is_kept_by_an_update_that_forgets_it_and_never_changes() -> None:
    old = service(clusterIP="10.0.0.7")
    forgetful = copy(old)
    del forgetful["spec"]["clusterIP"], forgetful["spec"]["clusterIPs"]
    SERVICES.prepare_update(forgetful, old)
    assert forgetful["spec"]["clusterIPs"] == ["10.0.0.7"]
    moved = copy(old)
    moved["spec"].update(clusterIP="10.0.0.8", clusterIPs=["10.0.0.8"])
    SERVICES.prepare_update(moved, old)
    assert [str(error) for error in SERVICES.validate_update(moved, old)] == [
        'spec.clusterIPs[0]: Invalid value: ["10.0.0.8"]: may not change once set'
    ]


def test_a_service_that_stops_being_a_balancer_sheds_what_only_balancers_have() -> None:
    old = service(type="LoadBalancer", ports=[{"port": 80, "nodePort": 30080}])
    new = copy(old)
    new["spec"]["type"] = "ClusterIP"
    SERVICES.default(new)
    SERVICES.prepare_update(new, old)
    assert not new["spec"].keys() & {"allocateLoadBalancerNodePorts", "externalTrafficPolicy"}
    assert "nodePort" not in new["spec"]["ports"][0]
    assert SERVICES.validate_update(new, old) == []


def test_string_data_is_written_over_data_and_never_stored() -> None:
    secret: Doc = {"metadata": {}, "data": {"a": "b2xk", "b": "b2xk"}, "stringData": {"a": "new"}}
    SecretStrategy(BY_PLURAL["", "secrets"], Gates()).default(secret)
    # base64("new") = bmV3
    assert secret == {"metadata": {}, "type": "Opaque", "data": {"a": "bmV3", "b": "b2xk"}}


def test_events_of_the_new_api_are_judged_strictly_and_those_of_the_old_one_are_not() -> None:
    event = {
        "metadata": {"name": "e", "namespace": "ns"},
        "involvedObject": {"namespace": "ns"},
        "reason": "r",
        "type": "Odd",
    }
    old, new = BY_PATH["", "v1", "events"], BY_PATH["events.k8s.io", "v1", "events"]
    assert EventStrategy(old, Gates()).validate(event) == []
    assert [str(error) for error in EventStrategy(new, Gates()).validate(event)] == [
        "eventTime: Required value",
        'type: Invalid value: "": has invalid value: Odd',
    ]


def test_a_revision_may_be_renumbered_but_not_rewritten() -> None:
    rules = ControllerRevisionStrategy(BY_PLURAL["apps", "controllerrevisions"], Gates())
    old = {"metadata": {"name": "r"}, "revision": 1, "data": {"a": 1}}
    assert rules.validate_update({**old, "revision": 2}, old) == []
    assert [str(error) for error in rules.validate_update({**old, "data": {"a": 2}}, old)] == [
        'data: Invalid value: {"a":2}: field is immutable'
    ]


def test_the_name_of_a_stateful_set_must_be_a_host_name() -> None:
    assert StatefulSetStrategy.name_rule("a.b") == ["must not contain dots"]


def test_a_selector_without_an_operator_is_told_and_no_fault_of_ours() -> None:
    rules = ReplicaSetStrategy(BY_PLURAL["apps", "replicasets"], Gates())
    doc: Doc = {"metadata": {"name": "r"}, "spec": {"selector": {"matchExpressions": [{"key": "a"}]}, "template": {}}}
    assert "spec.selector.matchExpressions[0].operator" in {error.field for error in rules.validate(doc)}


def test_a_slice_that_loses_its_spec_is_told_what_it_lacks() -> None:
    rules = ResourceSliceStrategy(BY_PLURAL["resource.k8s.io", "resourceslices"], Gates())
    old = {"metadata": {"name": "s"}, "spec": {"driver": "d", "pool": {"name": "p"}}}
    fields = {error.field for error in rules.validate_update({"metadata": {"name": "s"}}, old)}
    assert {"spec.driver", "spec.pool.name"} <= fields
