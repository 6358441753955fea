"""Lines of a terminal's page: text of one row, the key of what it is about, and columns that keep their width.

Whatever comes from a cluster goes through `printable`, so that it can neither move the cursor nor hide what stands
beside it; widths are counted in cells, since a character may take two.

Sizes and shares are written as the web page writes them (pages/js/format.js).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from tonnage.printable import printable

MORE: Final = "…"


class ScreenLine:
    """One line; `key` is what Enter opens, empty for a heading. Its text is made when it is seen: of thousands of
    lines a screen shows a few."""

    __slots__ = ("_text", "key")

    def __init__(self, text: Text | Callable[[], Text], key: str = "") -> None:
        self._text = text
        self.key = key

    @property
    def text(self) -> Text:
        if not isinstance(self._text, Text):
            self._text = self._text()
        return self._text

    @property
    def can_be_opened(self) -> bool:
        return bool(self.key)


def heading(content: str) -> ScreenLine:
    return ScreenLine(Text(printable(content), style="bold"))


def plain(content: str, style: str = "") -> ScreenLine:
    return ScreenLine(Text(printable(content), style=style))


def cell(content: str, width: int, style: str = "") -> Text:
    """A text in exactly so many cells: filled up with spaces, or cut with an ellipsis."""
    shown = printable(content)
    if cell_len(shown) > width:
        shown = set_cell_size(shown, max(width - 1, 0)) + MORE if width else ""
    return Text(set_cell_size(shown, width), style=style)


def name_width(names: Iterable[str], most: int) -> int:
    """How wide a column of names is: as the longest of them, to `most` cells."""
    return min(max((cell_len(printable(each)) for each in names), default=0), most)


def local_time(at: datetime) -> str:
    """The time of day where the terminal is, as the dashboard shows it."""
    return f"{at.astimezone():%H:%M:%S}"


def row(*cells: Text) -> Text:
    """Cells of a line, a space between them."""
    return Text(" ").join(cells)


def matches(wanted: str, *texts: str) -> bool:
    """Whether any of the texts holds what is searched, in whatever case; an empty search finds all."""
    return not wanted or any(wanted.lower() in text.lower() for text in texts)


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
