"""Documents: JSON as plain dicts and lists, as the API server holds it, and that of others, decoded within a budget.

An admitted document has no `null` (`admit` drops it, as a Go server would), and no empty maps and lists in optional
fields.

A few bytes can stand for a lot: a YAML alias, two bytes of protobuf, a `copy` of a JSON patch. So every reader of
foreign texts has a `Budget` and charges it before it creates a value. Every map, list, text, number, boolean and null
is a value; text is UTF-8 bytes of all texts and keys; depth is nested maps and lists. A request has `REQUEST`; a file
is bounded by its own size (`file_limits`). msgspec cannot stop halfway, so JSON is measured first (`read_json`): for
nearly every text a few counts suffice, and only if these bounds are too high is it measured exactly. Numbers that no Go
server could hold are refused. Levels beyond Python's stack are left out (`shallow`): a server may send ten thousand.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from tonnage.errors import TonnageError

Doc = dict[str, Any]
encode: Callable[[Any], bytes] = msgspec.json.Encoder().encode
_decode: Callable[[bytes | str], Any] = msgspec.json.Decoder().decode


def decode(text: bytes) -> Any:
    """JSON to plain dicts and lists. Invalid UTF-8 becomes U+FFFD, levels that are too deep are left out.

    Raises msgspec.DecodeError. For texts of clients there is `read_json`.
    """
    try:
        return _decode(text)
    except UnicodeDecodeError:
        return _decode(text.decode(errors="replace"))
    except RecursionError:
        return _decode(shallow(text).decode(errors="replace"))


def copy(value: Any) -> Any:
    """A deep copy of JSON data; several times faster than copy.deepcopy, which must expect cycles and classes."""
    if isinstance(value, dict):
        return {key: copy(item) if isinstance(item, (dict, list)) else item for key, item in value.items()}
    if isinstance(value, list):
        return [copy(item) if isinstance(item, (dict, list)) else item for item in value]
    return value


def keys_in(value: Any) -> int:
    """How many keys a value has, at every depth. Strict decoding compares them with the colons of a text."""
    count, pending = 0, [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            count += len(item)
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
    return count


def dig(doc: Doc, *path: str) -> Any:
    """The value at a path of field names; None if a step is missing."""
    value: Any = doc
    for step in path:
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value


def same(left: Any, right: Any) -> bool:
    """Equality by upstream's semantic comparison: a missing field equals an empty map or list."""
    if isinstance(left, dict) and isinstance(right, dict):
        return all(same(left.get(key), right.get(key)) for key in left.keys() | right.keys())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if left is None or right is None:
        other = right if left is None else left
        return other is None or (isinstance(other, (dict, list)) and not other)
    return bool(left == right)


# -- budgets ----------------------------------------------------------------------------------------------------------

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


# -- JSON of others ---------------------------------------------------------------------------------------------------

_NOT_MARKS = bytes(set(range(256)) - set(b'[]{},"'))
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_DIGITS_AS_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER = b"0" * 19
"""An integer of this many digits may need more than 64 bits."""
_LARGE_EXPONENTS = (b"e000", b"E000", b"e+000", b"E+000", b"e-000", b"E-000")
_LARGE_EXPONENT_VALUES = 15
"""A number such as 1e300 takes the decoder as long as so many other values, and the decoder holds the GIL."""
_INTEGER = re.compile(rb"(?<![0-9.eE+-])-?[0-9]{19,}(?![0-9.eE])")
_NUMBER = re.compile(rb"-?[0-9][0-9.eE+-]*")
_MIN_INT64, _MAX_UINT64 = -(2**63), 2**64 - 1
_SHOWN_DIGITS = 40


class NumberOutOfRange(ValueError):
    """A valid JSON number that fits no number type of Go; the text is that of Go's decoder."""

    def __init__(self, number: bytes) -> None:
        self.number = number.decode()
        shown = self.number if len(number) <= _SHOWN_DIGITS else f"{self.number[:_SHOWN_DIGITS]}..."
        super().__init__(f"json: cannot unmarshal number {shown} into Go value of type float64")


def read_json(data: bytes, budget: Budget) -> Any:
    """Decode a text. Raises BudgetExceeded, NumberOutOfRange, or msgspec.DecodeError if it is not JSON."""
    measure(data, budget)
    zeros = data.translate(_DIGITS_AS_ZEROS)
    for found in _INTEGER.finditer(_without_strings(data)) if _LONG_NUMBER in zeros else ():
        # 64 bits need at most twenty digits and a sign; int() is fast for so few.
        if len(found[0]) > 21 or not _MIN_INT64 <= int(found[0]) <= _MAX_UINT64:
            raise NumberOutOfRange(found[0])
    if sum(map(zeros.count, _LARGE_EXPONENTS)) > 1000:  # they may all stand in strings
        budget.charge(_LARGE_EXPONENT_VALUES * sum(map(_without_strings(zeros).count, _LARGE_EXPONENTS)))
    try:
        return _decode(data)
    except UnicodeDecodeError:  # invalid UTF-8 becomes U+FFFD, as in Go's decoder
        return _decode(data.decode(errors="replace"))
    except msgspec.ValidationError as exc:  # of plain values: only for a number
        raise _out_of_range(data) or exc from exc
    except RecursionError:
        # Unbalanced brackets cannot be measured, and the text is invalid anyway.
        raise BudgetExceeded("depth", budget.limits.depth) from None


def measure(data: bytes, budget: Budget) -> None:
    """Charge a budget with the size of a JSON text, one document or several. Raises BudgetExceeded."""
    limits = budget.limits
    marks = data.translate(None, _NOT_MARKS)
    openings = marks.count(b"{") + marks.count(b"[")
    values = marks.count(b",") + openings + 1
    # Two brackets with no quote between them are in the same string or in none, so strings can hide nothing here.
    levels = openings - marks.count(b"{}") - marks.count(b"[]") + 1
    if values + budget.values > limits.values or levels + budget.level > limits.depth:
        bare = _without_strings(data)
        values = bare.count(b",") + bare.count(b"{") + bare.count(b"[") + 1
        if values + budget.values <= limits.values:
            budget.enter(_depth(bare, limits.depth))
    # A string is never longer than its spelling.
    budget.charge(values, len(data))


def _without_strings(data: bytes) -> bytes:
    """A JSON text without its strings. For an invalid text the result is arbitrary, but takes linear time."""
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(data.split(b'"')[::2])


def _depth(bare: bytes, limit: int) -> int:
    """The depth of the brackets in a text without strings, up to `limit` + 1: innermost pairs go level by level."""
    brackets = bare.translate(None, _NOT_BRACKETS)
    for depth in range(limit + 1):
        # A dot replaces a removed pair, so that the enclosing pair is left for the next round.
        left = brackets.replace(b"{}", b".").replace(b"[]", b".").replace(b".", b"")
        if len(left) == len(brackets):
            return depth
        brackets = left
    return limit + 1


def _out_of_range(data: bytes) -> NumberOutOfRange | None:
    for found in _NUMBER.finditer(_without_strings(data)):
        try:
            if abs(float(found[0])) == float("inf"):
                return NumberOutOfRange(found[0])
        except ValueError:
            continue
    return None


FOLLOWED_DEPTH = 2 * MAX_DEPTH
"""How deep programs decode a server's answers: an object at its limit, and the lists and events around it."""

# An unterminated string reaches to the end of the text: no second search starts within it.
_STRING_OR_BRACKET = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)


def shallow(data: bytes | str, depth: int = FOLLOWED_DEPTH) -> bytes:
    """The same JSON with at most `depth` levels: maps and lists of the last level are left empty."""
    text = data.encode(errors="surrogatepass") if isinstance(data, str) else data
    kept: list[bytes] = []
    level = taken = 0
    for found in _STRING_OR_BRACKET.finditer(text):
        mark = found[0]
        if mark in (b"{", b"["):
            level += 1
            if level == depth:
                kept.append(text[taken : found.end()])
        elif mark in (b"}", b"]"):
            if level == depth:
                taken = found.start()
            level -= 1
    # If the text ends inside the omitted part, the decoder reports invalid JSON.
    if level < depth:
        kept.append(text[taken:])
    return b"".join(kept)
