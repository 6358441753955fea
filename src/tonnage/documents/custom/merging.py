"""How documents of a custom kind merge: its schema in the form that server-side apply and managed fields follow.

`x-kubernetes-list-type`, `-list-map-keys` and `-map-type` mean the same as in the schemas of built-in kinds. Values
without a schema (`x-kubernetes-preserve-unknown-fields`, objects without properties) merge by their own type: maps
merge, everything else is replaced as a whole. No field is required, for these kinds have no Go type. Mirrors upstream's
schemaconv.
"""

from __future__ import annotations

from typing import Any

from tonnage.documents.custom.structural import META_FIELDS, Structural
from tonnage.documents.schema import Field, ListOf, MapOf, Scalar, Struct, Type, schema_of

_DEDUCED = Scalar("deduced")
_STRING = Scalar("string")
_UNTYPED = Scalar("IntOrString")
"""Any scalar."""


def struct_of(schema: Structural, group: str, version: str, kind: str) -> Struct:
    """The shape of a whole document, only for merging: `documents.admit` is for built-in kinds."""
    package = ".".join([*reversed(group.split(".")), version])
    others = _DEDUCED if schema.preserves_unknown else None
    struct = Struct(package, kind, is_kind=False, others=others)
    for name, below in schema.properties.items():
        if name not in META_FIELDS:
            struct.fields[name] = _field(name, below, schema.preserves_unknown)
    _add_resource_fields(struct)
    return struct


def _add_resource_fields(struct: Struct) -> None:
    for name, shape in (
        ("apiVersion", _STRING),
        ("kind", _STRING),
        ("metadata", schema_of("meta", "v1", "ObjectMeta")),
    ):
        struct.fields[name] = Field(name, shape)


def is_typed(shape: Type, value: Any) -> bool:
    """True if the value has the types of its schema, without which its fields cannot be owned. Null has every type."""
    if value is None:
        return True
    if isinstance(shape, Struct):
        fields, others = shape.fields, shape.others
        return isinstance(value, dict) and all(
            is_typed(fields[name].type if name in fields else others or _DEDUCED, item) for name, item in value.items()
        )
    if isinstance(shape, MapOf):
        return isinstance(value, dict) and all(is_typed(shape.item, item) for item in value.values())
    if isinstance(shape, ListOf):
        if not isinstance(value, list) or (shape.keys and not all(isinstance(item, dict) for item in value)):
            return False
        if shape.is_set and any(item is None or isinstance(item, (dict, list)) for item in value):
            return False
        return all(is_typed(shape.item, item) for item in value)
    return type(value) in _PYTHON_TYPES.get(shape.name, _ANY)


_ANY = frozenset({str, bool, int, float, dict, list})
_PYTHON_TYPES = {
    "string": frozenset({str}),
    "number": frozenset({int, float}),
    "bool": frozenset({bool}),
    "IntOrString": _ANY - {dict, list},
}


def _field(name: str, schema: Structural, preserves: bool) -> Field:
    return Field(name, _type(schema, preserves), default=schema.default)


def _type(schema: Structural, preserves: bool) -> Type:
    """`preserves`: an enclosing schema keeps unknown fields, which holds for everything below it."""
    preserves = preserves or schema.preserves_unknown
    if schema.type == "object" or (not schema.type and schema.properties):
        return _object(schema, preserves)
    if schema.type == "array":
        item = _type(schema.items, preserves) if schema.items is not None else Scalar("any")
        keys = schema.list_map_keys if schema.list_type == "map" else ()
        return ListOf(item, keys=keys, is_set=schema.list_type == "set")
    if not schema.type:
        return _DEDUCED
    if schema.type != "string":
        return Scalar("bool" if schema.type == "boolean" else "number")
    return _STRING if schema.source.get("format", "") in ("", "byte") else _UNTYPED


def _object(schema: Structural, preserves: bool) -> Type:
    is_atomic = schema.map_type == "atomic"
    others: Type | None = None
    if schema.additional is not None:
        others = _type(schema.additional, preserves)
    elif schema.has_additional or preserves or not schema.properties:
        others = _DEDUCED
    if not schema.properties and not schema.is_embedded:
        return MapOf(others or _DEDUCED, is_atomic=is_atomic)
    struct = Struct("", "", is_kind=False, is_atomic=is_atomic, others=others)
    for name, below in schema.properties.items():
        struct.fields[name] = _field(name, below, preserves)
    if schema.is_embedded:
        _add_resource_fields(struct)
    return struct
