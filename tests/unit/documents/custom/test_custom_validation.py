"""Values against a schema: what is wrong, in upstream's words and at upstream's paths."""

from __future__ import annotations

from typing import Any

import pytest

from support.definition_builders import definition, object_schema, widget, widget_kind
from tonnage.documents.custom.custom_resource import custom_resource
from tonnage.objects.document import Doc


def told(schema: Doc, value: Any, old: Any = None) -> list[str]:
    """What is wrong with `spec.x`."""
    kind = widget_kind(object_schema({"x": schema}))
    if old is None:
        return [str(error) for error in kind.validate(widget({"x": value}))]
    return [str(error) for error in kind.validate_update(widget({"x": value}), widget({"x": old}))]


def wrong(sentence: str, value: str) -> list[str]:
    return [f"spec.x: Invalid value: {value}: spec.x in body {sentence}"]


@pytest.mark.parametrize(
    ("kind", "value"),
    [("string", ""), ("integer", 1), ("integer", 1.0), ("number", 1), ("number", 1.5), ("boolean", False),
     ("object", {}), ("array", [])],
)  # fmt: skip
def test_values_of_the_right_type(kind: str, value: Any) -> None:
    assert told({"type": kind, "items": {"type": "string"}}, value) == []


@pytest.mark.parametrize(
    ("kind", "value", "found"),
    [("string", 1, "integer"), ("string", True, "boolean"), ("integer", "1", "string"), ("integer", 1.5, "number"),
     ("integer", True, "boolean"), ("boolean", 1, "integer"), ("object", [], "array"), ("array", {}, "object"),
     ("number", "1", "string"), ("string", None, "null")],
)  # fmt: skip
def test_values_of_a_wrong_type(kind: str, value: Any, found: str) -> None:
    schema = {"type": kind, "items": {"type": "string"}}
    errors = wrong(f'must be of type {kind}: "{found}"', f'"{found}"')
    if (kind, found) == ("integer", "number"):
        errors.append('<nil>: Invalid value: "": Checked value must be of type integer (default format) in spec.x')
    assert told(schema, value) == errors


def test_a_wrong_type_is_a_cause_of_its_own() -> None:
    errors = widget_kind(object_schema({"x": {"type": "integer"}})).validate(widget({"x": "1"}))
    assert [error.reason for error in errors] == ["FieldValueTypeInvalid"]


@pytest.mark.parametrize(
    ("schema", "good", "bad", "sentence"),
    [
        ({"type": "integer", "minimum": 2}, 2, 1, "should be greater than or equal to 2"),
        ({"type": "integer", "minimum": 2, "exclusiveMinimum": True}, 3, 2, "should be greater than 2"),
        ({"type": "number", "maximum": 2.5}, 2.5, 2.6, "should be less than or equal to 2.5"),
        ({"type": "integer", "maximum": 2, "exclusiveMaximum": True}, 1, 2, "should be less than 2"),
        ({"type": "integer", "multipleOf": 3}, 9, 10, "should be a multiple of 3"),
        ({"type": "number", "multipleOf": 0.1}, 0.3, 0.35, "should be a multiple of 0.1"),
        ({"type": "string", "minLength": 2}, "äö", "ä", "should be at least 2 chars long"),
        ({"type": "string", "pattern": "^[a-z]+$"}, "ab", "aB", "should match '^[a-z]+$'"),
        ({"type": "string", "format": "date-time"}, "2026-01-01T00:00:00Z", "x", 'must be of type date-time: "x"'),
    ],
)  # fmt: skip
def test_bounds_lengths_patterns_and_formats(schema: Doc, good: Any, bad: Any, sentence: str) -> None:
    assert told(schema, good) == []
    shown = f'"{bad}"' if isinstance(bad, str) else str(bad)
    assert told(schema, bad) == wrong(sentence, shown)


def test_lengths_are_counted_in_characters_and_what_is_too_long_is_not_repeated() -> None:
    assert told({"type": "string", "maxLength": 2}, "äö") == []
    assert told({"type": "string", "maxLength": 2}, "äöü") == ["spec.x: Too long: may not be more than 2 bytes"]


def test_a_number_beyond_its_format_is_told_at_no_field() -> None:
    sentence = '<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.x'
    assert told({"type": "integer", "format": "int32"}, 2**31 - 1) == []
    assert told({"type": "integer", "format": "int32"}, 2**31) == [sentence]


def test_a_format_that_is_not_known_is_no_rule() -> None:
    assert told({"type": "string", "format": "phone"}, "x") == []
    assert told({"type": "integer", "format": "uint8"}, 1000) == []


def test_choices() -> None:
    schema = {"type": "string", "enum": ["b", "a"]}
    assert told(schema, "a") == []
    assert told(schema, "c") == ['spec.x: Unsupported value: "c": supported values: "b", "a"']
    assert told({"type": "integer", "enum": [1, 2]}, 1.0) == []
    assert told({"enum": [1], "x-kubernetes-preserve-unknown-fields": True}, True) == [
        'spec.x: Unsupported value: true: supported values: "1"'
    ]


def test_lists_have_items_of_a_schema_and_a_size() -> None:
    schema = {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3}
    assert told(schema, [1, 2]) == []
    assert told(schema, [1]) == wrong("should have at least 2 items", "1")
    assert told(schema, [1, 2, 3, 4]) == ["spec.x: Too many: 4: must have at most 3 items"]
    assert told(schema, [1, "b"]) == [
        'spec.x[1]: Invalid value: "string": spec.x[1] in body must be of type integer: "string"'
    ]


def test_objects_have_required_fields_and_a_size() -> None:
    schema = object_schema({"a": {"type": "string"}}, required=["a", "b"], minProperties=1)
    assert told(schema, {"a": "1"}) == ["spec.x.b: Required value"]
    assert told(schema, {}) == [*wrong("should have at least 1 properties", "0"), *_required("a", "b")]
    texts = {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 1}
    assert told(texts, {"a": "", "b": ""}) == ["spec.x: Too many: 2: must have at most 1 item"]


def _required(*fields: str) -> list[str]:
    return [f"spec.x.{field}: Required value" for field in fields]


def test_values_of_a_map_have_its_schema() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    assert told(schema, {"a.b": 1}) == []
    assert told(schema, {"a.b": "1"}) == [
        'spec.x.a.b: Invalid value: "string": spec.x.a.b in body must be of type integer: "string"'
    ]


def test_required_fields_at_the_root() -> None:
    kind = widget_kind({"type": "object"})
    kind.schema.source["required"] = ["spec"]
    assert [str(error) for error in kind.validate(widget())] == ["spec: Required value"]


def test_null_is_for_fields_that_take_it() -> None:
    assert told({"type": "string", "nullable": True}, None) == []
    assert told({"type": "string"}, None) == wrong('must be of type string: "null"', '"null"')


def test_int_or_string() -> None:
    schema = {"x-kubernetes-int-or-string": True, "pattern": "^[0-9]+%?$", "minimum": 1}
    assert told(schema, 5) == told(schema, "5%") == []
    assert told(schema, True) == wrong('must be of type integer,string: "boolean"', '"boolean"')
    assert told(schema, "a") == wrong("should match '^[0-9]+%?$'", '"a"')
    assert told(schema, 0) == wrong("should be greater than or equal to 1", "0")


def test_any_of_tells_what_the_best_alternative_misses() -> None:
    schema = object_schema(
        {"a": {"type": "string"}, "b": {"type": "string"}},
        anyOf=[{"required": ["a"]}, {"required": ["b"], "properties": {"b": {"minLength": 2}}}],
    )
    assert told(schema, {"a": ""}) == []
    assert told(schema, {"b": "1"}) == [
        '<nil>: Invalid value: "": "spec.x" must validate at least one schema (anyOf)',
        'spec.x.b: Invalid value: "1": spec.x.b in body should be at least 2 chars long',
    ]


def test_one_of_takes_exactly_one() -> None:
    schema = object_schema(
        {"a": {"type": "string"}, "b": {"type": "string"}}, oneOf=[{"required": ["a"]}, {"required": ["b"]}]
    )
    told_one = '<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). '
    assert told(schema, {"a": ""}) == []
    assert told(schema, {"a": "", "b": ""}) == [f"{told_one}Found 2 valid alternatives"]
    assert told(schema, {}) == [f"{told_one}Found none valid", "spec.x.a: Required value"]


def test_all_of_and_not() -> None:
    schema = {"type": "integer", "allOf": [{"minimum": 1}, {"maximum": 5}], "not": {"enum": [3]}}
    assert told(schema, 2) == []
    assert told(schema, 9) == [
        *wrong("should be less than or equal to 5", "9"),
        '<nil>: Invalid value: "": "spec.x" must validate all the schemas (allOf)',
    ]
    assert told(schema, 3) == ['<nil>: Invalid value: "": "spec.x" must not validate the schema (not)']


def test_a_set_holds_nothing_twice() -> None:
    schema = {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}
    assert told(schema, ["a", "b"]) == []
    assert told(schema, ["a", "b", "a", "a"]) == ['spec.x[2]: Duplicate value: "a"']


def test_a_list_of_type_map_holds_no_key_twice() -> None:
    schema = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name", "port"],
        "items": object_schema({"name": {"type": "string"}, "port": {"type": "integer"}}),
    }
    assert told(schema, [{"name": "a", "port": 1}, {"name": "a", "port": 2}]) == []
    assert told(schema, [{"name": "a", "port": 1}, {"port": 1, "name": "a", "other": 1}]) == [
        'spec.x[1]: Duplicate value: {"name":"a","port":1}'
    ]
    assert told(schema, [{"name": "a"}, {"name": "a"}]) == ['spec.x[1]: Duplicate value: {"name":"a"}']


def test_an_embedded_resource_says_what_it_is_and_has_legal_metadata() -> None:
    schema = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    assert told(schema, {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "x-"}}) == []
    assert told(schema, {}) == ["spec.x.apiVersion: Required value", "spec.x.kind: Required value"]
    assert told(schema, {"apiVersion": "a/b/c", "kind": "", "metadata": {"labels": {"a b": ""}}})[:2] == [
        'spec.x.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c',
        'spec.x.kind: Invalid value: "": must not be empty',
    ]
    errors = told(schema, {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a b": ""}}})
    assert [error.split(":")[0] for error in errors] == ["spec.x.metadata.labels"]


# -- updates ----------------------------------------------------------------------------------------------------------


def test_what_was_wrong_and_did_not_change_may_stay() -> None:
    schema = object_schema({"a": {"type": "string", "minLength": 2}, "b": {"type": "string", "minLength": 2}})
    assert told(schema, {"a": "1", "b": "22"}, old={"a": "1", "b": "33"}) == []
    assert told(schema, {"a": "2", "b": "22"}, old={"a": "1", "b": "33"}) == [
        'spec.x.a: Invalid value: "2": spec.x.a in body should be at least 2 chars long'
    ]


def test_another_type_is_a_change_though_python_calls_it_equal() -> None:
    schema = object_schema({"n": {"type": "integer"}})
    assert told(schema, {"n": True}, old={"n": 1}) == [
        'spec.x.n: Invalid value: "boolean": spec.x.n in body must be of type integer: "boolean"'
    ]


def test_items_are_told_apart_by_their_keys_and_by_nothing_else() -> None:
    items = object_schema({"name": {"type": "string"}, "n": {"type": "integer", "minimum": 5}})
    by_name = {
        "type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
    }  # fmt: skip
    old, new = [{"name": "a", "n": 1}], [{"name": "b", "n": 9}, {"name": "a", "n": 1}]
    assert told(by_name, new, old) == []
    assert len(told({"type": "array", "items": items}, new, old)) == 1


def test_duplicates_that_were_there_before_do_not_hold_up_a_change() -> None:
    schema = {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}
    assert told(schema, ["a", "a", "b"], old=["a", "a"]) == []
    assert told(schema, ["a", "a"], old=["a"]) == ['spec.x[1]: Duplicate value: "a"']


def test_through_the_status_endpoint_only_status_is_judged() -> None:
    schema = object_schema(
        {
            "spec": object_schema({"n": {"type": "integer"}}),
            "status": object_schema({"n": {"type": "integer", "format": "int32"}, "s": {"type": "string"}}),
        }
    )
    kind = custom_resource(definition(schema, subresources={"status": {}}), "v1")
    old = widget({"n": "wrong"}, status={"n": "wrong as well"})
    assert kind.validate_status(widget({"n": "wrong"}, status={"n": "wrong as well", "s": ""}), old) == []
    errors = kind.validate_status(widget({"n": "wrong"}, status={"n": 2**40, "s": 1}), old)
    assert [str(error) for error in errors] == [
        'status: Invalid value: "": Checked value must be of type integer with format int32 in n',
        'status.s: Invalid value: "integer": s in body must be of type string: "integer"',
    ]
    assert kind.validate_status(widget({"n": "wrong"}), old) == []
