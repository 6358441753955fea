"""What a shadow has seen so far: counts of everything, and of what differs the first so many in full.

A person reads how often the two agreed, where not and why, and which volumes were refused:

    412 decisions in 2h0m: 405 agreed, 9 of them between nodes that are equally good; 7 differed

    POD        THEIRS  OURS    WHY
    shop/db-3  node-2  node-5  node-2 is refused by VolumeBinding: …

    The other scheduler sent 4 pods where their volumes could not be made; Tonnage would not have sent 4 of them there
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, TextIO

from tonnage.clock import rfc3339
from tonnage.printable import text
from tonnage.whatif.page import FittedTable, TableColumn, TextPage
from tonnage.whatif.shadow.judging import ShadowVerdict

MOST_KEPT: Final = 1000
"""Differences, and refused volumes, that are kept to be told in full; of more only the number."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A pod that was sent where its volumes could not be made or attached."""

    verdict: ShadowVerdict
    seen_by: str

    @property
    def is_avoided(self) -> bool:
        """Tonnage would not have sent it there: it refuses the node, or has a better one."""
        return not self.verdict.agreed

    @property
    def tonnage(self) -> str:
        """What Tonnage would have done."""
        if not self.is_avoided:
            return "would have sent it there too"
        if not self.verdict.ours:
            return "would have let it wait"
        return f"would have sent it to {self.verdict.ours}"

    def document(self) -> dict[str, Any]:
        return {
            "pod": self.verdict.pod,
            "node": self.verdict.theirs,
            "seenBy": self.seen_by,
            "avoided": self.is_avoided,
            "tonnage": self.tonnage,
            "why": self.verdict.why,
        }


@dataclass(slots=True)
class Tally:
    """Counts since a start. `unseen` are pods that got a node and could not be judged: they were not seen waiting
    without a decision, or not all that was there at that moment is known."""

    since: datetime
    most_kept: int = MOST_KEPT
    decisions: int = 0
    agreed: int = 0
    ties: int = 0
    differing: int = 0
    by_scoring: int = 0
    """Those of them that come from StorageCapacityScoring alone."""
    refused: int = 0
    avoided: int = 0
    unseen: int = 0
    on_difference: Callable[[ShadowVerdict], object] = lambda verdict: None
    """Told of those that are kept, as they are found; so is `on_refusal`."""
    on_refusal: Callable[[Refusal], object] = lambda refusal: None
    differences: list[ShadowVerdict] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)

    def decided(self, verdict: ShadowVerdict) -> None:
        self.decisions += 1
        if verdict.agreed:
            self.agreed += 1
            self.ties += verdict.tie
            return
        self.differing += 1
        self.by_scoring += verdict.by_scoring
        if len(self.differences) < self.most_kept:
            self.differences.append(verdict)
            self.on_difference(verdict)

    def volumes_refused(self, verdict: ShadowVerdict, seen_by: str) -> None:
        found = Refusal(verdict, seen_by)
        self.refused += 1
        self.avoided += found.is_avoided
        if len(self.refusals) < self.most_kept:
            self.refusals.append(found)
            self.on_refusal(found)

    def document(self, until: datetime) -> dict[str, Any]:
        """The answer for scripts; see docs/whatif.md."""
        return {
            "since": rfc3339(self.since),
            "until": rfc3339(until),
            "decisions": self.decisions,
            "agreed": self.agreed,
            "ties": self.ties,
            "differences": [each.document() for each in self.differences],
            "differencesByStorageCapacityScoring": self.by_scoring,
            "differencesLeftOut": self.differing - len(self.differences),
            "volumesRefused": {
                "theirs": self.refused,
                "wouldHaveBeenAvoided": self.avoided,
                "refusals": [each.document() for each in self.refusals],
                "refusalsLeftOut": self.refused - len(self.refusals),
            },
            "unseen": self.unseen,
        }


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
