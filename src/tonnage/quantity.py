"""Kubernetes quantities, exact: `500m`, `10Gi`, `1.5e3`.

A quantity is a whole number of nanos (10^-9), the finest step Kubernetes keeps; no float is involved. It remembers the
suffix family it was written in (`Format`), which decides how it is written again: `0.5Gi` as `512Mi`, `1.5` as `1500m`,
`1e3` as `1e3`. Grammar, rounding, caps and text mirror upstream's `resource.Quantity`, with its oddities: a lone `Gi`
reads as 0, and a text that upstream takes for canonical (`+5`, `1.500`, `1E3`) is kept. Ours differs where an int64 or
a table of upstream's ends:

- `value()` and `milli_value()` stop at the largest int64; upstream's wrap around or turn into 0.
- Both always round away from zero; upstream's decimal path goes wrong below zero (`-0.0005Gi`).
- `1000E` is written `1000E`; upstream runs out of suffixes and writes `1`.
- A text over 1,000 characters or an exponent beyond ±1,000 is refused; upstream would write such a number out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache, total_ordering
from typing import Final, NoReturn, Self

from tonnage.errors import TonnageError


class Format(StrEnum):
    """The suffix family of a quantity, by upstream's names."""

    DECIMAL_SI = "DecimalSI"  # 12M = 12 * 10^6
    BINARY_SI = "BinarySI"  # 12Mi = 12 * 2^20
    DECIMAL_EXPONENT = "DecimalExponent"  # 12e6


_NANO: Final = -9
_NANOS_PER_ONE: Final = 10**9
_NANOS_PER_MILLI: Final = 10**6
_MAX_INT64: Final = 2**63 - 1
_MOST_NANOS: Final = _MAX_INT64 * _NANOS_PER_ONE
"""Up to here, whole units fit into 64 bits."""
_MAX_TEXT: Final = 1000
_MAX_EXPONENT: Final = 1000

_DECIMAL: Final = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
# suffix -> (power of two, power of ten, family)
_UNITS: Final = {suffix: (0, _NANO + 3 * step, Format.DECIMAL_SI) for step, suffix in enumerate(_DECIMAL)} | {
    suffix: (10 * step, 0, Format.BINARY_SI) for step, suffix in enumerate(_BINARY) if suffix
}

# sign, leading zeros, whole digits, fraction, suffix. Possessive, so that a hostile text costs one pass.
_GRAMMAR: Final = re.compile(r"([+-]?+)(0*+)([0-9]*+)(?:\.([0-9]*+))?+([eEinumkKMGTP]*+[+-]?+[0-9]*+)")
_EXPONENT: Final = re.compile(r"[eE]([+-]?)([0-9]+)")

# signs, number, the rest, to name what is wrong with a text. Matches every text.
_LENIENT: Final = re.compile(r"([+-]*)([0-9.,_]*)(.*)", re.DOTALL)

# The errors of malformed quantities that API clients see, word for word: upstream's ErrFormatWrong, ErrSuffix and
# ErrNumeric.
FORMAT_WRONG: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
UNKNOWN_SUFFIX: Final = "unable to parse quantity's suffix"
NOT_NUMERIC: Final = "unable to parse numeric part of quantity"


@total_ordering
class Quantity:
    """An exact, immutable amount, compared by value: `1000m == 1`. `text` is what `str()` returns if not canonical."""

    __slots__ = ("_format", "_nanos", "_text")
    _nanos: int
    _format: Format
    _text: str

    def __init__(self, nanos: int, format: Format, text: str = "") -> None:
        object.__setattr__(self, "_nanos", nanos)
        object.__setattr__(self, "_format", format)
        object.__setattr__(self, "_text", text)

    @classmethod
    def parse(cls, text: str, *, field: str = "") -> Quantity:
        """The quantity in `text`. Raises InvalidQuantity, which names `field` if given."""
        found = _read(text) if len(text) <= _MAX_TEXT else None
        if found is None:
            raise InvalidQuantity(text, field=field)
        return found

    @classmethod
    def of(cls, value: str | int | float | None, *, field: str = "") -> Quantity:
        """The quantity in a JSON document: a string, with spaces around it allowed, a number, or null for zero."""
        if value is None:
            return cls.from_int(0)
        if isinstance(value, str):
            return cls.parse(value.strip(" "), field=field)
        return cls.parse(json.dumps(value), field=field)  # `true` and `NaN` are refused by these names

    @classmethod
    def from_int(cls, number: int) -> Self:
        """A plain count, written with decimal suffixes."""
        return cls(number * _NANOS_PER_ONE, Format.DECIMAL_SI)

    @classmethod
    def from_bytes(cls, number: int) -> Self:
        """A size in bytes, written with binary suffixes: 1073741824 is `1Gi`."""
        return cls(number * _NANOS_PER_ONE, Format.BINARY_SI)

    @property
    def format(self) -> Format:
        return self._format

    def value(self) -> int:
        """The whole units, rounded away from zero: 1.5 is 2. Stops at ±(2^63 - 1)."""
        nanos = self._nanos
        if 0 <= nanos <= _MOST_NANOS:  # nearly always, and half the time
            return -(-nanos // _NANOS_PER_ONE)
        return _within_int64(_away_from_zero(nanos, _NANOS_PER_ONE))

    def milli_value(self) -> int:
        """The thousandths, rounded away from zero: 0.5 is 500. Stops at ±(2^63 - 1)."""
        return _within_int64(_away_from_zero(self._nanos, _NANOS_PER_MILLI))

    def round_up_to_milli(self) -> Quantity:
        """This quantity rounded up to thousandths, which is how resource lists are stored."""
        if self._nanos % _NANOS_PER_MILLI == 0:
            return self
        return Quantity(_away_from_zero(self._nanos, _NANOS_PER_MILLI) * _NANOS_PER_MILLI, self._format)

    def sign(self) -> int:
        return (self._nanos > 0) - (self._nanos < 0)

    def is_zero(self) -> bool:
        return self._nanos == 0

    def __add__(self, other: Quantity) -> Quantity:
        """The sum, in this quantity's format; a zero takes the other's."""
        if not isinstance(other, Quantity):
            return NotImplemented
        return Quantity(self._nanos + other._nanos, self._format if self._nanos else other._format)

    def __sub__(self, other: Quantity) -> Quantity:
        """The difference, in this quantity's format; a zero takes the other's."""
        if not isinstance(other, Quantity):
            return NotImplemented
        return Quantity(self._nanos - other._nanos, self._format if self._nanos else other._format)

    def __neg__(self) -> Quantity:
        return Quantity(-self._nanos, self._format)

    def __eq__(self, other: object) -> bool:
        return self._nanos == other._nanos if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: Quantity) -> bool:
        return self._nanos < other._nanos if isinstance(other, Quantity) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._nanos)

    def __str__(self) -> str:
        if not self._text:
            object.__setattr__(self, "_text", _canonical(self._nanos, self._format))
        return self._text

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Quantity does not change: cannot set {name}")

    def __reduce__(self) -> tuple[type[Quantity], tuple[int, Format, str]]:
        # copy and pickle would otherwise go through __setattr__.
        return Quantity, (self._nanos, self._format, self._text)


def add_to(total: dict[str, Quantity], more: Mapping[str, Quantity]) -> None:
    """Add amounts by name, in place."""
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def raise_to(total: dict[str, Quantity], floor: Mapping[str, Quantity]) -> None:
    """Raise every amount that is smaller than that of its name in `floor`, in place."""
    for name, amount in floor.items():
        if name not in total or amount > total[name]:
            total[name] = amount


@lru_cache(maxsize=8192)
def _read(text: str) -> Quantity | None:
    """The quantity in `text`, or None; InvalidQuantity finds the reason. Mirrors ParseQuantity."""
    parts = _GRAMMAR.fullmatch(text)
    if parts is None or not text:
        return None
    sign, zeros, whole, fraction, suffix = parts.groups(default="")
    unit = _UNITS.get(suffix) or _exponent_unit(suffix)
    if unit is None:
        return None
    twos, tens, format = unit
    if not (zeros or whole or fraction) and (twos >= 50 or tens < _NANO):
        return None  # upstream reads "Gi" as 0 on its int64 path; the decimal path, which these take, wants a digit

    whole = whole or "0"
    digits = whole + fraction
    power = tens - len(fraction)
    if power >= _NANO:
        nanos = (int(digits) << twos) * 10 ** (power - _NANO)
    else:
        nanos = _away_from_zero(int(digits) << twos, 10 ** (_NANO - power))
    if format is Format.BINARY_SI:
        nanos = min(nanos, _MOST_NANOS)  # only binary quantities are capped when they are read
        if 0 < nanos < _NANOS_PER_ONE:
            format = Format.DECIMAL_SI
    kept = _is_taken_for_canonical(whole, fraction, twos, power)
    return Quantity(-nanos if sign == "-" else nanos, format, text if kept else "")


def _exponent_unit(suffix: str) -> tuple[int, int, Format] | None:
    written = _EXPONENT.fullmatch(suffix)
    if written is None:
        return None
    sign, digits = written.groups()
    digits = digits.lstrip("0") or "0"
    # An exponent of thousands of digits is not parsed to find out how large it is.
    if len(digits) > len(str(_MAX_EXPONENT)) or int(digits) > _MAX_EXPONENT:
        return None
    return 0, int(f"{sign}{digits}"), Format.DECIMAL_EXPONENT


def _is_taken_for_canonical(whole: str, fraction: str, twos: int, power: int) -> bool:
    """True if upstream keeps the text unchanged: a shortcut of its int64 path, so only where the digits fit."""
    if twos:
        fits_int64 = not fraction and len(whole) + 3 * (twos // 10) + 1 <= 15
        return fits_int64 and int(whole) % 8 != 0
    digits = whole + fraction
    fits_int64 = len(digits) <= 18 and power >= _NANO
    return fits_int64 and power % 3 == 0 and not digits.endswith("000") and digits[0] != "0"


def _canonical(nanos: int, format: Format) -> str:
    """The text without a fraction, with the largest suffix that allows it. Mirrors CanonicalizeBytes."""
    if nanos == 0:
        return "0"
    if format is Format.BINARY_SI and abs(nanos) >= 1024 * _NANOS_PER_ONE and nanos % _NANOS_PER_ONE == 0:
        amount, step = nanos // _NANOS_PER_ONE, 0
        while amount % 1024 == 0 and step < len(_BINARY) - 1:
            amount, step = amount // 1024, step + 1
        return f"{amount}{_BINARY[step]}"
    # A binary quantity below 1Ki or with a fraction has no exact binary form and is written in decimal.
    amount, step = nanos, 0
    if format is Format.DECIMAL_EXPONENT:
        while amount % 1000 == 0:
            amount, step = amount // 1000, step + 1
        exponent = _NANO + 3 * step
        return f"{amount}e{exponent}" if exponent else str(amount)
    while amount % 1000 == 0 and step < len(_DECIMAL) - 1:
        amount, step = amount // 1000, step + 1
    return f"{amount}{_DECIMAL[step]}"


def _away_from_zero(number: int, divisor: int) -> int:
    return -(-number // divisor) if number >= 0 else number // divisor


def _within_int64(number: int) -> int:
    return max(-_MAX_INT64, min(number, _MAX_INT64))


class InvalidQuantity(TonnageError):
    """A text that is no quantity: `text` at `field`, the `problem`, and upstream's message."""

    def __init__(self, text: str, *, field: str = "") -> None:
        self.text = text
        self.field = field
        self.problem, remedy = _diagnosis(text)
        self.upstream_message = _upstream_message(text)
        shown = _quoted(text if len(text) <= 60 else f"{text[:60]}…")
        subject = f"{field}={shown}" if field else shown
        super().__init__(f"{subject} is not a quantity: {self.problem}; {remedy}")


def _upstream_message(text: str) -> str:
    parts = _GRAMMAR.fullmatch(text)
    if parts is None or not text:
        return FORMAT_WRONG
    return NOT_NUMERIC if parts[5] in _UNITS or _exponent_unit(parts[5]) else UNKNOWN_SUFFIX


def _diagnosis(text: str) -> tuple[str, str]:
    if not text:
        return "it is empty", 'write a number such as "10Gi"'
    if len(text) > _MAX_TEXT:
        return f"it has more than {_MAX_TEXT} characters", 'write a number such as "10Gi"'
    bare = text.strip()
    if bare != text and bare and _read(bare) is not None:
        return "it has spaces around it", f"write {_quoted(bare)}"
    signs, number, suffix = _LENIENT.findall(text)[0]
    if not re.search("[0-9]", number):
        return "it does not start with a number", 'write a number such as "10Gi"'
    if len(signs) > 1:
        return "it has more than one sign", f"write {_quoted(signs[0] + number + suffix)}"
    if number.count(".") > 1:
        return "it has more than one decimal point", 'write a number such as "1.5Gi"'
    if "," in number or "_" in number:
        return "its digits are grouped", f"write {_quoted(signs + re.sub('[,_]', '', number) + suffix)}"
    if re.fullmatch("[eE][+-]?", suffix):
        return "its exponent has no digits", f"write {_quoted(signs + number + 'e3')} for thousands"
    if _EXPONENT.fullmatch(suffix):
        return f"its exponent is beyond ±{_MAX_EXPONENT}", 'write a number such as "10Gi"'
    return f"unknown suffix {_quoted(suffix)}", _suffix_remedy(signs + number, suffix)


def _suffix_remedy(number: str, suffix: str) -> str:
    """The suffixes that `GB`, `gib`, `K` and the like may have meant."""
    letter = re.fullmatch("(|[kmgtpe])(i?)(?:b|bytes?)?", suffix.strip().lower())
    if letter is None:
        return f"use one of {', '.join(filter(None, _DECIMAL + _BINARY))}, or an exponent such as e3"
    if not letter[1]:
        return f"write {_quoted(number)}"
    binary = f"{letter[1].upper()}i"
    decimal = "k" if letter[1] == "k" else letter[1].upper()
    if letter[2]:
        return f"write {_quoted(number + binary)}"
    return f"write {_quoted(number + decimal)} or {_quoted(number + binary)}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


_BEYOND: Final = 2**64
_MAX_DIGITS: Final = 1_000
"""Leading zeros included; few enough to be parsed fast, more than any real number has."""


def whole_number(text: str) -> int:
    """The number in decimal digits; for thousands of digits, a number beyond 64 bits, which is out of every range."""
    if len(text) <= _MAX_DIGITS:
        return int(text)
    return -_BEYOND if text.startswith("-") else _BEYOND
