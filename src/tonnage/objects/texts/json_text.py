"""JSON of others, decoded within a budget.

msgspec cannot stop halfway, so the text is measured first: for nearly every text a few counts suffice, and only if
these bounds are too high is it measured exactly. Numbers that no Go server could hold are refused. Levels beyond
Python's stack are left out (`shallow`): a server may send ten thousand.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from tonnage.objects.texts.decode_budget import MAX_DEPTH, Budget, BudgetExceeded, Limits

_decode = msgspec.json.Decoder().decode
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
_ANY = 1 << 62


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
    if _LONG_NUMBER in zeros:
        _check_integers(data)
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


def is_deeper(data: bytes, depth: int) -> bool:
    """True if a JSON text nests beyond `depth`. Two counts decide nearly always: every level needs a bracket."""
    if data.count(b"{") + data.count(b"[") <= depth:
        return False
    try:
        measure(data, Budget(Limits(values=_ANY, text_bytes=_ANY, depth=depth)))
    except BudgetExceeded:
        return True
    return False


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


def _check_integers(data: bytes) -> None:
    for found in _INTEGER.finditer(_without_strings(data)):
        # 64 bits need at most twenty digits and a sign; int() is fast for so few.
        if len(found[0]) > 21 or not _MIN_INT64 <= int(found[0]) <= _MAX_UINT64:
            raise NumberOutOfRange(found[0])


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
