"""A set of field paths, kept in the form of the wire: the FieldsV1 tree of `metadata.managedFields`.

    {"f:spec": {"f:replicas": {}, "f:containers": {'k:{"name":"web"}': {".": {}, "f:image": {}}}}}

A key is one step of a path: `f:name` a field or map entry, `k:{…}` the list item with these keys, `v:…` the set item
with this value, `i:3` a position. A node is a member of the set if it has nothing below it or has the key "."; the root
never is. Every write reads and writes ownership: in the wire's form both cost nothing.

Trees never change: operations return new ones, and sets, documents and copies share them. Every key is in canonical
spelling (`read` ensures it), so two steps are equal if their texts are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import reduce
from typing import Any

from tonnage.keyed import grouped
from tonnage.objects.document import REQUEST, Budget, BudgetExceeded, read_json

Tree = dict[str, "Tree"]
Path = tuple[str, ...]
"""Steps in FieldsV1 spelling, outermost first."""
_EMPTY: Tree = {}


def of(*paths: tuple[str, ...]) -> Tree:
    """A set of paths given by field names alone: `of(("status",), ("metadata", "labels"))`."""
    return union(*(reduce(lambda tree, name: {f"f:{name}": tree}, reversed(names), _EMPTY) for names in paths))


def union(*trees: Tree) -> Tree:
    filled = [tree for tree in trees if tree]
    return _union_of(filled) if filled else {}


def contains(tree: Tree, path: Path) -> bool:
    for step in path:
        if step not in tree:
            return False
        tree = tree[step]
    return bool(path) and _is_member(tree)


# -- nodes: {} is a member with nothing below it, None stands for no node at all --------------------------------------


def _is_member(node: Tree) -> bool:
    return not node or "." in node


def _plain(node: Tree) -> Tree:
    """A member with nothing left below it is written {}, without the dot."""
    return {} if len(node) == 1 and "." in node else node


def _union_of(trees: list[Tree]) -> Tree:
    if len(trees) == 1:
        return trees[0]
    nodes = grouped(item for tree in trees for item in tree.items())
    if not nodes:
        return {}
    both = {step: _union_of(below) for step, below in nodes.items()}
    return both if "." in both or all(trees) else {".": {}, **both}


def difference(left: Tree, right: Tree) -> Tree:
    """The paths that are not in `right`; `left` itself if that is all. A path below a path of `right` stays."""
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
    rest = difference(left, right)
    if loses_itself and "." in rest:
        rest = {step: below for step, below in rest.items() if step != "."}
    return _plain(rest) if rest else None


def without(left: Tree, right: Tree) -> Tree:
    """The paths that are neither in `right` nor anywhere below a path of `right`."""
    rest: Tree = {}
    for step, below in left.items():
        if step in right and step != ".":
            if _is_member(right[step]):
                continue
            kept = without(below, right[step])
            if kept or not below:
                rest[step] = _plain(kept)
        else:
            rest[step] = below
    return rest


def intersection(left: Tree, right: Tree) -> Tree:
    both: Tree = {}
    for step in left if len(left) <= len(right) else right:
        if step != "." and step in left and step in right:
            below = left[step]
            shared = intersection(below, right[step])
            if _is_member(below) and _is_member(right[step]):
                both[step] = {".": {}, **shared} if shared else {}
            elif shared:
                both[step] = shared
    return both


def paths(tree: Tree, above: Path = ()) -> Iterator[Path]:
    """Every path in upstream's order: a node's members first, sorted, then the paths below each member."""
    steps = sorted((step for step in tree if step != "."), key=_order)
    for step in steps:
        if _is_member(tree[step]):
            yield (*above, step)
    for step in steps:
        yield from paths(tree[step], (*above, step))


class OrderedTree(dict[str, Tree]):
    """A tree with sorted keys at every depth. The type marks it, so a tree that documents share is sorted once."""

    __slots__ = ()


def in_order(tree: Tree) -> Tree:
    """The tree in upstream's order: "." first, then the steps. An OrderedTree is returned as it is."""
    if type(tree) is OrderedTree:
        return tree
    steps = sorted(tree, key=_order)
    ordered = {step: in_order(tree[step]) if tree[step] else tree[step] for step in steps}
    if steps == list(tree) and all(ordered[step] is tree[step] for step in steps):
        return tree
    return ordered


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


def read(fields: Any, *, is_root: bool = True) -> Tree:
    """Read a client's FieldsV1; steps of an unknown sort are dropped. Raises ValueError if it is not FieldsV1."""
    if not isinstance(fields, dict):
        raise ValueError(f"expected an object, found {json.dumps(fields)}")
    tree: Tree = {}
    for step, below in fields.items():
        if step == ".":
            continue
        spelled = _canonical(step)
        if spelled is not None:
            tree[spelled] = read(below, is_root=False)
    return {".": {}, **tree} if "." in fields and tree and not is_root else tree


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
