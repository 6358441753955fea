"""Strategic merge patch: a merge patch that knows the schema, so that lists can be merged instead of replaced.

A list that the schema marks with `merge` is merged item by item, by its merge key (by value for scalars, where `key` is
empty); every other list is replaced. Patches may carry directives: `$patch: replace|delete` on a map or list item,
`$retainKeys` in a map, and beside a list `$setElementOrder/<list>` and `$deleteFromPrimitiveList/<list>`. A null
removes a field.

In a merged list, items of the patch follow the patch's order (or `$setElementOrder`), other items keep the server's
order, and the two are interleaved by their positions on the server. Mirrors upstream's package strategicpatch, errors
included: most are 500s without a reason.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tonnage.documents.go_text import plain, type_name
from tonnage.documents.patches.json_patch import PatchFailed, cannot_unmarshal
from tonnage.documents.schema import ListOf, MapOf, Scalar, Struct, Type
from tonnage.errors import BadRequest, Invalid
from tonnage.objects.document import Doc, copy

_DIRECTIVE = "$patch"
_RETAIN_KEYS = "$retainKeys"
_ORDER = "$setElementOrder"
_DELETE_FROM = "$deleteFromPrimitiveList"
_DROPPED: Any = object()
_SORTED = msgspec.json.Encoder(order="sorted")


def strategic_merge(struct: Struct, doc: Doc, patch: Any) -> Doc:
    """A copy of the document with the patch merged into it. Raises BadRequest, Invalid, PatchFailed."""
    original: Doc = copy(doc)
    if patch is None:
        return original
    if not isinstance(patch, dict):
        raise BadRequest(cannot_unmarshal(patch, "map[string]interface {}"))
    return _merge_map(struct, original, copy(patch))


def _merge_map(kind: Type, original: Doc, patch: Doc) -> Doc:
    """Merge `patch` into `original`; both are consumed."""
    if _DIRECTIVE in patch:
        directive = patch.pop(_DIRECTIVE)
        if directive not in ("replace", "delete"):
            raise _unknown_directive(directive, {**patch, _DIRECTIVE: directive})
        return patch if directive == "replace" else {}
    _retain_keys(original, patch)
    for name in [name for name in patch if name.startswith(_ORDER)]:
        _merge_ordered(kind, original, patch, name)
    # Deletions first, so that a value that one patch deletes and adds is there in the end.
    for name in sorted(patch, key=lambda name: not name.startswith(_DELETE_FROM)):
        value = patch[name]
        if name.startswith(_DELETE_FROM):
            _delete_from(original, _target(name, _DELETE_FROM), value)
        elif value is None:
            original.pop(name, None)
        elif isinstance(original.get(name), dict) and isinstance(value, dict):
            inner = _field_type(kind, name)
            is_replaced = isinstance(kind, Struct) and kind.fields[name].patch_replace
            original[name] = value if is_replaced else _merge_map(inner, original[name], value)
        elif isinstance(original.get(name), list) and isinstance(value, list):
            original[name] = _merge_list(_list_type(kind, name), original[name], value)
        elif (taken := _without_directives(value)) is _DROPPED:
            original.pop(name, None)
        else:  # absent before, or of another type
            original[name] = taken
    return original


def _unknown_directive(directive: Any, patch: Doc) -> PatchFailed:
    told = directive
    if not isinstance(directive, str):
        told = "%!s(<nil>)" if directive is None else f"%!s({type_name(directive)}={plain(directive)})"
    return PatchFailed(f"unknown patch type: {told} in map: {plain(patch)}")


def _retain_keys(original: Doc, patch: Doc) -> None:
    """Drop the fields that a `$retainKeys` list does not name. The patch itself may set only fields on the list."""
    if _RETAIN_KEYS not in patch:
        return
    retained = patch.pop(_RETAIN_KEYS)
    names = {name for name in retained if isinstance(name, str)} if isinstance(retained, list) else set()
    if not isinstance(retained, list) or any(
        name not in names
        for name, value in patch.items()
        if value is not None and not name.startswith((_ORDER, _DELETE_FROM))
    ):
        raise BadRequest("invalid patch format of retainKeys")
    for name in [name for name in original if name not in names]:
        del original[name]


def _target(directive: str, prefix: str) -> str:
    head, slash, name = directive.partition("/")
    if head != prefix or not slash:
        raise BadRequest(f"invalid patch format of {'primitive' if prefix == _DELETE_FROM else 'setElementOrder'} list")
    return name


def _without_directives(value: Any) -> Any:
    """A new value without nulls, and without maps that only hold a directive for an earlier value."""
    if isinstance(value, dict):
        if _DIRECTIVE in value:
            return _DROPPED
        kept = {name: _without_directives(item) for name, item in value.items() if item is not None}
        return {name: item for name, item in kept.items() if item is not _DROPPED}
    if isinstance(value, list):
        return [item for item in map(_without_directives, value) if item is not _DROPPED]
    return value


# -- lists -------------------------------------------------------------------------------------------------------------


def _merge_list(kind: ListOf, original: list[Any], patch: list[Any]) -> list[Any]:
    if not kind.patch_merge:
        return patch
    if not original and not patch:
        return original
    check_items(original, patch)
    key = kind.merge_key
    if key:
        original, patch = _obey_directives(original, patch, key)
        order = list(original)
        merged = _merge_items(kind, list(original), patch)
    else:
        order = list(original)
        first: dict[Any, Any] = {}
        for item in (*original, *patch):
            first.setdefault(identity(item), item)
        merged = list(first.values())
    return arranged(merged, patch, order, key)


def _merge_items(kind: ListOf, merged: list[Doc], patch: list[Doc]) -> list[Doc]:
    key = kind.merge_key
    positions = NamedItems(merged, key)
    for item in patch:
        position = positions.find(key_of(item, key))
        if position is None:
            positions.add(len(merged), item)
            merged.append(item)
        else:
            merged[position] = _merge_map(kind.item, merged[position], item)
    return merged


def _obey_directives(original: list[Doc], patch: list[Doc], key: str) -> tuple[list[Doc], list[Doc]]:
    """Apply `$patch` to items: the original without the deleted items, and the patch without the directives."""
    plain_items = [item for item in patch if _DIRECTIVE not in item]
    replaces = False
    unwanted = set()
    for item in patch:
        directive = item.get(_DIRECTIVE)
        if _DIRECTIVE not in item:
            continue
        if directive == "delete":
            unwanted.add(identity(key_of(item, key)))
        elif directive == "replace":
            replaces = True
        elif directive == "merge":
            raise PatchFailed("merging lists cannot yet be specified in the patch")
        else:
            raise _unknown_directive(directive, item)
    if replaces:
        return plain_items, []
    kept = [item for item in original if identity(item.get(key)) not in unwanted] if unwanted else original
    return kept, plain_items


def _delete_from(original: Doc, name: str, unwanted: Any) -> None:
    """`$deleteFromPrimitiveList`. A missing list, or a value of another type, is no error."""
    current = original.get(name)
    if isinstance(current, list) and isinstance(unwanted, list) and (current or unwanted):
        check_items(current, unwanted)
        gone = {identity(item) for item in unwanted}
        original[name] = [item for item in current if isinstance(item, dict) or identity(item) not in gone]


def _merge_ordered(kind: Type, original: Doc, patch: Doc, directive: str) -> None:
    """`$setElementOrder`: merge the list it names, then sort it in the given order. Removes both from the patch."""
    order = _list(patch.pop(directive))
    name = _target(directive, _ORDER)
    before, change = list(_list(original.get(name, []))), _list(patch.get(name, []))
    list_kind = _list_type(kind, name)
    key = list_kind.merge_key
    check_order(change, order, key)
    if name in original:
        merged = _merge_list(list_kind, original[name], change) if name in patch else original[name]
    elif name in patch:
        merged = _without_directives(change)
    else:
        return
    merged = arranged(merged, order, before, key)
    check_items(before, change)
    original[name] = merged
    patch.pop(name, None)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise PatchFailed(f"expected a []interface {{}}, but received a {type_name(value)}")
    return value


# -- the schema's part -------------------------------------------------------------------------------------------------


def _field_type(kind: Type, name: str) -> Type:
    if isinstance(kind, Struct) and name in kind.fields:
        return kind.fields[name].type
    if isinstance(kind, (Struct, Scalar)):
        struct = kind.name if isinstance(kind, Struct) else "RawExtension"  # an undeclared value
        raise PatchFailed(f'unable to find api field in struct {struct} for the json field "{name}"')
    found = "map" if isinstance(kind, MapOf) else "slice"
    raise PatchFailed(f"merging an object in json but data type is not struct, instead is: {found}")


def _list_type(kind: Type, name: str) -> ListOf:
    found = _field_type(kind, name)
    if isinstance(found, ListOf):
        return found
    raise PatchFailed("expected slice or array type, but got: struct")


def check_items(*lists: list[Any]) -> None:
    """All items must have the same type, and not be lists."""
    types = [type(item) for items in lists for item in items]
    if not types:
        raise PatchFailed("no elements in any of the given slices")
    if types[0] is list:
        raise Invalid("the server rejected our request due to an error in our request")
    if len(set(types)) > 1:
        raise PatchFailed(f"list element types are not identical: {plain(list(lists))}")


def check_order(patch: list[Any], order: list[Any], key: str) -> None:
    """The items of the patch must appear in the order list, in the same order."""
    if not patch or not order:
        return
    rest = iter(order)
    for item in patch:
        if key and "$patch" in _map(item):
            continue
        name = identity(key_of(item, key) if key else item)
        if not any(name == identity(key_of(_map(other), key) if key else other) for other in rest):
            raise PatchFailed(
                f"The order in patch list:\n{plain(patch)}\n doesn't match $setElementOrder list:\n{plain(order)}\n"
            )


def _map(item: Any) -> Doc:
    if not isinstance(item, dict):
        raise PatchFailed(f"expected a map[string]interface {{}}, but received a {type_name(item)}")
    return item


def arranged(merged: list[Any], order: list[Any], server_order: list[Any], key: str) -> list[Any]:
    """Items of `order` in its order, others in the server's; of the two next ones the server's earlier one first."""
    ordered, served = NamedItems(order, key), NamedItems(server_order, key)
    named: list[tuple[int, int, Any]] = []
    others: list[tuple[int, Any]] = []
    for item in merged:
        name = key_of(item, key) if key else item
        position = ordered.find(name)
        if position is None:
            others.append((served.rank(name), item))
        else:
            named.append((position, served.rank(name), item))
    named.sort(key=lambda each: each[0])
    others.sort(key=lambda each: each[0])
    result: list[Any] = []
    taken = 0
    for _, here, item in named:
        while taken < len(others) and 0 <= others[taken][0] < here:
            result.append(others[taken][1])
            taken += 1
        result.append(item)
    return result + [item for _, item in others[taken:]]


class NamedItems:
    """The positions of a list's items by name: one lookup per item, for a list may have ten thousand items."""

    __slots__ = ("_first_that_is_no_map", "_key", "_positions")

    def __init__(self, items: list[Any], key: str) -> None:
        self._key = key
        self._positions: dict[Any, int] = {}
        self._first_that_is_no_map: int | None = None
        for position, item in enumerate(items):
            if key and not isinstance(item, dict):
                self._first_that_is_no_map = position
                return
            self.add(position, item)

    def add(self, position: int, item: Any) -> None:
        self._positions.setdefault(identity(item.get(self._key) if self._key else item), position)

    def find(self, name: Any) -> int | None:
        """The position of the first item of that name. Raises PatchFailed if an earlier item is not a map."""
        position = self._positions.get(identity(name))
        if position is None and self._first_that_is_no_map is not None:
            raise PatchFailed(f"value for key {self._first_that_is_no_map} is not a map")
        return position

    def rank(self, name: Any) -> int:
        found = self.find(name)
        return -1 if found is None else found


def identity(value: Any) -> Any:
    """A hashable value, equal for what Go's interfaces call equal: values of the same type."""
    return (list, _SORTED.encode(value)) if isinstance(value, (dict, list)) else (type(value), value)


def key_of(item: Doc, key: str) -> Any:
    """The merge key's value. Raises PatchFailed if the item has none."""
    if key not in item:
        raise PatchFailed(f"map: {plain(item)} does not contain declared merge key: {key}")
    return item[key]
