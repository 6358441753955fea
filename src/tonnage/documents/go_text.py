"""JSON values as Go prints them, for the few error messages of upstream that show a value raw.

`map[image:nginx name:web]` looks odd in a Python program, but it is what people search for. Most messages quote values
as JSON instead; that is `fielderrors.go_value`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any


def plain(value: Any) -> str:
    """As %v prints it: text bare, lists in brackets, maps sorted by key."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{plain(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(plain, value)) + "]"
    if value is None:
        return "<nil>"
    if isinstance(value, float):
        return _float(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _float(value: float) -> str:
    """The shortest digits that are this number, with an exponent from a million on: `1.5`, `2`, `1e+06`."""
    if not math.isfinite(value):
        return {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, "NaN")
    sign, numbers, _ = Decimal(repr(value)).normalize().as_tuple()
    digits, exponent = "".join(map(str, numbers)), Decimal(repr(value)).adjusted() if value else 0
    if -4 <= exponent < 6 or digits == "0":
        text = format(Decimal(repr(value)).normalize(), "f")
        return "-0" if sign and digits == "0" else text
    rest = f".{digits[1:]}" if digits[1:] else ""
    return f"{'-' if sign else ''}{digits[0]}{rest}e{'-' if exponent < 0 else '+'}{abs(exponent):02}"


def literal(value: Any) -> str:
    """As %#v prints it: Go source."""
    if isinstance(value, dict):
        inside = ", ".join(f"{json.dumps(key)}:{literal(value[key])}" for key in sorted(value))
        return f"map[string]interface {{}}{{{inside}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(literal, value))}}}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return plain(value)


def type_name(value: Any) -> str:
    """As %T prints it."""
    if value is None:
        return "<nil>"
    names = {dict: "map[string]interface {}", list: "[]interface {}", str: "string", bool: "bool", int: "int64"}
    return names.get(type(value), "float64")


_SHORT_ESCAPES = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    '"': '\\"', "\\": "\\\\",
}  # fmt: skip


def quoted(text: str) -> str:
    """As %q prints it. Bytes that are no text, which HTTP libraries hand on as half surrogate pairs, show as bytes."""
    return '"' + "".join(map(_quoted, text)) + '"'


def _quoted(char: str) -> str:
    if char in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x20 or code == 0x7F or 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code & 0xFF:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def quoted_list(texts: Iterable[str]) -> str:
    """As %q prints a list: `["a" "b"]`."""
    return "[" + " ".join(map(quoted, texts)) + "]"
