"""Runs side by side, as a report.

                            kube-scheduler                   default
    placed                             401                       412
    waiting                             11                         0
    utilisation           71% ▁▂▃▄▅▆▆▇▇▇▇▇          73% ▁▂▃▄▅▆▇▇▇▇██

Text shows a figure over time as a sparkline; a page with room has charts, and the disks at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from rich.text import Text

from tonnage.clock import format_duration
from tonnage.printable import printable, text
from tonnage.scheduling.volumes.explain.account_entries import amount
from tonnage.whatif.page import (
    WHOLE,
    Axis,
    FittedTable,
    Page,
    Row,
    Series,
    percent_text,
    time_text,
    time_ticks,
)
from tonnage.whatif.simulate.comparison import SPREAD, Comparison

_BARS: Final = "▁▂▃▄▅▆▇█"
_LINE: Final = 16
"""Characters of a sparkline."""
_GROUPS: Final = 5
"""How many reasons of waiting pods are shown per run."""
_NAMES: Final = 3

Document = Mapping[str, Any]


def show(comparison: Comparison, page: Page) -> None:
    documents = {name: result.document for name, result in comparison.results.items()}
    page.title(f"Simulated: {', '.join(documents) or 'no run'}", is_partial=comparison.is_partial)
    if comparison.is_partial:
        page.say(text("PARTIAL: interrupted; the figures cover what happened until then", style="bold yellow"))
    if not documents:
        return
    first = next(iter(documents.values()))
    span = format_duration(max(float(document["seconds"]) for document in documents.values()))
    page.say(text(f"seed {comparison.seed}, {first['arrived']:,} pods in {span} of virtual time"))
    page.section("runs", "Results of each run")
    page.blank()
    _print_figures(documents, page)
    _print_spread(comparison.spread(), page)
    if page.has_room:
        _draw(documents, page)
    page.section("waits", "Waits")
    _print_waiting(documents, page)
    _print_losses(documents, page)
    page.section("partings", "Where runs part")
    _print_differences(comparison.differences, page)
    if page.has_room:
        _draw_disks(documents, page)


_TIME: Final = Axis("time", time_ticks, time_text)
_SHARE: Final = Axis("share", lambda highest: [0.0, 0.25, 0.5, 0.75, 1.0], percent_text)
_PODS: Final = Axis("pods", WHOLE)
_REFUSED: Final = Axis("refused volumes", WHOLE)
_CHARTS: Final = (
    ("utilisation", "Used part of all disks", _SHARE, ""),
    (
        "fragmentation",
        "Fragmentation",
        _SHARE,
        "The part of the free bytes that is not in the largest pool of its disk.",
    ),
    ("waiting", "Pods that wait", _PODS, ""),
    ("running", "Pods that run", _PODS, ""),
    (
        "refusedVolumes",
        "Refused volumes until then",
        _REFUSED,
        "Volumes that could not be made or rebuilt where the scheduler had sent their pod.",
    ),
)
"""What is drawn over time: its field of a sample, its title, its axis, and what it means."""


def _draw(documents: Mapping[str, Document], page: Page) -> None:
    page.section("time", "Over time")
    for field, title, axis, note in _CHARTS:
        lines = [
            Series(name, [(each["at"], each[field]) for each in run["samples"]]) for name, run in documents.items()
        ]
        page.line_chart(f"{field.removesuffix('Volumes')}-chart", title, lines, _TIME, axis, note=note)
    within = [
        Series(name, [(each["seconds"], each["percent"] / 100) for each in run["runningWithin"]])
        for name, run in documents.items()
    ]
    note = "The share of pods that ran within that time; pods that never ran are not among them."
    since = Axis("time since the pod was made", time_ticks, time_text)
    page.line_chart("within-chart", "Time to Running", within, since, _SHARE, note=note)
    if len(documents) > 1:
        bars = [(name, run["refusedVolumes"]) for name, run in documents.items()]
        page.bar_chart("refused-bars", "Refused volumes in all", bars, _REFUSED)


def _draw_disks(documents: Mapping[str, Document], page: Page) -> None:
    page.section("disks", "Disks at the end")
    page.disks(*((f"disks-{number}", name, run["disks"]) for number, (name, run) in enumerate(documents.items(), 1)))
    page.section("rebuilt", "Rebuilt volumes")
    rows = [
        (name, time_text(each["at"]), each["volume"], each["from"], each["to"], amount(each["bytes"]))
        for name, run in documents.items()
        for each in run["rebuilds"]
    ]
    page.table(FittedTable(("RUN", "AT", "VOLUME", "FROM", "TO", "BYTES"), "n1www1", rows))


def _print_spread(spread: Mapping[str, Any], page: Page) -> None:
    if not spread:
        return
    page.part(text(f"over {next(iter(spread.values()))['seeds']} seeds", style="bold"))
    rows = [(label, *(_range(each[figure], figure) for each in spread.values())) for figure, label in SPREAD.items()]
    page.table(_beside(spread, rows))


def _beside(names: Iterable[str], rows: Iterable[Row]) -> FittedTable:
    """A column of numbers for each run."""
    heads = ("", *map(printable, names))
    return FittedTable(heads, "n" + "1" * (len(heads) - 1), rows)


def _range(found: Mapping[str, Any] | None, figure: str) -> str:
    if found is None:
        return "–"
    told = format_duration if figure in ("p50", "p99") else amount if figure == "bytesRebuilt" else "{:,}".format
    ends = dict.fromkeys((told(found["least"]), told(found["most"])))
    return " to ".join(ends)


def sparkline(values: Sequence[float], highest: float | None = None) -> str:
    """Values as bars, the last of each interval. `highest` is a full bar; by default the largest value."""
    if not values:
        return ""
    top = highest if highest is not None else max(values)
    picked = list(values)
    if len(values) > _LINE:
        picked = [values[min(len(values) - 1, (number + 1) * len(values) // _LINE)] for number in range(_LINE)]
    steps = len(_BARS) - 1
    return "".join(_BARS[max(0, min(steps, round(steps * value / top)))] if top else _BARS[0] for value in picked)


def _print_figures(documents: Mapping[str, Document], page: Page) -> None:
    runs = list(documents.values())
    if page.has_room:  # and for charts besides
        page.table(_beside(documents, [*_figures(runs, {}), *_further_figures(runs)]))
        return
    lines = {
        label: [text(sparkline(each, top), style="cyan") for each in series] for label, top, series in _series(runs)
    }
    table = _beside(documents, _figures(runs, lines))
    if table.natural_width <= page.width:
        page.table(table)
        return
    page.table(_beside(documents, _figures(runs, {})))
    page.blank()
    beside = [
        (label, printable(name), line)
        for label, drawn in lines.items()
        for name, line in zip(documents, drawn, strict=True)
    ]
    page.table(FittedTable(("OVER TIME", "RUN", ""), "nnn", beside))


def _series(runs: Sequence[Document]) -> Iterable[tuple[str, float, list[list[float]]]]:
    """What is drawn over time: its name, the value of a full bar, and the values of each run."""

    def values(field: str) -> list[list[float]]:
        return [[float(each[field]) for each in run["samples"]] for run in runs]

    if any(run["samples"][-1]["totalBytes"] for run in runs if run["samples"]):
        yield "utilisation", 1.0, values("utilisation")
    if any(run["disks"] for run in runs):
        yield "fragmentation", 1.0, values("fragmentation")
    highest = max((each for run in values("waiting") for each in run), default=0)
    if highest:
        yield "waiting, over time", highest, values("waiting")


def _figures(runs: Sequence[Document], lines: Mapping[str, Sequence[Text]]) -> Iterable[Row]:
    """A row for each figure, with a cell for each run; some are left out where no run has any."""

    def counts(label: str, field: str) -> Row:
        is_good = field == "placed"
        return label, *(text(f"{run[field]:,}", style="" if is_good or not run[field] else "yellow") for run in runs)

    yield counts("placed", "placed")
    yield counts("waiting", "waiting")
    if any(run["notMade"] for run in runs):
        yield counts("not made yet", "notMade")
    yield counts("refused volumes", "refusedVolumes")
    if any(run["rejectedPods"] for run in runs):
        yield counts("pods that a node rejected", "rejectedPods")
    for part in ("p50", "p99"):
        times = [run["timeToRunning"][part] for run in runs]
        yield f"time to Running, {part}", *("-" if each is None else format_duration(each) for each in times)
    yield "rebuilt", *(amount(run["bytesRebuilt"]) if run["bytesRebuilt"] else "0" for run in runs)
    for label, top, series in _series(runs):
        last = [f"{values[-1]:.0%}" if values else "-" for values in series] if top == 1.0 else [""] * len(runs)
        drawn = lines.get(label) or [text("")] * len(runs)
        if any(last) or lines:
            yield (
                label,
                *(text(" ").join(filter(None, (text(value), line))) for value, line in zip(last, drawn, strict=True)),
            )


def _further_figures(runs: Sequence[Document]) -> Iterable[Row]:
    for label, field in (
        ("pods that arrived", "arrived"),
        ("volumes made", "volumesMade"),
        ("attempts", "attempts"),
        ("bindings that failed", "failedBindings"),
    ):
        yield label, *(f"{run[field]:,}" for run in runs)
    times = [run["timeToRunning"]["p90"] for run in runs]
    yield "time to Running, p90", *("-" if each is None else format_duration(each) for each in times)


def _print_waiting(documents: Mapping[str, Document], page: Page) -> None:
    for name, run in documents.items():
        groups = run["waitingPods"]
        if not groups:
            continue
        page.part(text(f"WAITING in {name}" if len(documents) > 1 else "WAITING", style="bold"))
        shown = page.first(groups, _GROUPS)
        for group in shown:
            page.say(text(f"{group['count']:,}  {_named(group, page)}"), indent=2)
            page.say(text(f"{group['reason']}", style="dim"), indent=5)
        if left := groups[len(shown) :]:
            rest = sum(group["count"] for group in left)
            page.say(text(f"{rest:,} more, for {len(left)} other reasons (-o json)", style="dim"), indent=2)


def _named(group: Document, page: Page) -> str:
    names = page.first(group["pods"], _NAMES)
    return f"{', '.join(names)}, …" if group["count"] > len(names) else ", ".join(names)


def _print_losses(documents: Mapping[str, Document], page: Page) -> None:
    for name, run in documents.items():
        where = f" in {name}" if len(documents) > 1 else ""
        for title, lost in (("GONE FOR GOOD", run["lost"]), ("EVICTIONS REFUSED", run["blockedEvictions"])):
            if lost:
                page.part(text(f"{title}{where}", style="bold"))
            shown = page.first(lost, _GROUPS)
            for each in shown:
                page.say(text(f"{each['pod']}: {each['why']}"), indent=2)
            if left := len(lost) - len(shown):
                page.say(text(f"{left:,} more (-o json)", style="dim"), indent=2)


def _print_differences(differences: Sequence[Document], page: Page) -> None:
    if not differences:
        return
    page.part(text("WHERE THEY DIFFER", style="bold"))
    for difference in differences:
        one, other = difference["between"]
        parting = difference["parting"]
        if parting is None:
            page.say(text(f"{one}, {other}: nowhere; all decisions are the same"), indent=2)
            continue
        at = format_duration(parting["at"])
        page.say(text(f"{one}, {other}: decision {parting['decision'] + 1:,}, at {at}"), indent=2)
        for name, side in parting["sides"].items():
            page.say(text(f"{name}: {_decided(side)}"), indent=5)
        for name, waits in difference["waitOnlyIn"].items():
            if waits["count"]:
                page.say(text(f"at the end {waits['count']:,} wait in {name} alone: {_named(waits, page)}"), indent=5)


def _decided(side: Document) -> str:
    if side["pod"] is None:
        return str(side["why"])
    if side["node"] is None:
        return f"{side['pod']} waits: {side['why']}"
    return f"{side['pod']} goes to {side['node']}: {side['why']}"
