"""Walking documents by their schema: which fields a document sets, how two differ, what is left without some fields.

Server-side apply needs these answers. They are FieldsV1 trees (see `field_set`), by the rules of upstream's
structured-merge-diff: a scalar, and whatever the schema calls atomic, is one field; list items are named by their keys
or their value; maps and structs are walked into. A schema is compiled once into `Shape`s.

One Go habit shows. A Go server holds structs, so required fields, and fields that the schema marks `always`, exist even
in an object that does not mention them: when they get content they are modified inside, and not added themselves.

Documents are expected to fit their schema. One thing can still go wrong: a list item without any of the keys that name
it raises `UnnamedItem`.

    shape_of(struct).leaves(doc)          the fields that a document sets
    shape_of(struct).compare(old, new)    added, modified and removed fields
"""

from __future__ import annotations

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from tonnage.documents.apply.field_set import Tree, json_text
from tonnage.documents.schema import Field, ListOf, MapOf, Scalar, Struct, Type
from tonnage.keyed import grouped
from tonnage.objects.document import Doc

ABSENT: Any = object()
"""A field that is not set, as opposed to a null field."""


class UnnamedItem(ValueError):
    """A list item has none of the keys that name it; the text is upstream's."""


class FieldChanges(NamedTuple):
    """The fields added, modified and removed from one value to another. No path is in two of the sets."""

    added: Tree
    modified: Tree
    removed: Tree


class Shape:
    """How one type of value is walked. This base class is a leaf: one field, whatever is inside."""

    __slots__ = ()

    def leaves(self, value: Any) -> Tree | None:
        """The node with the leaves and items that `value` sets, which its applier owns; None if it sets nothing."""
        return {}

    def whole(self, value: Any) -> Tree:
        """The node of a value that was added or removed as a whole: its leaves, items and every container between."""
        return {}

    def compare(self, old: Any, new: Any) -> FieldChanges:
        """The differences inside two unequal values, whatever the order of items. A leaf has no inside."""
        return FieldChanges({}, {}, {})

    def remove(self, value: Any, tree: Tree) -> Any:
        """`value` without the items in the tree; None if nothing is left."""
        return value

    def named(self, tree: Tree) -> Tree:
        """The tree with every struct field on its paths made a member, so that `difference` removes these too."""
        return tree

    def enters(self, old: Any, new: Any) -> bool:
        """True if the inside of both values can be compared and merged, as it can for every declared type."""
        return True


LEAF = Shape()


Entry = tuple[str, Shape, Any]
"""(FieldsV1 step, shape of the value, substitute for an absent value: ABSENT, or the empty value of a Go server)."""


class Declared(dict[str, Entry]):
    """The fields of a struct. Undeclared names have the shape `others`: by default leaves, in a map its values."""

    others: Shape = LEAF

    def __missing__(self, name: str) -> Entry:
        return f"f:{name}", self.others, ABSENT


class Entries(Shape):
    """Named values: a struct, whose compiler adds the fields, or a map, whose entries are items of their own."""

    __slots__ = ("fields",)

    def __init__(self, others: Shape = LEAF) -> None:
        self.fields = Declared()
        self.fields.others = others

    def leaves(self, value: Any) -> Tree | None:
        tree: Tree = {}
        for name, item in (value or {}).items():
            step, shape, _ = self.fields[name]
            node = {} if item is None or item == {} else shape.leaves(item)
            if name not in self.fields:
                node = _member(node)
            if node is not None:
                tree[step] = node
        return tree or None

    def named(self, tree: Tree) -> Tree:
        result: Tree = {}
        for step, node in tree.items():
            declared = self.fields.get(step[2:]) if step != "." else None
            if node and declared is not None:
                node = {".": {}, **declared[1].named(node)}
            elif node:
                node = self.fields.others.named(node)
            result[step] = node
        return result

    def whole(self, value: Any) -> Tree:
        if not value:
            return {}
        tree: Tree = {".": {}}
        fields = self.fields
        for name, item in value.items():
            step, shape, _ = fields[name]
            tree[step] = {} if shape is LEAF else shape.whole(item)
        return tree

    def compare(self, old: Any, new: Any) -> FieldChanges:
        old, new, fields = old or {}, new or {}, self.fields
        changes = FieldChanges({}, {}, {})
        for name, after in new.items():
            before = old.get(name, ABSENT)
            if before == after:
                continue
            step, shape, stand_in = fields[name]
            if before is ABSENT:
                before = stand_in
            if before is ABSENT:
                changes.added[step] = {} if shape is LEAF else shape.whole(after)
            elif before != after:
                _descend(step, shape, before, after, changes)
        for name, before in old.items():
            if name not in new:
                step, shape, after = fields[name]
                if after is ABSENT:
                    changes.removed[step] = shape.whole(before)
                elif before != after:
                    _descend(step, shape, before, after, changes)
        return changes

    def remove(self, value: Any, tree: Tree) -> Any:
        if not isinstance(value, dict):
            return None
        kept: Doc = {}
        for name, item in value.items():
            step, shape, _ = self.fields[name]
            node = tree.get(step)
            if node is None:
                kept[name] = item
            elif node and "." not in node:
                kept[name] = shape.remove(item, node)
        return kept or None


def _descend(step: str, shape: Shape, before: Any, after: Any, changes: FieldChanges) -> None:
    # A change between null and empty modifies the field itself, and so does a change of type where none is declared.
    if shape is LEAF or not (before or after) or not shape.enters(before, after):
        changes.modified[step] = {}
        return
    for tree, node in zip(changes, shape.compare(before, after), strict=True):
        if node:
            tree[step] = node


class _Deduced(Entries):
    """A value without a schema: a map is walked into, anything else is a leaf."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(self)

    def leaves(self, value: Any) -> Tree | None:
        return super().leaves(value) if isinstance(value, dict) else {}

    def whole(self, value: Any) -> Tree:
        return super().whole(value) if isinstance(value, dict) else {}

    def remove(self, value: Any, tree: Tree) -> Any:
        return super().remove(value, tree) if isinstance(value, dict) else value

    def enters(self, old: Any, new: Any) -> bool:
        return isinstance(old, (dict, type(None))) and isinstance(new, (dict, type(None)))


def _member(node: Tree | None) -> Tree:
    return {".": {}, **node} if node else {}


class ListShape(Shape):
    """A list whose items are named by their keys, or in a set by their value. Items that share a name are one field."""

    __slots__ = ("item", "keys")

    def __init__(self, item: Shape, keys: tuple[tuple[str, Any], ...]) -> None:
        self.item = item
        self.keys = keys
        """(key, value if absent), sorted by key as the step is spelled."""

    def step(self, item: Any) -> str:
        if not self.keys:
            return f"v:{json_text(item)}"
        parts = []
        for key, default in self.keys:
            value = item.get(key, default)
            if value is not ABSENT:
                parts.append(f'"{key}":{json_text(value)}')
        if not parts:
            names = " ".join(f'"{key}"' for key, _ in self.keys)
            raise UnnamedItem(
                f"associative list with keys has an element that omits all key fields [{names}] "
                "(and doesn't have default values for any key fields)"
            )
        return "k:{" + ",".join(parts) + "}"

    def grouped(self, items: Any) -> dict[str, list[Any]]:
        """Items by their step, in the order of first appearance."""
        return grouped((self.step(item), item) for item in items or ())

    def leaves(self, value: Any) -> Tree | None:
        tree: Tree = {}
        for item in value or ():
            step = self.step(item)
            tree[step] = {} if step in tree else _member(self.item.leaves(item))
        return tree or None

    def whole(self, value: Any) -> Tree:
        tree: Tree = {".": {}} if value else {}
        for item in value or ():
            step = self.step(item)
            tree[step] = {} if step in tree else self.item.whole(item)
        return tree

    def compare(self, old: Any, new: Any) -> FieldChanges:
        before, after = self.grouped(old), self.grouped(new)
        added, modified, removed = changes = FieldChanges({}, {}, {})
        for step, group in after.items():
            earlier = before.get(step, [])
            if earlier == group:
                continue
            if len(earlier) > 1 and len(group) > 1:
                modified[step] = {}
            elif len(earlier) > 1:  # several items of this name became one
                added[step], removed[step] = self.item.whole(group[0]), {}
            elif len(group) > 1:
                added[step] = {}
                if earlier:
                    removed[step] = self.item.whole(earlier[0])
            elif earlier:
                _descend(step, self.item, earlier[0], group[0], changes)
            else:
                added[step] = self.item.whole(group[0])
        for step, earlier in before.items():
            if step not in after:
                removed[step] = self.item.whole(earlier[0]) if len(earlier) == 1 else {}
        return changes

    def remove(self, value: Any, tree: Tree) -> Any:
        kept = []
        for item in value or ():
            node = tree.get(self.step(item))
            if node is None:
                kept.append(item)
            elif node and "." not in node:
                kept.append(self.item.remove(item, node))
        return kept or None

    def named(self, tree: Tree) -> Tree:
        return {step: node if step == "." else self.item.named(node) for step, node in tree.items()}


DEDUCED = _Deduced()


# Weak: the schemas of custom resources are replaced.
_shapes: WeakKeyDictionary[Struct, Entries] = WeakKeyDictionary()


def shape_of(struct: Struct) -> Entries:
    """The compiled form of a struct, made on first use and kept."""
    shape = _shapes.get(struct)
    if shape is None:
        shape = _shapes[struct] = Entries()  # before its fields, which may contain it
        for name, field in struct.fields.items():
            is_of_kind = struct.is_kind and name in ("metadata", "spec", "status")
            is_there = field.required or field.is_always_there or is_of_kind
            below = LEAF if field.is_atomic else _shape(field.type)
            if field.is_granular and isinstance(field.type, Struct):
                below = shape_of(field.type)
            shape.fields[name] = (f"f:{name}", below, _empty(field.type) if is_there else ABSENT)
        if struct.others is not None:
            shape.fields.others = _shape(struct.others)
    return shape


def _shape(kind: Type) -> Shape:
    if isinstance(kind, Struct):
        return LEAF if kind.is_atomic else shape_of(kind)
    if isinstance(kind, MapOf):
        return LEAF if kind.is_atomic else Entries(_shape(kind.item))
    if isinstance(kind, ListOf):
        return list_shape(kind)
    return DEDUCED if kind.name == "deduced" else LEAF


def list_shape(kind: ListOf) -> Shape:
    """A `ListShape` for a list merged item by item, a leaf for any other list."""
    if kind.is_atomic:
        return LEAF
    fields = kind.item.fields if isinstance(kind.item, Struct) else {}
    keys = tuple((key, _key_default(fields[key])) for key in sorted(kind.keys))
    return ListShape(_shape(kind.item), keys)


def _key_default(field: Field) -> Any:
    """The value of a key that an item leaves out. In Go a required key is never null but empty."""
    if field.default is not None:
        return field.default
    return _empty(field.type) if field.required else ABSENT


def _empty(kind: Type) -> Any:
    if isinstance(kind, Scalar):
        return {"string": "", "bytes": "", "bool": False, "int32": 0, "int64": 0, "number": 0}.get(kind.name, ABSENT)
    return [] if isinstance(kind, ListOf) else {}
