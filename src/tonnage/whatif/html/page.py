"""The frame of a report: one self-contained file for screens, screen readers, keyboards and paper.

It has no script, and its Content-Security-Policy allows none. Colours are custom properties, so that charts follow
light, dark and print. Everything that is not `Html` is untrusted text from a cluster: it is made printable and escaped.

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


_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


@dataclass(slots=True)
class HtmlPage:
    """A report: its title, its answer in a sentence, and ordered sections."""

    command: str
    title: str
    lead: str = ""
    is_partial: bool = False
    _sections: list[tuple[str, str, Html]] = field(default_factory=list)
    _figures: list[Html] = field(default_factory=list)

    def figure(self, name: str, value: str, tone: str = "") -> None:
        """Add a headline number; `tone` is good, warn or bad."""
        said = element("dd", value, class_=tone or None)
        self._figures.append(element("div", element("dt", name), said))

    def section(self, name: str, heading: str, *parts: Part) -> None:
        """Add a section, unless it is empty."""
        if parts:
            self._sections.append((name, heading, joined(*parts)))

    def html(self) -> str:
        """The whole file; equal answers give equal bytes."""
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
            said = "This was interrupted: what is here is right, but something may be missing."
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
