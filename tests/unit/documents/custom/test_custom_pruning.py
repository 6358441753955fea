"""What a schema does not know is dropped, and told for fieldValidation."""

from __future__ import annotations

from typing import Any

import pytest

from support.definition_builders import definition, object_schema, widget, widget_kind
from tonnage.documents.admit import Malformed
from tonnage.documents.custom.custom_resource import custom_resource
from tonnage.objects.document import Doc

TEXT: Doc = {"type": "string"}
PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"


def pruned(schema: Doc, spec: Any) -> tuple[Any, list[str]]:
    doc = widget(spec)
    findings = widget_kind(schema).admit(doc)
    return doc["spec"], findings.unknown


def test_unknown_fields_go_at_every_level_and_are_named() -> None:
    schema = object_schema(
        {"a": object_schema({"b": TEXT}), "list": {"type": "array", "items": object_schema({"c": TEXT})}}
    )
    spec, unknown = pruned(schema, {"a": {"b": "x", "z": 1}, "list": [{"c": "y"}, {"d": {"e": 1}}], "top": [1]})
    assert spec == {"a": {"b": "x"}, "list": [{"c": "y"}, {}]}
    assert sorted(unknown) == ["spec.a.z", "spec.list[1].d", "spec.top"]


def test_an_object_without_properties_loses_everything() -> None:
    assert pruned({"type": "object"}, {"a": {"b": 1}, "c": 2}) == ({}, ["spec.a", "spec.c"])


def test_a_definition_without_a_schema_for_a_field_drops_it_at_the_root() -> None:
    doc = widget({}, other=1)
    assert widget_kind({"type": "object"}).admit(doc).unknown == ["other"]
    assert doc == widget({})


def test_preserved_fields_stay_with_all_that_lies_below() -> None:
    assert pruned({"type": "object", PRESERVE: True}, {"a": {"b": [{"c": 1}]}}) == ({"a": {"b": [{"c": 1}]}}, [])


def test_pruning_begins_again_below_fields_that_are_named() -> None:
    schema = object_schema({"known": object_schema({"a": TEXT})}, **{PRESERVE: True})
    spec, unknown = pruned(schema, {"other": {"x": 1}, "known": {"a": "x", "b": 1}})
    assert spec == {"other": {"x": 1}, "known": {"a": "x"}}
    assert unknown == ["spec.known.b"]


def test_items_of_a_preserving_list_keep_what_is_unknown() -> None:
    schema = {"type": "array", PRESERVE: True, "items": object_schema({"a": object_schema({"b": TEXT})})}
    assert pruned(schema, [{"a": {"b": "x", "c": 1}, "d": 2}]) == ([{"a": {"b": "x"}, "d": 2}], ["spec[0].a.c"])


def test_a_map_keeps_its_names_and_prunes_its_values() -> None:
    schema = {"type": "object", "additionalProperties": object_schema({"a": TEXT})}
    assert pruned(schema, {"x": {"a": "1", "b": 2}, "y": {}}) == ({"x": {"a": "1"}, "y": {}}, ["spec.x.b"])


def test_an_embedded_resource_keeps_its_type_and_its_metadata_by_the_rules_of_all_kinds() -> None:
    schema = object_schema({"spec": object_schema({"a": TEXT})}, **{EMBEDDED: True})
    inner = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "foo": 1}, "spec": {"a": "x", "b": 1}, "c": 1}
    spec, unknown = pruned(schema, inner)
    assert spec == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"a": "x"}}
    assert sorted(unknown) == ["spec.c", "spec.metadata.foo", "spec.spec.b"]


def test_metadata_of_the_resource_itself_is_not_the_schemas_to_prune() -> None:
    doc = widget({}, metadata={"name": "w", "labels": {"a": "b"}, "creationTimestamp": None, "nope": 1})
    findings = custom_resource(definition(object_schema({"metadata": {"type": "object"}})), "v1").admit(doc)
    assert doc["metadata"] == {"name": "w", "labels": {"a": "b"}}
    assert findings.unknown == ["metadata.nope", "spec"]


@pytest.mark.parametrize(
    ("doc", "told"),
    [
        (widget({}, metadata={"labels": {"a": 1}}), "cannot unmarshal number into Go struct field ObjectMeta.labels"),
        (widget({}, metadata="w"), "cannot unmarshal string into Go value of type v1.ObjectMeta"),
        (widget({"kind": 5}), "spec.kind: Invalid value: 5: must be a string"),
    ],
)
def test_metadata_that_cannot_be_read_is_malformed(doc: Doc, told: str) -> None:
    kind = widget_kind({"type": "object", EMBEDDED: True, PRESERVE: True})
    with pytest.raises(Malformed, match=told):
        kind.admit(doc)


def test_names_are_counted_as_the_client_wrote_them() -> None:
    """Strict decoding finds duplicates by that number, so defaults and what was dropped must not change it."""
    doc = widget({"a": {"b": 1}, "z": None})
    schema = object_schema({"a": object_schema({"c": {"type": "string", "default": "x"}})})
    # apiVersion, kind, metadata, name, spec, a, b, z
    assert widget_kind(schema).admit(doc).keys == 8
    assert doc["spec"] == {"a": {"c": "x"}}
