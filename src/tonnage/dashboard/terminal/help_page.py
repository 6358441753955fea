"""What keys do and signs mean; `?` shows it."""

from __future__ import annotations

from typing import Final

from rich.text import Text

from tonnage.dashboard.terminal.lines import ScreenLine, cell, heading, plain, row
from tonnage.dashboard.terminal.map_page import FREE, PROMISED, USED

_KEYS: Final = (
    ("m, p, f", "map, pending, flow"),
    ("up, down, j, k", "one line; page up, page down, home, end: further"),
    ("enter", "more of the line under the cursor: a node, a pod, a lane"),
    ("escape", "back; in a search: show all again"),
    ("/", "search nodes, zones, claims, pods and words; enter keeps what was found"),
    ("s", "sort the map by name, fullness, trouble"),
    ("q", "leave"),
)
_SIGNS: Final = (
    (USED * 3, "used by volumes, or by what else is in a pool"),
    (PROMISED * 3, "kept back: promised to a pod, not used yet"),
    (FREE * 3, "free"),
    ("3/16", "attach slots used, of how many"),
    ("▲", "trouble: cordoned, NotReady, stale figures, no slot or no room left"),
    ("→", "volumes on their way to this node"),
)


def help_lines() -> list[ScreenLine]:
    found = [heading("keys")]
    found += [ScreenLine(row(cell("", 1), cell(keys, 16, "bold"), Text(words))) for keys, words in _KEYS]
    found += [plain(""), heading("on the map")]
    found += [ScreenLine(row(cell("", 1), cell(sign, 16), Text(words))) for sign, words in _SIGNS]
    found += [plain(""), heading("pending and flow")]
    words = "Pods that wait stand below what they wait for, with the nearest miss and what would help."
    return [
        *found,
        plain(" " + words),
        plain(" A lane tells the newest step first, and how long after the one before it came."),
    ]
