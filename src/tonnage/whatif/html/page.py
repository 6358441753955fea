"""The frame of a report: one file that asks nobody for anything, is read on a screen, by ear, by keys and on paper.

There is no script in it, and its Content-Security-Policy allows none. Colours are custom properties, so that charts
follow light, dark and print. Whatever is not `Html` already is text from a cluster, where nobody checked it: it is made
printable and escaped where it is put in.

    element("p", "node ", element("b", "<a>"), class_="note")      <p class="note">node <b>&lt;a&gt;</b></p>
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from typing import Final

from tonnage.printable import printable, printable_lines

_VOID: Final = frozenset({"meta", "link", "br"})


class Html(str):
    """Text that is HTML already, made by `element`, `joined` or a chart."""

    __slots__ = ()


Part = Html | str | int
"""What can be put into an element; a string is text."""


def text(content: object) -> Html:
    """Text, escaped, for between tags and for attributes in double quotes."""
    return content if isinstance(content, Html) else Html(escape(printable(str(content)), quote=True))


def lines(content: str) -> Html:
    return Html(escape(printable_lines(content), quote=True))


def joined(*parts: Part) -> Html:
    return Html("".join(text(part) for part in parts))


def element(name: str, /, *parts: Part, **attributes: str | int | float | None) -> Html:
    """An element. Underscores in an attribute's name are hyphens, one at its end is dropped; None leaves it out."""
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


_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


@dataclass(slots=True)
class HtmlPage:
    """A report: what it is of, its answer in a sentence, and sections in their order."""

    command: str
    title: str
    lead: str = ""
    is_partial: bool = False
    _sections: list[tuple[str, str, Html]] = field(default_factory=list)
    _figures: list[Html] = field(default_factory=list)

    def figure(self, name: str, value: str, tone: str = "") -> None:
        """A number that is read first; `tone` is good, warn or bad."""
        said = element("dd", value, class_=tone or None)
        self._figures.append(element("div", element("dt", name), said))

    def section(self, name: str, heading: str, *parts: Part) -> None:
        """Part of the report; one without anything in it is left out."""
        if parts:
            self._sections.append((name, heading, joined(*parts)))

    def html(self) -> str:
        """The whole file; the same answer gives the same bytes."""
        head = element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="color-scheme", content="light dark"),
            element("meta", name="generator", content="tonnage"),
            element("link", rel="icon", href="data:,"),
            element("title", f"{self.title} · tonnage {self.command}"),
            element("style", Html((files("tonnage.whatif.html") / "report.css").read_text("utf-8"))),
        )
        return f"<!doctype html>\n{element('html', head, self._body(), lang='en')}\n"

    def _body(self) -> Html:
        header = [paragraph(f"tonnage {self.command}", "kind"), element("h1", self.title)]
        if self.lead:
            header.append(paragraph(self.lead, "lead"))
        if self.is_partial:
            said = "This was interrupted before its end: what is here holds, and something may be missing."
            header.append(paragraph(said, "partial"))
        if self._figures:
            header.append(element("dl", *self._figures, class_="figures"))
        links = (element("li", element("a", heading, href=f"#{name}")) for name, heading, _ in self._sections)
        sections = (
            element(
                "section",
                element("h2", heading, id=f"{name}-heading"),
                content,
                id=name,
                aria_labelledby=f"{name}-heading",
            )
            for name, heading, content in self._sections
        )
        parts: Sequence[Html] = (
            element("a", "Skip to the answer", href="#main", class_="skip"),
            element("header", *header),
            element("nav", element("ol", *links), aria_label="Contents") if self._sections else Html(),
            element("main", *sections, id="main", tabindex=-1),
            element("footer", "Nothing was changed in any cluster. Made by tonnage from the same answer as -o json."),
        )
        return element("body", *parts)
