"""Tables, rows and bare metadata as documents."""

from __future__ import annotations

from datetime import UTC, datetime

from tonnage.apiserver import responses, tables
from tonnage.apiserver.requests import Call, Location
from tonnage.objects.document import Doc, decode, encode
from tonnage.objects.resources import BY_PLURAL, RESOURCES, Resource

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
NAMESPACES = BY_PLURAL["", "namespaces"]
PODS = BY_PLURAL["", "pods"]


def namespace(name: str) -> Doc:
    return {
        "kind": "Namespace",
        "apiVersion": "v1",
        "metadata": {"name": name, "uid": "u-1", "creationTimestamp": "2026-03-01T11:59:00Z"},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def test_a_table_has_definitions_rows_and_the_lists_metadata() -> None:
    made = tables.table(NAMESPACES, [namespace("a")], now=NOW, list_metadata={"resourceVersion": "7"})
    assert (made["kind"], made["apiVersion"], made["metadata"]) == ("Table", "meta.k8s.io/v1", {"resourceVersion": "7"})
    assert [column["name"] for column in made["columnDefinitions"]] == ["Name", "Status", "Age"]
    assert made["columnDefinitions"][0] == {
        "name": "Name",
        "type": "string",
        "format": "name",
        "description": "Unique among objects of the kind in the namespace; never changes.",
        "priority": 0,
    }
    assert made["rows"] == [
        {
            "cells": ["a", "Active", "60s"],
            "object": {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": namespace("a")["metadata"],
            },
        }
    ]


def test_a_row_carries_the_object_its_metadata_or_null() -> None:
    def row(include: tables.Include) -> Doc:
        made = tables.table(NAMESPACES, [namespace("a")], now=NOW, list_metadata={}, include=include)
        return dict(made["rows"][0])

    assert row("Object")["object"] == namespace("a")
    assert row("Metadata")["object"]["kind"] == "PartialObjectMetadata"
    assert row("None")["object"] is None


def test_without_headers_the_definitions_are_null_as_in_the_later_events_of_a_watch() -> None:
    made = tables.table(NAMESPACES, [namespace("a")], now=NOW, list_metadata={}, headers=False)
    assert made["columnDefinitions"] is None
    assert made["rows"][0]["cells"] == ["a", "Active", "60s"]


def test_an_empty_table_still_has_its_columns() -> None:
    made = tables.table(PODS, [], now=NOW, list_metadata={})
    assert made["rows"] == []
    assert len(made["columnDefinitions"]) == 9


def test_wide_columns_are_always_there_with_priority_one() -> None:
    wide = [column["name"] for column in tables.columns(PODS) if column["priority"] == 1]
    assert wide == ["IP", "Node", "Nominated Node", "Readiness Gates"]


def test_every_column_of_every_resource_is_described() -> None:
    for resource in RESOURCES:
        for column in tables.columns(resource):
            assert column["description"], f"{resource.qualified}: {column['name']}"


def test_a_row_has_a_cell_for_every_column_even_of_a_bare_object() -> None:
    for resource in RESOURCES:
        made = tables.table(resource, [{"metadata": {"name": "x"}}], now=NOW, list_metadata={})
        assert len(made["rows"][0]["cells"]) == len(made["columnDefinitions"]), resource.qualified


def test_a_kind_without_columns_shows_when_it_was_created() -> None:
    plain = Resource("", "v1", "Binding", "bindings", True)
    made = tables.table(plain, [namespace("a")], now=NOW, list_metadata={}, include="None")
    assert [(column["name"], column["type"]) for column in made["columnDefinitions"]] == [
        ("Name", "string"),
        ("Created At", "date"),
    ]
    assert made["rows"][0]["cells"] == ["a", "2026-03-01T11:59:00Z"]


def test_partial_metadata_leaves_everything_but_metadata_out() -> None:
    form = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    call = Call("list", Location(NAMESPACES), {}, {"Accept": form})
    answer = responses.of_list(call, [encode(namespace("a"))], {"resourceVersion": "7"}, now=NOW)
    assert decode(answer.body) == {
        "kind": "PartialObjectMetadataList",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": "7"},
        "items": [
            {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": namespace("a")["metadata"],
            }
        ],
    }


def capacity_cells(**fields: object) -> list[object]:
    resource = BY_PLURAL["storage.k8s.io", "csistoragecapacities"]
    doc = {"metadata": {"name": "c", "creationTimestamp": "2026-03-01T11:59:00Z"}, "storageClassName": "fast", **fields}
    made = tables.table(resource, [doc], now=NOW, list_metadata={})
    assert [column["name"] for column in made["columnDefinitions"]] == [
        "Name",
        "StorageClassName",
        "Topology",
        "Capacity",
        "Maximum",
        "Pools",
        "Age",
    ]
    return list(made["rows"][0]["cells"])


def test_a_capacity_object_shows_where_how_much_and_in_which_pools() -> None:
    assert capacity_cells(
        nodeTopology={"matchLabels": {"node": "a"}},
        capacity="300Gi",
        maximumVolumeSize="100Gi",
        availableCapacities=["100Gi", "50Gi"],
    ) == ["c", "fast", "node=a", "300Gi", "100Gi", "100Gi,50Gi", "60s"]


def test_a_capacity_object_that_says_nothing_reaches_no_node() -> None:
    assert capacity_cells() == ["c", "fast", "<none>", "<unset>", "<unset>", "<none>", "60s"]
    assert capacity_cells(nodeTopology={})[2] == "<all>"


def test_pools_may_stand_in_the_annotation_and_very_many_are_counted() -> None:
    meta = {"name": "c", "annotations": {"tonnage.dev/available-capacities": "3Gi, 2Gi"}}
    assert capacity_cells(metadata=meta)[5] == "3Gi,2Gi"
    assert capacity_cells(availableCapacities=["1Gi"] * 20)[5] == "1Gi,1Gi,1Gi,1Gi,1Gi,1Gi,1Gi,1Gi,… (20)"


def test_no_capacity_object_makes_a_line_that_nobody_can_read() -> None:
    zones = {"key": "zone", "operator": "In", "values": [f"z{number:03}" for number in range(100)]}
    topology = str(capacity_cells(nodeTopology={"matchExpressions": [zones]})[2])
    assert (topology[:17], topology[-1], len(topology)) == ("zone in (z000,z00", "…", 81)
    meta = {"name": "c", "annotations": {"tonnage.dev/available-capacities": "9" * 10_000}}
    assert len(str(capacity_cells(metadata=meta)[5])) == 81
