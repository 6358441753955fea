"""Why a document could not be read: which object, which field, which value, and what to write instead.

Decoding tracks nothing; once it has failed, `unreadable` walks the document again to the innermost part that does not
fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from tonnage.errors import TonnageError
from tonnage.objects import field_errors, meta
from tonnage.quantity import InvalidQuantity, Quantity

Fits = Callable[[Any, Any], bool]
"""(value, type) -> True if the JSON value can be read as the type."""
_SHOWN = 60


class Unreadable(TonnageError):
    """A document without the shape of its kind; `field` is empty if the document as a whole is wrong."""

    def __init__(self, kind: str, key: str, field: str, problem: str, *, value: Any = None) -> None:
        self.kind = kind
        self.key = key
        self.field = field
        self.value = value
        super().__init__(f"{f'{kind} {key}' if key else kind}: {problem}")


def unreadable(cls: type[msgspec.Struct], doc: Any, kind: str, fits: Fits) -> Unreadable:
    """The error for a document of this kind that does not fit `cls`."""
    if not isinstance(doc, Mapping):
        return Unreadable(kind, "", "", f"expected a JSON object, found {_shown(doc)}", value=doc)
    key = _key(doc)
    found_kind = doc.get("kind", kind)
    if found_kind != kind:
        return Unreadable(kind, key, "kind", f"kind={_shown(found_kind)} is another kind", value=found_kind)
    field, value, type_ = _innermost(cls, doc, "", fits)
    return Unreadable(kind, key, field, _problem(field, value, type_), value=value)


def _key(doc: Mapping[str, Any]) -> str:
    metadata = doc.get("metadata")
    if not isinstance(metadata, Mapping):
        return ""
    parts = (metadata.get("namespace"), metadata.get("name") or metadata.get("generateName"))
    return "/".join(str(part) for part in parts if part)


def _innermost(type_: Any, value: Any, path: str, fits: Fits) -> tuple[str, Any, Any]:
    """Path, value and expected type of the smallest part that does not fit; a missing value is msgspec.UNSET."""
    for part_path, part, part_type in _parts(type_, value):
        whole_path = f"{path}{part_path}" if path else part_path.removeprefix(".")
        if part is msgspec.UNSET or not fits(part, part_type):
            return _innermost(part_type, part, whole_path, fits)
    return path, value, type_


def _parts(type_: Any, value: Any) -> Iterator[tuple[str, Any, Any]]:
    for choice in _choices(type_):
        origin = get_origin(choice)
        if isinstance(choice, type) and issubclass(choice, msgspec.Struct) and isinstance(value, Mapping):
            for field in msgspec.structs.fields(choice):
                if field.encode_name in value or field.required:
                    yield f".{field.encode_name}", value.get(field.encode_name, msgspec.UNSET), field.type
        elif origin is not None and issubclass(origin, Mapping) and isinstance(value, Mapping):
            for name, item in value.items():
                yield f"[{name}]", item, get_args(choice)[1]
        elif origin is tuple and isinstance(value, list | tuple):
            for position, item in enumerate(value):
                yield f"[{position}]", item, get_args(choice)[0]


def _choices(type_: Any) -> list[Any]:
    """The alternatives of a type, without None and annotations."""
    origin = get_origin(type_)
    if origin is Annotated:
        return _choices(get_args(type_)[0])
    if origin in (Union, UnionType):
        return [choice for part in get_args(type_) for choice in _choices(part)]
    return [] if type_ is NoneType else [type_]


def _problem(field: str, value: Any, type_: Any) -> str:
    if value is msgspec.UNSET:
        return f"{field} is missing; it is required"
    choices = _choices(type_)
    if choices == [Quantity] and isinstance(value, str | int | float):
        try:
            Quantity.of(value, field=field)
        except InvalidQuantity as exc:
            return exc.message
    expected = " or ".join(_described(choice)[0] for choice in choices)
    shown = f"{field} (its value is not shown)" if any(map(_is_secret, choices)) else f"{field}={_shown(value)}"
    return f"{shown} is not {expected}; {_remedy(choices[0], value)}"


def _is_secret(choice: Any) -> bool:
    """Only the data of Secrets are bytes: their values are never shown, right or wrong."""
    return choice is bytes or any(map(_is_secret, get_args(choice)))


_NAMES: dict[Any, tuple[str, str]] = {
    str: ("a string", 'write text such as "a"'),
    int: ("a whole number", "write a number such as 3"),
    bool: ("true or false", "write true or false, without quotes"),
    bytes: ("base64 text", 'write text such as "YQ=="'),
    Quantity: ("a quantity", 'write text such as "10Gi"'),
    datetime: ("a time with its zone", 'write text such as "2026-11-15T02:29:13Z"'),
    meta.MicroTime: ("a time with its zone", 'write text such as "2026-11-15T02:29:13.000000Z"'),
    tuple: ("a list", "write [ ] around its items"),
    Mapping: ("a map", "write a name and a colon before each of its values"),
}


def _described(choice: Any) -> tuple[str, str]:
    plain = get_origin(choice) or choice
    return _NAMES.get(plain) or _NAMES[Mapping]  # only records are left, which are maps on the wire


def _remedy(choice: Any, value: Any) -> str:
    if choice is str and isinstance(value, bool | int | float):
        return f'write "{field_errors.go_value(value)}", in quotes'
    if isinstance(value, str) and ((choice is int and value.isdecimal()) or (choice is bool and value in _BOOLS)):
        return f"write {value}, without quotes"
    return _described(choice)[1]


_BOOLS = ("true", "false")


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value, enc_hook=str).decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
