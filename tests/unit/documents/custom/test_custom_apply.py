"""Server-side apply and managed fields of custom resources follow the list and map types of their schema."""

from __future__ import annotations

from typing import Any

import pytest

from support.definition_builders import object_schema, widget, widget_kind
from tonnage.documents.apply.managed_fields import FieldWrite, track_update
from tonnage.documents.apply.server_side_apply import apply
from tonnage.documents.patches.json_patch import PatchFailed
from tonnage.errors import Conflict
from tonnage.objects.document import Doc

T1 = "2026-01-01T00:00:01Z"
TEXT: Doc = {"type": "string"}
PRESERVE = "x-kubernetes-preserve-unknown-fields"
BY_NAME = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
NAMED = object_schema({"name": TEXT, "a": TEXT, "b": TEXT}, required=["name"])


def applied(schema: Doc, live: Doc | None, spec: Any, manager: str, *, force: bool = False) -> Doc:
    kind = widget_kind(schema)
    made = apply(
        FieldWrite(kind.struct, manager=manager, api_version="example.com/v1", now=T1),
        live=live,
        config=widget(spec),
        force=force,
    )
    kind.admit(made)
    return made


def both(schema: Doc, first: Any, second: Any) -> Any:
    """What is there after alice applied one thing and bob another."""
    return applied(schema, applied(schema, None, first, "alice"), second, "bob")["spec"]


def owned(doc: Doc, manager: str) -> Doc:
    (entry,) = (entry for entry in doc["metadata"]["managedFields"] if entry["manager"] == manager)
    fields: Doc = entry["fieldsV1"]
    return fields


def test_objects_merge_field_by_field_unless_they_are_atomic() -> None:
    fields = {"a": TEXT, "b": TEXT}
    assert both(object_schema({"o": object_schema(fields)}), {"o": {"a": "1"}}, {"o": {"b": "2"}}) == {
        "o": {"a": "1", "b": "2"}
    }
    atomic = object_schema({"o": object_schema(fields, **{"x-kubernetes-map-type": "atomic"})})
    with pytest.raises(Conflict, match=r"\.spec\.o"):
        both(atomic, {"o": {"a": "1"}}, {"o": {"b": "2"}})


def test_a_list_of_type_map_merges_by_its_keys() -> None:
    schema = object_schema({"l": {"type": "array", "items": NAMED, **BY_NAME}})
    assert both(schema, {"l": [{"name": "x", "a": "1"}]}, {"l": [{"name": "x", "b": "2"}, {"name": "y"}]}) == {
        "l": [{"name": "x", "a": "1", "b": "2"}, {"name": "y"}]
    }


def test_a_key_that_is_left_out_has_its_default() -> None:
    item = object_schema(
        {"port": {"type": "integer"}, "proto": {**TEXT, "default": "TCP"}, "a": TEXT}, required=["port"]
    )
    keys = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "proto"]}
    doc = applied(object_schema({"l": {"type": "array", "items": item, **keys}}), None, {"l": [{"port": 1}]}, "alice")
    assert list(owned(doc, "alice")["f:spec"]["f:l"]) == ['k:{"port":1,"proto":"TCP"}']


def test_a_set_holds_what_both_put_in_and_an_atomic_list_is_one_field() -> None:
    items = {"type": "array", "items": TEXT}
    assert both(object_schema({"l": {**items, "x-kubernetes-list-type": "set"}}), {"l": ["a"]}, {"l": ["b"]}) == {
        "l": ["a", "b"]
    }
    with pytest.raises(Conflict):
        both(object_schema({"l": items}), {"l": ["a"]}, {"l": ["b"]})


def test_maps_merge_name_by_name() -> None:
    schema = object_schema({"m": {"type": "object", "additionalProperties": TEXT}})
    assert both(schema, {"m": {"a": "1"}}, {"m": {"b": "2"}}) == {"m": {"a": "1", "b": "2"}}


def test_what_no_schema_describes_is_deduced() -> None:
    """Maps merge at any depth; a list is replaced as a whole."""
    schema = object_schema({"any": {"type": "object", PRESERVE: True}})
    assert both(schema, {"any": {"m": {"a": 1}}}, {"any": {"m": {"b": {"c": 2}}}}) == {
        "any": {"m": {"a": 1, "b": {"c": 2}}}
    }
    with pytest.raises(Conflict, match=r"\.spec\.any\.l"):
        both(schema, {"any": {"l": [1]}}, {"any": {"l": [2]}})


def test_a_deduced_value_may_change_its_type_when_it_is_forced() -> None:
    schema = object_schema({"any": {"type": "object", PRESERVE: True}})
    live = applied(schema, None, {"any": {"x": {"deep": 1}}}, "alice")
    assert applied(schema, live, {"any": {"x": 5}}, "bob", force=True)["spec"] == {"any": {"x": 5}}


def test_what_an_applier_no_longer_mentions_goes() -> None:
    schema = object_schema(
        {"l": {"type": "array", "items": NAMED, **BY_NAME}, "any": {"type": "object", PRESERVE: True}}
    )
    live = applied(schema, None, {"l": [{"name": "x"}, {"name": "y"}], "any": {"a": {"b": 1}, "c": 2}}, "alice")
    assert applied(schema, live, {"l": [{"name": "y"}], "any": {"c": 2}}, "alice")["spec"] == {
        "l": [{"name": "y"}],
        "any": {"c": 2},
    }


def test_unknown_fields_and_wrong_types_do_not_fit() -> None:
    schema = object_schema({"n": {"type": "integer"}, "iors": {"x-kubernetes-int-or-string": True}})
    applied(schema, None, {"iors": "5%"}, "alice")
    applied(schema, None, {"iors": 5}, "alice")
    with pytest.raises(PatchFailed, match=r"\.spec\.nope: field not declared in schema"):
        applied(schema, None, {"nope": 1}, "alice")
    with pytest.raises(PatchFailed, match=r"\.spec\.n: expected numeric"):
        applied(schema, None, {"n": "x"}, "alice")


def test_fields_of_an_update_belong_to_whoever_wrote_them() -> None:
    """No Go type stands behind a custom resource: `spec` itself is added with what is in it."""
    doc = widget({"o": {"a": "1"}, "l": [{"name": "x", "a": "1"}]}, status={"n": 1})
    schema = object_schema({"o": object_schema({"a": TEXT}), "l": {"type": "array", "items": NAMED, **BY_NAME}})
    track_update(
        FieldWrite(widget_kind(schema).struct, manager="m", api_version="example.com/v1", now=T1), old=None, new=doc
    )
    assert owned(doc, "m")["f:spec"] == {
        ".": {},
        "f:o": {".": {}, "f:a": {}},
        "f:l": {".": {}, 'k:{"name":"x"}': {".": {}, "f:a": {}, "f:name": {}}},
    }


def test_an_embedded_resource_merges_its_metadata_as_metadata() -> None:
    schema = object_schema({"t": {"type": "object", "x-kubernetes-embedded-resource": True, PRESERVE: True}})
    head = {"apiVersion": "v1", "kind": "Pod"}
    first = {"t": {**head, "metadata": {"name": "p", "labels": {"a": "1"}, "finalizers": ["x/y"]}}}
    second = {"t": {**head, "metadata": {"name": "p", "labels": {"b": "2"}, "finalizers": ["x/z"]}}}
    merged = both(schema, first, second)["t"]["metadata"]
    assert merged == {"name": "p", "labels": {"a": "1", "b": "2"}, "finalizers": ["x/y", "x/z"]}
