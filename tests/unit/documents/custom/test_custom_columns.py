"""Printer columns, and the paths they are written in."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.documents.custom.printer_columns import InvalidJsonPath, parse, printer_columns
from tonnage.objects.document import Doc

DOC: Doc = {
    "metadata": {"name": "n", "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": {"a.b/c": "x"}},
    "spec": {"size": "10Gi", "n": 3, "ratio": 1.5, "on": True, "none": None, "list": [1, 2, 3], "map": {"k": "v"}},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True", "n": 1},
            {"type": "Synced", "status": "False", "n": 5},
        ]
    },
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.size", ["10Gi"]),
        ("$.spec.size", ["10Gi"]),
        (".", [DOC]),
        (".spec.nothing.below", []),
        (".metadata.annotations['a.b/c']", ["x"]),
        (r".metadata.annotations.a\.b/c", ["x"]),
        ('.metadata["name"]', ["n"]),
        (".spec.list[0]", [1]),
        (".spec.list[-1]", [3]),
        (".spec.list[9]", []),
        (".spec.list[1:]", [2, 3]),
        (".spec.list[0:2]", [1, 2]),
        (".spec.list[::2]", [1, 3]),
        (".spec.list[0,2]", [1, 3]),
        (".spec.list[*]", [1, 2, 3]),
        (".spec.map.*", ["v"]),
        (".spec['size','n']", ["10Gi", 3]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type == 'Synced')].status", ["False"]),
        (".status.conditions[?(@.type!='Ready')].n", [5]),
        (".status.conditions[?(@.n>1)].type", ["Synced"]),
        (".status.conditions[?(@.n<='x')].type", []),
        (".status.conditions[?(@.missing)].type", []),
        (".status.conditions[?(@.type)].type", ["Ready", "Synced"]),
        ("..status", [DOC["status"], "True", "False"]),
        ("..conditions[*].n", [1, 5]),
    ],
)
def test_paths_find_values(path: str, found: list[Any]) -> None:
    assert parse(path).find(DOC) == found


@pytest.mark.parametrize("path", ["spec", ".spec[", ".spec[?(@.a==)]", ".spec[a]", ".a]", ".a[?(b)]", "." + "a" * 5000])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(InvalidJsonPath):
        parse(path)


def test_a_path_that_finds_without_end_finds_nothing() -> None:
    assert parse(".." + "*.." * 8 + "*").find({"a": [[[[list(range(9))] * 9] * 9] * 9] * 9}) == []


def cell(kind: str, path: str) -> Any:
    (column,) = printer_columns([{"name": "C", "type": kind, "jsonPath": path}])
    return column.cell(DOC, lambda text: f"age of {text}")


@pytest.mark.parametrize(
    ("kind", "path", "expected"),
    [
        ("string", ".spec.size", "10Gi"),
        ("string", ".spec.n", "3"),
        ("string", ".spec.on", "true"),
        ("string", ".spec.ratio", "1.5"),
        ("string", ".spec.list", "[1,2,3]"),
        ("string", ".spec.map", '{"k":"v"}'),
        ("string", ".spec.absent", None),
        ("string", ".spec.none", "<no value>"),
        ("integer", ".spec.n", 3),
        ("integer", ".spec.ratio", 1),
        ("integer", ".spec.size", None),
        ("integer", ".spec.on", None),
        ("number", ".spec.ratio", 1.5),
        ("boolean", ".spec.on", True),
        ("boolean", ".spec.n", None),
        ("date", ".metadata.creationTimestamp", "age of 2026-01-01T00:00:00Z"),
        ("date", ".spec.size", "<invalid>"),
        ("date", ".spec.absent", None),
        ("string", ".status.conditions[*].type", "Ready"),
    ],
)
def test_a_cell_holds_a_value_of_the_columns_type_or_nothing(kind: str, path: str, expected: Any) -> None:
    assert cell(kind, path) == expected


def test_a_definition_without_columns_shows_the_age() -> None:
    (age,) = printer_columns([])
    assert (age.name, age.type, age.path.text) == ("Age", "date", ".metadata.creationTimestamp")


def test_a_column_describes_itself_by_its_path_and_wide_ones_have_a_priority() -> None:
    columns: list[Doc] = [
        {"name": "Size", "type": "string", "jsonPath": ".spec.size", "priority": 1},
        {"name": "N", "type": "integer", "format": "int32", "jsonPath": ".spec.n", "description": "How many."},
    ]
    assert [column.definition() for column in printer_columns(columns)] == [
        {"name": "Size", "type": "string", "format": "", "priority": 1,
         "description": "Custom resource definition column (in JSONPath format): .spec.size"},
        {"name": "N", "type": "integer", "format": "int32", "priority": 0, "description": "How many."},
    ]  # fmt: skip


def test_a_path_that_cannot_be_read_ends_the_columns() -> None:
    columns = [
        {"name": name, "type": "string", "jsonPath": path} for name, path in (("A", ".a"), ("B", ".["), ("C", ".c"))
    ]
    assert [column.name for column in printer_columns(columns)] == ["A"]


def test_numbers_in_text_columns_are_written_as_go_writes_them() -> None:
    (column,) = printer_columns([{"name": "C", "type": "string", "jsonPath": ".n"}])
    numbers = [2.0, 0.25, 123456.0, 1234567.0, 1e21, -2.5e-7, 0.0, 0.0001, 7]
    shown = ["2", "0.25", "123456", "1.234567e+06", "1e+21", "-2.5e-07", "0", "0.0001", "7"]
    assert [column.cell({"n": number}, str) for number in numbers] == shown
