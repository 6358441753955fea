"""Nodes: what the recorded cases do not reach."""

from __future__ import annotations

from typing import Any

from tonnage.documents.kinds.node import NodeStrategy
from tonnage.gates import Gates
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors
from tonnage.objects.resources import BY_PLURAL

STRATEGY = NodeStrategy(BY_PLURAL["", "nodes"], Gates())


def told(errors: Errors) -> list[str]:
    return [str(error) for error in errors]


def node(*, status: Doc | None = None, **spec: Any) -> Doc:
    return {"metadata": {"name": "n"}, "spec": spec, "status": status or {}}


def test_a_taint_is_shown_as_upstream_holds_it() -> None:
    taints = [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule", "value": "x"}]
    assert told(STRATEGY.validate(node(taints=taints))) == [
        'metadata.taints[1]: Duplicate value: {"Key":"a","Value":"x","Effect":"NoSchedule","TimeAdded":null}: '
        "taints must be unique by key and effect pair"
    ]


def test_the_same_key_with_another_effect_is_another_taint() -> None:
    taints = [{"key": "a", "effect": effect} for effect in ("NoSchedule", "PreferNoSchedule", "NoExecute")]
    assert STRATEGY.validate(node(taints=taints)) == []


def test_what_is_set_once_may_be_repeated_and_may_come_late() -> None:
    late = node(podCIDR="10.0.0.0/24", podCIDRs=["10.0.0.0/24"], providerID="p")
    assert STRATEGY.validate_status(late, node()) == []
    assert STRATEGY.validate_status(late, late) == []
    assert told(STRATEGY.validate_status(node(podCIDRs=["10.0.0.0/24"]), late)) == [
        'spec.providerID: Forbidden: node updates may not change providerID except from "" to valid'
    ]


def test_a_status_write_is_judged_too() -> None:
    assert told(STRATEGY.validate_status(node(status={"allocatable": {"example.com/gpu": "1.5"}}), node())) == [
        'status.allocatable.example.com/gpu: Invalid value: "1500m": must be an integer'
    ]


def test_a_feature_name_has_a_bound() -> None:
    name = "A" * 254
    assert told(STRATEGY.validate(node(status={"declaredFeatures": [name]}))) == [
        f'status.declaredFeatures[0]: Invalid value: "{name}": '
        f'invalid feature name "{name}": must be no more than 253 characters'
    ]


def test_a_plain_node_gets_no_warning() -> None:
    assert STRATEGY.warnings(node(podCIDRs=["10.0.0.0/24", "fd00::/64"]), None) == []
