"""Which schemas a definition may have: structural, of keywords that a server can follow, with defaults that fit."""

from __future__ import annotations

from typing import Any

import pytest

from support.definition_builders import object_schema
from tonnage.documents.custom.schema_rules import openapi_schema_errors
from tonnage.objects.document import Doc

TEXT: Doc = {"type": "string"}
PRESERVE, EMBEDDED = "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"
INT_OR_STRING = "x-kubernetes-int-or-string"
LIST_TYPE, KEYS, MAP_TYPE = "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"


def told(schema: Doc) -> list[str]:
    """What is wrong with a whole schema, which stands at `s`."""
    return [str(error) for error in openapi_schema_errors(schema, "s")]


def field(schema: Doc, **more: Any) -> list[str]:
    """What is wrong with the schema of field `x`; its path is told as `x`."""
    return [each.replace("s.properties[x]", "x") for each in told(object_schema({"x": schema}, **more))]


def a_list(items: Doc, **more: Any) -> Doc:
    return {"type": "array", "items": items, **more}


@pytest.mark.parametrize(
    "schema",
    [
        TEXT,
        {PRESERVE: True},
        {"type": "object", PRESERVE: True},
        {INT_OR_STRING: True},
        {INT_OR_STRING: True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        {INT_OR_STRING: True, "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"minimum": 1}]},
        object_schema({"a": TEXT}, allOf=[{"properties": {"a": {"minLength": 1}}}], **{"not": {"required": ["a"]}}),
        {"type": "object", "additionalProperties": TEXT},
        {"type": "object", EMBEDDED: True, PRESERVE: True},
        a_list(TEXT, **{LIST_TYPE: "set"}),
        a_list(object_schema({"n": TEXT}, required=["n"]), **{LIST_TYPE: "map", KEYS: ["n"]}),
        a_list(object_schema({"n": {**TEXT, "default": ""}}), **{LIST_TYPE: "map", KEYS: ["n"]}),
        {"type": "object", MAP_TYPE: "atomic", "properties": {"a": TEXT}},
        {**TEXT, "default": "a", "enum": ["a", "b"]},
    ],
)
def test_schemas_that_are_fine(schema: Doc) -> None:
    assert field(schema) == []


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({}, ["x.type: Required value: must not be empty for specified object fields"]),
        ({"type": "array"}, ["x.items: Required value: must be specified"]),
        (a_list({}), ["x.items.type: Required value: must not be empty for specified array items"]),
        ({"type": "object", "additionalProperties": {}},
         ["x.additionalProperties.type: Required value: must not be empty for specified object fields"]),
        ({INT_OR_STRING: True, PRESERVE: True},
         [f"x.{PRESERVE}: Invalid value: true: must be false if {INT_OR_STRING} is true"]),
        ({EMBEDDED: True, PRESERVE: True}, [f"x.type: Required value: must be object if {EMBEDDED} is true"]),
        ({"type": "object", EMBEDDED: True},
         [f"x.properties: Required value: must not be empty if {EMBEDDED} is true without {PRESERVE}"]),
        ({**TEXT, "anyOf": [{"type": "string"}]}, ["x.anyOf[0].type: Forbidden: must be empty to be structural"]),
        ({**TEXT, "not": {"default": 1}}, ["x.not.default: Forbidden: must be undefined to be structural"]),
        ({**TEXT, "oneOf": [{"nullable": True, "description": "d"}]},
         ["x.oneOf[0].description: Forbidden: must be empty to be structural",
          "x.oneOf[0].nullable: Forbidden: must be false to be structural"]),
        (object_schema({}, allOf=[{"properties": {"metadata": {"minProperties": 1}}}]),
         ["x.allOf[0].properties[metadata]: Forbidden: must not be specified in a nested context"]),
        ({**TEXT, "pattern": "("},
         ['x.pattern: Invalid value: "(": must be a valid regular expression, but isn\'t: error parsing regexp: '
          "missing closing ): `(`"]),
        ({**TEXT, "pattern": "(?=a)"},
         ['x.pattern: Invalid value: "(?=a)": must be a valid regular expression, but isn\'t: error parsing regexp: '
          "invalid or unsupported Perl syntax: `(?=`"]),
    ],
)  # fmt: skip
def test_what_keeps_a_schema_from_being_structural(schema: Doc, expected: list[str]) -> None:
    assert field(schema) == expected


def test_the_root_is_an_object_that_names_its_fields() -> None:
    assert told({}) == ["s.type: Required value: must not be empty at the root"]
    assert told({"type": "string"}) == ['s.type: Invalid value: "string": must be object at the root']
    assert told({"type": "object", "additionalProperties": TEXT}) == [
        "s.additionalProperties: Forbidden: must not be used at the root"
    ]
    assert told({"type": "object", "nullable": True}) == ["s.nullable: Forbidden: nullable cannot be true at the root"]


def test_what_is_judged_inside_any_of_is_declared_outside() -> None:
    schema = object_schema({"x": object_schema({"a": TEXT})}, anyOf=[{"properties": {"x": {"properties": {"b": {}}}}}])
    assert told(schema) == [
        "s.properties[x].properties[b]: Required value: because it is defined in s.anyOf[0].properties[x].properties[b]"
    ]


def test_metadata_may_restrict_names_and_nothing_else() -> None:
    assert told(object_schema({"metadata": object_schema({"name": {**TEXT, "maxLength": 9}})})) == []
    for metadata in (object_schema({"labels": {"type": "object"}}), {"type": "object", "minProperties": 1}):
        assert told(object_schema({"metadata": metadata})) == [
            "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but "
            "metadata is implicitly specified"
        ]
    assert told(object_schema({"metadata": TEXT, "kind": {"type": "integer"}})) == [
        's.properties[kind].type: Invalid value: "integer": must be string',
        's.properties[metadata].type: Invalid value: "string": must be object',
    ]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "date"}, ['x.type: Unsupported value: "date": supported values: "array", "boolean", "integer", '
                            '"number", "object", "string"']),
        ({**TEXT, "$ref": "#/a"}, ["x.$ref: Forbidden: $ref is not supported"]),
        ({**TEXT, "id": "a"}, ["x.id: Forbidden: id is not supported"]),
        ({**TEXT, "definitions": {"a": TEXT}}, ["x.definitions: Forbidden: definitions is not supported"]),
        ({**TEXT, "dependencies": {"a": ["b"]}}, ["x.dependencies: Forbidden: dependencies is not supported"]),
        ({**TEXT, "patternProperties": {"a": TEXT}},
         ["x.patternProperties: Forbidden: patternProperties is not supported"]),
        (a_list(TEXT, uniqueItems=True),
         ["x.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes "
          "quadratic"]),
        ({"type": "object", "properties": {"a": TEXT}, "additionalProperties": TEXT},
         ["x.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"]),
        ({**TEXT, PRESERVE: False}, [f"x.{PRESERVE}: Invalid value: false: must be true or undefined"]),
        ({**TEXT, LIST_TYPE: "set"}, [f'x.type: Invalid value: "string": must be array if {LIST_TYPE} is specified']),
        (a_list(TEXT, **{LIST_TYPE: "bag"}),
         [f'x.{LIST_TYPE}: Unsupported value: "bag": supported values: "atomic", "set", "map"']),
        (a_list(TEXT, **{KEYS: ["a"]}), [f"x.{LIST_TYPE}: Required value: must be map if {KEYS} is non-empty"]),
        (a_list(TEXT, **{LIST_TYPE: "map", KEYS: ["a"]}),
         [f'x.items.type: Invalid value: "string": must be object if parent array\'s {LIST_TYPE} is map']),
        (a_list(object_schema({"n": TEXT}), **{LIST_TYPE: "map"}),
         [f"x.{KEYS}: Required value: must not be empty if {LIST_TYPE} is map"]),
        (a_list(object_schema({"n": TEXT}), **{LIST_TYPE: "map", KEYS: ["n"]}),
         [f"x.items.properties[n].default: Required value: this property is in {KEYS}, so it must have a default or be "
          "a required property"]),
        (a_list(object_schema({"n": TEXT}), **{LIST_TYPE: "map", KEYS: ["m"]}),
         [f'x.{KEYS}: Invalid value: ["m"]: entries must all be names of item properties']),
        (a_list(object_schema({"n": TEXT}), **{LIST_TYPE: "set"}),
         [f"x.items.{MAP_TYPE}: Invalid value: null: must be atomic as item of a list with {LIST_TYPE}=set"]),
        (a_list({**TEXT, "nullable": True}, **{LIST_TYPE: "set"}),
         [f"x.items.nullable: Forbidden: cannot be nullable when {LIST_TYPE} is set"]),
        ({**TEXT, MAP_TYPE: "atomic"}, [f'x.type: Invalid value: "string": must be object if {MAP_TYPE} is specified']),
        ({"type": "object", MAP_TYPE: "deep"},
         [f'x.{MAP_TYPE}: Unsupported value: "deep": supported values: "atomic", "granular"']),
        ({**TEXT, "x-kubernetes-validations": [{"rule": " "}]},
         ["x.x-kubernetes-validations[0].rule: Required value: rule is not specified"]),
        ({**TEXT, "x-kubernetes-validations": [{"rule": "a\nb"}]},
         ["x.x-kubernetes-validations[0].message: Required value: message must be specified if rule contains line "
          "breaks"]),
    ],
)  # fmt: skip
def test_keywords_that_a_server_cannot_follow(schema: Doc, expected: list[str]) -> None:
    assert field(schema) == expected


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({**TEXT, "default": 5}, ['x.default: Invalid value: "integer":  in body must be of type string: "integer"']),
        ({**TEXT, "minLength": 2, "default": "a"},
         ['x.default: Invalid value: "a":  in body should be at least 2 chars long']),
        (object_schema({"a": TEXT}, default={"b": 1}),
         ['x.default: Invalid value: {"b":1}: must not have unknown fields']),
        (object_schema({"a": {**TEXT, "enum": ["x"]}}, default={"a": "y"}),
         ['x.default.a: Unsupported value: "y": supported values: "x"']),
        ({"type": "object", PRESERVE: True, "default": {"any": 1}}, []),
    ],
)  # fmt: skip
def test_a_default_is_what_the_schema_takes(schema: Doc, expected: list[str]) -> None:
    assert field(schema) == expected


def test_there_are_no_defaults_in_metadata_of_the_resource_itself() -> None:
    schema = object_schema(
        {"metadata": object_schema({"name": {**TEXT, "default": "a"}}), "kind": {**TEXT, "default": "K"}}
    )
    assert [each for each in told(schema) if "Forbidden" in each] == [
        "s.properties[metadata].properties[name].default: Forbidden: must not be set in top-level metadata",
        "s.properties[kind].default: Forbidden: must not be set in top-level kind",
    ]
