"""Converts the schemas of `documents/schema.py` to OpenAPI, in both versions.

Extensions hold what kubectl came for: `x-kubernetes-patch-strategy` and `-merge-key` for the strategic merge patch of
`kubectl apply`, `x-kubernetes-list-type`, `-list-map-keys` and `-map-type` for server-side apply, and
`x-kubernetes-group-version-kind` to find a kind. Type names are upstream's (`io.k8s.api.core.v1.PodSpec`), because
tools know them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Final, Literal

from tonnage.documents.schema import Field, ListOf, MapOf, Struct, Type, schema_of, schema_of_resource
from tonnage.objects.document import Doc
from tonnage.objects.resources import NOT_STORED, RESOURCES, SCALES, Resource

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
PATCH = f"{_META}.Patch"


Dialect = Literal["#/definitions/", "#/components/schemas/"]
"""A version: where its definitions live. Version 3 can say "string or number", and a `$ref` needs `allOf` there."""
V2: Final = "#/definitions/"
V3: Final = "#/components/schemas/"

# Scalars that OpenAPI writes in place.
_PLAIN: dict[str, Doc] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "number": {"type": "number"},
    "bytes": {"type": "string", "format": "byte"},
}
_TIME: Doc = {"type": "string", "format": "date-time"}
_OBJECT: Doc = {"type": "object"}
# Scalars that have a definition of their own: name, description, form in version 2, form in version 3.
_NAMED: dict[str, tuple[str, str, Doc, Doc]] = {
    "Quantity": (
        "io.k8s.apimachinery.pkg.api.resource.Quantity",
        "An exact amount with a unit: 500m, 1.5, 10Gi, 2e3.",
        {"type": "string"},
        {"oneOf": [{"type": "string"}, {"type": "number"}]},
    ),
    "IntOrString": (
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        "A number, or a name or percentage as text.",
        {"type": "string", "format": "int-or-string"},
        {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    ),
    "Time": (f"{_META}.Time", "An instant to the second, in RFC 3339 form.", _TIME, _TIME),
    "MicroTime": (f"{_META}.MicroTime", "An instant to the microsecond, in RFC 3339 form.", _TIME, _TIME),
    "FieldsV1": (
        f"{_META}.FieldsV1",
        "A set of field paths as nested maps: f:<name> a field, k:{…} a list item by its keys, v:<value> a set member.",
        _OBJECT,
        _OBJECT,
    ),
    "any": (
        "io.k8s.apimachinery.pkg.runtime.RawExtension",
        "Any JSON object; the server does not look inside.",
        _OBJECT,
        _OBJECT,
    ),
}
_EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
for _name, _about in (
    ("JSON", "Any JSON value."),
    ("JSONSchemaPropsOrArray", "A JSON schema, or a list of them."),
    ("JSONSchemaPropsOrBool", "A JSON schema, or true or false."),
    ("JSONSchemaPropsOrStringArray", "A JSON schema, or a list of strings."),
):
    _NAMED[_name] = (f"{_EXTENSIONS}.{_name}", _about, {}, {})
_PATCH_DEFINITION: Doc = {"description": "A change to an object; its form is the content type's.", "type": "object"}


def definitions(roots: Iterable[Struct], dialect: Dialect, given: Mapping[str, Doc] | None = None) -> dict[str, Doc]:
    """Every type reachable from `roots`, by full name, sorted. `given`: definitions of custom resources."""
    given = given or {}
    found: dict[str, Doc] = {PATCH: _PATCH_DEFINITION}
    waiting = list(roots)
    while waiting:
        struct = waiting.pop()
        if struct.full_name in found:
            continue
        if struct.full_name in given:
            found[struct.full_name] = given[struct.full_name]
            waiting += [schema_of("meta", "v1", name) for name in ("ObjectMeta", "ListMeta")]
            continue
        found[struct.full_name] = _definition(struct, dialect)
        for field in struct.fields.values():
            leaf = field.type
            while isinstance(leaf, ListOf | MapOf):
                leaf = leaf.item
            if isinstance(leaf, Struct):
                waiting.append(leaf)
            elif leaf.name in _NAMED:
                full_name, description, as_v2, as_v3 = _NAMED[leaf.name]
                found[full_name] = {"description": description, **(as_v3 if dialect is V3 else as_v2)}
    return dict(sorted(found.items()))


@lru_cache(maxsize=512)  # custom resources come and go
def list_of(resource: Resource) -> Struct:
    """The type of a whole collection: `PodList`."""
    kind = schema_of_resource(resource)
    made = Struct(kind.package, resource.list_kind, True, description=f"A list of {kind.name} objects.")
    for name in ("apiVersion", "kind"):
        made.fields[name] = kind.fields[name]
    metadata = schema_of("meta", "v1", "ListMeta")
    made.fields["metadata"] = Field(
        "metadata", metadata, description="The revision listed, and where the next page starts."
    )
    made.fields["items"] = Field("items", ListOf(kind), required=True, description="The objects.")
    return made


def group_version_kind(struct: Struct) -> Doc:
    """The group, version and kind of a struct that is exchanged as a kind."""
    *backwards, last = struct.package.split(".")  # of a custom resource: its group backwards, and its version
    group, version = _packages().get(struct.package) or (".".join(reversed(backwards)), last)
    return {"group": group, "version": version, "kind": struct.name}


@cache
def _packages() -> dict[str, tuple[str, str]]:
    return {schema_of_resource(row).package: (row.group, row.version) for row in (*RESOURCES, *NOT_STORED, SCALES)}


def _definition(struct: Struct, dialect: Dialect) -> Doc:
    made: Doc = {"description": struct.description} if struct.description else {}
    made["type"] = "object"
    if required := sorted(field.name for field in struct.fields.values() if field.required):
        made["required"] = required
    made["properties"] = {name: _property(field, dialect) for name, field in sorted(struct.fields.items())}
    if struct.is_kind:
        made["x-kubernetes-group-version-kind"] = [group_version_kind(struct)]
    if struct.is_atomic:
        made["x-kubernetes-map-type"] = "atomic"
    return made


def _property(field: Field, dialect: Dialect) -> Doc:
    made: Doc = {"description": field.description} if field.description else {}
    if field.default is not None:
        made["default"] = field.default
    form = _form(field.type, dialect)
    made |= {"allOf": [form]} if "$ref" in form and dialect is V3 else form
    strategies = []
    if isinstance(field.type, ListOf):
        kind = field.type
        made["x-kubernetes-list-type"] = "map" if kind.keys else "set" if kind.is_set else "atomic"
        if kind.keys:
            made["x-kubernetes-list-map-keys"] = list(kind.keys)
        if kind.merge_key:
            made["x-kubernetes-patch-merge-key"] = kind.merge_key
        strategies += ["merge"] if kind.patch_merge else []
    elif field.is_atomic or field.is_granular:
        made["x-kubernetes-map-type"] = "granular" if field.is_granular else "atomic"
    strategies += ["retainKeys"] if field.retain_keys else []
    strategies += ["replace"] if field.patch_replace else []
    if strategies:
        made["x-kubernetes-patch-strategy"] = ",".join(strategies)
    return made


def _form(type_: Type, dialect: Dialect) -> Doc:
    match type_:
        case Struct():
            return {"$ref": dialect + type_.full_name}
        case ListOf():
            return {"type": "array", "items": _form(type_.item, dialect)}
        case MapOf():
            return {"type": "object", "additionalProperties": _form(type_.item, dialect)}
        case _ if type_.name in _NAMED:
            return {"$ref": dialect + _NAMED[type_.name][0]}
        case _:
            return dict(_PLAIN[type_.name])
