"""Items of a strategically merged list: telling them apart, and the order they end up in.

Items are told apart by the value of their merge key; where there is none (`key` is empty) they are scalars and name
themselves. See `strategic_merge` for what is done with them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tonnage.documents.go_text import plain, type_name
from tonnage.documents.patches.json_patch import PatchFailed
from tonnage.errors import Invalid
from tonnage.objects.document import Doc


def check_items(*lists: list[Any]) -> None:
    """All items must be of one type, and that no list."""
    types = [type(item) for items in lists for item in items]
    if not types:
        raise PatchFailed("no elements in any of the given slices")
    if types[0] is list:
        raise Invalid("the server rejected our request due to an error in our request")
    if len(set(types)) > 1:
        raise PatchFailed(f"list element types are not identical: {plain(list(lists))}")


def check_order(patch: list[Any], order: list[Any], key: str) -> None:
    """The items of the patch must appear in the order list, one after another."""
    if not patch or not order:
        return
    rest = iter(order)
    for item in patch:
        if key:
            if not isinstance(item, dict):
                raise PatchFailed(f"expected a map[string]interface {{}}, but received a {type_name(item)}")
            if "$patch" in item:
                continue
        if not any(_names_same(item, other, key) for other in rest):
            raise PatchFailed(
                f"The order in patch list:\n{plain(patch)}\n doesn't match $setElementOrder list:\n{plain(order)}\n"
            )


def _names_same(left: Any, right: Any, key: str) -> bool:
    if not key:
        return is_same(left, right)
    if not isinstance(right, dict):
        raise PatchFailed(f"expected a map[string]interface {{}}, but received a {type_name(right)}")
    return is_same(key_of(left, key), key_of(right, key))


def arranged(merged: list[Any], order: list[Any], server_order: list[Any], key: str) -> list[Any]:
    """What `order` names in its order, the rest in the server's, and of the two heads the one the server had first."""
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
    """Where the items of a list stand, by name: a lookup costs the same however long the list is.

    A list may have ten thousand items, each looked up among all others; walking it each time takes minutes.
    """

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
        """The position of the first item of that name. Raises PatchFailed when an item on the way there is no map."""
        position = self._positions.get(identity(name))
        if position is None and self._first_that_is_no_map is not None:
            raise PatchFailed(f"value for key {self._first_that_is_no_map} is not a map")
        return position

    def rank(self, name: Any) -> int:
        found = self.find(name)
        return -1 if found is None else found


def identity(value: Any) -> Any:
    """Something hashable that is equal for values of which `is_same` is true, and for no others."""
    return (list, _SORTED.encode(value)) if isinstance(value, (dict, list)) else (type(value), value)


_SORTED = msgspec.json.Encoder(order="sorted")


def key_of(item: Doc, key: str) -> Any:
    """The merge key's value. Raises PatchFailed when the item has none."""
    if key not in item:
        raise PatchFailed(f"map: {plain(item)} does not contain declared merge key: {key}")
    return item[key]


def is_same(left: Any, right: Any) -> bool:
    """Go's equality of interfaces: of one type and equal."""
    return type(left) is type(right) and bool(left == right)
