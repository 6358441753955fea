"""Which documents have the types of their schema, so that their fields can be owned."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.documents.apply.server_side_apply import fits
from tonnage.documents.custom.structural import Structural, struct_of

SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "number": {"type": "integer"},
        "flag": {"type": "boolean"},
        "either": {"x-kubernetes-int-or-string": True},
        "any": {"x-kubernetes-preserve-unknown-fields": True},
        "names": {"type": "object", "additionalProperties": {"type": "string"}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": {"type": "string"}}},
        },
        "list": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}}},
    },
}
STRUCT = struct_of(Structural(SCHEMA), group="example.com", version="v1", kind="Box")


@pytest.mark.parametrize(
    "doc",
    [
        {},
        {"text": None, "number": 1, "flag": False, "either": "5%", "any": {"a": [1]}},
        {"number": 1.5, "names": {"a": "b", "c": None}, "unknown": {"a": 1}},
        {"set": ["a", "a"], "map": [{"k": "a"}, {}], "list": [None, {"k": "a"}]},
    ],
)
def test_these_have(doc: dict[str, Any]) -> None:
    assert fits(STRUCT, doc)


@pytest.mark.parametrize(
    "doc",
    [
        {"text": 1},
        {"text": {}},
        {"number": "1"},
        {"number": True},
        {"flag": "true"},
        {"names": []},
        {"names": {"a": 1}},
        {"set": [None]},
        {"set": [{}]},
        {"set": "a"},
        {"map": ["a"]},
        {"map": [None]},
        {"list": ["a"]},
        {"list": [{"k": {}}]},
    ],
)
def test_these_have_not(doc: dict[str, Any]) -> None:
    assert not fits(STRUCT, doc)
