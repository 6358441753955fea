"""Sizes and shares as the page writes them (pages/js/format.js): the same number is the same text everywhere."""

from __future__ import annotations

import math
from typing import Final

_UNITS: Final = (" bytes", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def bytes_text(amount: int) -> str:
    """1610612736 is 1.5Gi. Digits are cut, not rounded: what is not whole is not told as if it were."""
    if abs(amount) <= 1:
        return f"{amount}{' byte' if amount else ''}"
    worth, unit = float(abs(amount)), 0
    while worth >= 1024 and unit < len(_UNITS) - 1:
        worth, unit = worth / 1024, unit + 1
    digits = 0 if worth >= 100 or worth.is_integer() else 1 if worth >= 10 else 2
    shown = math.floor(worth * 10**digits) / 10**digits
    return f"{'-' if amount < 0 else ''}{shown:g}{_UNITS[unit]}"


def percent_text(share: float) -> str:
    """0.427 is 42%; never 100% before it is."""
    return f"{math.floor(share * 100 + 1e-9)}%"


def count_text(number: int, word: str) -> str:
    """1 node, 2 nodes."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"
