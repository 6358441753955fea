"""Lines of a terminal's page, and the list that shows them: it scrolls, has a cursor, and draws only visible lines.

Text from a cluster goes through `printable`; widths are counted in cells, since a character may take two. Sizes and
percentages look as on the web page (pages/js/format.js). Lines have keys: the cursor stays on its key when lines
change.

The character set is that of the locale: LC_ALL, else LC_CTYPE, else LANG, else UTF-8. For an ASCII locale every symbol
is replaced by one of the same width. With LANG=C Python itself sets LC_CTYPE=C.UTF-8: that value is ignored.
"""

from __future__ import annotations

import io
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
from tonnage.whatif.page import TextPage

MORE: Final = "…"


class ScreenLine:
    """One line. `key` is what Enter opens; empty for a heading. The text is made only when the line is visible."""

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


class PageOfLines(TextPage):
    """A page in words whose lines keep to a width, as lines of a view."""

    def __init__(self, width: int) -> None:
        super().__init__(io.StringIO())
        self._columns = width
        self.lines: list[ScreenLine] = []

    @property
    def width(self) -> int:
        return self._columns

    def write(self, line: Text) -> None:
        """A word that is longer than a line goes on in the next: nobody can scroll to its end."""
        self.lines += map(ScreenLine, line.divide(range(self.width, len(line), self.width)))

    def heading(self, content: str) -> None:
        self.say(heading(content).text)

    def plain(self, content: str, style: str = "", indent: int = 0) -> None:
        self.say(plain(content, style).text, indent)


def cell(content: str, width: int, style: str = "") -> Text:
    """A text in exactly `width` cells: padded with spaces, or cut with an ellipsis."""
    shown = printable(content)
    if cell_len(shown) > width:
        shown = set_cell_size(shown, max(width - 1, 0)) + MORE if width else ""
    return Text(set_cell_size(shown, width), style=style)


def name_width(names: Iterable[str], most: int) -> int:
    """The width of a column of names: that of the longest, up to `most` cells."""
    return min(max((cell_len(printable(name)) for name in names), default=0), most)


def local_time(at: datetime) -> str:
    """The time of day in the terminal's time zone."""
    return f"{at.astimezone():%H:%M:%S}"


def row(*cells: Text) -> Text:
    return Text(" ").join(cells)


def matches(wanted: str, *texts: str) -> bool:
    """True if any text contains `wanted`, ignoring case; an empty search matches everything."""
    return not wanted or any(wanted.lower() in text.lower() for text in texts)


_UNITS: Final = (" bytes", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def bytes_text(amount: int) -> str:
    """1610612736 is 1.5Gi. Digits are cut, not rounded up."""
    if abs(amount) <= 1:
        return f"{amount}{' byte' if amount else ''}"
    worth, unit = float(abs(amount)), 0
    while worth >= 1024 and unit < len(_UNITS) - 1:
        worth, unit = worth / 1024, unit + 1
    digits = 0 if worth >= 100 or worth.is_integer() else 1 if worth >= 10 else 2
    shown = math.floor(worth * 10**digits) / 10**digits
    return f"{'-' if amount < 0 else ''}{shown:g}{_UNITS[unit]}"


def percent_text(share: float) -> str:
    """0.427 is 42%; 100% only when it is complete."""
    return f"{math.floor(share * 100 + 1e-9)}%"


_SIGNS: Final = str.maketrans(
    {"▁": "_", "▂": ".", "▃": ":", "▄": "-", "▅": "=", "▆": "+", "▇": "*"}
    | {"█": "#", "▒": "%", "░": ".", "▲": "!", "→": ">", "←": "<", "…": "~", "×": "x", "·": "-", "✓": "+", "✗": "x"}
)


def is_ascii_alone(environ: Mapping[str, str]) -> bool:
    wanted = ["LC_ALL", "LC_CTYPE", "LANG"]
    if environ.get("LC_CTYPE", "").upper() in ("C.UTF-8", "C.UTF8", "UTF-8"):
        wanted.remove("LC_CTYPE")
    said = next((environ[name] for name in wanted if environ.get(name)), "")
    return bool(said) and "UTF8" not in said.upper().replace("-", "")


def in_ascii(text: str) -> str:
    """The text in ASCII, equally wide; unknown symbols become question marks."""
    shown = text.translate(_SIGNS)
    return shown if shown.isascii() else "".join(each if each.isascii() else "?" * cell_len(each) for each in shown)


class LinesView(ScrollView, can_focus=True):
    """Lines with a cursor. Posts `Opened` when Enter is pressed on a line with a key."""

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
        if is_ascii_alone:  # a scroll bar is drawn with blocks
            self.styles.scrollbar_size_vertical = 0
        self._lines: Sequence[ScreenLine] = ()
        self.cursor = 0

    @property
    def key(self) -> str:
        """The key of the cursor's line; empty for a heading."""
        return self._lines[self.cursor].key if self._lines else ""

    def show(self, lines: Sequence[ScreenLine], *, from_top: bool = False, at: str = "") -> None:
        """Replace the lines. `from_top`: a new page, with the cursor on the key `at` if there is one."""
        before = self.key
        self._lines = lines
        if from_top:
            self.cursor = next((at for at, line in enumerate(lines) if line.key), 0)
            self.virtual_size = Size(self.size.width, len(lines))
            self.scroll_to(0, 0, animate=False, immediate=True)
            if at:
                self.cursor = next((number for number, line in enumerate(lines) if line.key == at), self.cursor)
                self.call_after_refresh(self._reveal)  # by then the page's height is known
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
        # Text yields only the styles of its parts: put its own style below them.
        own = Style.parse(text.style) if isinstance(text.style, str) else text.style
        segments = list(Segment.apply_style(text.render(self.app.console, end=""), own))
        if self.is_ascii_alone:
            segments = [Segment(in_ascii(segment.text), segment.style) for segment in segments]
        strip = Strip(segments).adjust_cell_length(width)
        if number == self.cursor and self.has_focus:
            return Strip([Segment(segment.text, Style(reverse=True, bold=True)) for segment in strip], width)
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
