"""Documents with one list or map as long as one likes, for every list and map that any kind has.

The schema says where they are and what an element looks like, so a list that is added to a kind is attacked by itself.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tonnage.documents.schema import ListOf, MapOf, Scalar, Struct, Type, schema_of_resource
from tonnage.objects.document import Doc
from tonnage.objects.resources import Resource

Path = tuple[str, ...]
_DEPTH = 4
_NUMBERS = ("int32", "int64", "number", "IntOrString")
_SCALARS: dict[str, Any] = {
    "bool": True,
    "Time": "2030-01-01T00:00:00Z",
    "MicroTime": "2030-01-01T00:00:00.000000Z",
    "bytes": "aGVsbG8=",
    "any": {},
    "JSON": {"type": "string"},
    "JSONSchemaPropsOrArray": {"type": "string"},
    "JSONSchemaPropsOrBool": {"type": "string"},
    "JSONSchemaPropsOrStringArray": ["n0"],
}
_CHOICES = {
    "operation": "Update",
    "fieldsType": "FieldsV1",
    "operator": "Exists",
    "whenUnsatisfiable": "DoNotSchedule",
    "effect": "NoSchedule",
    "protocol": "TCP",
}


def long_fields(struct: Struct) -> Iterator[tuple[Path, ListOf | MapOf]]:
    """Every list and map of a kind, by its path: `[]` leads to the first item of a list, `{}` to that of a map."""
    yield from _long(struct, (), ())


def _long(kind: Type, above: Path, within: tuple[str, ...]) -> Iterator[tuple[Path, ListOf | MapOf]]:
    if isinstance(kind, Struct):
        if kind.name not in within:  # a type may contain itself
            for field in kind.fields.values():
                yield from _long(field.type, (*above, field.name), (*within, kind.name))
    elif isinstance(kind, ListOf):
        yield above, kind
        yield from _long(kind.item, (*above, "[]"), within)
    elif isinstance(kind, MapOf):
        yield above, kind
        yield from _long(kind.item, (*above, "{}"), within)


def document(resource: Resource, path: Path, count: int, *, changed: bool = False) -> Doc:
    """An object whose list or map at `path` has so many elements; `changed` has them in another order and changed."""
    doc: Doc = {}
    place: Any = doc
    kind: Type = schema_of_resource(resource)
    for step in path[:-1]:
        if step == "[]":
            assert isinstance(kind, ListOf)
            kind = kind.item
            if not place:
                place.append(element(kind, 0))
            place = place[0]
        elif step == "{}":
            assert isinstance(kind, MapOf)
            kind = kind.item
            place = place.setdefault("n0", {})
        else:
            assert isinstance(kind, Struct)
            kind = kind.fields[step].type
            place = place.setdefault(step, [] if isinstance(kind, ListOf) else {})
    assert isinstance(kind, Struct)
    place[path[-1]] = _elements(kind.fields[path[-1]].type, path[-1], count, changed)
    return _whole(resource, doc)


def _elements(kind: Type, name: str, count: int, changed: bool) -> Any:
    order = list(range(count))
    if changed:
        random.Random(5).shuffle(order)
    if isinstance(kind, MapOf):
        return {f"n{idx}": element(kind.item, idx, name) for idx in order}
    assert isinstance(kind, ListOf)
    items = [element(kind.item, idx, name) for idx in order]
    for item in items if changed else ():
        if isinstance(item, dict):
            item.update({field: "changed" for field in ("value", "message", "reason", "image") if field in item})
    return items


def element(kind: Type, idx: int, name: str = "", depth: int = 0) -> Any:
    """An element that differs from those of other positions, with all its scalars and whatever is required."""
    if isinstance(kind, Scalar):
        return _scalar(kind.name, idx, name)
    if isinstance(kind, ListOf):
        return [element(kind.item, idx, name, depth + 1)] if depth < _DEPTH else []
    if isinstance(kind, MapOf):
        return {f"n{idx}": element(kind.item, idx, name, depth + 1)} if depth < _DEPTH else {}
    return {
        field.name: element(field.type, idx, field.name, depth + 1)
        for field in kind.fields.values()
        if isinstance(field.type, Scalar) or (field.required and depth < _DEPTH)
    }


def _scalar(kind: str, idx: int, name: str) -> Any:
    if kind in _NUMBERS:
        return idx + 1
    if kind == "Quantity":
        return str(idx + 1)
    if kind == "FieldsV1":
        return {"f:metadata": {"f:labels": {f"f:n{idx}": {}}}}
    if kind in _SCALARS:
        return _SCALARS[kind]
    if name in _CHOICES:
        return _CHOICES[name]
    if name == "ip":
        return f"10.{idx >> 16}.{idx >> 8 & 255}.{idx & 255}"
    if name in ("key", "topologyKey"):
        return f"example.com/n{idx}"
    return f"/n{idx}" if name.endswith("Path") else f"n{idx}"


def _whole(resource: Resource, doc: Doc) -> Doc:
    """With what every object of its kind has."""
    doc |= {"kind": resource.kind, "apiVersion": resource.api_version}
    meta = doc.setdefault("metadata", {})
    meta |= {"name": "x", "uid": "u", "resourceVersion": "5", "creationTimestamp": "2030-01-01T00:00:00Z"}
    if resource.namespaced:
        meta["namespace"] = "default"
    if "spec" in schema_of_resource(resource).fields:
        spec = doc.setdefault("spec", {})
        if resource.kind == "Pod":
            spec.setdefault("containers", [{"name": "c", "image": "i"}])
    return doc
