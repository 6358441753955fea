"""A report as one self-contained HTML file, for screens, screen readers, keyboards and paper: `-o html`.

It has no script, and its Content-Security-Policy allows none. It says what the text says, with every row and name, and
draws charts. Equal answers give equal bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from importlib.resources import files
from typing import Any, Final

from rich.text import Text

from tonnage.whatif.html import charts
from tonnage.whatif.html.capacity_map import capacity_map, scales_of
from tonnage.whatif.html.charts import Html, element, joined, lines, paragraph
from tonnage.whatif.page import Axis, FittedTable, Page, Series

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
_CLASSES: Final = {"red": "bad", "green": "good", "yellow": "warn", "dim": "note"}
"""By colour of a terminal."""
_INDENT: Final = 2


class HtmlPage(Page):
    """Lines before the first section are its lead; a bold line in a section is a heading, unless it says the same as
    one of the page."""

    has_room = True

    def __init__(self, command: str) -> None:
        self._command = self._title = command
        self._is_partial = False
        self._lead = self._parts = list[Html]()
        self._sections: list[tuple[str, str, list[Html]]] = []

    def title(self, title: str, *, is_partial: bool = False) -> None:
        self._title, self._is_partial = title, is_partial

    def section(self, name: str, heading: str) -> None:
        self._parts = []
        self._sections.append((name, heading, self._parts))

    def say(self, line: Text, indent: int = 0, *, lead: Text | None = None) -> None:
        headings = [self._title, *(heading for _, heading, _ in self._sections[-1:])]
        if line.plain.casefold() in map(str.casefold, headings):
            return
        is_heading = str(line.style).startswith("bold") and self._parts is not self._lead
        depth = "deep" if indent > _INDENT else "in" if indent or line.plain.startswith(" ") else ""
        name, kind = "h3" if is_heading else "p", f"{depth} {_class_of(line.style)}".strip()
        self._parts.append(element(name, *([lead.plain, " "] if lead else []), _inline(line), class_=kind or None))

    def blank(self) -> None:
        """A page has space between its parts anyway."""

    def code(self, content: str, indent: int = 0) -> None:
        self._parts.append(element("pre", element("code", lines(content)), tabindex=0))

    def table(self, table: FittedTable, indent: int = 0) -> None:
        heads = [head.capitalize() if head.isupper() else head for head in table.heads]
        rows = [[_cell(cell) for cell in row] for row in table.rows]
        if rows:
            self._parts.append(charts.Table(heads, rows, table.kinds).html())

    def line_chart(self, name: str, title: str, lines: Sequence[Series], x: Axis, y: Axis, *, note: str = "") -> None:
        self._parts.append(charts.line_chart(name, title, lines, x, y, note=note))

    def bar_chart(
        self, name: str, title: str, bars: Sequence[tuple[str, float]], axis: Axis, *, note: str = ""
    ) -> None:
        self._parts.append(charts.bar_chart(name, title, bars, axis, note=note))

    def disks(
        self, *maps: tuple[str, str, Sequence[Mapping[str, Any]]], marked: Collection[str] = (), note: str = ""
    ) -> None:
        scales = scales_of(*(disks for _, _, disks in maps))
        for name, title, disks in maps:
            self._parts.append(capacity_map(name, title, disks, marked=marked, note=note, scales=scales))

    def html(self) -> str:
        """The whole file."""
        head = element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="color-scheme", content="light dark"),
            element("meta", name="generator", content="tonnage"),
            element("link", rel="icon", href="data:,"),
            element("title", f"{self._title} · tonnage {self._command}"),
            element("style", Html((files("tonnage.whatif.html") / "report.css").read_text("utf-8"))),
        )
        return f"<!doctype html>\n{element('html', head, self._body(), lang='en')}\n"

    def _body(self) -> Html:
        header = [paragraph(f"tonnage {self._command}", "kind"), element("h1", self._title)]
        if self._is_partial:
            said = "This was interrupted: what is here is right, but something may be missing."
            header.append(paragraph(said, "partial"))
        filled = [(name, heading, joined(*parts)) for name, heading, parts in self._sections if parts]
        links = (element("li", element("a", heading, href=f"#{name}")) for name, heading, _ in filled)
        sections = (
            element(
                "section",
                element("h2", heading, id=f"{name}-heading"),
                content,
                id=name,
                aria_labelledby=f"{name}-heading",
            )
            for name, heading, content in filled
        )
        return element(
            "body",
            element("a", "Skip to the answer", href="#main", class_="skip"),
            element("header", *header, *self._lead),
            element("nav", element("ol", *links), aria_label="Contents") if filled else Html(),
            element("main", *sections, id="main", tabindex=-1),
            element("footer", "Nothing was changed in any cluster. Made by tonnage from the same answer as -o json."),
        )


def _class_of(style: object) -> str:
    return next((_CLASSES[word] for word in str(style).split() if word in _CLASSES), "")


def _cell(cell: Text) -> Html:
    kind = _class_of(cell.style)
    return element("span", _inline(cell), class_=kind) if kind else _inline(cell)


def _inline(line: Text) -> Html:
    """A line with its bold and coloured words."""
    parts, at = list[str](), 0
    for span in sorted(line.spans):
        name = "b" if "bold" in str(span.style) else "span"
        words = element(name, line.plain[span.start : span.end], class_=_class_of(span.style) or None)
        parts += [line.plain[at : span.start], words]
        at = span.end
    return joined(*parts, line.plain[at:])
