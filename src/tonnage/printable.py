"""Makes text from a cluster safe for a terminal, a log line, a table row.

Text written by strangers must not move the cursor, set a window's title, hide or reverse other text, or start a line
that looks like ours. So every invisible character is written as an escape.

`printable` is for one line, `printable_lines` for several, `printable_json` for JSON. `text` and `assembled` build text
for rich: a plain string handed to rich could also contain its markup (`[red]`, `[link=…]`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # programs that only log do not load rich
    from rich.text import Text

# C0 and C1 controls, invisible marks (soft hyphen, zero widths, BOM, tags), marks that change the direction, line and
# paragraph separators, and lone surrogates, which cannot even be written as UTF-8.
_INVISIBLE: Final = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e0fff"
)
_IN_LINES: Final = re.compile(f"[{_INVISIBLE}]")
_IN_A_LINE: Final = re.compile(f"[{_INVISIBLE}\t\n]")
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str) -> str:
    """The text as one line, with escapes for invisible characters."""
    return text if text.isprintable() else _IN_A_LINE.sub(_escape, text)


def printable_lines(text: str) -> str:
    """The same for several lines: line feeds and tabs stay."""
    return text if text.isprintable() else _IN_LINES.sub(_escape, text)


def printable_json(text: str) -> str:
    """JSON of the same value without invisible characters in its strings; line feeds and tabs between them stay."""
    return text if text.isprintable() else _IN_LINES.sub(_json_escape, text)


def text(content: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(printable(content), style=style)


def assembled(*parts: str | tuple[str, str]) -> Text:
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
