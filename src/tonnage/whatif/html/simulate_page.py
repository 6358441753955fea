"""`simulate -o html`: runs side by side over time, their first difference, and the disks at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tonnage.whatif.html import charts
from tonnage.whatif.html.capacity_map import capacity_map, scales_of
from tonnage.whatif.html.charts import Html, HtmlPage, element, line_chart, paragraph, table
from tonnage.whatif.page import bytes_text, count_text, number_text, percent_text, time_text, time_ticks

Run = Mapping[str, Any]
Runs = Mapping[str, Run]

_TIME: Final = charts.Axis("time", time_ticks, time_text)
_SHARE: Final = charts.Axis("share", lambda highest: [0.0, 0.25, 0.5, 0.75, 1.0], percent_text)

_FIGURES: Final = (
    ("Pods that arrived", "arrived"),
    ("Placed", "placed"),
    ("Waiting at the end", "waiting"),
    ("Refused volumes", "refusedVolumes"),
    ("Volumes made", "volumesMade"),
    ("Attempts", "attempts"),
    ("Bindings that failed", "failedBindings"),
    ("Pods that a node rejected", "rejectedPods"),
)


def simulate_page(answer: Mapping[str, Any]) -> HtmlPage:
    runs: Runs = answer["runs"]
    names = ", ".join(runs) or "no run"
    page = HtmlPage("simulate", f"Simulated: {names}", _lead(runs, answer["seed"]), bool(answer["partial"]))
    for run in runs.values() if len(runs) == 1 else ():
        page.figure("placed", number_text(run["placed"]), "good")
        page.figure("waiting at the end", number_text(run["waiting"]), "warn" if run["waiting"] else "")
        page.figure("refused volumes", number_text(run["refusedVolumes"]), "bad" if run["refusedVolumes"] else "good")
        page.figure("half of the pods run within", _seconds(run["timeToRunning"]["p50"]))
        page.figure("99 in 100 pods run within", _seconds(run["timeToRunning"]["p99"]))
    page.section("runs", "Results of each run", _totals(runs))
    page.section("utilisation", "Utilisation over time", *_utilisation(runs))
    page.section("waits", "Waits", *_waits(runs))
    page.section("refused", "Refused volumes", *_refused(runs))
    page.section("partings", "Where runs part", *(_parting(each) for each in answer["differences"]))
    page.section("disks", "Disks at the end", *_maps(runs))
    page.section("rebuilt", "Rebuilt volumes", *_rebuilds(runs))
    return page


def _lead(runs: Runs, seed: int) -> str:
    times = {time_text(run["seconds"]) for run in runs.values()}
    span = f"{' or '.join(sorted(times))} of virtual time" if times else "nothing was run"
    return f"{span}, seed {seed}. The same seed gives the same bytes."


def _seconds(seconds: float | None) -> str:
    return "–" if seconds is None else time_text(seconds)


def _totals(runs: Runs) -> Html:
    rows: list[tuple[str, ...]] = [(said, *(number_text(run[key]) for run in runs.values())) for said, key in _FIGURES]
    rows.append(("Bytes rebuilt", *(bytes_text(run["bytesRebuilt"]) for run in runs.values())))
    for percent in ("p50", "p90", "p99"):
        times = (_seconds(run["timeToRunning"].get(percent)) for run in runs.values())
        rows.append((f"Time to Running, {percent}", *times))
    return charts.Table(("", *runs), rows, "n" + "1" * len(runs)).html()


def _over_time(runs: Runs, key: str) -> list[charts.Series]:
    return [charts.Series(name, [(each["at"], each[key]) for each in run["samples"]]) for name, run in runs.items()]


def _utilisation(runs: Runs) -> list[Html]:
    return [
        line_chart("utilisation-chart", "Used part of all disks", _over_time(runs, "utilisation"), _TIME, _SHARE),
        line_chart(
            "fragmentation-chart",
            "Fragmentation",
            _over_time(runs, "fragmentation"),
            _TIME,
            _SHARE,
            note="The part of the free bytes that is not in the largest pool of its disk.",
        ),
    ]


def _waits(runs: Runs) -> list[Html]:
    within = [
        charts.Series(name, [(each["seconds"], each["percent"] / 100) for each in run.get("runningWithin", ())])
        for name, run in runs.items()
    ]
    drawn = [
        line_chart(
            "waiting-chart", "Pods that wait", _over_time(runs, "waiting"), _TIME, charts.Axis("pods", charts.WHOLE)
        ),
        line_chart(
            "running-chart", "Pods that run", _over_time(runs, "running"), _TIME, charts.Axis("pods", charts.WHOLE)
        ),
        line_chart(
            "within-chart",
            "Time to Running",
            within,
            charts.Axis("time since the pod was made", time_ticks, time_text),
            _SHARE,
            note="The share of pods that ran within that time; pods that never ran are not among them.",
        ),
    ]
    rows = [
        (name, number_text(group["count"]), group["reason"], ", ".join(group["pods"]) + _more(group))
        for name, run in runs.items()
        for group in run["waitingPods"]
    ]
    heads = ("Run", "Pods", "They wait because", "Pods by name")
    return drawn + table(heads, "n1ww", rows, "Who waits at the end, and why")


def _more(group: Mapping[str, Any]) -> str:
    left = group["count"] - len(group["pods"])
    return f" and {left:,} more" if left > 0 else ""


def _refused(runs: Runs) -> list[Html]:
    note = "Volumes that could not be made or rebuilt where the scheduler had sent their pod."
    axis = charts.Axis("refused volumes", charts.WHOLE)
    bars = [(name, run["refusedVolumes"]) for name, run in runs.items()]
    over_time = line_chart(
        "refused-chart", "Refused volumes until then", _over_time(runs, "refusedVolumes"), _TIME, axis, note=note
    )
    return [
        over_time,
        *([charts.bar_chart("refused-bars", "Refused volumes in all", bars, axis)] if len(bars) > 1 else []),
    ]


def _parting(difference: Mapping[str, Any]) -> Html:
    """Two runs: their first different decision, the node and reason in each, and pods that wait in only one of them."""
    one, other = difference["between"]
    parts, parting = [element("h3", f"{one} and {other}")], difference["parting"]
    if parting is None:
        parts.append(paragraph("Both make the same decisions at the same times."))
    else:
        number, pod = parting["decision"] + 1, parting["pod"]
        said = f"They first differ at {time_text(parting['at'])}, in decision {number:,}: {pod}."
        rows = [
            (name, side["node"] or "nowhere", side["why"] or side.get("message", ""))
            for name, side in parting["sides"].items()
        ]
        parts += [paragraph(said), *table(("Run", "Sends it to", "Why"), "nnw", rows)]
    for name, waiting in difference["waitOnlyIn"].items():
        if waiting["count"]:
            pods = ", ".join(waiting["pods"]) + _more(waiting)
            wait = "waits" if waiting["count"] == 1 else "wait"
            parts.append(paragraph(f"{count_text(waiting['count'], 'pod')} {wait} in {name} only: {pods}."))
    return element("article", *parts)


def _maps(runs: Runs) -> list[Html]:
    scales = scales_of(*(run["disks"] for run in runs.values()))
    several = len(runs) > 1
    return [
        capacity_map(
            f"disks-{number}",
            f"Disks at the end: {name}" if several else "Disks at the end",
            run["disks"],
            scales=scales,
        )
        for number, (name, run) in enumerate(runs.items(), 1)
    ]


def _rebuilds(runs: Runs) -> list[Html]:
    found = []
    for name, run in runs.items():
        rows = [
            (time_text(each["at"]), each["volume"], each["from"], each["to"], bytes_text(each["bytes"]))
            for each in run["rebuilds"]
        ]
        if rows:
            moved = table(("At", "Volume", "From", "To", "Bytes"), "1www1", rows)
            found.append(charts.details(f"{name}: {count_text(len(rows), 'volume')} rebuilt", *moved))
    return found
