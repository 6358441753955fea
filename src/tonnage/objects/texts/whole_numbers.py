"""Whole numbers from text that others wrote.

Reading a number takes longer than its text does, and Python refuses one of more than 4,300 digits with an error that
nobody expects there. An annotation, a percentage or a name may be any text, so that is what is read here.
"""

from __future__ import annotations

from typing import Final

_BEYOND: Final = 2**64
_MAX_DIGITS: Final = 1_000
"""Zeros in front included; few enough to be read at once, more than any number that is meant."""


def whole_number(text: str) -> int:
    """The number that decimal digits spell, a sign before them or not; of thousands of digits, one beyond 64 bits.

    Which one does not matter to whoever asks: it is out of every range. The text must be a number.
    """
    if len(text) <= _MAX_DIGITS:
        return int(text)
    return -_BEYOND if text.startswith("-") else _BEYOND
