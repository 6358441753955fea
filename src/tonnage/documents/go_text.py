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
from typing import Any, NoReturn


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
_HEX_DIGITS = re.compile("[0-9a-fA-F]*")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+')
"""A string up to its end, or up to the first character that is not allowed in it."""
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*|())(?:\.(?:[0-9]+|()))?(?:[eE][+-]?(?:[0-9]+|()))?")
"""A number. Groups match where digits are missing."""
_DIGITS_MISSING = ("in numeric literal", "after decimal point in numeric literal", "in exponent of numeric literal")
_LITERALS = {"t": "true", "f": "false", "n": "null"}
_TRUNCATED = "unexpected end of JSON input"


class _Problem(Exception):
    pass


def syntax_error(text: bytes) -> str:
    """The error for a text that does not parse; for one that does, that it ends unexpectedly."""
    # Go reads bytes, and shows a byte beyond ASCII as the character of that number.
    scanner = _Scanner(text.decode("latin-1"))
    try:
        scanner.value()
        if scanner.has_more():
            scanner.refuse("after top-level value")
    except _Problem as exc:
        return str(exc)
    except RecursionError:
        return "exceeded max depth"
    return _TRUNCATED


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def has_more(self) -> bool:
        self._skip(_BLANKS)
        return self._at < len(self._text)

    def refuse(self, why: str) -> NoReturn:
        raise _Problem(f"invalid character {_quoted_char(self._peek())} {why}")

    def value(self) -> None:
        first = self._next()
        if first == "{":
            self._entries("}", "after object key:value pair")
        elif first == "[":
            self._entries("]", "after array element")
        elif first == '"':
            self._string()
        elif first in _LITERALS:
            self._literal(_LITERALS[first])
        elif first in "-0123456789":
            self._number()
        else:
            self.refuse("looking for beginning of value")

    def _skip(self, what: re.Pattern[str]) -> None:
        found = what.match(self._text, self._at)
        self._at = found.end() if found is not None else self._at

    def _peek(self) -> str:
        if self._at >= len(self._text):
            raise _Problem(_TRUNCATED)
        return self._text[self._at]

    def _next(self) -> str:
        """The next character that is not a blank."""
        self._skip(_BLANKS)
        return self._peek()

    def _entries(self, end: str, after: str) -> None:
        self._at += 1
        if self._next() == end:
            self._at += 1
            return
        while True:
            if end == "}":
                self._key()
            self.value()
            found = self._next()
            if found not in (end, ","):
                self.refuse(after)
            self._at += 1
            if found == end:
                return

    def _key(self) -> None:
        if self._next() != '"':
            self.refuse("looking for beginning of object key string")
        self._string()
        if self._next() != ":":
            self.refuse("after object key")
        self._at += 1

    def _string(self) -> None:
        self._skip(_STRING)
        if (found := self._peek()) not in '"\\':
            self.refuse("in string literal")
        self._at += 1
        if found == '"':
            return
        if self._peek() != "u":
            self.refuse("in string escape code")
        self._at += 1
        self._skip(_HEX_DIGITS)
        self.refuse("in \\u hexadecimal character escape")

    def _literal(self, word: str) -> None:
        for wanted in word:
            if self._peek() != wanted:
                self.refuse(f"in literal {word} (expecting {_quoted_char(wanted)})")
            self._at += 1

    def _number(self) -> None:
        found = _NUMBER.match(self._text, self._at)
        assert found is not None, "it begins with a digit or a minus"
        for group, why in enumerate(_DIGITS_MISSING, 1):
            if found[group] is not None:
                self._at = found.end(group)
                self.refuse(why)
        self._at = found.end()


def _quoted_char(character: str) -> str:
    if character in "'\\":
        return f"'\\{character}'"
    if character.isprintable():
        return f"'{character}'"
    escaped = f"\\x{ord(character):02x}" if ord(character) < 0x80 else f"\\u{ord(character):04x}"
    return f"'{_SHORT_ESCAPES.get(character, escaped)}'"
