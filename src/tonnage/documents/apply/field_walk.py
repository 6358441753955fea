"""Walking documents by their schema: which fields one sets, how two differ, what is left without some fields.

These are the questions server-side apply asks. The answers follow upstream's structured-merge-diff: a scalar, and
whatever the schema calls atomic, is one field; list items are named by their keys or their value; maps and structs are
walked into. A schema is compiled once into `Shape`s that carry the FieldsV1 spelling of every field, because ownership
is worked out on every write.

One Go habit shows through. A Go server holds structs, so a required field and a nested struct that is no pointer are
there even in an object that does not mention them; gaining content, they are modified inside and not added themselves.
Required fields say so in the schema; the others stand in `_ALWAYS_THERE`.

Documents are expected to fit their schema. The one thing that may still go wrong is a list item without any of the keys
that name it: `UnnamedItem`. Merging, and checking what a client applies, live in `field_merge`.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from tonnage.documents.apply.field_set import FieldSet, Tree
from tonnage.documents.apply.field_shapes import ABSENT, DEDUCED, LEAF, ListShape, MapShape, Shape, StructShape
from tonnage.documents.schema import Field, ListOf, MapOf, Scalar, Struct, Type
from tonnage.objects.document import Doc

_ALWAYS_THERE: dict[str, tuple[str, ...]] = {
    "AllocationResult": ("devices",),
    "Container": ("resources",),
    "ContainerStatus": ("lastState", "state"),
    "CustomResourceDefinitionStatus": ("acceptedNames", "conditions"),
    "DaemonSetSpec": ("updateStrategy",),
    "DeploymentSpec": ("strategy",),
    "EphemeralContainer": ("resources",),
    "Event": ("deprecatedSource", "involvedObject", "regarding", "reportingComponent", "reportingInstance", "source"),
    "NodeDaemonEndpoints": ("kubeletEndpoint",),
    "NodeStatus": ("daemonEndpoints", "nodeInfo"),
    "PersistentVolumeClaimSpec": ("resources",),
    "PersistentVolumeClaimTemplate": ("metadata",),
    "PodTemplate": ("template",),
    "PodTemplateSpec": ("metadata", "spec"),
    "ReplicaSetSpec": ("template",),
    "ResourceClaimSpec": ("devices",),
    "ResourceClaimTemplateSpec": ("metadata", "spec"),
    "ServiceStatus": ("loadBalancer",),
    "StatefulSetSpec": ("updateStrategy",),
}
"""Struct -> fields that are not required and yet in every Go object, as metadata, spec and status of a kind are."""


# Weak: the schemas of custom resources come and go.
_shapes: WeakKeyDictionary[Struct, StructShape] = WeakKeyDictionary()
_list_shapes: WeakKeyDictionary[ListOf, Shape] = WeakKeyDictionary()


def shape_of(struct: Struct) -> StructShape:
    """The compiled form of a struct; made on first use and kept."""
    shape = _shapes.get(struct)
    if shape is None:
        shape = _shapes[struct] = StructShape()  # entered before its fields, which may lead back to it
        always = _ALWAYS_THERE.get(struct.name, ())
        if struct.is_kind:
            always = (*always, "metadata", "spec", "status")
        for name, field in struct.fields.items():
            is_there = field.required or name in always
            shape.fields[name] = (f"f:{name}", _compile(field), _empty(field.type) if is_there else ABSENT)
        if struct.others is not None:
            shape.fields.others = _shape(struct.others)
    return shape


def _compile(field: Field) -> Shape:
    if field.is_granular and isinstance(field.type, Struct):
        return shape_of(field.type)
    return LEAF if field.is_atomic else _shape(field.type)


def _shape(kind: Type) -> Shape:
    if isinstance(kind, Struct):
        return LEAF if kind.is_atomic else shape_of(kind)
    if isinstance(kind, MapOf):
        return LEAF if kind.is_atomic else MapShape(_shape(kind.item))
    if isinstance(kind, ListOf):
        return list_shape(kind)
    return DEDUCED if kind.name == "deduced" else LEAF


def list_shape(kind: ListOf) -> Shape:
    """A `ListShape` for a list merged item by item, a leaf for any other."""
    shape = _list_shapes.get(kind)
    if shape is None:
        shape = _list_shapes[kind] = LEAF if kind.is_atomic else ListShape(_shape(kind.item), _keys(kind))
    return shape


def _keys(kind: ListOf) -> tuple[tuple[str, Any], ...]:
    fields = kind.item.fields if isinstance(kind.item, Struct) else {}
    return tuple((key, _key_default(fields[key])) for key in sorted(kind.keys))


def _key_default(field: Field) -> Any:
    """What names an item that leaves the key out. A required key is never null in Go but empty."""
    if field.default is not None:
        return field.default
    return _empty(field.type) if field.required else ABSENT


def _empty(kind: Type) -> Any:
    if isinstance(kind, Scalar):
        return {"string": "", "bytes": "", "bool": False, "int32": 0, "int64": 0, "number": 0}.get(kind.name, ABSENT)
    return [] if isinstance(kind, ListOf) else {}


class FieldChanges(NamedTuple):
    """How a document became another. No path is in two of the sets."""

    added: FieldSet
    modified: FieldSet
    removed: FieldSet


def field_set_of(struct: Struct, doc: Doc) -> FieldSet:
    """The leaves and list items a document sets: what an applier owns. Raises UnnamedItem."""
    return FieldSet(shape_of(struct).leaves(doc))


def compare(struct: Struct, old: Doc, new: Doc) -> FieldChanges:
    """What was added, modified and removed between two documents; the order of list items does not count.

    Raises UnnamedItem.
    """
    added: Tree = {}
    modified: Tree = {}
    removed: Tree = {}
    shape_of(struct).compare(old, new, added, modified, removed)
    return FieldChanges(FieldSet(added), FieldSet(modified), FieldSet(removed))


def remove_items(struct: Struct, doc: Doc, fields: FieldSet) -> Doc:
    """A document without these fields and items. A container that loses all it held is left behind as null."""
    kept: Doc = shape_of(struct).remove(doc, fields.tree) or {}
    return kept


def with_named_fields(struct: Struct, fields: FieldSet) -> FieldSet:
    """The set with every struct field it passes through added, so that differences can take those away too."""
    return FieldSet(shape_of(struct).named(fields.tree))
