"""Lines of a terminal's page: text of one row, the key of what it is about, and columns that keep their width.

Whatever comes from a cluster goes through `printable`, so that it can neither move the cursor nor hide what stands
beside it; widths are counted in cells, since a character may take two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from tonnage.printable import printable

MORE: Final = "…"


@dataclass(frozen=True, slots=True)
class Line:
    """One line; `key` is what Enter opens, empty for a heading."""

    text: Text
    key: str = ""

    @property
    def can_be_opened(self) -> bool:
        return bool(self.key)


def heading(content: str) -> Line:
    return Line(Text(printable(content), style="bold"))


def plain(content: str, style: str = "") -> Line:
    return Line(Text(printable(content), style=style))


def cell(content: str, width: int, style: str = "") -> Text:
    """A text in exactly so many cells: filled up with spaces, or cut with an ellipsis."""
    shown = printable(content)
    if cell_len(shown) > width:
        shown = set_cell_size(shown, max(width - 1, 0)) + MORE if width else ""
    return Text(set_cell_size(shown, width), style=style)


def row(*cells: Text) -> Text:
    """Cells of a line, a space between them."""
    return Text(" ").join(cells)


def matches(wanted: str, *texts: str) -> bool:
    """Whether any of the texts holds what is searched, in whatever case; an empty search finds all."""
    return not wanted or any(wanted.lower() in text.lower() for text in texts)
