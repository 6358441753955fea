"""What a report is written to: a `Page`. Here it is text for people, with paragraphs and tables that keep to the
terminal's width and never break a word; `html/html_page.py` draws the same report as HTML.

Names are never broken, so that they can be copied. In a table that is too wide, what all rows share stands above it. If
it is still too wide, it is written row by row, a line per cell:

    REFUSED  3
    BY       TaintToleration
    NODES    node-1, node-2, node-3

A pipe gets neither colours nor wrapped lines: equal answers are equal texts. The numbers in texts and reports are
readable too: bytes in binary units, times in clock units, axes with round steps.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final, TextIO, TypeVar

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from tonnage.printable import text

_GAP = 2
_UNBROKEN = 1_000_000
"""A width that no line reaches."""
_MOST_NAMES, _EXAMPLES = 5, 3
"""Up to five names are all listed; of more, only three."""


def named(names: Sequence[str], most: int = _MOST_NAMES, examples: int = _EXAMPLES) -> str:
    """Names in a line; of many, the first few and the number of the others."""
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:examples])} and {len(names) - examples:,} more"


def natural(name: str) -> list[tuple[int, str]]:
    """A sort key that puts n9 before n10."""
    parts = re.split(r"([0-9]+)", name)
    return [(int(part[:18]), "") if place % 2 else (-1, part) for place, part in enumerate(parts)]


def any_of(nodes: Sequence[str]) -> str:
    """`n1`, `any of a, b`, `any of n00 to n09, z`."""
    runs: list[list[str]] = []
    for name in nodes:
        if runs and _follows(runs[-1][-1], name):
            runs[-1].append(name)
        else:
            runs.append([name])
    told = [part for run in runs for part in ([f"{run[0]} to {run[-1]}"] if len(run) > 2 else run)]
    return f"any of {named(told)}" if len(nodes) > 1 else "".join(nodes)


def _follows(one: str, other: str) -> bool:
    """True if a name is the next after another: n08, n09."""
    found, following = re.fullmatch(r"(.*?)(\d+)", one), re.fullmatch(r"(.*?)(\d+)", other)
    return bool(found and following and found[1] == following[1] and int(found[2]) + 1 == int(following[2]))


Row = Sequence[str | Text]


class FittedTable:
    """Rows under heads. `kinds` has a letter per column: n a name, which is wrapped only where nothing else helps, w
    words, r words of which a blank repeats those above, 1 a number, aligned right."""

    def __init__(self, heads: Sequence[str], kinds: str, rows: Iterable[Row]) -> None:
        self.heads, self.kinds = heads, kinds
        self.rows = [[text(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]

    @property
    def natural_width(self) -> int:
        return sum(self._widest(place) for place in range(len(self.heads))) + _GAP * (len(self.heads) - 1)

    def lines(self, width: int) -> Iterable[Text]:
        """The table in lines of this width; only longer words exceed it."""
        widths = self._widths(width)
        if widths is None:
            yield from self._narrower(width)
            return
        heads = [text(head, style="bold") for head in self.heads]
        for row in (heads, *self.rows):
            yield from self._row(row, widths)

    def _widest(self, place: int) -> int:
        return max(cell_len(self.heads[place]), *(row[place].cell_len for row in self.rows), 0)

    def _narrowest(self, place: int) -> int:
        if self.kinds[place] in "n1":
            return self._widest(place)
        cells = (self.heads[place], *(row[place].plain for row in self.rows))
        return max((cell_len(word) for cell in cells for word in cell.split()), default=0)

    def _widths(self, width: int) -> list[int] | None:
        """The width of each column, narrow columns first; None if the longest words do not fit."""
        places = range(len(self.heads))
        found, wanted = [self._narrowest(place) for place in places], [self._widest(place) for place in places]
        left = width - sum(found) - _GAP * (len(self.heads) - 1)
        if left < 0:
            return None
        open_places = sorted(places, key=lambda place: wanted[place] - found[place])
        for count, place in enumerate(open_places):
            more = min(wanted[place] - found[place], left // (len(open_places) - count))
            found[place] += more
            left -= more
        return found

    def _row(self, cells: Sequence[Text], widths: Sequence[int]) -> Iterable[Text]:
        broken = [_broken(cell, width) for cell, width in zip(cells, widths, strict=True)]
        for number in range(max(map(len, broken))):
            line = text("")
            for kind, parts, width in zip(self.kinds, broken, widths, strict=True):
                part = parts[number] if number < len(parts) else text("")
                blank = " " * (width - part.cell_len)
                line.append_text(text(blank) + part if kind == "1" else part + text(blank))
                line.append(" " * _GAP)
            line.rstrip()
            yield line

    def _narrower(self, width: int) -> Iterable[Text]:
        """What all rows share, once, and the rest as a table, or row by row."""
        places = range(len(self.heads))
        words = [place for place in places if self.kinds[place] != "1"]
        shared = [place for place in words if len({row[place].plain for row in self.rows}) == 1]
        if len(self.rows) == 1 or not shared:
            yield from self._stacked(width)
            return
        yield from self._columns(shared, self.rows[:1])._stacked(width)
        yield text("")
        yield from self._columns([place for place in places if place not in shared], self.rows).lines(width)

    def _columns(self, places: Sequence[int], rows: Sequence[Row]) -> FittedTable:
        """Some columns of some rows."""
        kinds = "".join(self.kinds[place] for place in places)
        return FittedTable(
            [self.heads[place] for place in places], kinds, [[row[place] for place in places] for row in rows]
        )

    def _stacked(self, width: int) -> Iterable[Text]:
        label_width = max(len(each.strip()) for each in self.heads) + _GAP
        above = [text("")] * len(self.heads)
        for number, row in enumerate(self.rows):
            if number:
                yield text("")
            pairs = zip(self.kinds, row, above, strict=True)
            above = [old if kind == "r" and not cell.plain.strip() else cell for kind, cell, old in pairs]
            for head, cell in zip(self.heads, above, strict=True):
                if cell.plain.strip():
                    label = text(f"{head.strip():<{label_width}}", style="bold")
                    for part in _broken(cell, width - label_width):
                        yield text("") + label + part
                        label = text(" " * label_width)


T = TypeVar("T")


class Page:
    """What a report is written to, part by part: a `TextPage` or an `HtmlPage`. What is long is shortened unless a page
    has room for everything."""

    has_room: ClassVar = False
    """Charts are drawn, and tables are worth it that nobody reads in a terminal."""

    @property
    def width(self) -> int:
        return _UNBROKEN

    def say(self, line: Text, indent: int = 0, *, lead: Text | None = None) -> None:
        """Write a paragraph; `indent` and the spaces at its start apply to all its lines. `lead` stands in the first
        line's indent, and is as wide."""

    def blank(self) -> None:
        """Write an empty line."""

    def table(self, table: FittedTable, indent: int = 0) -> None:
        """Write a table."""

    def part(self, line: Text, indent: int = 0) -> None:
        """Write a paragraph after an empty line."""
        self.blank()
        self.say(line, indent)

    def more(self, count: int, what: str = "more", indent: int = 0) -> None:
        """Write how many entries are left out; nothing for 0."""
        if count > 0:
            self.say(text(f"… and {count:,} {what}", style="dim"), indent)

    def first(self, entries: Sequence[T], most: int) -> Sequence[T]:
        """The entries that there is room for: the first, `most` of them at most."""
        return entries if self.has_room else entries[:most]

    def named(self, names: Sequence[str]) -> str:
        """Names in a line, as many as there is room for."""
        return ", ".join(names) if self.has_room else named(names)

    def code(self, content: str, indent: int = 0) -> None:
        """Write the lines of a file."""
        for line in content.splitlines():
            self.say(text(line), indent)

    # Text has no parts with a name, and no charts.

    def title(self, title: str, *, is_partial: bool = False) -> None:
        """The heading of the whole report, which was interrupted if it `is_partial`."""

    def section(self, name: str, heading: str) -> None:
        """What follows stands under this heading. A section without anything is left out."""

    def line_chart(self, name: str, title: str, lines: Sequence[Series], x: Axis, y: Axis, *, note: str = "") -> None:
        """Draw lines over a common axis, usually time."""

    def bar_chart(
        self, name: str, title: str, bars: Sequence[tuple[str, float]], axis: Axis, *, note: str = ""
    ) -> None:
        """Draw a bar per name, in the given order, with its number."""

    def disks(
        self, *maps: tuple[str, str, Sequence[Mapping[str, Any]]], marked: Collection[str] = (), note: str = ""
    ) -> None:
        """Draw maps of disks to one scale, each a name, a title, and the disks as `disk_documents` writes them.
        `marked` claims are highlighted."""


class TextPage(Page):
    """Writes to a stream: as wide as the terminal, or without wrapping if it is none."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._is_terminal = out.isatty()
        self._console = Console(file=out if self._is_terminal else io.StringIO(), highlight=False)

    @property
    def width(self) -> int:
        return self._console.width if self._is_terminal else _UNBROKEN

    def blank(self) -> None:
        self.write(text(""))

    def say(self, line: Text, indent: int = 0, *, lead: Text | None = None) -> None:
        if spaces := len(line.plain) - len(line.plain.lstrip(" ")):
            line, indent = line[spaces:], indent + spaces
        for part in _broken(line, self.width - indent):
            self.write((lead or text(" " * indent)) + part)
            lead = None

    def table(self, table: FittedTable, indent: int = 0) -> None:
        for line in table.lines(self.width - indent):
            self.write(text(" " * indent) + line if indent and line.plain else line)

    def write(self, line: Text) -> None:
        """Write one finished line. Subclasses that show lines elsewhere override this."""
        line.rstrip()
        if self._is_terminal:
            self._console.print(line, soft_wrap=True)
        else:
            self._out.write(f"{line.plain}\n")


def _broken(line: Text, width: int) -> list[Text]:
    """Wrap a line at spaces only."""
    if line.cell_len <= width:
        return [line]
    parts: list[Text] = []
    start = end = at = 0
    plain = line.plain
    for word in plain.split(" "):
        word_end = at + len(word)
        if word and plain[start:end].strip() and cell_len(plain[start:word_end]) > width:
            parts.append(line[start:end])
            start = at
        if word:
            end = word_end
        at = word_end + 1
    return [*parts, line[start:end]]


_UNITS: Final = (" bytes", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_TIME_STEPS_S: Final = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800,
)  # fmt: skip
MOST_TICKS: Final = 6


def bytes_text(number: float) -> str:
    """About three digits and Kubernetes' suffix: 1.5Ti, 180Gi; below 1Ki the exact number."""
    if not number:
        return "0"
    size, unit = float(number), 0
    while abs(size) >= 1023.95 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{_plain(round(size, 0 if abs(size) >= 100 else 1))}{_UNITS[unit]}"


def percent_text(ratio: float) -> str:
    return f"{_plain(round(ratio * 100, 1))} %"


def time_text(seconds: float) -> str:
    """The two largest units: 90 s is 1m30s, 26 h is 1d2h."""
    if seconds < 60:
        return f"{_plain(round(seconds, 3 if seconds < 1 else 1))}s"
    left, parts = round(seconds), []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m"), (1, "s")):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count:,}{unit}")
    return "".join(parts[:2])


def number_text(number: float) -> str:
    return f"{number:,.0f}" if float(number).is_integer() else f"{number:,.3f}".rstrip("0")


def count_text(count: int, one: str, several: str = "") -> str:
    """1 pod, 2 pods."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def number_ticks(highest: float, *, whole: bool = False) -> list[float]:
    """From 0 in steps of 1, 2 or 5 times a power of ten, up to the first step that reaches `highest`."""
    if not highest > 0 or not math.isfinite(highest):
        return [0.0, 1.0]
    power = 10.0 ** math.floor(math.log10(highest / MOST_TICKS))
    step = next(each * power for each in (1, 2, 5, 10) if each * power * MOST_TICKS >= highest * (1 - 1e-9))
    return _steps(max(step, 1.0) if whole else step, highest)


WHOLE: Final = partial(number_ticks, whole=True)


def byte_ticks(highest: float) -> list[float]:
    """From 0 in round steps of a binary unit; the last one is the scale of bars: a full line that holds `highest`."""
    unit = 1.0
    while unit * 1024 <= highest and unit < 1024.0 ** (len(_UNITS) - 1):
        unit *= 1024
    return [tick * unit for tick in number_ticks(highest / unit, whole=unit == 1.0)]


def time_ticks(highest_s: float) -> list[float]:
    """From 0 in steps of clock units; the last is not above `highest_s`, where time ends."""
    fitting = (each for each in _TIME_STEPS_S if each * MOST_TICKS >= highest_s)
    step = float(next(fitting, 0)) or 604800.0 * math.ceil(highest_s / MOST_TICKS / 604800)
    if highest_s < MOST_TICKS:
        return [tick for tick in number_ticks(highest_s) if tick <= highest_s] if highest_s > 0 else [0.0]
    return [step * number for number in range(int(highest_s // step) + 1)]


def _steps(step: float, highest: float) -> list[float]:
    count = max(1, math.ceil(highest / step - 1e-9))
    return [float(f"{step * number:.12g}") for number in range(count + 1)]


def _plain(number: float) -> str:
    return f"{number:g}" if abs(number) < 100_000 else f"{number:,.0f}"


@dataclass(frozen=True, slots=True)
class Series:
    """A line of a chart, by its points."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis: its name, its ticks up to the highest value, and how values are written."""

    name: str
    ticks: Callable[[float], list[float]] = number_ticks
    format: Callable[[float], str] = number_text
