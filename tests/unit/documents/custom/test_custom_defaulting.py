"""Defaults of a schema, and nulls."""

from __future__ import annotations

from typing import Any

import pytest

from support.definition_builders import object_schema
from tonnage.documents.custom.pruning import fill_defaults
from tonnage.documents.custom.structural import Structural
from tonnage.objects.document import Doc, copy


def text(**more: Any) -> Doc:
    return {"type": "string", **more}


def defaulted(schema: Doc, value: Any) -> Any:
    value, compiled = copy(value), Structural(schema)
    fill_defaults(compiled, value)
    return value


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        pytest.param(object_schema({"a": text(default="A")}), {}, {"a": "A"}, id="absent"),
        pytest.param(object_schema({"a": text(default="A")}), {"a": "x"}, {"a": "x"}, id="there"),
        pytest.param(object_schema({"a": text(default="A")}), {"a": ""}, {"a": ""}, id="empty is a value"),
        pytest.param(object_schema({"a": text(default="A")}), {"a": None}, {"a": "A"}, id="null is none"),
        pytest.param(object_schema({"a": text(default="A", nullable=True)}), {"a": None}, {"a": None}, id="nullable"),
        pytest.param(object_schema({"a": text(default="A", nullable=True)}), {}, {"a": "A"}, id="nullable and absent"),
        pytest.param(object_schema({"a": text()}), {"a": None}, {}, id="null without default goes"),
        pytest.param(object_schema({"a": text(nullable=True)}), {"a": None}, {"a": None}, id="nullable null stays"),
        pytest.param(object_schema({}), {"a": None}, {"a": None}, id="of what is unknown nothing is known"),
        pytest.param(
            object_schema({"o": object_schema({"a": text(default="A")})}), {}, {}, id="not below what is absent"
        ),
        pytest.param(
            object_schema({"o": object_schema({"a": text(default="A")}, default={})}), {}, {"o": {"a": "A"}},
            id="below a default",
        ),
        pytest.param(
            object_schema({"l": {"type": "array", "items": object_schema({"a": text(default="A")})}}),
            {"l": [{}, {"a": "x"}]}, {"l": [{"a": "A"}, {"a": "x"}]}, id="in items",
        ),
        pytest.param(
            {"type": "array", "items": text(default="A")}, ["x", None], ["x", "A"], id="null items with a default"
        ),
        pytest.param({"type": "array", "items": text()}, ["x", None], ["x", None], id="null items without"),
        pytest.param(
            {"type": "object", "additionalProperties": text(default="A")}, {"x": None, "y": "1"}, {"x": "A", "y": "1"},
            id="null values of a map with a default",
        ),
        pytest.param({"type": "object", "additionalProperties": text()}, {"x": None}, {}, id="of a map without"),
        pytest.param(
            {"type": "object", "additionalProperties": object_schema({"a": text(default="A")})}, {"x": {}},
            {"x": {"a": "A"}}, id="in values of a map",
        ),
    ],
)  # fmt: skip
def test_defaults_are_filled_in_where_nothing_is(schema: Doc, value: Any, expected: Any) -> None:
    assert defaulted(schema, value) == expected
    assert defaulted(schema, expected) == expected


def test_a_default_is_copied_for_every_document() -> None:
    schema = Structural(object_schema({"o": {"type": "object", "default": {"a": []}}}))
    one: Doc = {}
    other: Doc = {}
    fill_defaults(schema, one)
    fill_defaults(schema, other)
    one["o"]["a"].append(1)
    assert other == {"o": {"a": []}}


def test_defaults_do_not_multiply_beyond_what_an_object_may_be() -> None:
    """Two bytes of an empty item would become a hundred kilobytes."""
    item = object_schema({"a": text(default="x" * 100_000)})
    doc: Doc = {"l": [{} for _ in range(10_000)]}
    fill_defaults(Structural(object_schema({"l": {"type": "array", "items": item}})), doc)
    filled = [each for each in doc["l"] if each.get("a")]
    # 3 MiB are 3,145,728 bytes: 31 defaults of 100,002 fit.
    assert len(filled) == 31
