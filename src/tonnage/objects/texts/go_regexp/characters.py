"""Which characters a part of a pattern accepts: single ones, ranges, Perl's, POSIX' and Unicode's classes."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

Predicate = Callable[[str], bool]


def any_char(char: str) -> bool:
    return True


def not_newline(char: str) -> bool:
    return char != "\n"


def one(wanted: str) -> Predicate:
    return lambda char: char == wanted


def inverse(predicate: Predicate) -> Predicate:
    return lambda char: not predicate(char)


def one_of(singles: frozenset[str], ranges: tuple[tuple[str, str], ...], classes: tuple[Predicate, ...]) -> Predicate:
    def accepts(char: str) -> bool:
        return (
            char in singles
            or any(low <= char <= high for low, high in ranges)
            or any(predicate(char) for predicate in classes)
        )

    return accepts


def folded(predicate: Predicate, ignore_case: bool) -> Predicate:
    """The predicate, for either case where case does not count."""
    if not ignore_case:
        return predicate
    return lambda char: predicate(char) or any(predicate(other) for other in (char.lower(), char.upper()) if other)


def _ascii(allowed: str) -> Predicate:
    chars = frozenset(allowed)
    return lambda char: char in chars


_DIGITS = "0123456789"
_LOWER = "abcdefghijklmnopqrstuvwxyz"
_LETTERS = _LOWER + _LOWER.upper()
_PUNCTUATION = "".join(chr(code) for code in range(33, 127) if not chr(code).isalnum())
_digit, _space, _word = _ascii(_DIGITS), _ascii("\t\n\f\r "), _ascii(f"{_DIGITS}{_LETTERS}_")
PERL: dict[str, Predicate] = {
    "d": _digit,
    "D": inverse(_digit),
    "s": _space,
    "S": inverse(_space),
    "w": _word,
    "W": inverse(_word),
}
POSIX: dict[str, Predicate] = {
    "alnum": _ascii(_DIGITS + _LETTERS),
    "alpha": _ascii(_LETTERS),
    "ascii": lambda char: char <= "\x7f",
    "blank": _ascii("\t "),
    "cntrl": lambda char: char < " " or char == "\x7f",
    "digit": _digit,
    "graph": lambda char: "!" <= char <= "~",
    "lower": _ascii(_LOWER),
    "print": lambda char: " " <= char <= "~",
    "punct": _ascii(_PUNCTUATION),
    "space": _ascii("\t\n\v\f\r "),
    "upper": _ascii(_LOWER.upper()),
    "word": _word,
    "xdigit": _ascii(f"{_DIGITS}abcdefABCDEF"),
}
_CATEGORIES = frozenset(
    [
        "C",
        "Cc",
        "Cf",
        "Co",
        "Cs",
        "L",
        "Ll",
        "Lm",
        "Lo",
        "Lt",
        "Lu",
        "M",
        "Mc",
        "Me",
        "Mn",
        "N",
        "Nd",
        "Nl",
        "No",
        "P",
        "Pc",
        "Pd",
        "Pe",
        "Pf",
        "Pi",
        "Po",
        "Ps",
        "S",
        "Sc",
        "Sk",
        "Sm",
        "So",
        "Z",
        "Zl",
        "Zp",
        "Zs",
    ]
)
_SCRIPTS = {
    "Arabic": "ARABIC ",
    "Armenian": "ARMENIAN ",
    "Bengali": "BENGALI ",
    "Cyrillic": "CYRILLIC ",
    "Devanagari": "DEVANAGARI ",
    "Georgian": "GEORGIAN ",
    "Greek": "GREEK ",
    "Han": "CJK ",
    "Hangul": "HANGUL ",
    "Hebrew": "HEBREW ",
    "Hiragana": "HIRAGANA ",
    "Katakana": "KATAKANA ",
    "Latin": "LATIN ",
    "Thai": "THAI ",
}
"""Scripts by how the names of their characters begin; of the others Python knows nothing, and they are refused."""


def unicode_class(name: str) -> Predicate | None:
    if name == "Any":
        return any_char
    if name in _CATEGORIES:
        return lambda char: unicodedata.category(char).startswith(name)
    if name in _SCRIPTS:
        start = _SCRIPTS[name]
        return lambda char: unicodedata.name(char, "").startswith(start)
    return None
