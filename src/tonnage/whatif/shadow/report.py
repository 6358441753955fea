"""A shadow's tally as a person reads it: how often the two agreed, where not and why, and which volumes were refused.

412 decisions in 2h0m: 405 agreed, 9 of them between nodes that are equally good; 7 differed

POD        THEIRS  OURS    WHY
shop/db-3  node-2  node-5  node-2 is refused by VolumeBinding: …

The other scheduler sent 4 pods where their volumes could not be made; Tonnage would not have sent 4 of them there
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, TextIO

from tonnage.printable import text
from tonnage.whatif.page import FittedTable, TableColumn, TextPage
from tonnage.whatif.shadow.tally import Tally

MOST_ROWS: Final = 40
NOWHERE: Final = "nowhere"


def counts(tally: Tally) -> str:
    """The state in a line, for progress."""
    told = f"{tally.decisions:,} decisions, {tally.agreed:,} agreed, {tally.differing:,} differed"
    return f"{told}, {tally.refused:,} with volumes refused" if tally.refused else told


def show(tally: Tally, until: datetime, out: TextIO) -> None:
    page = TextPage(out)
    page.say(text(_headline(tally, until), style="bold"))
    if tally.by_scoring:
        page.say(text(_by_scoring(tally)))
    if tally.unseen:
        page.say(text(f"{_many(tally.unseen, 'pod')} got a node, and not all that led to it was seen; not judged"))
    if tally.differences:
        page.blank()
        _differences(tally, page)
    page.blank()
    page.say(text(_refused(tally), style="bold red" if tally.refused else ""))
    if tally.refusals:
        page.blank()
        _refusals(tally, page)


def _headline(tally: Tally, until: datetime) -> str:
    span = _span(until - tally.since)
    if not tally.decisions:
        return f"No pod was placed in {span}"
    told = f"{_many(tally.decisions, 'decision')} in {span}: {tally.agreed:,} agreed"
    if tally.ties:
        told += f", {tally.ties:,} of them between nodes that are equally good"
    return f"{told}; {tally.differing:,} differed"


def _by_scoring(tally: Tally) -> str:
    come = "comes" if tally.by_scoring == 1 else "come"
    told = f"{tally.by_scoring:,} of {_many(tally.differing, 'difference')} {come} from StorageCapacityScoring"
    return f"{told}, which kube-scheduler has off by default; without it: --feature-gates StorageCapacityScoring=false"


def _refused(tally: Tally) -> str:
    if not tally.refused:
        return "No pod was seen to be sent where its volumes could not be made"
    sent = f"The other scheduler sent {_many(tally.refused, 'pod')} where volumes could not be made"
    if not tally.avoided:
        return f"{sent}; Tonnage would have done the same"
    return f"{sent}; Tonnage would not have sent {tally.avoided:,} of them there"


def _differences(tally: Tally, page: TextPage) -> None:
    table = FittedTable(
        [TableColumn("POD", is_whole=True), TableColumn("THEIRS"), TableColumn("OURS"), TableColumn("WHY")]
    )
    for each in tally.differences[:MOST_ROWS]:
        table.add(each.pod, each.theirs or NOWHERE, each.ours or NOWHERE, each.why)
    page.table(table)
    _more(tally.differing - min(len(tally.differences), MOST_ROWS), page)


def _refusals(tally: Tally, page: TextPage) -> None:
    table = FittedTable(
        [TableColumn("POD", is_whole=True), TableColumn("SENT TO"), TableColumn("SEEN BY"), TableColumn("TONNAGE")]
    )
    for each in tally.refusals[:MOST_ROWS]:
        table.add(each.verdict.pod, each.verdict.theirs, each.seen_by, each.tonnage)
    page.table(table)
    _more(tally.refused - min(len(tally.refusals), MOST_ROWS), page)


def _more(left: int, page: TextPage) -> None:
    if left > 0:
        page.say(text(f"… and {left:,} more; -o json has the first {MOST_ROWS * 25:,}", style="dim"))


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _span(span: timedelta) -> str:
    seconds = max(int(span.total_seconds()), 0)
    hours, minutes = seconds // 3600, seconds // 60 % 60
    if hours:
        return f"{hours}h{minutes}m"
    return f"{minutes}m{seconds % 60}s" if minutes else f"{seconds}s"
