"""Text from a cluster, made safe for a terminal, a log line, a line of a table.

What strangers wrote must not move the cursor, set a window's title, hide or turn around the text beside it, or begin a
line of its own that looks like ours. So whatever is not a visible character is written as an escape.

`printable` is for one line, `printable_lines` for text that is meant to have several; names in it are made printable
before it is put together. `printable_json` keeps JSON what it is. `text` and `assembled` are pieces of a page that rich
writes: a string that is handed to rich as it is may hold its markup (`[red]`, `[link=…]`) besides.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # programs log, and need no pages
    from rich.text import Text

# C0 and C1 controls, marks that are not seen (soft hyphen, zero widths, BOM, tags), marks that turn the direction, line
# and paragraph separators, and halves of surrogate pairs, which cannot even be written as UTF-8.
_INVISIBLE: Final = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e0fff"
)
_IN_LINES: Final = re.compile(f"[{_INVISIBLE}]")
_IN_A_LINE: Final = re.compile(f"[{_INVISIBLE}\t\n]")
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str) -> str:
    """The text in one line, with an escape for whatever cannot be seen."""
    return text if text.isprintable() else _IN_A_LINE.sub(_escape, text)


def printable_lines(text: str) -> str:
    """The same for text of several lines: line feeds and tabs stay."""
    return text if text.isprintable() else _IN_LINES.sub(_escape, text)


def printable_json(text: str) -> str:
    """JSON with the same value and no invisible character in its strings; line feeds and tabs between them stay."""
    return text if text.isprintable() else _IN_LINES.sub(_json_escape, text)


def text(content: str, style: str = "") -> Text:
    """A line of a page, in one style."""
    from rich.text import Text

    return Text(printable(content), style=style)


def assembled(*parts: str | tuple[str, str]) -> Text:
    """A line of a page in several: strings, and strings with their style."""
    from rich.text import Text

    pairs = [(part, "") if isinstance(part, str) else part for part in parts]
    return Text.assemble(*((printable(content), style) for content, style in pairs))


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    code = ord(char)
    if char in _SHORT:
        return _SHORT[char]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
