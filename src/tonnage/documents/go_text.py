"""Values and errors in Go's words, for upstream's messages that people search for.

`map[image:nginx name:web]` is a value as %v prints it. `syntax_error` explains invalid JSON: when msgspec has failed,
it reads the text again, slowly, up to the first wrong character.
"""

from __future__ import annotations

import json
import math
import re
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


def json_type(value: Any) -> str:
    """As Go's decoder names a value that it did not expect."""
    names = {str: "string", list: "array", dict: "object", bool: "bool", int: "number", float: "number"}
    return names.get(type(value), "null")


_SHORT_ESCAPES = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    '"': '\\"', "\\": "\\\\",
}  # fmt: skip


def quoted(text: str) -> str:
    """As %q prints it. Invalid UTF-8, which HTTP libraries pass on as lone surrogates, shows as bytes."""
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


_BLANKS = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+(?:(\\)(?:(u)[0-9a-fA-F]*+)?)?')
"""A string up to its end, or up to the first character that is not allowed in it. Groups match in a wrong escape."""
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*|())(?:\.(?:[0-9]+|()))?(?:[eE][+-]?(?:[0-9]+|()))?")
"""A number. Groups match where digits are missing."""
_DIGITS_MISSING = ("in numeric literal", "after decimal point in numeric literal", "in exponent of numeric literal")
_WORDS = {"t": "true", "f": "false", "n": "null"}
_MAX_DEPTH = 10_000
_VALUE, _COLON = "looking for beginning of value", "after object key"
_KEY = "looking for beginning of object key string"
_AFTER = {"}": "after object key:value pair", "]": "after array element", "": "after top-level value"}
_STARTS = {
    _VALUE: '{["-0123456789tfn',
    _KEY: '"',
    _COLON: ":",
    **{told: end and f",{end}" for end, told in _AFTER.items()},
}
"""What is wanted, in the words of the error -> the characters that it may begin with."""


def syntax_error(text: bytes) -> str:
    """The error for a text that does not parse; for one that does, that it ends unexpectedly."""
    said, at = text.decode("latin-1"), 0  # Go reads bytes, and shows a byte beyond ASCII as the character of its number
    wanted, closing, ends = _VALUE, "", [""]
    while len(ends) <= _MAX_DEPTH:
        at = _end(_BLANKS, said, at)
        wrong = "" if said[at : at + 1] in (*_STARTS[wanted], *closing) else wanted
        if not wrong and said[at] not in "{[]},:":
            at, wrong = _scalar(said, at)
            wanted, closing = _COLON if wanted is _KEY else _AFTER[ends[-1]], ""
        elif not wrong:
            wanted, closing = _step(said[at], ends)
            at += 1
        if at >= len(said):
            return "unexpected end of JSON input"
        if wrong:
            return f"invalid character {_quoted_char(said[at])} {wrong}"
    return "exceeded max depth"


def _step(char: str, ends: list[str]) -> tuple[str, str]:
    """What is wanted after a bracket, comma or colon, and the bracket that may stand there instead."""
    if char in "{[":
        ends.append("}" if char == "{" else "]")
        return _KEY if char == "{" else _VALUE, ends[-1]
    if char in "}]":
        ends.pop()
        return _AFTER[ends[-1]], ""
    return _KEY if char == "," and ends[-1] == "}" else _VALUE, ""


def _scalar(said: str, at: int) -> tuple[int, str]:
    """The end of a string, number or word, or where and in what it breaks off."""
    if said[at] == '"':
        found = _STRING.match(said, at)
        assert found is not None
        at = found.end()
        if found[1]:
            return at, "in \\u hexadecimal character escape" if found[2] else "in string escape code"
        return (at + 1, "") if said[at : at + 1] == '"' else (at, "in string literal")
    word = _WORDS.get(said[at])
    if word is None:
        found = _NUMBER.match(said, at)
        assert found is not None
        missing = (
            (found.end(group), told) for group, told in enumerate(_DIGITS_MISSING, 1) if found[group] is not None
        )
        return next(missing, (found.end(), ""))
    for wanted in word:
        if said[at : at + 1] != wanted:
            return at, f"in literal {word} (expecting {_quoted_char(wanted)})"
        at += 1
    return at, ""


def _end(what: re.Pattern[str], said: str, at: int) -> int:
    found = what.match(said, at)
    return found.end() if found is not None else at


def _quoted_char(character: str) -> str:
    if character in "'\\":
        return f"'\\{character}'"
    if character.isprintable():
        return f"'{character}'"
    escaped = f"\\x{ord(character):02x}" if ord(character) < 0x80 else f"\\u{ord(character):04x}"
    return f"'{_SHORT_ESCAPES.get(character, escaped)}'"
