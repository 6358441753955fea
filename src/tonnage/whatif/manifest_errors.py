"""Explains what is wrong with a document of a file: file, object, field, and remedy.

    web.yaml, document 3 (Pod default/web): spec.containers[0].resources.requests.cpu="1 core" is not a quantity: …

An API server's error for a malformed document names no list positions and, for quantities, no field; so once `admit`
has refused a document, the innermost refused part is searched here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from tonnage.documents.admit import Malformed, admit
from tonnage.documents.schema import ListOf, MapOf, Scalar, Struct, Type
from tonnage.errors import TonnageError, did_you_mean
from tonnage.objects.document import Doc, copy
from tonnage.quantity import InvalidQuantity, Quantity


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an object stands: the document of a file, counted from 1, and its place in a list, such as `items[4]`."""

    file: str
    document: int
    item: str = ""
    object: str = ""
    """Such as `Pod default/web`, as far as known."""
    unit: str = "document"
    """What the file's parts are called, such as a replay's steps. Number 0 stands for the whole file."""

    def __str__(self) -> str:
        document = f"{self.file}, {self.unit} {self.document}" if self.document else self.file
        place = document + (f", {self.item}" if self.item else "")
        return f"{place} ({self.object})" if self.object else place


class BrokenManifest(TonnageError):
    """A manifest that cannot be used; `field` is empty when the document as a whole is wrong."""

    def __init__(self, origin: Origin | str, problem: str, *, field: str = "", hint: str | None = None) -> None:
        self.origin = origin
        self.field = field
        super().__init__(f"{origin}: {problem}", hint=hint)


def malformed(origin: Origin, struct: Struct, doc: Doc) -> BrokenManifest:
    path, value, kind = _innermost(struct, doc, "", lambda whole: _admits(struct, whole))
    if isinstance(kind, Scalar) and kind.name == "Quantity" and type(value) in (str, int, float):
        try:
            Quantity.of(value, field=path)
        except InvalidQuantity as exc:
            return BrokenManifest(origin, exc.message, field=path)
    name, remedy = _expected(kind, value)
    return BrokenManifest(origin, f"{path}={shown_value(value)} is not {name}; {remedy}", field=path)


def unknown_fields(origin: Origin, struct: Struct, paths: list[str]) -> BrokenManifest:
    """The error for unknown fields, in the API server's words."""
    guesses = [guess for path in paths if (guess := _guess(struct, path))]
    told = ", ".join(f'unknown field "{path}"' for path in paths)
    return BrokenManifest(origin, told, field=paths[0], hint="; ".join(guesses) or None)


def _guess(struct: Struct, path: str) -> str:
    """`did you mean "spec.containers"?`: the most similar field of the struct that the path ends in."""
    *steps, last = [step.partition("[")[0] for step in path.split(".")]
    kind: Type = struct
    for step in steps:
        field = kind.fields.get(step) if isinstance(kind, Struct) else None
        if field is None:
            return ""
        kind = field.type
        while isinstance(kind, (ListOf, MapOf)):
            kind = kind.item
    return did_you_mean(last, kind.fields) if isinstance(kind, Struct) else ""


Fits = Callable[[Any], bool]


def _innermost(kind: Type, value: Any, path: str, fits: Fits) -> tuple[str, Any, Type]:
    """Path, value and type of the smallest refused part. `fits` says whether a value is valid at a place."""
    for step, part, part_kind, part_fits in _parts(kind, value, fits):
        if part is not None and not part_fits(part):
            return _innermost(part_kind, part, f"{path}{step}".removeprefix("."), part_fits)
    return path, value, kind


def _parts(kind: Type, value: Any, fits: Fits) -> Iterator[tuple[str, Any, Type, Fits]]:
    if isinstance(kind, Struct) and isinstance(value, dict):
        for name, item in value.items():
            if name in kind.fields:
                yield f".{name}", item, kind.fields[name].type, lambda part, name=name: _admits(kind, {name: part})  # type: ignore[misc]
    elif isinstance(kind, ListOf) and isinstance(value, list):
        for idx, item in enumerate(value):
            yield f"[{idx}]", item, kind.item, lambda part: fits([part])
    elif isinstance(kind, MapOf) and isinstance(value, dict):
        for name, item in value.items():
            step = f".{name}" if name.isidentifier() else f"[{name}]"
            yield step, item, kind.item, lambda part: fits({"key": part})


def _admits(struct: Struct, doc: Doc) -> bool:
    try:
        admit(struct, copy(doc))
    except Malformed:
        return False
    return True


# -- words ------------------------------------------------------------------------------------------------------------

_MAP = ("a map", "write a name and a colon before each of its values")
_LIST = ("a list", "write a dash before each of its items")
_SCALARS: dict[str, tuple[str, str]] = {
    "string": ("text", 'write text such as "a"'),
    "bool": ("true or false", "write true or false, without quotes"),
    "int32": ("a whole number of 32 bits", "write a number such as 3"),
    "int64": ("a whole number of 64 bits", "write a number such as 3"),
    "number": ("a number", "write a number such as 0.5"),
    "bytes": ("base64 text", 'write text such as "YQ=="'),
    "Quantity": ("a quantity", 'write text such as "10Gi"'),
    "IntOrString": ("a number or text", 'write a number such as 3, or text such as "30%"'),
    "Time": ("a time with its zone", 'write text such as "2026-11-15T02:29:13Z"'),
    "MicroTime": ("a time with its zone", 'write text such as "2026-11-15T02:29:13.000000Z"'),
}
_SHOWN = 60


def _expected(kind: Type, value: Any) -> tuple[str, str]:
    """What is expected, and what to write."""
    if isinstance(kind, ListOf):
        return _LIST
    if not isinstance(kind, Scalar):
        return _MAP
    name, remedy = _SCALARS.get(kind.name, _MAP)
    if kind.name == "string" and isinstance(value, (bool, int, float)):
        remedy = f'write "{msgspec.json.encode(value).decode()}", in quotes'
    elif isinstance(value, str) and kind.name in ("int32", "int64") and value.isdecimal():
        remedy = f"write {value}, without quotes"
    return name, remedy


def shown_value(value: Any) -> str:
    """A value as JSON, shortened if long."""
    try:
        text = msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError):
        text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
