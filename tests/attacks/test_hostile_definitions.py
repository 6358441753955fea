"""Definitions of custom resources that nobody means well with: schemas and columns whose work multiplies.

What a schema and a document cost together is bounded, where upstream multiplies them: alternatives and patterns are
tried so many times, choices are looked up, columns stop looking. What is large is compiled beside the loop.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from test_server_stays_responsive import probing

from support.http import Reply
from support.processes import ApiServerProcess, start_cluster
from tonnage.documents.custom import validation
from tonnage.documents.custom.printer_columns import (
    MAX_CELL_CHARS,
    MAX_COLUMNS,
    MAX_FOUND,
    Looks,
    PrinterColumn,
    parse,
    printer_columns,
)
from tonnage.documents.custom.validation import Rules

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
TEXT = {"type": "string"}
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Any:
    server = start_cluster(tmp_path_factory.mktemp("server"))
    server.create("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "small"}})  # for the prober
    yield server
    assert server.stop() == 0


def definition(name: str, spec: dict[str, Any], *paths: str, **names: Any) -> dict[str, Any]:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"s": spec}}},
        "additionalPrinterColumns": [
            {"name": f"c{n}", "type": "string", "jsonPath": path} for n, path in enumerate(paths)
        ],
    }
    said = {"plural": f"{name}s", "singular": name, "kind": name.capitalize(), **names}
    spec = {"group": "evil.example", "scope": "Namespaced", "names": said, "versions": [version]}
    return {"metadata": {"name": f"{name}s.evil.example"}, "spec": spec}


def objects(name: str) -> str:
    return f"/apis/evil.example/v1/namespaces/default/{name}s"


def made(cluster: ApiServerProcess, name: str, spec: dict[str, Any], *paths: str) -> None:
    reply = cluster.post(CRDS, definition(name, spec, *paths))
    assert reply.code == 201, reply.message


def create(cluster: ApiServerProcess, name: str, value: Any) -> Reply:
    body = {"apiVersion": "evil.example/v1", "kind": name.capitalize(), "metadata": {"name": "x"}, "s": value}
    return cluster.post(objects(name), body)


# -- schemas times values ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
def test_alternatives_times_values_end_in_a_refusal(keyword: str, monkeypatch: pytest.MonkeyPatch) -> None:
    alternatives = [{"required": [f"r{n}"]} for n in range(500)]
    monkeypatch.setattr(validation, "MAX_TRIES", 20_000)  # an array of this size is refused sooner, not otherwise
    rules = Rules({"type": "array", "items": {**ANYTHING, keyword: alternatives}})
    assert "too many" not in rules.errors([{"r499": 1}] * 40)[-1:].__repr__()
    errors = rules.errors([{"r499": 1}] * 41)
    assert errors[-1].detail == "there are too many alternatives and patterns to try for so many values"


def test_ordinary_alternatives_for_as_many_values_as_there_may_be() -> None:
    spec = {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert Rules({"type": "array", "items": spec}).errors(["1"] * 50_000) == []


def test_patterns_times_text_end_in_a_refusal() -> None:
    rules = Rules({**TEXT, "allOf": [{"pattern": f"x{n}.*y$"} for n in range(200)]})
    assert "too many alternatives" in rules.errors("x" * 1_000_000)[-1].detail


def test_a_choice_is_looked_up_however_many_there_are() -> None:
    choices: list[Any] = [f"v{n}" for n in range(20_000)] + [{"n": n} for n in range(2_000)] + [1, True, [1, "a"]]
    rules = Rules({"type": "array", "items": {"enum": choices}})
    assert rules.errors(["v19999", {"n": 1999}, 1.0, True, [1.0, "a"]] * 2_000) == []
    wrong = rules.errors(["v20000", {"n": 2000}, {"n": True}, 0, False, [True, "a"], [], {}])
    assert len(wrong) == 8


def test_a_schema_is_compiled_where_a_value_meets_it() -> None:
    class Counted(dict[str, Any]):
        looked_up = 0

        def get(self, name: str, default: Any = None) -> Any:
            Counted.looked_up += 1
            return super().get(name, default)

    spec = {"type": "object", "properties": {f"p{n}": Counted(TEXT) for n in range(10_000)}}
    assert Rules(spec).errors({"p1": "a", "p2": "b", "p3": 3})[0].field == "p3"
    assert 0 < Counted.looked_up < 100


@pytest.mark.parametrize("number", ["1e300", "1E+300", "-1.5e-308"])
def test_numbers_that_a_decoder_takes_long_for_count_for_more(cluster: ApiServerProcess, number: str) -> None:
    body = '{"metadata": {"name": "numbers"}, "x": [' + ",".join([number] * 20_000) + "]}"
    assert cluster.post("/api/v1/namespaces/default/configmaps", body.encode()).code == 413
    text = json.dumps({"metadata": {"name": "numbers"}, "data": {"a": f"{number}," * 20_000}}).encode()
    assert cluster.post("/api/v1/namespaces/default/configmaps", text).code == 201
    cluster.delete("/api/v1/namespaces/default/configmaps/numbers")


# -- columns ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "..zz", "..*..*..*..*..zz", ".." * 100 + "zz", ".s.l[?(@.x==5)]..zz", ".s.l[?(@..zz==5)].x",
        ".s.l[0:100000].zz", ".s.l[-99999:99999].zz", ".s.l[" + ",".join(["4999"] * 800) + "].zz",
    ],
)  # fmt: skip
def test_a_column_looks_at_so_much_and_no_more(path: str) -> None:
    doc = {"s": {"l": [{"x": [n, {"y": n}]} for n in range(5_000)]}}
    value, looked_at = parse(path).first(doc, MAX_FOUND)
    assert isinstance(value, object) and looked_at <= MAX_FOUND
    looks = Looks()
    (column,) = printer_columns([{"name": "c", "type": "string", "jsonPath": path}])
    before = looks.left
    for _ in range(50):
        assert column.cell(doc, str, looks) is None
    assert looks.left >= -1 and before > 0


def test_ordinary_columns_of_many_objects_are_all_filled() -> None:
    looks, doc = Looks(), {"s": {"l": [{"type": "Ready", "status": "True"}]}}
    column = PrinterColumn("c", "string", parse('.s.l[?(@.type=="Ready")].status'))
    assert {column.cell(doc, str, looks) for _ in range(8_000)} == {"True"}


def test_columns_and_cells_are_bounded() -> None:
    columns = printer_columns([{"name": f"c{n}", "type": "string", "jsonPath": ".s"} for n in range(5_000)])
    assert len(columns) == MAX_COLUMNS
    for value in ("x" * 1_000_000, {"a": "\u00e4" * 500_000}, ["x"] * 100_000):
        assert len(columns[0].cell({"s": value}, str)) == MAX_CELL_CHARS + 3


# -- a whole server ---------------------------------------------------------------------------------------------------


def test_a_small_object_of_a_large_schema_holds_nobody_up(cluster: ApiServerProcess) -> None:
    fields = {f"p{n}": {"type": "integer", "default": 1} for n in range(5_000)}
    with probing(cluster):
        made(cluster, "wide", {"type": "object", "properties": fields})
        assert create(cluster, "wide", {}).code == 201
        assert cluster.get(objects("wide"), accept=TABLE).code == 200
        assert cluster.delete(f"{CRDS}/wides.evil.example").code == 200


def test_a_definition_that_its_status_makes_too_large_keeps_no_other_from_being_served(
    cluster: ApiServerProcess,
) -> None:
    """The names that are accepted are said a second time."""
    names = {"shortNames": [f"s{n}" for n in range(50_000)], "categories": [f"c{n}" for n in range(50_000)]}
    assert cluster.post(CRDS, definition("aaa", TEXT, **names)).code == 201
    made(cluster, "later", TEXT)
    assert create(cluster, "later", "x").code == 201
    for name in ("aaa", "later"):
        assert cluster.delete(f"{CRDS}/{name}s.evil.example").code == 200


@pytest.mark.parametrize(
    "spec",
    [
        {"$ref": "#/definitions/x"},
        {"type": "array", "uniqueItems": True, "items": TEXT},
        {**TEXT, "pattern": "((a{0,1000}){0,1000}){0,1000}"},
        {**TEXT, "pattern": "(?=a)b"},
        {**TEXT, "pattern": r"(a)\1"},
    ],
)
def test_what_upstream_refuses_is_refused(cluster: ApiServerProcess, spec: dict[str, Any]) -> None:
    assert cluster.post(CRDS, definition("refused", spec)).code == 422


@pytest.mark.slow
def test_every_kind_of_hostile_definition_beside_probes(cluster: ApiServerProcess) -> None:
    alternatives = [{"required": [f"r{n}"]} for n in range(20_000)]
    wide = {f"k{n}": {"a": {"b": [1] * 10}} for n in range(8_000)}
    attacks: dict[str, tuple[dict[str, Any], Any, tuple[str, ...]]] = {
        "props": ({"type": "object", "properties": {f"p{n}": TEXT for n in range(45_000)}}, {}, ()),
        "redos": ({**TEXT, "pattern": "^(a+)+$"}, "a" * 1_000_000 + "!", ()),
        "patterns": ({**TEXT, "allOf": [{"pattern": f"x{n}.*y$"} for n in range(5_000)]}, "x1" * 150_000, ()),
        "enum": ({"type": "array", "items": {**TEXT, "enum": [f"v{n}" for n in range(50_000)]}}, ["v1"] * 90_000, ()),
        "some": ({"type": "array", "items": {**ANYTHING, "anyOf": alternatives}}, [{"r19999": 1}] * 20_000, ()),
        "one": ({"type": "array", "items": {**ANYTHING, "oneOf": alternatives}}, [{"r19999": 1}] * 20_000, ()),
        "set": ({"type": "array", "x-kubernetes-list-type": "set", "items": TEXT}, ["v"] * 90_000, ()),
        "columns": (ANYTHING, wide, (".s..zz",) * 3_000),
        "cells": (ANYTHING, {"t": "x" * 1_000_000}, (".s.t",) * 1_000),
        "rules": ({**TEXT, "x-kubernetes-validations": [{"rule": "self == 'a'"}] * 20_000}, "x", ()),
    }
    with probing(cluster):
        for name, (spec, value, paths) in attacks.items():
            made(cluster, name, spec, *paths)
            assert create(cluster, name, value).code in (201, 413, 422), name
            assert len(cluster.get(objects(name), accept=TABLE).body["rows"]) <= 1
            assert cluster.delete(f"{CRDS}/{name}s.evil.example").code == 200
