"""HTML that cannot be broken out of: whatever is not `Html` already is text, and is escaped where it is put in.

    element("p", "node ", element("b", "<a>"), class_="note")      <p class="note">node <b>&lt;a&gt;</b></p>

Names, messages and reasons come from a cluster, where nobody checked them. They are made printable first: a browser
would draw a mark that turns the direction of text, and a control character is not allowed in HTML at all.
"""

from __future__ import annotations

from html import escape
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
    """The same for text of several lines."""
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
