"""What is drawn, for terminals that show ASCII alone: a sign for a sign, as wide as it was.

A terminal's characters are those of its locale: LC_ALL, else LC_CTYPE, else LANG. `C` and `POSIX` have ASCII, and so is
taken what names another set than UTF-8; where nobody says anything it is UTF-8, as nearly all terminals are. Where LANG
is C, Python puts LC_CTYPE=C.UTF-8 into its own surroundings: that is not the user's word.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rich.cells import cell_len

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
