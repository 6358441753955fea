"""Runs as people read them: one column a run, then who waits and why, then where runs part.

                            kube-scheduler                   default
    placed                             401                       412
    waiting                             11                         0
    utilisation           71% ▁▂▃▄▅▆▆▇▇▇▇▇          73% ▁▂▃▄▅▆▇▇▇▇██

Small lines show a figure over the time of the run. On a terminal there are colours and its width is kept to; in a pipe
there are neither colours nor broken lines (`whatif/page.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TextIO

from rich.text import Text

from tonnage.clock import format_duration
from tonnage.printable import assembled, printable, text
from tonnage.scheduling.volumes.explain.account_entries import amount
from tonnage.whatif.page import FittedTable, TableColumn, TextPage
from tonnage.whatif.simulate.comparison import Comparison

_BARS: Final = "▁▂▃▄▅▆▇█"
_LINE: Final = 16
"""The characters of a line that shows a figure over time."""
_GROUPS: Final = 5
"""Reasons of waiting pods that are shown of each run."""
_NAMES: Final = 3

Document = Mapping[str, Any]


def show(comparison: Comparison, out: TextIO) -> None:
    page = TextPage(out)
    documents = {name: result.document for name, result in comparison.results.items()}
    if comparison.is_partial:
        page.say(text("PARTIAL: cut short; the figures tell of what happened until then", style="bold yellow"))
    if not documents:
        return
    first = next(iter(documents.values()))
    span = format_duration(max(float(each["seconds"]) for each in documents.values()))
    page.say(text(f"seed {comparison.seed}, {first['arrived']:,} pods in {span} of virtual time"))
    page.blank()
    _print_figures(documents, page)
    _print_waiting(documents, page)
    _print_losses(documents, page)
    _print_differences(comparison.differences, page)


def sparkline(values: Sequence[float], highest: float | None = None) -> str:
    """Values as bars, the last of each share of them; `highest` is a full bar, else the highest value is."""
    if not values:
        return ""
    top = highest if highest is not None else max(values)
    picked = list(values)
    if len(values) > _LINE:
        picked = [values[min(len(values) - 1, (number + 1) * len(values) // _LINE)] for number in range(_LINE)]
    steps = len(_BARS) - 1
    return "".join(_BARS[max(0, min(steps, round(steps * value / top)))] if top else _BARS[0] for value in picked)


def _print_figures(documents: Mapping[str, Document], page: TextPage) -> None:
    runs = list(documents.values())
    table = FittedTable(
        [TableColumn("", is_whole=True), *(TableColumn(printable(name), is_number=True) for name in documents)]
    )
    for label, cell, is_shown in _rows(runs):
        if is_shown:
            table.add(label, *(cell(run) for run in runs))
    page.table(table)


def _rows(runs: Sequence[Document]) -> Iterable[tuple[str, Callable[[Document], Text], bool]]:
    def any_of(field: str) -> bool:
        return any(run[field] for run in runs)

    yield "placed", _count("placed", good=True), True
    yield "waiting", _count("waiting"), True
    yield "not made yet", _count("notMade"), any_of("notMade")
    yield "refused volumes", _count("refusedVolumes"), True
    yield "pods that a node rejected", _count("rejectedPods"), any_of("rejectedPods")
    yield "time to Running, p50", lambda run: _seconds(run["timeToRunning"]["p50"]), True
    yield "time to Running, p99", lambda run: _seconds(run["timeToRunning"]["p99"]), True
    yield "rebuilt", lambda run: text(amount(run["bytesRebuilt"]) if run["bytesRebuilt"] else "0"), True
    yield "utilisation", _share("utilisation"), any(run["samples"][-1]["totalBytes"] for run in runs if run["samples"])
    yield "fragmentation", _share("fragmentation"), any_of("disks")
    highest = max((each["waiting"] for run in runs for each in run["samples"]), default=0)

    def over_time(run: Document) -> Text:
        return text(sparkline([float(each["waiting"]) for each in run["samples"]], highest), style="cyan")

    yield "waiting, over time", over_time, bool(highest)


def _count(field: str, *, good: bool = False) -> Callable[[Document], Text]:
    def cell(run: Document) -> Text:
        return text(f"{run[field]:,}", style="" if good or not run[field] else "yellow")

    return cell


def _seconds(seconds: float | None) -> Text:
    return text("-" if seconds is None else format_duration(seconds))


def _share(field: str) -> Callable[[Document], Text]:
    def cell(run: Document) -> Text:
        values = [float(each[field]) for each in run["samples"]]
        if not values:
            return text("-")
        return assembled(f"{values[-1]:.0%} ", (sparkline(values, 1.0), "cyan"))

    return cell


def _print_waiting(documents: Mapping[str, Document], page: TextPage) -> None:
    for name, run in documents.items():
        groups = run["waitingPods"]
        if not groups:
            continue
        page.blank()
        page.say(text(f"WAITING in {name}" if len(documents) > 1 else "WAITING", style="bold"))
        for group in groups[:_GROUPS]:
            page.say(text(f"{group['count']:,}  {_named(group)}"), indent=2)
            page.say(text(f"{group['reason']}", style="dim"), indent=5)
        if len(groups) > _GROUPS:
            rest = sum(group["count"] for group in groups[_GROUPS:])
            page.say(text(f"{rest:,} more, for {len(groups) - _GROUPS} other reasons (-o json)", style="dim"), indent=2)


def _named(group: Document) -> str:
    shown = ", ".join(group["pods"][:_NAMES])
    return f"{shown}, …" if group["count"] > _NAMES else shown


def _print_losses(documents: Mapping[str, Document], page: TextPage) -> None:
    for name, run in documents.items():
        where = f" in {name}" if len(documents) > 1 else ""
        for title, field in ((f"GONE FOR GOOD{where}", "lost"), (f"EVICTIONS REFUSED{where}", "blockedEvictions")):
            if run[field]:
                page.blank()
                page.say(text(title, style="bold"))
                for each in run[field][:_GROUPS]:
                    page.say(text(f"{each['pod']}: {each['why']}"), indent=2)
                if len(run[field]) > _GROUPS:
                    page.say(text(f"{len(run[field]) - _GROUPS:,} more (-o json)", style="dim"), indent=2)


def _print_differences(differences: Sequence[Document], page: TextPage) -> None:
    if not differences:
        return
    page.blank()
    page.say(text("WHERE THEY PART", style="bold"))
    for each in differences:
        one, other = each["between"]
        parting = each["parting"]
        if parting is None:
            page.say(text(f"{one}, {other}: nowhere; all decisions are the same"), indent=2)
            continue
        at = format_duration(parting["at"])
        page.say(text(f"{one}, {other}: decision {parting['decision'] + 1:,}, at {at}"), indent=2)
        for name, side in parting["sides"].items():
            page.say(text(f"{name}: {_decided(side)}"), indent=5)
        for name, waits in each["waitOnlyIn"].items():
            if waits["count"]:
                page.say(text(f"at the end {waits['count']:,} wait in {name} alone: {_named(waits)}"), indent=5)


def _decided(side: Document) -> str:
    if side["pod"] is None:
        return str(side["why"])
    if side["node"] is None:
        return f"{side['pod']} waits: {side['why']}"
    return f"{side['pod']} goes to {side['node']}: {side['why']}"
