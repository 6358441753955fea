"""Elements of HTML, and charts. Everything that is not `Html` is untrusted text from a cluster: it is made printable
and escaped. Colours are custom properties, so that charts follow light, dark and print (docs/decisions/018-charts.md).

    element("p", "node ", element("b", "<a>"), class_="note")      <p class="note">node <b>&lt;a&gt;</b></p>

leather draws lines and bars as SVG. We add axes that end with the data, legends that show a line's dashes as well as
its colour, and a figure with text for screen readers.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

import leather
from leather import theme
from leather.series import Series as LeatherSeries

from tonnage.printable import printable, printable_lines
from tonnage.whatif.page import Axis, Series

_VOID: Final = frozenset({"meta", "link", "br"})


class Html(str):
    """Text that is already HTML, made by `element`, `joined` or a chart."""

    __slots__ = ()


Part = Html | str | int
"""Content of an element; a plain string is escaped as text."""


def text(content: object) -> Html:
    """Escaped text for use between tags and in double-quoted attributes."""
    return content if isinstance(content, Html) else Html(escape(printable(str(content)), quote=True))


def lines(content: str) -> Html:
    return Html(escape(printable_lines(content), quote=True))


def joined(*parts: Part) -> Html:
    return Html("".join(text(part) for part in parts))


def element(name: str, /, *parts: Part, **attributes: str | int | float | None) -> Html:
    """An element. In attribute names `_` becomes `-`, and a last `_` is dropped; None omits the attribute."""
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Html(f"<{name}{said}>")
    return Html(f"<{name}{said}>{joined(*parts)}</{name}>")


def paragraph(content: Part, kind: str = "") -> Html:
    return element("p", content, class_=kind or None)


WIDTH: Final = 720
HEIGHT: Final = 250
BAR_HEIGHT: Final = 24
_INK, _MUTED, _RULE = "var(--ink)", "var(--muted)", "var(--rule)"
_DASHES: Final = ("none", "7 3", "2 3", "9 3 2 3", "12 4", "4 2 1 2")
COLOURS: Final = tuple(f"var(--series-{number})" for number in range(1, 7))

theme.margin = 0.025
theme.background_color = "none"
theme.title_font_family = theme.legend_font_family = theme.axis_title_font_family = theme.tick_font_family = "inherit"
theme.legend_font_size = theme.axis_title_font_size = theme.tick_font_size = 12
theme.legend_font_char_width = theme.axis_title_font_char_width = theme.tick_font_char_width = 7
theme.legend_font_char_height = theme.tick_font_char_height = 12
theme.legend_gap = 10
theme.axis_title_gap = 4
theme.legend_color = _INK
theme.axis_title_color = theme.label_color = _MUTED
theme.tick_color, theme.zero_color = _RULE, _MUTED


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under heads; the first cell names its row. `kinds` has a letter per column: n a name, which is never
    wrapped, w words, 1 a number, aligned right. Without `kinds` all columns are numbers."""

    heads: Sequence[str]
    rows: Sequence[Sequence[Part]]
    kinds: str = "n1"

    def html(self, caption: str = "") -> Html:
        classes = [{"n": "name", "1": "n"}.get(kind) for kind in self.kinds] or [None] * len(self.heads)
        said = [element("caption", caption)] if caption else []
        heads = (element("th", head, scope="col", class_=kind) for head, kind in zip(self.heads, classes, strict=True))
        body = (element("tr", *_cells(row, classes)) for row in self.rows)
        kind = None if self.kinds else "numbers"  # one class for the whole table, not one per cell
        return element("table", *said, element("thead", element("tr", *heads)), element("tbody", *body), class_=kind)


def _cells(row: Sequence[Part], classes: Sequence[str | None]) -> Iterator[Html]:
    yield element("th", row[0], scope="row", class_=classes[0])
    yield from (element("td", cell, class_=kind) for cell, kind in zip(row[1:], classes[1:], strict=True))


def figure(name: str, title: str, description: str, drawing: Html, table: Table | None = None) -> Html:
    """A drawing with its title above and its numbers below."""
    numbers = [details("The figures as a table", table.html(title))] if table is not None and table.rows else []
    note = [paragraph(description, "note")] if description else []
    return element("figure", element("figcaption", element("b", title), *note), drawing, *numbers, id=name)


def details(summary: str, *parts: Part) -> Html:
    """A disclosure that opens on click or Enter. Wide tables scroll in it, also by keys."""
    region = element("div", *parts, class_="wide", tabindex=0, role="region", aria_label=summary)
    return element("details", element("summary", summary), region)


def svg(name: str, title: str, description: str, drawn: Part, *, height: float = HEIGHT) -> Html:
    """An SVG that screen readers treat as one image with a name and a description."""
    return element(
        "svg",
        element("title", title, id=f"{name}-title"),
        element("desc", description, id=f"{name}-desc"),
        drawn,
        viewBox=f"0 0 {WIDTH:g} {height:g}",
        width=f"{WIDTH:g}",
        height=f"{height:g}",
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
    )


def line_chart(name: str, title: str, series: Sequence[Series], x: Axis, y: Axis, *, note: str = "") -> Html:
    """Lines over a common axis, usually time. Without points it is a sentence."""
    drawn = [each for each in series if each.points]
    if not drawn:
        return figure(name, title, note, paragraph("There is nothing to draw.", "empty"))
    highest_x = max(point[0] for each in drawn for point in each.points)
    highest_y = max(point[1] for each in drawn for point in each.points)
    x_ticks, y_ticks = x.ticks(highest_x), y.ticks(highest_y)
    chart = leather.Chart()
    chart.set_x_scale(_Span(max(highest_x, x_ticks[-1]), x_ticks))
    chart.set_y_scale(_Span(max(highest_y, y_ticks[-1]), y_ticks))
    chart.add_x_axis(ticks=x_ticks, tick_formatter=_formatter(x.format), name=printable(x.name))
    chart.add_y_axis(ticks=y_ticks, tick_formatter=_formatter(y.format))
    for number, each in enumerate(drawn):
        colour, dash = COLOURS[number % len(COLOURS)], _DASHES[number % len(_DASHES)]
        data = LeatherSeries([(float(at), float(value)) for at, value in each.points], name=printable(each.name))
        chart.add_series(data, _Line(colour, 2, dash) if len(each.points) > 1 else leather.Dots(colour, 4))
    words = f"{y.name} by {x.name}. " + " ".join(_in_words(each, x, y) for each in drawn)
    return figure(name, title, note, _drawn(name, title, words, chart, HEIGHT), _line_table(drawn, x, y))


def bar_chart(name: str, title: str, bars: Sequence[tuple[str, float]], axis: Axis, *, note: str = "") -> Html:
    """A bar per name, in the given order, with its number."""
    if not bars:
        return figure(name, title, note, paragraph("There is nothing to draw.", "empty"))
    ticks = axis.ticks(max(value for _, value in bars))
    labels = _distinct([_short(printable(label)) for label, _ in bars])
    chart = leather.Chart()
    chart.set_x_scale(_Span(ticks[-1], ticks))
    chart.add_x_axis(ticks=ticks, tick_formatter=_formatter(axis.format), name=printable(axis.name))
    chart.add_bars(
        [(float(value), label) for label, (_, value) in zip(labels, bars, strict=True)], fill_color=COLOURS[0]
    )
    words = f"{axis.name}: " + ", ".join(f"{label} {axis.format(value)}" for label, value in bars[:20]) + "."
    height = 76 + BAR_HEIGHT * len(bars)
    table = Table(("", axis.name), [(label, axis.format(value)) for label, value in bars])
    return figure(name, title, note, _drawn(name, title, words, chart, height), table)


def _drawn(name: str, title: str, words: str, chart: Any, height: int) -> Html:
    drawn = chart.to_svg_group(WIDTH, height)
    for each in drawn.iter():  # leather writes coordinates with all their digits
        for key in ("x", "y", "x1", "x2", "y1", "y2", "width", "height", "cx", "cy"):
            if len(each.get(key, "")) > 6:
                each.set(key, coordinate(float(each.get(key, ""))))
    return svg(name, title, words, Html(ET.tostring(drawn, encoding="unicode")), height=height)


def _line_table(series: Sequence[Series], x: Axis, y: Axis) -> Table:
    """A row per x, a column per line; a cell is empty where a line has no point."""
    columns = [dict(each.points) for each in series]
    places = sorted({at for column in columns for at in column})
    rows = [(x.format(at), *(y.format(column[at]) if at in column else "" for column in columns)) for at in places]
    return Table((x.name, *(each.name for each in series)), rows, kinds="")


def _in_words(series: Series, x: Axis, y: Axis) -> str:
    """The line in words: its first value, its last, and its peak."""
    first, last = series.points[0], series.points[-1]
    peak = max(series.points, key=lambda point: point[1])
    said = f"{series.name}: from {y.format(first[1])} to {y.format(last[1])}"
    if peak[1] > max(first[1], last[1]):
        said += f", at most {y.format(peak[1])} at {x.format(peak[0])}"
    return f"{said}."


def _formatter(written: Callable[[float], str]) -> Callable[[float, int, int], str]:
    return lambda value, number, count: written(float(value))


def coordinate(number: float) -> str:
    """A pixel coordinate without invisible digits."""
    return f"{number:.2f}".rstrip("0").rstrip(".")


def _short(label: str, most: int = 28) -> str:
    """A name with its middle left out: names differ mostly at their ends."""
    return label if len(label) <= most else f"{label[: most // 2 - 1]}…{label[-(most // 2) :]}"


def _distinct(labels: list[str]) -> list[str]:
    """Make labels unique: leather places bars by label, and equal labels would overlap."""
    seen: dict[str, int] = {}
    found = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        found.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return found


class _Span(leather.Linear):  # type: ignore[misc]
    """A scale from 0 to a given end; leather would extend it to its own next step."""

    def __init__(self, highest: float, ticks: Sequence[float]) -> None:
        self._highest = highest if highest > 0 else 1.0
        self._steps = list(ticks)

    def contains(self, v: float) -> bool:
        return 0 <= float(v) <= self._highest

    def project(self, value: float, range_min: float, range_max: float) -> float:
        start, end = float(range_min), float(range_max)
        return round(start + (end - start) * float(value) / self._highest, 2)

    def ticks(self) -> list[float]:
        return self._steps


class _Line(leather.Line):  # type: ignore[misc]
    """A line whose legend entry shows its dashes."""

    def legend_to_svg(self, series: Any, palette: Iterator[str]) -> list[tuple[ET.Element, float]]:
        ((group, width),) = super().legend_to_svg(series, palette)
        group.remove(group[0])
        sample = {"x1": "0", "y1": "-4", "x2": "22", "y2": "-4", "stroke": self._stroke_color, "stroke-width": "2"}
        if self._stroke_dasharray != "none":
            sample["stroke-dasharray"] = self._stroke_dasharray
        group.insert(0, ET.Element("line", sample))
        group[1].set("x", "28")
        return [(group, width + 14)]
