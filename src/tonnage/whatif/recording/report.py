"""A recording's answer as a person reads it.

1,204 decisions repeated, all equal

kep-letter: 1,204 decisions, 1,190 as recorded, 12 of them between nodes that are equally good; 14 differ

POD        RECORDED  kep-letter  WHY
shop/db-3  node-5    node-2      …
"""

from __future__ import annotations

from typing import TextIO

from tonnage.clock import rfc3339
from tonnage.printable import text
from tonnage.whatif.page import FittedTable, TableColumn, TextPage
from tonnage.whatif.recording.repeating import Repeated, RepeatedRecording
from tonnage.whatif.shadow.judging import verdict_of
from tonnage.whatif.shadow.report import MOST_ROWS, NOWHERE
from tonnage.whatif.shadow.tally import Tally


def show(answer: RepeatedRecording, out: TextIO) -> None:
    page = TextPage(out)
    page.say(text(headline(answer.repeated), style="bold"))
    if answer.recording.ending:
        page.say(text(f"the recording ends early: {answer.recording.ending}"))
    if why := _why(answer.repeated):
        page.say(text(why))
    for name, tally in answer.judged.items():
        page.blank()
        _run(name, tally, page)


def headline(repeated: Repeated) -> str:
    """How the repetition went, in a sentence."""
    found = repeated.difference
    if found is None:
        return f"{repeated.decisions:,} decisions repeated, all equal"
    told = f"{repeated.equal:,} decisions repeated; then, at {rfc3339(found.at)}, they part:"
    if found.what == "pop":
        return f"{told} {found.recorded or 'no pod'} was tried, and now it is {found.repeated or 'none'}"
    what = "went to" if found.what == "attempt" else "was to make room on"
    return f"{told} {found.pod} {what} {found.recorded or NOWHERE}, and now {found.repeated or NOWHERE}"


def _why(repeated: Repeated) -> str:
    found = repeated.difference
    if found is None or found.explanation is None:
        return ""
    return verdict_of(found.explanation, found.recorded).why or found.explanation.message


def _run(name: str, tally: Tally, page: TextPage) -> None:
    told = f"{name}: {tally.decisions:,} decisions, {tally.agreed:,} as recorded"
    if tally.ties:
        told += f", {tally.ties:,} of them between nodes that are equally good"
    page.say(text(f"{told}; {tally.differing:,} differ", style="bold"))
    if not tally.differences:
        return
    page.blank()
    table = FittedTable(
        [TableColumn("POD", is_whole=True), TableColumn("RECORDED"), TableColumn(name), TableColumn("WHY")]
    )
    for each in tally.differences[:MOST_ROWS]:
        table.add(each.pod, each.theirs or NOWHERE, each.ours or NOWHERE, each.why)
    page.table(table)
    left = tally.differing - min(len(tally.differences), MOST_ROWS)
    if left > 0:
        page.say(text(f"… and {left:,} more", style="dim"))
