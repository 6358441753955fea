"""Merging an applied configuration into a live document, and checking beforehand that it fits the schema.

`merge` removes nothing: where both sides set a leaf the configuration wins, maps and structs merge entry by entry, list
items by name. Items stand in the configuration's order; other live items keep their place among them as well as
possible, in the order of upstream's structured-merge-diff.

`misfit` checks the configuration as the client wrote it for unknown fields, wrong types and repeated list items, in
upstream's words. Nulls are legal and kept: the field is set, to nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tonnage.documents import go_text
from tonnage.documents.apply.field_set import Path, path_text
from tonnage.documents.apply.field_walk import LEAF, Entries, ListShape, Shape, UnnamedItem, list_shape, shape_of
from tonnage.documents.schema import ListOf, MapOf, Scalar, Struct, Type
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import MAX_ERRORS_TOLD, MAX_TOLD_BYTES


def merge(struct: Struct, live: Doc, config: Doc) -> Doc:
    """The live document with all fields that the configuration sets. Shares containers with both; changes neither."""
    merged: Doc = _merge(shape_of(struct), live, config)
    return merged


def _merge(shape: Shape, old: Any, new: Any) -> Any:
    if shape is LEAF or not (old or new) or not shape.enters(old, new):
        return new
    if isinstance(shape, ListShape):
        return _merge_items(shape, old or [], new or [])
    assert isinstance(shape, Entries)
    merged = dict(old or {})
    for name, value in (new or {}).items():
        merged[name] = _merge(shape.fields[name][1], merged[name], value) if name in merged else value
    return merged


def _merge_items(shape: ListShape, old: list[Any], new: list[Any]) -> list[Any]:
    """Walk both lists at once, as mergingWalker.visitListItems does.

    Shared items follow the new order; an item that is only in `old` stays before the item that followed it. `due` is
    the next shared item in the new order; other shared items of `old` are skipped.
    """
    theirs, ours = [shape.step(item) for item in old], [shape.step(item) for item in new]
    wanted = dict(zip(ours, new, strict=True))
    known = shape.grouped(old)
    shared = iter([step for step in ours if step in known])
    due = next(shared, None)
    taken: set[str] = set()
    merged: list[Any] = []

    def take(step: str) -> None:
        taken.add(step)
        group = known.get(step, [None])
        # Several live items of one name cannot be merged: the new item replaces them.
        merged.append(_merge(shape.item, group[0] if len(group) == 1 else None, wanted[step]))

    left = right = 0
    while left < len(theirs) or right < len(ours):
        if left < len(theirs) and right < len(ours):
            if theirs[left] == ours[right]:
                take(ours[right])
                left, right, due = left + 1, right + 1, next(shared, None)
                continue
            if theirs[left] in wanted and due is not None and due != theirs[left]:
                left += 1
                continue
        if left < len(theirs):
            if theirs[left] not in wanted:
                merged.append(old[left])
                left += 1
                continue
            if theirs[left] in taken:
                left += 1
        if right < len(ours):
            take(ours[right])
            if due == ours[right]:
                due = next(shared, None)
            right += 1
    return merged


# -- does it fit? ------------------------------------------------------------------------------------------------------

_TYPES: dict[str, tuple[type, ...]] = {"string": (str,), "boolean": (bool,), "numeric": (int, float)}
_SCALARS = {"string": "string", "bytes": "string", "bool": "boolean"} | dict.fromkeys(
    ("int32", "int64", "number"), "numeric"
)
"""The scalars that upstream declares a type for; any scalar fits the others."""


def misfit(struct: Struct, config: Doc) -> str:
    """What is wrong with an applied configuration, in upstream's words; empty if it fits."""
    found: list[str] = []
    told_bytes = 0
    for where, text in _misfits(struct, config, ()):
        if len(found) >= MAX_ERRORS_TOLD or told_bytes > MAX_TOLD_BYTES:
            found.append("and more")
            break
        path = path_text(where)
        found.append(f"{path}: {text}" if path else text)
        told_bytes += len(found[-1])
    return found[0] if len(found) == 1 else "\n  ".join(["errors:", *found]) if found else ""


def _misfits(kind: Type, value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if value is None:
        return
    if isinstance(kind, Scalar):
        yield from _scalar_misfits(kind, value, path)
    elif isinstance(kind, ListOf):
        if not isinstance(value, list):
            yield path, f"expected list, got &{{{go_text.plain(value)}}}"
        else:
            yield from _item_misfits(kind, value, path)
    elif not isinstance(value, dict):
        yield path, f"expected map, got &{{{go_text.plain(value)}}}"
    else:
        for name, item in value.items():
            below = kind.item if isinstance(kind, MapOf) else kind.others
            if isinstance(kind, Struct) and name in kind.fields:
                below = kind.fields[name].type
            if below is None:
                yield (*path, f"f:{name}"), "field not declared in schema"
                return
            yield from _misfits(below, item, (*path, f"f:{name}"))


def _item_misfits(kind: ListOf, items: list[Any], path: Path) -> Iterator[tuple[Path, str]]:
    shape = list_shape(kind)
    seen: set[str] = set()
    for position, item in enumerate(items):
        step = f"i:{position}"
        if isinstance(shape, ListShape):
            try:
                step = _named(shape, item)
            except UnnamedItem as exc:
                yield path, f"element {position}: {exc}"
                return
            if step in seen:
                yield path, f"duplicate entries for key {path_text((step,))}"
            seen.add(step)
        yield from _misfits(kind.item, item, (*path, step))


def _named(shape: ListShape, item: Any) -> str:
    if shape.keys:
        if item is None:
            raise UnnamedItem("associative list with keys may not have a null element")
        if not isinstance(item, dict):
            raise UnnamedItem("associative list with keys may not have non-map elements")
        for key, _ in shape.keys:
            if isinstance(item.get(key), (dict, list)):
                raise UnnamedItem(f"key field {key} must be a scalar")
    elif item is None:
        raise UnnamedItem("associative list without keys has an element that's an explicit null")
    elif isinstance(item, dict):
        raise UnnamedItem("associative list without keys has an element that's a map type")
    elif isinstance(item, list):
        raise UnnamedItem("not supported: associative list with lists as elements")
    return shape.step(item)


_SCHEMAS = ("JSON", "JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrStringArray")
_OF_ANY_SHAPE = frozenset({"any", "FieldsV1", "deduced", *_SCHEMAS})


def _scalar_misfits(kind: Scalar, value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if kind.name in _OF_ANY_SHAPE:
        return
    wanted = _SCALARS.get(kind.name)
    if wanted is None:
        if isinstance(value, (dict, list)):
            yield path, f"expected any scalar, got &{{{go_text.plain(value)}}}"
    elif not isinstance(value, _TYPES[wanted]) or (wanted == "numeric" and isinstance(value, bool)):
        if wanted == "numeric":
            yield path, f"expected numeric (int or float), got {go_text.type_name(value)}"
        elif wanted == "boolean":
            yield path, f"expected boolean, got &{{{go_text.plain(value)}}}"
        else:
            yield path, f"expected string, got &value.valueUnstructured{{Value:{go_text.literal(value)}}}"
