"""Warnings as headers: safe to send, and never so many that a client cannot read them.

The limits and what is done beyond them are upstream's (apiserver's endpoints/filters/warning.go): up to 4,096
characters all warnings are sent whole; beyond that each is cut at 256 characters, and those for which there is no room
are left out. Ours counts characters as they are sent, escapes included, since that is what a client has to take, and
sends no more than half of the hundred header lines at which Python's HTTP client gives an answer up.

Upstream does not send a warning with a control character in it. A line break or NUL of an object's field must not reach
a header; here it is shown by its number instead, so that the warning is not lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_COUNT = 50
MAX_TOTAL = 4 * 1024
MAX_CUT = 256
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_QUOTED = re.compile(r'["\\]')


def warning_headers(warnings: Iterable[str]) -> list[str]:
    """The values of the Warning headers of one answer, in order, none twice."""
    texts = [text for text in dict.fromkeys(warnings) if text][:MAX_COUNT]
    if sum(map(len, texts)) <= MAX_TOTAL:
        whole = [_escaped(text) for text in texts]
        if sum(map(len, whole)) <= MAX_TOTAL:
            return [_header(text) for text in whole]
    headers: list[str] = []
    room = MAX_TOTAL
    for text in texts:
        cut = _cut(text)
        room -= len(cut)
        if room < 0:
            break
        headers.append(_header(cut))
    return headers


def _cut(text: str) -> str:
    """The beginning of a text, at most 256 characters when sent. Cut before it is escaped: no escape is halved."""
    kept = text[:MAX_CUT]
    while len(escaped := _escaped(kept)) > MAX_CUT:
        kept = kept[: len(kept) - max((len(escaped) - MAX_CUT) // 5, 1)]
    return escaped


def _escaped(text: str) -> str:
    shown = _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
    return _QUOTED.sub(lambda found: f"\\{found[0]}", shown)


def _header(text: str) -> str:
    return f'299 - "{text}"'
