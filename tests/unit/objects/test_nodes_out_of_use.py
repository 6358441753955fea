"""Which nodes are out of use, so that volumes may leave them, and which are dead."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tonnage.objects.core_v1 import Node, is_out_of_use
from tonnage.objects.meta import Condition
from tonnage.testing.builders import node

TAINT = "node.kubernetes.io/out-of-service"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(node("a"), False, id="in use"),
        pytest.param(node("a", unschedulable=True), True, id="cordoned"),
        pytest.param(None, True, id="gone"),
        pytest.param(node("a", taints=[f"{TAINT}=nodeshutdown:NoExecute"]), True, id="out of service"),
        pytest.param(node("a", taints=[f"{TAINT}:NoSchedule"]), True, id="whatever the taint's value and effect"),
        pytest.param(node("a", taints=["node.kubernetes.io/unreachable:NoExecute"]), False, id="nobody vouches for it"),
        pytest.param(node("a", taints=["busy:NoSchedule"]), False, id="another taint"),
    ],
)
def test_out_of_use_is_a_node_that_is_gone_cordoned_or_out_of_service(found: Node | None, expected: bool):
    assert is_out_of_use(found) is expected


def reporting(status: str, **options: Any) -> Node:
    found = node("a", **options)
    conditions = (Condition(type="Ready", status=status),)
    return msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, conditions=conditions))


def test_a_node_is_dead_when_it_is_out_of_service_and_does_not_report_ready():
    taints = [f"{TAINT}=nodeshutdown:NoExecute"]
    assert not reporting("True", taints=taints).is_dead
    assert reporting("Unknown", taints=taints).is_dead and reporting("False", taints=taints).is_dead
    assert not reporting("Unknown").is_dead and not reporting("Unknown", unschedulable=True).is_dead
