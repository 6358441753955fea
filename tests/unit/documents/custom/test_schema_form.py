"""The form of schemas in a definition: known keywords of the right types."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.documents.admit import Findings, Malformed
from tonnage.documents.custom.schema_form import admit_schemas
from tonnage.objects.document import Doc


def admitted(schema: Any) -> tuple[Any, list[str]]:
    made = {"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}}
    findings = Findings()
    admit_schemas(made, findings)
    found = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]  # type: ignore[index]  # the shape above
    return found, [each.removeprefix("spec.versions[0].schema.openAPIV3Schema.") for each in findings.unknown]


def test_unknown_keywords_are_dropped_and_told() -> None:
    schema = {"type": "object", "colour": 1, "properties": {"a": {"type": "string", "const": "x", "if": {}}}}
    assert admitted(schema) == (
        {"type": "object", "properties": {"a": {"type": "string"}}},
        ["colour", "properties.a.const", "properties.a.if"],
    )


def test_nulls_and_zeros_that_go_does_not_write_are_left_out() -> None:
    schema = {"type": "string", "description": "", "nullable": False, "default": None, "minLength": 0, "required": []}
    assert admitted(schema) == ({"type": "string", "minLength": 0}, [])
    assert admitted({"x-kubernetes-preserve-unknown-fields": False}) == (
        {"x-kubernetes-preserve-unknown-fields": False},
        [],
    )


def test_values_that_are_one_thing_or_another() -> None:
    for schema in (
        {"items": {"type": "string"}},
        {"items": [{"type": "string"}]},
        {"additionalProperties": True},
        {"additionalProperties": {"type": "string"}},
        {"dependencies": {"a": ["b"], "c": {"type": "string"}}},
        {"default": {"any": [1]}, "enum": [1, "a", None]},
    ):
        assert admitted(dict(schema)) == (schema, [])


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": 5}, "cannot unmarshal number into Go struct field CustomResourceDefinition.spec.versions.schema."
                      "openAPIV3Schema.type of type string"),
        ({"properties": []}, "cannot unmarshal array .*properties of type map.string.v1.JSONSchemaProps"),
        ({"properties": {"a": "x"}}, "cannot unmarshal string .* of type v1.JSONSchemaProps"),
        ({"minLength": 1.5}, "cannot unmarshal number .* of type int64"),
        ({"minimum": "1"}, "cannot unmarshal string .* of type float64"),
        ({"additionalProperties": 1}, "boolean or JSON schema expected"),
        ({"x-kubernetes-validations": ["a"]}, "cannot unmarshal string .* of type v1.ValidationRule"),
        ([], "cannot unmarshal array"),
    ],
)  # fmt: skip
def test_a_wrong_type_is_malformed(schema: Doc, told: str) -> None:
    with pytest.raises(Malformed, match=told):
        admitted(schema)
