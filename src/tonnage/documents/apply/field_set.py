"""A set of field paths, kept in the form of the wire: the FieldsV1 tree of `metadata.managedFields`.

    {"f:spec": {"f:replicas": {}, "f:containers": {'k:{"name":"web"}': {".": {}, "f:image": {}}}}}

A key is one step of a path: `f:name` a field or map entry, `k:{…}` the list item with these keys, `v:…` the set item
with this value, `i:3` a position. A node is a member of the set if it has nothing below it or has the key "."; the root
never is. Every write reads and writes ownership: in the wire's form both cost nothing.

Trees never change, so sets, documents and copies share them. Every key is in canonical spelling (`from_fields_v1`
ensures it), so two steps are equal if their texts are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, TypeVar

from tonnage.objects.texts.decode_budget import REQUEST, Budget, BudgetExceeded
from tonnage.objects.texts.json_text import read_json

T = TypeVar("T")
Tree = dict[str, "Tree"]
Path = tuple[str, ...]
"""Steps in FieldsV1 spelling, outermost first."""


class FieldSet:
    """A set of paths. Every operation returns a new set and leaves its operands unchanged."""

    __slots__ = ("tree",)

    def __init__(self, tree: Tree | None = None) -> None:
        self.tree: Tree = tree or {}

    @classmethod
    def of(cls, *paths: tuple[str, ...]) -> FieldSet:
        """A set of paths given by field names alone: `FieldSet.of(("status",), ("metadata", "labels"))`."""
        result = cls()
        for names in paths:
            tree: Tree = {}
            for name in reversed(names):
                tree = {f"f:{name}": tree}
            result = result.union(cls(tree))
        return result

    @classmethod
    def from_fields_v1(cls, fields: Any) -> FieldSet:
        """Read a client's FieldsV1; steps of an unknown sort are dropped. Raises ValueError if it is not FieldsV1."""
        return cls(_read(fields, root=True))

    def to_fields_v1(self) -> Tree:
        """The tree in upstream's order: "." first, then the steps. Not to be changed."""
        return _in_order(self.tree)

    @property
    def is_empty(self) -> bool:
        return not self.tree

    @classmethod
    def union_of(cls, sets: Iterable[FieldSet]) -> FieldSet:
        """The paths in any of the sets, in linear time: repeated `union` would copy the growing sum every time."""
        trees = [field_set.tree for field_set in sets if field_set.tree]
        return cls(_union_of(trees)) if trees else cls()

    def union(self, other: FieldSet) -> FieldSet:
        return FieldSet.union_of((self, other))

    def difference(self, other: FieldSet) -> FieldSet:
        """The paths that are not in `other`. A path below a path of `other` stays."""
        rest = _difference_below(self.tree, other.tree)
        return self if rest is self.tree else FieldSet(rest)

    def without(self, other: FieldSet) -> FieldSet:
        """The paths that are neither in `other` nor anywhere below a path of `other`."""
        return FieldSet(_without_below(self.tree, other.tree)) if other.tree else self

    def intersection(self, other: FieldSet) -> FieldSet:
        return FieldSet(_intersection_below(self.tree, other.tree))

    def paths(self) -> Iterator[Path]:
        """Every path in upstream's order: a node's members first, sorted, then the paths below each member."""
        yield from _paths(self.tree, ())

    def __contains__(self, path: Path) -> bool:
        node = self.tree
        for step in path:
            if step not in node:
                return False
            node = node[step]
        return bool(path) and _is_member(node)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldSet) and self.tree == other.tree

    __hash__ = None  # type: ignore[assignment]  # a set of dicts; equal sets must not pretend to be hashable

    def __repr__(self) -> str:
        return f"FieldSet({self.tree!r})"


# -- nodes: {} is a member with nothing below it, None stands for no node at all --------------------------------------


def _is_member(node: Tree) -> bool:
    return not node or "." in node


def _plain(node: Tree) -> Tree:
    """A member with nothing left below it is written {}, without the dot."""
    return {} if len(node) == 1 and "." in node else node


def _union_of(trees: list[Tree]) -> Tree:
    if len(trees) == 1:
        return trees[0]
    nodes: dict[str, list[Tree]] = {}
    for tree in trees:
        for step, below in tree.items():
            nodes.setdefault(step, []).append(below)
    if not nodes:
        return {}
    both = {step: _union_of(below) for step, below in nodes.items()}
    return both if "." in both or all(trees) else {".": {}, **both}


def _difference_below(left: Tree, right: Tree) -> Tree:
    rest = left
    # The shorter side is walked: a change of many fields meets many owners of few fields.
    for step in right if len(right) <= len(left) else list(left):
        if step != "." and step in left and step in right:
            kept = _difference(left[step], right[step])
            if kept is left[step]:
                continue
            if rest is left:
                rest = dict(left)
            if kept is None:
                del rest[step]
            else:
                rest[step] = kept
    return rest


def _difference(left: Tree, right: Tree) -> Tree | None:
    loses_itself = _is_member(right)
    if not left:
        return None if loses_itself else left
    rest = _difference_below(left, right)
    if loses_itself and "." in rest:
        rest = {step: below for step, below in rest.items() if step != "."}
    return _plain(rest) if rest else None


def _without_below(left: Tree, right: Tree) -> Tree:
    rest: Tree = {}
    for step, below in left.items():
        if step in right and step != ".":
            if _is_member(right[step]):
                continue
            kept = _without_below(below, right[step])
            if kept or not below:
                rest[step] = _plain(kept)
        else:
            rest[step] = below
    return rest


def _intersection_below(left: Tree, right: Tree) -> Tree:
    both: Tree = {}
    for step in left if len(left) <= len(right) else right:
        if step != "." and step in left and step in right:
            below = left[step]
            shared = _intersection_below(below, right[step])
            if _is_member(below) and _is_member(right[step]):
                both[step] = {".": {}, **shared} if shared else {}
            elif shared:
                both[step] = shared
    return both


def _paths(tree: Tree, above: Path) -> Iterator[Path]:
    steps = sorted((step for step in tree if step != "."), key=_order)
    for step in steps:
        if _is_member(tree[step]):
            yield (*above, step)
    for step in steps:
        yield from _paths(tree[step], (*above, step))


class OrderedTree(dict[str, Tree]):
    """A tree with sorted keys at every depth. The type marks it, so a tree that documents share is sorted once."""

    __slots__ = ()


def _in_order(tree: Tree) -> Tree:
    """The same tree with sorted keys at every depth; an OrderedTree is returned as it is."""
    if type(tree) is OrderedTree:
        return tree
    steps = sorted(tree, key=_order)
    ordered = {step: _in_order(tree[step]) if tree[step] else tree[step] for step in steps}
    if steps == list(tree) and all(ordered[step] is tree[step] for step in steps):
        return tree
    return ordered


_CACHED_LENGTH = 256
"""Longer steps are not cached: clients choose their length, and with it the size of the cache."""


def _cached(function: Callable[[str], T]) -> Callable[[str], T]:
    kept = lru_cache(maxsize=8192)(function)
    return lambda step: kept(step) if len(step) <= _CACHED_LENGTH else function(step)


@_cached
def _order(step: str) -> tuple[Any, ...]:
    """Sort key: fields, then items by key, by value, by position; numbers before text, as upstream compares values."""
    sort, text = step[0], step[2:]
    if sort == ".":
        return (-1,)
    if sort == "f":
        return (0, text)
    if sort == "k":
        return (1, *((name, _rank(value), value) for name, value in json.loads(text).items()))
    if sort == "v":
        value = json.loads(text)
        return (2, _rank(value), 0 if value is None else value)
    return (3, int(text))


def _rank(value: Any) -> int:
    return 3 if value is None else 2 if isinstance(value, bool) else 1 if isinstance(value, str) else 0


# -- steps ------------------------------------------------------------------------------------------------------------

_HTML = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}


def json_text(scalar: str | int | float | bool | None) -> str:
    """A scalar as Go writes it into JSON: quotes, control characters, `<`, `>` and `&` are escaped."""
    return json.dumps(scalar, ensure_ascii=False).translate(_HTML)


@_cached
def _canonical(step: str) -> str | None:
    """A client's step in canonical spelling; None if its sort is unknown. Raises ValueError."""
    if len(step) < 2:
        raise ValueError(f"key must be 2 characters long: {step}")
    if step[1] != ":":
        raise ValueError(f"missing colon: {step}")
    sort, text = step[0], step[2:]
    if sort == "f":
        return step
    if sort == "v":
        value = _read_json(text)
        if isinstance(value, (dict, list)):
            raise ValueError(f"expected a scalar: {step}")
        return f"v:{json_text(value)}"
    if sort == "k":
        keys = _read_json(text)
        if not isinstance(keys, dict) or any(isinstance(value, (dict, list)) for value in keys.values()):
            raise ValueError(f"expected an object of scalars: {step}")
        return "k:{" + ",".join(f"{json_text(name)}:{json_text(keys[name])}" for name in sorted(keys)) + "}"
    return f"i:{int(text)}" if sort == "i" else None


def _read_json(text: str) -> Any:
    try:
        return read_json(text.encode(), Budget(REQUEST))
    except BudgetExceeded as exc:
        raise ValueError(exc.message) from exc


def _read(fields: Any, *, root: bool = False) -> Tree:
    if not isinstance(fields, dict):
        raise ValueError(f"expected an object, found {json.dumps(fields)}")
    tree: Tree = {}
    for step, below in fields.items():
        if step == ".":
            continue
        spelled = _canonical(step)
        if spelled is not None:
            tree[spelled] = _read(below)
    return {".": {}, **tree} if "." in fields and tree and not root else tree


def path_text(path: Path) -> str:
    """A path as upstream prints it: `.spec.containers[name="web"].ports[containerPort=80,protocol="TCP"]`."""
    return "".join(map(_step_text, path))


def _step_text(step: str) -> str:
    sort, text = step[0], step[2:]
    if sort == "f":
        return f".{text}"
    if sort == "k":
        keys = json.loads(text)
        return "[" + ",".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in keys.items()) + "]"
    return f"[={json.dumps(json.loads(text), ensure_ascii=False)}]" if sort == "v" else f"[{text}]"
