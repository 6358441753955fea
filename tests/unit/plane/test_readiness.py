"""Which nodes a cluster waits for when it starts, and until when."""

from __future__ import annotations

import msgspec
import pytest

from tonnage.faults import Fault
from tonnage.objects.core_v1 import Node
from tonnage.objects.meta import Condition
from tonnage.plane.bootstrap import expected_nodes, is_ready
from tonnage.testing.builders import node

NAMES = ["node-1", "node-2", "node-3"]


def with_ready(found: Node, status: str) -> Node:
    conditions = (Condition(type="Ready", status=status),)
    return msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, conditions=conditions))


def test_a_node_is_ready_by_its_condition():
    assert is_ready(with_ready(node("node-1"), "True"))
    assert not is_ready(with_ready(node("node-1"), "Unknown"))
    assert not is_ready(None)


@pytest.mark.parametrize("key", ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"])
def test_one_that_the_controllers_have_not_seen_yet_has_not(key: str):
    assert not is_ready(with_ready(node("node-1", taints=[f"{key}:NoExecute"]), "True"))


@pytest.mark.parametrize("taint", ["node.kubernetes.io/unschedulable:NoSchedule", "team=a:NoExecute"])
def test_what_people_asked_of_a_node_before_is_nothing_to_wait_for(taint: str):
    assert is_ready(with_ready(node("node-1", taints=[taint], unschedulable=True), "True"))


def test_nodes_that_are_stopped_or_removed_on_request_are_not_expected():
    assert expected_nodes(NAMES, [Fault("slow", value=1.0)]) == NAMES
    assert expected_nodes(NAMES, [Fault("node-stopped", "node-1"), Fault("node-removed", "node-3")]) == ["node-2"]
    assert expected_nodes(NAMES, [Fault("node-stopped")]) == []
