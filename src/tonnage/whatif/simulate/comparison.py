"""Several runs of one scenario side by side, and the first difference of any two with its reason.

Up to their first different decision two runs of one seed did the same at the same times: the decision shows the
difference of their rules. To explain it, both runs are repeated up to that decision. `comparison_report.py` shows it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, zip_longest
from typing import Any, Final

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
