"""Several runs of one scenario side by side, the first difference of any two with its reason, and the text of it.

                            kube-scheduler                   default
    placed                             401                       412
    waiting                             11                         0
    utilisation           71% ▁▂▃▄▅▆▆▇▇▇▇▇          73% ▁▂▃▄▅▆▇▇▇▇██

Up to their first different decision two runs of one seed did the same at the same times: the decision shows the
difference of their rules. To explain it, both runs are repeated up to that decision. Sparklines show a figure over
time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, zip_longest
from typing import Any, Final

from rich.text import Text

from tonnage.clock import format_duration
from tonnage.printable import printable, text
from tonnage.scheduling.volumes.explain.account_entries import amount
from tonnage.whatif.page import FittedTable, Row, TextPage
from tonnage.whatif.simulate.measures import AttemptMade, run_document
from tonnage.whatif.simulate.play import Player, Run
from tonnage.whatif.sources import Step, unheard

SHOWN_PODS: Final = 20
BEST_NODES: Final = 3
SPREAD: Final = {
    "placed": "placed",
    "waiting": "waiting",
    "refusedVolumes": "refused volumes",
    "p50": "time to Running, p50",
    "p99": "time to Running, p99",
    "bytesRebuilt": "rebuilt",
}
"""The figures that are reported over several seeds."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """The part of a run that is kept; its world may be large and is dropped."""

    run: Run
    document: dict[str, Any]
    decisions: Sequence[AttemptMade]
    waiting: frozenset[str]


Pair = tuple[AttemptMade | None, AttemptMade | None]


def first_parting(one: Sequence[AttemptMade], other: Sequence[AttemptMade]) -> tuple[int, Pair] | None:
    """The number of the first different decision, and both decisions, of which one is None if that run has no more."""
    pairs = enumerate(zip_longest(one, other))
    return next(((number, pair) for number, pair in pairs if pair[0] != pair[1]), None)


@dataclass(slots=True)
class Comparison:
    seed: int
    results: dict[str, RunResult] = field(default_factory=dict)
    differences: list[dict[str, Any]] = field(default_factory=list)
    others: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """By name: the same runs with further seeds."""
    is_partial: bool = False

    def document(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "partial": self.is_partial,
            "runs": {name: result.document for name, result in self.results.items()},
            "differences": self.differences,
            **({"spread": self.spread()} if self.others else {}),
        }

    def spread(self) -> dict[str, Any]:
        """The minimum and maximum of each figure over all seeds, by run."""
        found: dict[str, Any] = {}
        for name, others in self.others.items():
            documents = [self.results[name].document, *others]
            flat = [{**document, **document["timeToRunning"]} for document in documents]
            found[name] = {"seeds": len(flat)}
            for figure in SPREAD:
                values = [each[figure] for each in flat if each[figure] is not None]
                found[name][figure] = {"least": min(values), "most": max(values)} if values else None
        return found


def compare(
    player: Player, runs: Sequence[Run], progress: Callable[[str], Step] = lambda name: unheard, seeds: int = 1
) -> Comparison:
    """Run one after the other, then again with further seeds. A stopped player gives a partial answer."""
    comparison = Comparison(runs[0].seed if runs else 0)
    for run in runs:
        if player.is_stopped():
            break
        measured = player.play(run, progress(run.name))
        waiting = frozenset(pod.key for pod in measured.waiting_pods())
        comparison.results[run.name] = RunResult(run, run_document(measured), measured.decisions, waiting)
        for more in range(1, seeds):
            if not player.is_stopped():
                again = player.play(dataclasses.replace(run, seed=run.seed + more))
                comparison.others.setdefault(run.name, []).append(run_document(again))
    explained: dict[tuple[str, int], dict[str, Any] | None] = {}

    def explain(run: Run, decided: AttemptMade | None) -> dict[str, Any] | None:
        if decided is None:
            return None
        key = (run.name, decided.number)
        if key not in explained:
            again = dataclasses.replace(run, explains=frozenset({decided.number}), stops_after=decided.number)
            explained[key] = player.play(again).explanations.get(decided.number)
        return explained[key]

    for one, other in combinations(comparison.results.values(), 2):
        if player.is_stopped():
            break
        comparison.differences.append(_difference(one, other, explain))
    comparison.is_partial = player.is_stopped()
    return comparison


Explain = Callable[[Run, AttemptMade | None], dict[str, Any] | None]


def _difference(one: RunResult, other: RunResult, explain: Explain) -> dict[str, Any]:
    names = (one.run.name, other.run.name)
    waits = (sorted(one.waiting - other.waiting), sorted(other.waiting - one.waiting))
    found: dict[str, Any] = {
        "between": list(names),
        "waitOnlyIn": {
            name: {"count": len(pods), "pods": pods[:SHOWN_PODS]} for name, pods in zip(names, waits, strict=True)
        },
        "parting": None,
    }
    parting = first_parting(one.decisions, other.decisions)
    if parting is None:
        return found
    number, decided = parting
    nodes = [each.node for each in decided if each is not None and each.node]
    made = [each for each in decided if each is not None]
    found["parting"] = {
        "decision": number,
        "at": round(min(each.at_s for each in made), 3),
        "pod": made[0].pod,
        "sides": {
            result.run.name: _side(each, explain(result.run, each), nodes)
            for result, each in zip((one, other), decided, strict=True)
        },
    }
    return found


def _side(decided: AttemptMade | None, explanation: Mapping[str, Any] | None, nodes: Sequence[str]) -> dict[str, Any]:
    """One run's decision and its reason: the nodes of both decisions, and the best."""
    if decided is None:
        return {"pod": None, "node": None, "at": None, "why": "has nothing more to decide", "nodes": []}
    answers = list(explanation["nodes"]) if explanation is not None else []
    shown = [each for number, each in enumerate(answers) if number < BEST_NODES or each["name"] in nodes]
    volumes = explanation["volumes"] if explanation is not None else {}
    names = {each["name"] for each in shown}
    return {
        "pod": decided.pod,
        "node": decided.node or None,
        "at": round(decided.at_s, 3),
        "message": explanation["message"] if explanation is not None else "",
        "why": _why(decided, {answer["name"]: answer for answer in answers}, explanation, nodes),
        "nodes": shown,
        "volumes": {name: account for name, account in volumes.items() if name in names},
    }


def _why(
    decided: AttemptMade,
    answers: Mapping[str, Mapping[str, Any]],
    explanation: Mapping[str, Any] | None,
    nodes: Sequence[str],
) -> str:
    """A sentence: the score of the chosen node, and what the other run's node has or lacks here."""
    if not decided.node:
        return str(explanation["message"]) if explanation is not None else "it fits nowhere"
    mine = answers.get(decided.node)
    if mine is None:
        return f"goes to {decided.node}"
    told = f"{decided.node} has {mine['total']} points" if mine["scores"] else f"{decided.node} is the one that fits"
    for name in nodes:
        there = answers.get(name)
        if name == decided.node or there is None:
            continue
        if not there["feasible"]:
            told += f"; {name} is refused by {there['rejectedBy']}: {', '.join(there['reasons'])}"
        elif there["total"] == mine["total"]:
            told += f"; {name} has as many, and was not drawn"
        else:
            told += f"; {name} has {there['total']}{_less(mine['scores'], there['scores'])}"
    return told


def _less(mine: Mapping[str, int], theirs: Mapping[str, int]) -> str:
    lost = {plugin: score - theirs.get(plugin, 0) for plugin, score in mine.items() if score > theirs.get(plugin, 0)}
    if not lost:
        return ""
    shown = ", ".join(f"{plugin} {amount}" for plugin, amount in sorted(lost.items(), key=lambda item: -item[1])[:2])
    return f", less by {shown}"


_BARS: Final = "▁▂▃▄▅▆▇█"
_LINE: Final = 16
"""Characters of a sparkline."""
_GROUPS: Final = 5
"""How many reasons of waiting pods are shown per run."""
_NAMES: Final = 3

Document = Mapping[str, Any]


def show(comparison: Comparison, page: TextPage) -> None:
    documents = {name: result.document for name, result in comparison.results.items()}
    if comparison.is_partial:
        page.say(text("PARTIAL: interrupted; the figures cover what happened until then", style="bold yellow"))
    if not documents:
        return
    first = next(iter(documents.values()))
    span = format_duration(max(float(document["seconds"]) for document in documents.values()))
    page.say(text(f"seed {comparison.seed}, {first['arrived']:,} pods in {span} of virtual time"))
    page.blank()
    _print_figures(documents, page)
    _print_spread(comparison.spread(), page)
    _print_waiting(documents, page)
    _print_losses(documents, page)
    _print_differences(comparison.differences, page)


def _print_spread(spread: Mapping[str, Any], page: TextPage) -> None:
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


def _print_figures(documents: Mapping[str, Document], page: TextPage) -> None:
    runs = list(documents.values())
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


def _print_waiting(documents: Mapping[str, Document], page: TextPage) -> None:
    for name, run in documents.items():
        groups = run["waitingPods"]
        if not groups:
            continue
        page.part(text(f"WAITING in {name}" if len(documents) > 1 else "WAITING", style="bold"))
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
        for title, lost in (("GONE FOR GOOD", run["lost"]), ("EVICTIONS REFUSED", run["blockedEvictions"])):
            if lost:
                page.part(text(f"{title}{where}", style="bold"))
            for each in lost[:_GROUPS]:
                page.say(text(f"{each['pod']}: {each['why']}"), indent=2)
            if len(lost) > _GROUPS:
                page.say(text(f"{len(lost) - _GROUPS:,} more (-o json)", style="dim"), indent=2)


def _print_differences(differences: Sequence[Document], page: TextPage) -> None:
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
                page.say(text(f"at the end {waits['count']:,} wait in {name} alone: {_named(waits)}"), indent=5)


def _decided(side: Document) -> str:
    if side["pod"] is None:
        return str(side["why"])
    if side["node"] is None:
        return f"{side['pod']} waits: {side['why']}"
    return f"{side['pod']} goes to {side['node']}: {side['why']}"
