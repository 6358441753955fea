"""JSON that others wrote, read within a budget.

msgspec cannot stop halfway, so the text is measured first: for nearly every text a few counts settle it, and only where
those bounds are too high is it measured exactly. Numbers that no Go server could hold are refused. What nests more
deeply than Python can follow is left out (`shallow`): a server may send ten thousand levels.
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
"""From so many digits on an integer may need more than 64 bits."""
_LARGE_EXPONENTS = (b"e000", b"E000", b"e+000", b"E+000", b"e-000", b"E-000")
_LARGE_EXPONENT_VALUES = 15
"""A number such as 1e300 takes the decoder as long as so many other values, and it lets nobody in between."""
_INTEGER = re.compile(rb"(?<![0-9.eE+-])-?[0-9]{19,}(?![0-9.eE])")
_NUMBER = re.compile(rb"-?[0-9][0-9.eE+-]*")
_MIN_INT64, _MAX_UINT64 = -(2**63), 2**64 - 1
_SHOWN_DIGITS = 40
_ANY = 1 << 62


class NumberOutOfRange(ValueError):
    """A number that is JSON and fits no number of Go's; the text is that of Go's decoder."""

    def __init__(self, number: bytes) -> None:
        self.number = number.decode()
        shown = self.number if len(number) <= _SHOWN_DIGITS else f"{self.number[:_SHOWN_DIGITS]}..."
        super().__init__(f"json: cannot unmarshal number {shown} into Go value of type float64")


def read_json(data: bytes, budget: Budget) -> Any:
    """The value in a text. Raises BudgetExceeded, NumberOutOfRange, or msgspec.DecodeError when it is no JSON."""
    measure(data, budget)
    zeros = data.translate(_DIGITS_AS_ZEROS)
    if _LONG_NUMBER in zeros:
        _check_integers(data)
    if sum(map(zeros.count, _LARGE_EXPONENTS)) > 1000:  # where they may all stand in strings
        budget.charge(_LARGE_EXPONENT_VALUES * sum(map(_without_strings(zeros).count, _LARGE_EXPONENTS)))
    try:
        return _decode(data)
    except UnicodeDecodeError:  # such bytes become U+FFFD, as Go's decoder has it
        return _decode(data.decode(errors="replace"))
    except msgspec.ValidationError as exc:  # of plain values: only for a number
        raise _out_of_range(data) or exc from exc
    except RecursionError:
        # Brackets that are not balanced cannot be measured; whether they would be in the end no longer matters.
        raise BudgetExceeded("depth", budget.limits.depth) from None


def is_deeper(data: bytes, depth: int) -> bool:
    """Does a JSON text nest beyond so many levels? Two counts for nearly every one: each level takes a bracket."""
    if data.count(b"{") + data.count(b"[") <= depth:
        return False
    try:
        measure(data, Budget(Limits(values=_ANY, text_bytes=_ANY, depth=depth)))
    except BudgetExceeded:
        return True
    return False


def measure(data: bytes, budget: Budget) -> None:
    """Charge a budget with what a JSON text stands for, one document or several. Raises BudgetExceeded."""
    limits = budget.limits
    marks = data.translate(None, _NOT_MARKS)
    openings = marks.count(b"{") + marks.count(b"[")
    values = marks.count(b",") + openings + 1
    # Two brackets with no quote between them are in the same string or in none, so that strings can hide nothing here.
    levels = openings - marks.count(b"{}") - marks.count(b"[]") + 1
    if values + budget.values > limits.values or levels + budget.level > limits.depth:
        bare = _without_strings(data)
        values = bare.count(b",") + bare.count(b"{") + bare.count(b"[") + 1
        if values + budget.values <= limits.values:
            budget.enter(_depth(bare, limits.depth))
    # A string is never longer than its spelling.
    budget.charge(values, len(data))


def _without_strings(data: bytes) -> bytes:
    """What stands between the strings of a JSON text. Of a text that is none it may be anything, in linear time."""
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(data.split(b'"')[::2])


def _depth(bare: bytes, limit: int) -> int:
    """How deep the brackets of a text without strings go, up to `limit` + 1: innermost pairs go level by level."""
    brackets = bare.translate(None, _NOT_BRACKETS)
    for depth in range(limit + 1):
        # A mark where a pair was, so that the pair around it is left for the next round.
        left = brackets.replace(b"{}", b".").replace(b"[]", b".").replace(b".", b"")
        if len(left) == len(brackets):
            return depth
        brackets = left
    return limit + 1


def _check_integers(data: bytes) -> None:
    for found in _INTEGER.finditer(_without_strings(data)):
        # Twenty digits and a sign are the most that 64 bits take, and no number that int() takes long for.
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
"""How deep programs follow what a server sends: an object at its limit, and what lists and events lay around it."""

# A string that never ends reaches to the end of the text: no second search starts within it.
_STRING_OR_BRACKET = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)


def shallow(data: bytes | str, depth: int = FOLLOWED_DEPTH) -> bytes:
    """The same JSON with at most so many levels: the maps and lists of the last one are left empty."""
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
    # Of a text that ends within: what was left out stays out, and the reader says that it is no JSON.
    if level < depth:
        kept.append(text[taken:])
    return b"".join(kept)
