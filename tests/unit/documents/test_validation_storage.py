"""The rules of storage.k8s.io that a stock server does not have, or has only with a gate the other way."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.clock import SystemClock
from tonnage.documents.creation import strategies
from tonnage.gates import Gates
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors

RULES = strategies(Gates(), SystemClock())
SETTLED = strategies(Gates().with_(MutableCSINodeAllocatableCount=False), SystemClock())
validate_csi_storage_capacity = RULES["storage.k8s.io", "csistoragecapacities"].validate
validate_csi_driver = RULES["storage.k8s.io", "csidrivers"].validate
validate_csi_driver_update = RULES["storage.k8s.io", "csidrivers"].validate_update
validate_csi_storage_capacity_update = RULES["storage.k8s.io", "csistoragecapacities"].validate_update


def told(errors: Errors) -> list[str]:
    return [str(error) for error in errors]


def csi_node(**driver: Any) -> Doc:
    return {"spec": {"drivers": [{"name": "d", "nodeID": "id"} | driver]}}


def validate_csi_node_update(new: Doc, old: Doc, *, allocatable_is_mutable: bool) -> Errors:
    rules = RULES if allocatable_is_mutable else SETTLED
    return rules["storage.k8s.io", "csinodes"].validate_update(new, old)


def capacity(**fields: Any) -> Doc:
    return {"storageClassName": "fast", "nodeTopology": {"matchLabels": {"zone": "a"}}} | fields


def csi_driver(**spec: Any) -> Doc:
    return {"spec": {"attachRequired": True, "volumeLifecycleModes": ["Persistent"]} | spec}


def test_pools_are_not_negative() -> None:
    assert validate_csi_storage_capacity(capacity(availableCapacities=["100Gi", "0", "1.5Gi"])) == []
    assert told(validate_csi_storage_capacity(capacity(availableCapacities=["1Gi", "-1024Mi", "-1n"]))) == [
        'availableCapacities[1]: Invalid value: "-1Gi": must be greater than or equal to 0',
        'availableCapacities[2]: Invalid value: "-1n": must be greater than or equal to 0',
    ]


def test_pools_come_change_and_go() -> None:
    bare, two, one = capacity(), capacity(availableCapacities=["1Gi", "2Gi"]), capacity(availableCapacities=["3Gi"])
    for old, new in ((bare, two), (two, one), (one, bare)):
        assert validate_csi_storage_capacity_update(new, old) == []


def test_a_stored_selector_with_a_bad_value_may_stay() -> None:
    old = capacity(nodeTopology={"matchExpressions": [{"key": "a", "operator": "In", "values": ["x y"]}]})
    assert validate_csi_storage_capacity(old) != []
    assert validate_csi_storage_capacity_update(old | {"capacity": "1Gi"}, old) == []


def test_rebuilding_is_switched_at_will() -> None:
    assert validate_csi_driver_update(csi_driver(volumeRebuilding=True), csi_driver()) == []
    assert validate_csi_driver_update(csi_driver(), csi_driver(volumeRebuilding=True)) == []


@pytest.mark.parametrize("period_s", [10, 3600])
def test_an_update_period_is_ten_seconds_or_more(period_s: int) -> None:
    assert validate_csi_driver(csi_driver(nodeAllocatableUpdatePeriodSeconds=period_s)) == []


@pytest.mark.parametrize("period_s", [9, 0, -1])
def test_a_shorter_update_period_is_refused(period_s: int) -> None:
    assert told(validate_csi_driver(csi_driver(nodeAllocatableUpdatePeriodSeconds=period_s))) == [
        f"spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: {period_s}: "
        "must be greater than or equal to 10 seconds"
    ]


@pytest.mark.parametrize("allocatable", [{"count": 9}, {"count": 0}, {}, None])
def test_a_limit_is_changed_or_taken_away_where_it_is_mutable(allocatable: Doc | None) -> None:
    new = csi_node() if allocatable is None else csi_node(allocatable=allocatable)
    assert validate_csi_node_update(new, csi_node(allocatable={"count": 5}), allocatable_is_mutable=True) == []


def test_a_limit_does_not_change_where_it_is_not_mutable() -> None:
    old, new = csi_node(allocatable={"count": 5}), csi_node(allocatable={"count": 6})
    assert told(validate_csi_node_update(new, old, allocatable_is_mutable=False)) == [
        'spec.drivers: Invalid value: {"Name":"d","NodeID":"id","TopologyKeys":null,"Allocatable":{"Count":6}}: '
        "field is immutable"
    ]
    assert validate_csi_node_update(old, old, allocatable_is_mutable=False) == []


def test_where_a_limit_is_mutable_the_refusal_of_the_rest_does_not_show_it() -> None:
    old, new = csi_node(allocatable={"count": 5}), csi_node(nodeID="other", allocatable={"count": 6})
    assert told(validate_csi_node_update(new, old, allocatable_is_mutable=True)) == [
        'spec.drivers: Invalid value: {"Name":"d","NodeID":"other","TopologyKeys":null,"Allocatable":null}: '
        "field is immutable"
    ]


def test_the_order_of_drivers_is_free_and_of_topology_keys_is_not() -> None:
    one, two = {"name": "a", "nodeID": "1"}, {"name": "b", "nodeID": "2", "topologyKeys": ["x", "y"]}
    turned = two | {"topologyKeys": ["y", "x"]}
    old = {"spec": {"drivers": [one, two]}}
    assert validate_csi_node_update({"spec": {"drivers": [two, one]}}, old, allocatable_is_mutable=True) == []
    assert told(validate_csi_node_update({"spec": {"drivers": [one, turned]}}, old, allocatable_is_mutable=True)) == [
        'spec.drivers: Invalid value: {"Name":"b","NodeID":"2","TopologyKeys":["y","x"],"Allocatable":null}: '
        "field is immutable"
    ]
