"""A custom kind in OpenAPI: its definition in `/openapi/v2` and `/openapi/v3`.

Version 3 shows the schema unchanged. Version 2 cannot express `anyOf` and its kin, null, or objects that keep unknown
fields, and its clients complain about fields it does not name; so these parts are left open. Both get apiVersion, kind
and metadata, and `x-kubernetes-group-version-kind`. Mirrors upstream's openapi builder.
"""

from __future__ import annotations

from typing import Any

from tonnage.documents.custom.structural import EMBEDDED, INT_OR_STRING, PRESERVE
from tonnage.objects.document import Doc, copy
from tonnage.objects.resources import Resource

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_V2_REFS, _V3_REFS = "#/definitions/", "#/components/schemas/"
_COMBINING = ("allOf", "anyOf", "oneOf", "not")
_ABOUT = {
    "apiVersion": "APIVersion defines group and version of this object's schema, such as storage.k8s.io/v1.",
    "kind": "Kind is the name of what this object is.",
    "metadata": "Standard object's metadata: name, labels, owners and what the server keeps about every object.",
}


def kind_definition(schema: Doc, resource: Resource, *, selectable_fields: tuple[str, ...], is_v3: bool) -> Doc:
    if not schema or (not is_v3 and schema.get(PRESERVE)):
        # kubectl would refuse every field that is not named, so none is.
        made: Doc = {"type": "object"}
    else:
        made = _unfolded(schema) if is_v3 else _as_v2(_unfolded(schema))
        made.setdefault("properties", {})
        _add_embedded(made, is_v3)
        made["properties"] = {**made["properties"], **_meta_properties(is_v3)}
    head = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    made["x-kubernetes-group-version-kind"] = [head]
    if is_v3 and selectable_fields:
        made["x-kubernetes-selectable-fields"] = [{"fieldPath": field} for field in selectable_fields]
    return made


def _meta_properties(is_v3: bool) -> dict[str, Doc]:
    ref = {"$ref": f"{_V3_REFS if is_v3 else _V2_REFS}{_META}.ObjectMeta"}
    return {
        "apiVersion": {"type": "string", "description": _ABOUT["apiVersion"]},
        "kind": {"type": "string", "description": _ABOUT["kind"]},
        # In version 3 a reference may have no neighbours, so it stands in `allOf`.
        "metadata": {"description": _ABOUT["metadata"], **({"allOf": [ref]} if is_v3 else ref)},
    }


def _each_below(schema: Doc, change: Any) -> Doc:
    """A copy of a schema with `change` applied to its properties, items and additionalProperties."""
    made = {
        word: copy(said) for word, said in schema.items() if word not in ("properties", "items", "additionalProperties")
    }
    if "properties" in schema:
        made["properties"] = {name: change(below) for name, below in schema["properties"].items()}
    for word in ("items", "additionalProperties"):
        if word in schema:
            made[word] = change(schema[word]) if isinstance(schema[word], dict) else schema[word]
    return made


def _unfolded(schema: Doc) -> Doc:
    """The schema with `x-kubernetes-int-or-string` spelled out, for clients that do not know the word."""
    made = _each_below(schema, _unfolded)
    if made.get("x-kubernetes-int-or-string"):
        first = (made.get("allOf") or [{}])[0]
        if made.get("anyOf") != INT_OR_STRING and first.get("anyOf") != INT_OR_STRING:
            if "anyOf" not in made:
                made["anyOf"] = copy(INT_OR_STRING)
            else:
                made["allOf"] = [{"anyOf": copy(INT_OR_STRING)}, *made.get("allOf", [])]
    return made


def _as_v2(schema: Doc) -> Doc:
    """The schema without what version 2 cannot express, so that kubectl refuses nothing that the server takes."""
    nullable = [name for name, below in (schema.get("properties") or {}).items() if below.get("nullable")]
    made = {word: said for word, said in schema.items() if word not in _COMBINING}
    if isinstance(made.get("required"), list):
        made["required"] = [name for name in made["required"] if name not in nullable]
    additional = made.get("additionalProperties")
    if not made.get("required") or (isinstance(additional, dict) and additional.get("nullable")):
        made.pop("required", None)
    if made.pop("nullable", False):
        for word in ("type", "items", "properties"):
            made.pop(word, None)
    if made.get(PRESERVE):
        for word in ("items", "properties"):
            made.pop(word, None)
        if made.get("type") == "object":
            del made["type"]
    if made.get("type") == "array" and "items" not in made:
        del made["type"]
    if made.get("additionalProperties") is True:  # the default
        del made["additionalProperties"]
    return _each_below(made, _as_v2)


def _add_embedded(schema: Doc, is_v3: bool) -> None:
    """Give every embedded resource, in place, the fields that all resources have."""
    below = [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]
    for each in below:
        if isinstance(each, dict):
            _add_embedded(each, is_v3)
    if not schema.get(EMBEDDED) or (schema.get(PRESERVE) and not is_v3):
        return
    schema["properties"] = {**schema.get("properties", {}), **_meta_properties(is_v3)}
    needed = schema.get("required", [])
    schema["required"] = [*needed, *(name for name in ("kind", "apiVersion") if name not in needed)]
