"""Lines of a terminal's page, and the list that shows them: it scrolls, has a cursor, and draws only what is seen.

Whatever comes from a cluster goes through `printable`; widths are counted in cells, since a character may take two.
Sizes and shares are written as the web page writes them (pages/js/format.js). The cursor stays on what it was on when
lines come and go: lines are known by their keys.

A terminal's characters are those of its locale: LC_ALL, else LC_CTYPE, else LANG; where nobody says anything it is
UTF-8. For one that shows ASCII alone each sign is drawn as another, as wide as it was. Where LANG is C, Python puts
LC_CTYPE=C.UTF-8 into its own surroundings: that is not the user's word.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import ClassVar, Final

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

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


_SIGNS: Final = str.maketrans(
    {"█": "#", "▒": "%", "░": ".", "▲": "!", "→": ">", "←": "<", "…": "~", "×": "x", "·": "-", "✓": "+", "✗": "x"}
)


def is_ascii_alone(environ: Mapping[str, str]) -> bool:
    """Whether the user's locale says that the terminal shows ASCII alone."""
    wanted = ["LC_ALL", "LC_CTYPE", "LANG"]
    if environ.get("LC_CTYPE", "").upper() in ("C.UTF-8", "C.UTF8", "UTF-8"):
        wanted.remove("LC_CTYPE")
    said = next((environ[name] for name in wanted if environ.get(name)), "")
    return bool(said) and "UTF8" not in said.upper().replace("-", "")


def in_ascii(text: str) -> str:
    """The same in ASCII, as many cells wide; what has no sign of its own becomes question marks."""
    shown = text.translate(_SIGNS)
    return shown if shown.isascii() else "".join(each if each.isascii() else "?" * cell_len(each) for each in shown)


class LinesView(ScrollView, can_focus=True):
    """Lines with a cursor; `Opened` is posted when Enter is pressed on one that can be opened."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("pageup", "page(-1)", "page up", show=False),
        Binding("pagedown", "page(1)", "page down", show=False),
        Binding("home,g", "edge(-1)", "first", show=False),
        Binding("end,G", "edge(1)", "last", show=False),
        Binding("enter", "open", "open", key_display="enter"),
    ]

    class Opened(Message):
        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    def __init__(self, *, is_ascii_alone: bool = False) -> None:
        super().__init__()
        self.is_ascii_alone = is_ascii_alone
        self._lines: Sequence[ScreenLine] = ()
        self.cursor = 0

    @property
    def key(self) -> str:
        """What the cursor is on; empty for a heading."""
        return self._lines[self.cursor].key if self._lines else ""

    def show(self, lines: Sequence[ScreenLine], *, from_top: bool = False, at: str = "") -> None:
        """Show these lines instead; with `from_top` as a new page, with the cursor on `at` if that is among them."""
        before = self.key
        self._lines = lines
        if from_top:
            self.cursor = next((at for at, line in enumerate(lines) if line.key), 0)
            self.virtual_size = Size(self.size.width, len(lines))
            self.scroll_to(0, 0, animate=False, immediate=True)
            if at:
                self.cursor = next((number for number, line in enumerate(lines) if line.key == at), self.cursor)
                self.call_after_refresh(self._reveal)  # it is known by then how long the page is
        elif before:
            kept = next((at for at, line in enumerate(lines) if line.key == before), None)
            self.cursor = self.cursor if kept is None else kept
        self.cursor = max(min(self.cursor, len(lines) - 1), 0)
        self.virtual_size = Size(self.size.width, len(lines))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        number = self.scroll_offset.y + y
        width = self.size.width
        if number >= len(self._lines):
            return Strip.blank(width, self.rich_style)
        text = self._lines[number].text
        # Text hands out the styles of its parts alone: its own goes below them.
        own = Style.parse(text.style) if isinstance(text.style, str) else text.style
        segments = list(Segment.apply_style(text.render(self.app.console, end=""), own))
        if self.is_ascii_alone:
            segments = [Segment(in_ascii(each.text), each.style) for each in segments]
        strip = Strip(segments).adjust_cell_length(width)
        if number == self.cursor and self.has_focus:
            return Strip([Segment(each.text, Style(reverse=True, bold=True)) for each in strip], width)
        return strip.apply_style(self.rich_style)

    def action_move(self, by: int) -> None:
        self._go(self.cursor + by)

    def action_page(self, by: int) -> None:
        self._go(self.cursor + by * max(self.size.height - 1, 1))

    def action_edge(self, by: int) -> None:
        self._go(0 if by < 0 else len(self._lines) - 1)

    def action_open(self) -> None:
        if self.key:
            self.post_message(self.Opened(self.key))

    def _go(self, to: int) -> None:
        self.cursor = max(min(to, len(self._lines) - 1), 0)
        self._reveal()

    def _reveal(self) -> None:
        top, height = self.scroll_offset.y, self.size.height
        if self.cursor < top:
            self.scroll_to(0, self.cursor, animate=False, immediate=True)
        elif self.cursor >= top + height:
            self.scroll_to(0, self.cursor - height + 1, animate=False, immediate=True)
        self.refresh()
