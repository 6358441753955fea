"""The enhancements' API rules with their gates open. Where upstream does not know a field yet, it says so."""

from __future__ import annotations

from typing import Any

import pytest

from support.api_servers import ServerApi

STORAGE = "/apis/storage.k8s.io/v1"


def test_attach_limits_of_a_node_may_change_and_nothing_else_of_a_driver(api: ServerApi, ns: str) -> None:
    path = f"{STORAGE}/csinodes"
    driver = {"name": "d.example", "nodeID": "n", "topologyKeys": ["k"], "allocatable": {"count": 3}}
    api.create(path, {"metadata": {"name": ns}, "spec": {"drivers": [driver]}})

    def changed(**fields: Any) -> Any:
        return api.patch(f"{path}/{ns}", {"spec": {"drivers": [{**driver, **fields}]}})

    assert changed(allocatable={"count": 0})["spec"]["drivers"][0]["allocatable"] == {"count": 0}
    assert changed(allocatable=None).code == 200
    assert changed(allocatable={"count": 5}).code == 200
    for field, value in (("nodeID", "m"), ("topologyKeys", ["l"])):
        refused = changed(**{field: value})
        assert (refused.code, refused.causes[0][0]) == (422, "spec.drivers")
    assert "generation" not in api.get(f"{path}/{ns}").meta


def test_the_period_of_limit_updates_is_ten_seconds_at_least_and_may_change(api: ServerApi, ns: str) -> None:
    path = f"{STORAGE}/csidrivers"
    made = api.create(path, {"metadata": {"name": ns}, "spec": {"nodeAllocatableUpdatePeriodSeconds": 10}})
    assert "generation" not in made.meta
    changed = api.patch(f"{path}/{ns}", {"spec": {"nodeAllocatableUpdatePeriodSeconds": 60}})
    assert changed.meta["generation"] == 1
    refused = api.patch(f"{path}/{ns}", {"spec": {"nodeAllocatableUpdatePeriodSeconds": 9}})
    assert refused.causes == [
        ("spec.nodeAllocatableUpdatePeriodSeconds", "Invalid value: 9: must be greater than or equal to 10 seconds")
    ]
    assert api.patch(f"{path}/{ns}", {"spec": {"nodeAllocatableUpdatePeriodSeconds": None}}).code == 200


def test_an_attach_error_carries_its_code_through_status_alone(api: ServerApi, ns: str) -> None:
    path = f"{STORAGE}/volumeattachments"
    spec = {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "p"}}
    error = {"message": "full", "errorCode": 8}
    made = api.create(
        path, {"metadata": {"name": ns}, "spec": spec, "status": {"attached": False, "attachError": error}}
    )
    assert made["status"] == {"attached": False}
    put = api.patch(f"{path}/{ns}/status", {"status": {"attachError": error}, "metadata": {"labels": {"a": "b"}}})
    assert error.items() <= put["status"]["attachError"].items() and "labels" not in put.meta
    refused = api.patch(f"{path}/{ns}/status", {"status": {"detachError": {"errorCode": -1}}})
    assert refused.code == 422 and refused.causes[0][0].endswith("detachError.errorCode")


def test_the_nodes_of_a_volume_may_change(api: ServerApi, ns: str) -> None:
    path = "/api/v1/persistentvolumes"

    def affinity(value: str) -> Any:
        expression = {"key": "zone", "operator": "In", "values": [value]}
        return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}

    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "d.example", "volumeHandle": "h"},
        "nodeAffinity": affinity("a"),
    }
    api.create(path, {"metadata": {"name": ns}, "spec": spec})
    changed = api.patch(f"{path}/{ns}", {"spec": {"nodeAffinity": affinity("b")}})
    assert (changed.code, changed["spec"]["nodeAffinity"]) == (200, affinity("b"))
    assert api.patch(f"{path}/{ns}", {"spec": {"csi": {"volumeHandle": "other"}}}).code == 422


def test_a_driver_can_keep_pods_from_nodes_it_is_not_on_yet(api: ServerApi, ns: str) -> None:
    made = api.create(
        f"{STORAGE}/csidrivers", {"metadata": {"name": ns}, "spec": {"preventPodSchedulingIfMissing": True}}
    )
    assert made["spec"]["preventPodSchedulingIfMissing"] is True


@pytest.mark.parametrize(
    ("plural", "doc", "field"),
    [
        (
            "csistoragecapacities",
            {"storageClassName": "s", "availableCapacities": ["100Gi", "60Gi"]},
            "availableCapacities",
        ),
        ("csidrivers", {"spec": {"volumeRebuilding": True}}, "spec.volumeRebuilding"),
    ],
)
def test_kep_5925_is_known_here_and_dropped_with_a_warning_elsewhere(
    api: ServerApi, ns: str, plural: str, doc: dict[str, Any], field: str
) -> None:
    scope = f"/namespaces/{ns}" if plural == "csistoragecapacities" else ""
    made = api.create(f"{STORAGE}{scope}/{plural}", {"metadata": {"name": ns}, **doc})
    kept: Any = made.body
    for step in field.split("."):
        kept = kept.get(step) if kept else None
    if api.is_embedded:
        assert kept is not None and made.warnings == []
    else:
        assert kept is None and made.warnings == [f'unknown field "{field}"']


def test_capacity_is_a_quantity_and_a_class_never_changes(api: ServerApi, ns: str) -> None:
    path = f"{STORAGE}/namespaces/{ns}/csistoragecapacities"
    refused = api.post(path, {"metadata": {"name": "a"}, "storageClassName": "s", "capacity": "10 GB"})
    assert refused.code == 400
    made = api.create(path, {"metadata": {"name": "a"}, "storageClassName": "s", "capacity": "1.5Gi"})
    assert made["capacity"] == "1536Mi"
    refused = api.patch(f"{path}/a", {"storageClassName": "t"})
    assert refused.causes == [("storageClassName", 'Invalid value: "t": field is immutable')]
    assert api.patch(f"{path}/a", {"capacity": "1Gi"})["capacity"] == "1Gi"
