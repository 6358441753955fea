"""The two patches that know nothing of Kubernetes: JSON patch (RFC 6902) and JSON merge patch (RFC 7396).

JSON patch is implemented here, because the API server's is more lenient than the standard and clients rely on it:
`replace` may name a missing field, a missing field tests equal to null and copies as null, a missing `value` is null,
and negative positions count from the end of a list. Every refusal has the same sentence.

Operations can multiply values: a patch has a budget for copies, and for the depth of the result.
"""

from __future__ import annotations

import re
from typing import Any

from tonnage.documents.api_errors import too_much
from tonnage.documents.go_text import json_type
from tonnage.errors import ApiError, BadRequest, Invalid, RequestEntityTooLarge
from tonnage.objects.document import REQUEST, Budget, BudgetExceeded, Doc, Size, copy, encode, size_of
from tonnage.objects.field_errors import invalid, invalid_object

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 * 1024 * 1024
"""Bytes that the `copy` operations of one patch may add: upstream's JSONPatchMaxCopyBytes."""

_DOES_NOT_APPLY = "the server rejected our request due to an error in our request"
_NO_OBJECT = (
    "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct "
    '{ APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
_POSITION = re.compile(r"[+-]?[0-9]+")
_MAX_POSITION = 20


class PatchFailed(ApiError, code=500, reason=""):
    """An error without a reason upstream: 500, only a sentence. Patches that misuse a directive get it."""


class _DoesNotApplyError(Exception):
    """An operation fails, and with it the whole patch."""


def merge_patch(doc: Doc, patch: Any) -> Doc:
    """Merge `patch` into a copy of the document: null removes, objects merge, the rest replaces. Raises BadRequest."""
    if patch is None:
        raise BadRequest("Invalid JSON Patch")
    if not isinstance(patch, dict):
        raise BadRequest(f"error decoding patch: {cannot_unmarshal(patch, 'map[string]interface {}')}")
    return _merged(copy(doc), patch)


def _merged(target: Doc, patch: Doc) -> Doc:
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        elif isinstance(value, dict):
            current = target.get(name)
            target[name] = _merged(current if isinstance(current, dict) else {}, value)
        else:
            target[name] = copy(value)
    return target


def json_patch(doc: Doc, operations: Any) -> Doc:
    """A copy of the document after all operations.

    Raises BadRequest if `operations` is no list of operations or nests too deeply, RequestEntityTooLarge for too many
    operations or copies, Invalid if an operation does not apply or the document becomes a list.
    """
    _check(operations)
    try:
        patched = _Patching(copy(doc)).run(operations)
    except _DoesNotApplyError as exc:
        raise Invalid(_DOES_NOT_APPLY) from exc
    except BudgetExceeded as exc:
        raise too_much(exc) from exc
    if not isinstance(patched, dict):
        raise invalid_object("", "", "", [invalid("patch", encode(patched).decode(), _NO_OBJECT)])
    return patched


def _check(operations: Any) -> None:
    if not isinstance(operations, list):
        raise BadRequest(f"error decoding patch: {cannot_unmarshal(operations, '[]handlers.jsonPatchOp')}")
    for operation in operations:
        if operation is not None and not isinstance(operation, dict):
            raise BadRequest(f"error decoding patch: {cannot_unmarshal(operation, 'handlers.jsonPatchOp')}")
        for name in ("op", "path", "from"):
            given = (operation or {}).get(name)
            if given is not None and not isinstance(given, str):
                told = f"cannot unmarshal {json_type(given)} into Go struct field jsonPatchOp.{name} of type string"
                raise BadRequest(f"error decoding patch: json: {told}")
    if len(operations) > MAX_OPERATIONS:
        raise RequestEntityTooLarge(
            "Request entity too large: "
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        )


def cannot_unmarshal(value: Any, go_type: str) -> str:
    return f"json: cannot unmarshal {json_type(value)} into Go value of type {go_type}"


class _Patching:
    def __init__(self, doc: Any) -> None:
        self.doc = doc
        self.copied_bytes = 0
        self.budget = Budget(REQUEST)

    def run(self, operations: list[Doc | None]) -> Any:
        for operation in operations:
            match operation or {}:
                case {"op": "remove", "path": str(path)}:
                    self.remove(path)
                case {"op": "add" | "replace" | "test" | "move" | "copy" as name}:
                    getattr(self, name)(operation)
                case _:
                    raise _DoesNotApplyError(f"unexpected kind in {operation}")
        return self.doc

    def place(self, path: str | None) -> tuple[Any, str]:
        """The container of a path's target, and the last token. Text before the first slash is ignored."""
        tokens = [token.replace("~1", "/").replace("~0", "~") for token in (path or "").split("/")[1:]]
        if not tokens:
            raise _DoesNotApplyError(f"missing path {path}")
        container = self.doc
        for token in tokens[:-1]:
            container = get(container, token)
        if not isinstance(container, (dict, list)):
            raise _DoesNotApplyError(f"missing path {path}")
        return container, tokens[-1]

    def add(self, operation: Doc) -> None:
        value = copy(operation.get("value"))
        self.check_depth(operation.get("path"), size_of(value))
        self.put(operation.get("path"), value)

    def check_depth(self, path: str | None, size: Size) -> None:
        """Raises BudgetExceeded if a value of this size would nest too deeply at this path."""
        self.budget.enter(levels_of(path) + size.depth)

    def put(self, path: str | None, value: Any) -> None:
        container, token = self.place(path)
        if isinstance(container, dict):
            container[token] = value
        elif token == "-":
            container.append(value)
        else:
            container.insert(position(token, len(container) + 1), value)

    def remove(self, path: str | None) -> Any:
        container, token = self.place(path)
        if isinstance(container, list):
            return container.pop(position(token, len(container)))
        if token not in container:
            raise _DoesNotApplyError(f"nonexistent key {token}")
        return container.pop(token)

    def replace(self, operation: Doc) -> None:
        value = copy(operation.get("value"))
        self.check_depth(operation.get("path"), size_of(value))
        if operation.get("path") == "":
            if not isinstance(value, (dict, list)):
                raise _DoesNotApplyError("value must be object or array")
            self.doc = value
            return
        container, token = self.place(operation.get("path"))
        container[token if isinstance(container, dict) else position(token, len(container))] = value

    def test(self, operation: Doc) -> None:
        found = self.doc if operation.get("path") == "" else get(*self.place(operation.get("path")))
        if not equal(found, operation.get("value")):
            raise _DoesNotApplyError("test failed")

    def move(self, operation: Doc) -> None:
        source, path = operation.get("from"), operation.get("path")
        value = self.remove(source)
        if levels_of(path) > levels_of(source):
            # The depth must be counted every time: this is charged like a copy.
            size = size_of(value)
            self.budget.charge(size.values)
            self.check_depth(path, size)
        self.put(path, value)

    def copy(self, operation: Doc) -> None:
        value = get(*self.place(operation.get("from")))
        self.copied_bytes += len(encode(value))
        if self.copied_bytes > MAX_COPIED_BYTES:
            raise _DoesNotApplyError("copies too much")
        size = size_of(value)
        self.budget.charge(size.values, size.text_bytes)
        self.check_depth(operation.get("path"), size)
        self.put(operation.get("path"), copy(value))


def levels_of(path: str | None) -> int:
    """How many maps and lists enclose the target of a path."""
    return (path or "").count("/")


def get(container: Any, token: str) -> Any:
    """The value at a token; a missing field is None, a missing list item is an error."""
    if isinstance(container, dict):
        return container.get(token)
    if isinstance(container, list):
        return container[position(token, len(container))]
    raise _DoesNotApplyError(f"no such place as {token}")


def position(token: str, length: int) -> int:
    """A list position below `length`; a negative position counts from the end."""
    if len(token) > _MAX_POSITION or not _POSITION.fullmatch(token):
        raise _DoesNotApplyError(f"not a position: {token}")
    index = int(token)
    if not -length <= index < length:
        raise _DoesNotApplyError(f"invalid index: {index}")
    return index % length


def equal(left: Any, right: Any) -> bool:
    """Equality of JSON, where true is not 1 and 1 is not 1.0 (upstream compares the text of scalars)."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    return type(left) is type(right) and bool(left == right)
