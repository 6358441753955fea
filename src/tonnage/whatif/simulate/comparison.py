"""Several runs of one scenario side by side, and for any two of them the first decision where they part, explained.

Up to the decision where two runs of one seed part they have done the same at the same times; so what is explained there
is the difference of their rules. To explain it, the two runs are made again, up to that decision.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, zip_longest
from typing import Any, Final

from tonnage.whatif.simulate.measures import AttemptMade, Measures, run_document
from tonnage.whatif.simulate.play import Player, Progress, Run

SHOWN_PODS: Final = 20
BEST_NODES: Final = 3


@dataclass(frozen=True, slots=True)
class RunResult:
    """What is kept of a run: its world is not, which may be large."""

    run: Run
    document: dict[str, Any]
    decisions: Sequence[AttemptMade]
    waiting: frozenset[str]

    @classmethod
    def of(cls, run: Run, measured: Measures) -> RunResult:
        waiting = frozenset(pod.key for pod in measured.waiting_pods())
        return cls(run, run_document(measured), measured.decisions, waiting)


Pair = tuple[AttemptMade | None, AttemptMade | None]


def first_parting(one: Sequence[AttemptMade], other: Sequence[AttemptMade]) -> tuple[int, Pair] | None:
    """The number of the first decision that differs, and both; None where a run has nothing more to decide."""
    pairs = enumerate(zip_longest(one, other))
    return next(((number, pair) for number, pair in pairs if pair[0] != pair[1]), None)


@dataclass(slots=True)
class Comparison:
    seed: int
    results: dict[str, RunResult] = field(default_factory=dict)
    differences: list[dict[str, Any]] = field(default_factory=list)
    is_partial: bool = False

    def document(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "partial": self.is_partial,
            "runs": {name: result.document for name, result in self.results.items()},
            "differences": self.differences,
        }


def compare(
    player: Player, runs: Sequence[Run], progress: Callable[[str], Progress] = lambda name: lambda amount: None
) -> Comparison:
    """Make the runs one after the other. When the player is stopped, what is known by then is the answer."""
    found = Comparison(runs[0].seed if runs else 0)
    for run in runs:
        if player.is_stopped():
            break
        found.results[run.name] = RunResult.of(run, player.play(run, progress(run.name)))
    explained: dict[tuple[str, int], dict[str, Any] | None] = {}

    def explain(run: Run, decided: AttemptMade | None) -> dict[str, Any] | None:
        if decided is None:
            return None
        key = (run.name, decided.number)
        if key not in explained:
            again = dataclasses.replace(run, explains=frozenset({decided.number}), stops_after=decided.number)
            explained[key] = player.play(again).explanations.get(decided.number)
        return explained[key]

    for one, other in combinations(found.results.values(), 2):
        if player.is_stopped():
            break
        found.differences.append(_difference(one, other, explain))
    found.is_partial = player.is_stopped()
    return found


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
    """What one run decided there and why: the nodes of both answers, and the best."""
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
        "why": _why(decided, {each["name"]: each for each in answers}, explanation, nodes),
        "nodes": shown,
        "volumes": {name: account for name, account in volumes.items() if name in names},
    }


def _why(
    decided: AttemptMade,
    answers: Mapping[str, Mapping[str, Any]],
    explanation: Mapping[str, Any] | None,
    nodes: Sequence[str],
) -> str:
    """One sentence: the points of the node, and what the other run's node has or lacks here."""
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
