"""Limits on the decoded size of a text, whatever its format: values, bytes of text, depth.

A few bytes can stand for a lot: a YAML alias, two bytes of protobuf, a `copy` of a JSON patch. So every reader of
foreign texts has a `Budget` and charges it before it creates a value. Every map, list, text, number, boolean and null
is a value; text is UTF-8 bytes of all texts and keys; depth is nested maps and lists. A request has `REQUEST`; a file
is bounded by its own size (`file_limits`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tonnage.errors import TonnageError

MAX_DEPTH = 100
"""Upstream's limit of 10,000 would exhaust Python's stack. The deepest kind nests 14 levels."""
MAX_REQUEST_BYTES = 3 * 1024 * 1024
"""Upstream's limit for a request body (MaxRequestBodyBytes); expanded aliases count as if they had been sent."""
MAX_REQUEST_VALUES = 150_000
"""An object of 1.5 MiB, the largest that is stored, has fewer values unless they take less than ten bytes each."""
_ALIASED_VALUES = 1_000_000
_ALIASED_BYTES = 64 * 1024 * 1024
"""What aliases may add to a file: a file with more is an attack, not a manifest."""


class BudgetExceeded(TonnageError):
    """A text exceeds its budget: `what` there is too much of, and the `limit`."""

    def __init__(self, what: str, limit: int) -> None:
        self.what = what
        self.limit = limit
        super().__init__(_SENTENCES[what].format(limit=limit))

    @property
    def is_depth(self) -> bool:
        return self.what == "depth"


_SENTENCES = {
    "depth": "maps and lists are nested too deeply to be read: the limit is {limit} levels",
    "values": "it decodes to too many values: the limit is {limit}; split the object, or leave out what repeats",
    "text": "it decodes to too much text: the limit is {limit} bytes; split the object, or leave out what repeats",
}


@dataclass(frozen=True, slots=True)
class Limits:
    values: int
    text_bytes: int
    depth: int = MAX_DEPTH


REQUEST = Limits(MAX_REQUEST_VALUES, MAX_REQUEST_BYTES)
JSON_PATCH = Limits(MAX_REQUEST_VALUES, MAX_REQUEST_BYTES, MAX_DEPTH + 2)
"""The list of operations adds two levels around the values of a JSON patch; the patch checks their depth itself."""


def file_limits(size_bytes: int) -> Limits:
    """For a file of this size: its own text always fits, without aliases."""
    return Limits(_ALIASED_VALUES + size_bytes, _ALIASED_BYTES + 2 * size_bytes)


class Size(NamedTuple):
    values: int
    text_bytes: int
    depth: int


class Budget:
    """What is left of the limits while a text is read. Charges raise BudgetExceeded. `level`: the reader's depth."""

    __slots__ = ("level", "limits", "text_bytes", "values")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.values = 0
        self.text_bytes = 0
        self.level = 0

    def charge(self, values: int, text_bytes: int = 0) -> None:
        self.values += values
        self.text_bytes += text_bytes
        if self.values > self.limits.values:
            raise BudgetExceeded("values", self.limits.values)
        if self.text_bytes > self.limits.text_bytes:
            raise BudgetExceeded("text", self.limits.text_bytes)

    def enter(self, levels: int) -> None:
        if self.level + levels > self.limits.depth:
            raise BudgetExceeded("depth", self.limits.depth)


def size_of(value: Any) -> Size:
    """The size of a decoded value, computed without recursion, hence for any depth."""
    values = text_bytes = deepest = 0
    pending: list[tuple[Any, int]] = [(value, 0)]
    while pending:
        item, depth = pending.pop()
        values += 1
        if isinstance(item, dict):
            depth += 1
            text_bytes += sum(map(text_size, item))
            pending.extend((inner, depth) for inner in item.values())
        elif isinstance(item, list):
            depth += 1
            pending.extend((inner, depth) for inner in item)
        elif isinstance(item, str):
            text_bytes += text_size(item)
        deepest = max(deepest, depth)
    return Size(values, text_bytes, deepest)


def text_size(text: str) -> int:
    """UTF-8 bytes; a lone surrogate, which escapes can spell, counts three."""
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


_BEYOND: Final = 2**64
_MAX_DIGITS: Final = 1_000
"""Leading zeros included; few enough to be parsed fast, more than any real number has."""


def whole_number(text: str) -> int:
    """The number in decimal digits; for thousands of digits, a number beyond 64 bits, which is out of every range."""
    if len(text) <= _MAX_DIGITS:
        return int(text)
    return -_BEYOND if text.startswith("-") else _BEYOND
