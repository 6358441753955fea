"""The answer of `fit`: where replicas go, what stops the next one, what would let it in. For people (`show`) and for
scripts (`document`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from tonnage.printable import text
from tonnage.whatif.fit.counting import Counted, NodesNeeded
from tonnage.whatif.fit.remedies import SHOWN, Remedy
from tonnage.whatif.page import FittedTable, TableColumn, TextPage


@dataclass(frozen=True, slots=True)
class FitAnswer:
    """How many more replicas of a workload fit, and all that belongs to it."""

    workload: str
    counted: Counted
    remedies: tuple[Remedy, ...] = ()
    needed: NodesNeeded | None = None
    disks: Sequence[Mapping[str, Any]] = ()
    """The disks with the replicas that fit, as `disk_documents` has them."""

    def shown_remedies(self) -> list[Remedy]:
        """The least of each kind first, then others, as many as people read."""
        firsts: list[Remedy] = []
        rest: list[Remedy] = []
        for each in self.remedies:
            (rest if any(other.kind == each.kind for other in firsts) else firsts).append(each)
        return [*firsts, *rest][:SHOWN]

    def document(self) -> dict[str, Any]:
        return {
            "workload": self.workload,
            **self.counted.document(),
            "wouldHelp": [each.text for each in self.shown_remedies()],
            "remedies": [each.document() for each in self.remedies],
            "partial": self.counted.is_cut,
            "interrupted": self.counted.is_interrupted,
            "disks": list(self.disks),
            **({"nodesNeeded": self.needed.document()} if self.needed is not None else {}),
        }


_NODES_SHOWN = 40


def show(answer: FitAnswer, out: TextIO) -> None:
    """Write the answer."""
    page, counted = TextPage(out), answer.counted
    some = "at least " if counted.is_cut else ""
    page.say(text(f"{answer.workload}: {some}{counted.count:,} more {'fits' if counted.count == 1 else 'fit'}", "bold"))
    if counted.by_node:
        page.blank()
        page.table(_places(answer))
    if counted.stops:
        page.blank()
        table = FittedTable([TableColumn("NODES", is_number=True), TableColumn("WHAT STOPS THE NEXT ONE")])
        for stop in counted.stops:
            table.add(f"{stop.nodes:,}", stop.reason)
        page.table(table)
    if answer.remedies:
        page.blank()
        page.say(text("The least that would let it in:"))
        for each in answer.shown_remedies():
            page.say(text(each.text), indent=2)
    if answer.needed is not None:
        page.blank()
        nodes = "1 node" if answer.needed.nodes == 1 else f"{answer.needed.nodes:,} nodes"
        page.say(text(f"{nodes} like {answer.needed.template} for {answer.needed.pods:,} pods"))


def _places(answer: FitAnswer) -> FittedTable:
    """Nodes with their share, the largest first."""
    counted = answer.counted
    has_zones = any(counted.zone_of.get(node) for node in counted.by_node)
    columns = [
        TableColumn("NODE", is_whole=True),
        *([TableColumn("ZONE")] if has_zones else []),
        TableColumn("MORE", is_number=True),
    ]
    table = FittedTable(columns)
    ordered = sorted(counted.by_node.items(), key=lambda each: (-each[1], each[0]))
    for node, count in ordered[:_NODES_SHOWN]:
        zone = [counted.zone_of.get(node, "")] if has_zones else []
        table.add(node, *zone, f"{count:,}")
    if left := ordered[_NODES_SHOWN:]:
        table.add(f"and {len(left):,} more", *([""] if has_zones else []), f"{sum(count for _, count in left):,}")
    return table
