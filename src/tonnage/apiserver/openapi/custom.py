"""The schemas of custom resources in OpenAPI: what their definitions say, with metadata as every kind has it.

Version 3 takes nearly all of a definition's schema. Version 2 has no word for choices and nulls, so that what they
concern is said to be anything at all; upstream does the same (`ToStructuralOpenAPIV2`).
"""

from __future__ import annotations

from typing import Any

from tonnage.apiserver.openapi import types
from tonnage.documents.custom.custom_resource import CustomResource
from tonnage.documents.schema import schema_of
from tonnage.objects.document import Doc

_NOT_IN_V2 = ("anyOf", "oneOf", "allOf", "not", "nullable", "default", "enum", "title", "example", "externalDocs")
_NEVER = ("x-kubernetes-validations",)


def definition_of(resource: CustomResource, dialect: types.Dialect) -> Doc:
    """The definition of one kind."""
    is_v2 = dialect is types.V2
    made: Doc = _schema(resource.custom.schema.source, is_v2)
    if made.get("x-kubernetes-preserve-unknown-fields") and is_v2:
        made = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    made["type"] = "object"
    head = schema_of("", "v1", "ConfigMap").fields
    properties: Doc = made.setdefault("properties", {})
    for name in ("apiVersion", "kind"):
        properties[name] = {"description": head[name].description, "type": "string"}
    metadata = dialect.ref(schema_of("meta", "v1", "ObjectMeta").full_name)
    about = {"description": head["metadata"].description}
    properties["metadata"] = {**about, "allOf": [metadata]} if dialect.ref_stands_alone else {**about, **metadata}
    made["properties"] = dict(sorted(properties.items()))
    gvk = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    made["x-kubernetes-group-version-kind"] = [gvk]
    return made


def _schema(schema: Any, is_v2: bool) -> Any:
    if not isinstance(schema, dict):
        return schema
    left_out = (*_NEVER, *_NOT_IN_V2) if is_v2 else _NEVER
    if is_v2 and (schema.get("nullable") or schema.get("x-kubernetes-int-or-string")):
        kept = {key: schema[key] for key in ("description",) if key in schema}
        return kept | {key: value for key, value in schema.items() if key.startswith("x-") and key not in _NEVER}
    made: Doc = {key: value for key, value in schema.items() if key not in left_out}
    if "properties" in made:
        made["properties"] = {name: _schema(below, is_v2) for name, below in made["properties"].items()}
    for key in ("items", "additionalProperties", "not"):
        if key in made:
            made[key] = _schema(made[key], is_v2)
    for key in ("allOf", "anyOf", "oneOf"):
        if key in made:
            made[key] = [_schema(each, is_v2) for each in made[key]]
    if is_v2 and made.get("additionalProperties") is True:
        del made["additionalProperties"]
    return made
