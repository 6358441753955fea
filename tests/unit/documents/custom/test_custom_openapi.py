"""How a custom kind is published in OpenAPI, in both versions."""

from __future__ import annotations

from support.definition_builders import definition, object_schema, widget_kind
from tonnage.documents.custom.custom_resource import custom_resource
from tonnage.objects.document import Doc

TEXT: Doc = {"type": "string"}
PRESERVE = "x-kubernetes-preserve-unknown-fields"
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def published(spec: Doc, *, is_v3: bool) -> Doc:
    made = widget_kind(spec).openapi_definition(is_v3=is_v3)
    found: Doc = made["properties"]["spec"]
    return found


def test_a_kind_has_its_name_and_the_metadata_of_all_kinds() -> None:
    widget = widget_kind(object_schema({"a": TEXT})).openapi_definition(is_v3=True)
    assert widget["x-kubernetes-group-version-kind"] == [{"group": "example.com", "version": "v1", "kind": "Widget"}]
    assert widget["properties"]["metadata"]["allOf"] == [{"$ref": f"#/components/schemas/{OBJECT_META}"}]
    assert sorted(widget["properties"]) == ["apiVersion", "kind", "metadata", "spec"]


def test_references_of_version_2_stand_among_its_definitions() -> None:
    made = widget_kind({"type": "object"}).openapi_definition(is_v3=False)
    assert made["properties"]["metadata"]["$ref"] == f"#/definitions/{OBJECT_META}"


def test_version_3_shows_the_schema_as_it_is_and_writes_out_int_or_string() -> None:
    spec = object_schema({"n": {"x-kubernetes-int-or-string": True}, "s": {**TEXT, "nullable": True}}, required=["s"])
    assert published(spec, is_v3=True) == object_schema(
        {
            "n": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "s": {**TEXT, "nullable": True},
        },
        required=["s"],
    )


def test_version_2_leaves_out_what_it_has_no_words_for() -> None:
    spec = object_schema(
        {
            "null": {**TEXT, "nullable": True},
            "any": {"type": "object", PRESERVE: True, "properties": {"a": TEXT}},
            "anys": {"type": "array", "items": {"type": "string"}, PRESERVE: True},
            "one": {**TEXT, "oneOf": [{"minLength": 1}], "pattern": "a"},
        },
        required=["null", "one"],
    )
    assert published(spec, is_v3=False) == object_schema(
        {"null": {}, "any": {PRESERVE: True}, "anys": {PRESERVE: True}, "one": {**TEXT, "pattern": "a"}},
        required=["one"],
    )


def test_a_root_that_keeps_everything_says_nothing_in_version_2() -> None:
    kind = custom_resource(definition({"type": "object", PRESERVE: True}), "v1")
    made = kind.openapi_definition(is_v3=False)
    assert set(made) == {"type", "x-kubernetes-group-version-kind"}


def test_an_embedded_resource_has_the_fields_of_every_resource() -> None:
    spec = object_schema({"a": TEXT}, **{"x-kubernetes-embedded-resource": True})
    made = published(spec, is_v3=True)
    assert sorted(made["properties"]) == ["a", "apiVersion", "kind", "metadata"]
    assert made["required"] == ["kind", "apiVersion"]


def test_selectable_fields_are_told() -> None:
    kind = widget_kind(object_schema({"a": TEXT}), selectableFields=[{"jsonPath": ".spec.a"}])
    made = kind.openapi_definition(is_v3=True)
    assert made["x-kubernetes-selectable-fields"] == [{"fieldPath": "spec.a"}]
