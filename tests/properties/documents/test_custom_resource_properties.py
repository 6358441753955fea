"""Custom resources, for any structural schema and any document.

A document that was admitted is not changed by being admitted again. Whatever is wrong with a document or a schema comes
back as field errors, and nothing is raised. No pattern takes long.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from support.definition_builders import DEFINITIONS, definition, object_schema, widget
from tonnage.documents.admit import Findings, Malformed, admit
from tonnage.documents.apply.managed_fields import FieldWrite, track_update
from tonnage.documents.custom.custom_resource import CustomResource, custom_resource
from tonnage.documents.schema import schema_of
from tonnage.objects.document import Doc, copy
from tonnage.objects.texts.go_regexp import InvalidPattern, compile_go

NAMES = st.sampled_from(["a", "b", "c", "kind", "metadata", "x-y", ""])
SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text("ab\n1", max_size=3)
VALUES = st.recursive(
    SCALARS, lambda below: st.lists(below, max_size=3) | st.dictionaries(NAMES, below, max_size=3), max_leaves=12
)
SCALAR_SCHEMAS: st.SearchStrategy[Doc] = st.sampled_from(
    [
        {"type": "string", "minLength": 1, "pattern": "^(a+)+$"},
        {"type": "string", "default": "d"},
        {"type": "string", "nullable": True, "enum": ["a", "b"]},
        {"type": "string", "format": "date-time"},
        {"type": "string", "format": "email"},
        {"type": "integer", "minimum": 0, "default": 1},
        {"type": "integer", "format": "int32", "multipleOf": 3},
        {"type": "number", "maximum": 5, "exclusiveMaximum": True},
        {"type": "boolean"},
        {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        {"x-kubernetes-preserve-unknown-fields": True},
        {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
        {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        {
            "type": "array",
            "items": object_schema({"a": {"type": "string", "default": "k"}, "b": {"type": "integer"}}),
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["a"],
        },
        object_schema({"a": {"type": "string"}}, oneOf=[{"required": ["a"]}, {"required": ["b"]}], default={"a": "x"}),
    ]
)


def objects(below: st.SearchStrategy[Doc]) -> st.SearchStrategy[Doc]:
    fields = st.dictionaries(st.sampled_from(["a", "b", "c"]), below, min_size=1, max_size=3)
    return st.one_of(
        fields.map(object_schema),
        fields.map(lambda made: object_schema(made, required=sorted(made)[:1])),
        fields.map(lambda made: object_schema(made, **{"x-kubernetes-preserve-unknown-fields": True})),
        below.map(lambda made: {"type": "object", "additionalProperties": made, "maxProperties": 2}),
        below.map(lambda made: {"type": "array", "items": made, "maxItems": 2}),
    )


SCHEMAS = st.recursive(SCALAR_SCHEMAS, objects, max_leaves=5)


def admitted(kind: CustomResource, doc: Doc) -> Findings | None:
    try:
        return kind.admit(doc)
    except Malformed:  # metadata of an embedded resource that cannot be read, and nothing else
        return None


@settings(max_examples=tries(40), deadline=None)
@given(SCHEMAS, VALUES, VALUES)
def test_a_second_pass_changes_nothing_and_errors_are_field_errors(schema: Doc, value: Any, other: Any) -> None:
    made = definition(object_schema({"spec": schema}))
    assert [str(error) for error in DEFINITIONS.validate(made)] == []
    kind = custom_resource(made, "v1")
    doc, old = widget(value), widget(other)
    if admitted(kind, doc) is None or admitted(kind, old) is None:
        return
    once = copy(doc)
    assert kind.admit(doc).unknown == []
    assert doc == once
    for error in [*kind.validate(doc), *kind.validate_update(doc, old)]:
        assert str(error)
    # Metadata of embedded resources is judged every time, as upstream has it; all else may stay as it was.
    still = {str(error) for error in kind.validate_update(doc, doc)}
    assert still <= {str(error) for error in kind.validate(doc)}
    assert all("apiVersion" in told or "kind" in told or "metadata" in told for told in still)
    assert doc == once
    track_update(FieldWrite(kind.struct, manager="m", api_version="example.com/v1", now=""), old=old, new=copy(doc))
    for is_v3 in (False, True):
        assert kind.openapi_definition(is_v3=is_v3)
    assert len([column.cell(doc, str) for column in kind.columns]) == 1


@settings(max_examples=tries(60), deadline=None)
@given(st.recursive(
    SCALARS | st.sampled_from(["object", "array", "string"]),
    lambda below: st.lists(below, max_size=2) | st.dictionaries(
        st.sampled_from(["type", "properties", "items", "additionalProperties", "anyOf", "not", "default", "enum",
                         "required", "pattern", "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "minimum", "a",
                         "x-kubernetes-embedded-resource", "x-kubernetes-validations", "metadata", "nullable"]),
        below, max_size=4),
    max_leaves=15,
).filter(lambda value: isinstance(value, dict)))  # fmt: skip
def test_any_schema_is_malformed_or_judged_by_field_errors(schema: Doc) -> None:
    made = {"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}}
    try:
        admit(schema_of("apiextensions.k8s.io", "v1", "CustomResourceDefinition"), made)
    except Malformed:
        return
    assert all(map(str, DEFINITIONS.validate(made)))
    assert all(DEFINITIONS.warnings(made, None))


@settings(max_examples=tries(60), deadline=None)
@given(st.text(r"ab()|*+?[]{}1,^$.\-d:=!<>Pipn", max_size=12), st.text("ab1\n-", max_size=20))
def test_any_pattern_is_refused_or_answers(pattern: str, text: str) -> None:
    try:
        compiled = compile_go(pattern)
    except InvalidPattern as exc:
        assert exc.problem
        return
    assert compiled.search(text) in (True, False)


def test_patterns_that_take_others_hours_take_one_pass() -> None:
    """A hundred thousand characters; going back would never end."""
    text = "a" * 100_000 + "!"
    for pattern in ("^(a+)+$", "^(a|aa)*$", "^(a*)*b$", "^a*a*a*a*a*b$", "(a?){50}a{50}$"):
        assert not compile_go(pattern).search(text)
