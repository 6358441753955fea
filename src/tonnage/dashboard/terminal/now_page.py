"""The first page of `tonnage top`: the line, what is wrong, and the last hour as sparklines. Status in, lines out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Final

from tonnage.dashboard.status.history import Sample
from tonnage.dashboard.status.keeper import StatusKeeper
from tonnage.dashboard.status.overview import overview_texts
from tonnage.dashboard.status.report import show_trouble, verdict
from tonnage.dashboard.status.troubles import folded
from tonnage.dashboard.terminal.lines_view import ScreenLine, bytes_text, cell, heading, matches, plain, row
from tonnage.dashboard.terminal.pod_pages import PageOfLines
from tonnage.whatif.page import count_text

SPAN: Final = timedelta(hours=1)
_LEVELS: Final = "▁▂▃▄▅▆▇█"
_OPENED: Final = ("Node", "Pod")
"""Kinds that Enter opens."""


def now_lines(keeper: StatusKeeper, *, width: int, search: str = "") -> list[ScreenLine]:
    if keeper.looked_at is None:
        return [plain("looking", "dim")]
    page = PageOfLines(width)
    page.say(heading(" · ".join(overview_texts(keeper.overview))).text)
    page.blank()
    page.say(verdict(keeper))
    for each, more in folded(keeper.found):
        if not matches(search, each.headline, each.meaning, each.kind):
            continue
        page.blank()
        first = len(page.lines)
        show_trouble(keeper, each, page)
        if each.object.partition(" ")[0] in _OPENED:
            page.lines[first] = ScreenLine(page.lines[first].text, each.object)
        page.more(more, "of this kind", 9)
    for sentence in keeper.unseen:
        page.say(plain(sentence, "dim").text)
    return [*page.lines, plain(""), *_history_lines(keeper, width)]


def _history_lines(keeper: StatusKeeper, width: int) -> Iterator[ScreenLine]:
    samples = [sample for sample in keeper.log.samples() if keeper.looked_at and sample.at >= keeper.looked_at - SPAN]
    if not samples:
        return
    yield heading("the last hour")
    name_width, room = min(20, width // 4), max(min(60, width // 2), 10)
    for name in samples[-1].classes:
        last = samples[-1].classes[name]
        drawn = sparkline(samples, lambda each, name=name: each.classes[name].free if name in each.classes else 0, room)  # type: ignore[misc]
        yield _line(f"{name}, free", drawn, f"{bytes_text(last.free)} of {bytes_text(last.total)}", name_width, width)
    refused = sum(sample.refused for sample in samples)
    for name, read, told in (
        ("pods pending", lambda each: each.pending, f"{samples[-1].pending:,} now"),
        ("volumes refused", lambda each: each.refused, f"{refused:,} in all"),
        ("troubles", lambda each: each.troubles, f"{samples[-1].troubles:,} now"),
    ):
        yield _line(name, sparkline(samples, read, room), told, name_width, width)
    if keeper.log.ended:
        last_ended = keeper.log.ended[-1]
        age = count_text(max(int((keeper.looked_at - last_ended.until).total_seconds() // 60), 0), "minute")  # type: ignore[operator]
        yield plain(f"ended {age} ago: {last_ended.headline}", "dim")


def _line(name: str, drawn: str, told: str, name_width: int, width: int) -> ScreenLine:
    rest = max(width - name_width - len(drawn) - 3, 0)
    return ScreenLine(row(cell(name, name_width), cell(drawn, len(drawn), "cyan"), cell(told, rest)))


def sparkline(samples: Sequence[Sample], read: Callable[[Sample], int], width: int) -> str:
    """The values over time in `width` signs: the highest of each stretch, against the highest of all."""
    size = -(-len(samples) // width)
    highest = [max(map(read, samples[at : at + size])) for at in range(0, len(samples), size)]
    top = max(highest) or 1
    return "".join(_LEVELS[-(-value * (len(_LEVELS) - 1) // top)] for value in highest)
