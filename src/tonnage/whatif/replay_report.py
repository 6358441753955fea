"""A replay as it is run and as a person reads it: each step with what came of it.

    step 1: schedule batch/job-0
      goes to node-a; fits on 1 of 1 nodes
    step 2: schedule batch/job-1
      does not fit: 0/1 nodes are available: 1 node(s) did not have enough free storage.
      node-a: reserved by batch/job-0 since 2000-01-01T00:00:00Z
    step 3: apply
      CSIStorageCapacity kube-system/node-a configured

Of many objects in a step the first few are named and the others counted.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

from rich.console import Console
from rich.text import Text

from tonnage.clock import rfc3339
from tonnage.printable import assembled, text
from tonnage.scheduling.decision.explain import Explanation
from tonnage.whatif.replay import Replay, ReplayError
from tonnage.whatif.replay_steps import BrokenStep, Step

MAX_LINES = 8
"""Objects of one step that are named one by one."""
MAX_MISSES = 3
"""Nodes whose nearest miss is told."""
_UNBROKEN = 10_000
"""A width that no line reaches."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """One step and what came of it; `answer` is that of a `schedule`."""

    number: int
    title: str
    lines: Sequence[str] = ()
    answer: Explanation | None = None


def take(run: Replay, number: int, step: Step) -> StepResult:
    """Take one step. Raises ReplayError for one that cannot be taken now."""
    kind, value = step
    match kind:
        case "schedule":
            return StepResult(number, f"schedule {value}", answer=run.schedule(value))
        case "fail_binding":
            told = [f"it is not on its way to {run.fail_binding(value)} any more"]
            return StepResult(number, f"fail_binding {value}", told)
        case "apply":
            told = [f"{type(each).__name__} {each.key} {run.apply(each)}" for each in value]
        case "delete":
            for each in value:
                run.delete(each.kind, each.namespace, each.name)
            told = [f"{each} deleted" for each in value]
        case "advance":
            return StepResult(number, f"advance {value:g} s", [f"it is {rfc3339(run.advance(value))}"])
        case _:
            told = [f"forgotten: {pod} on its way to {node}" for pod, node in run.restart()]
            told = told or ["no pod was on its way"]
    return StepResult(number, kind, told)


def taken(run: Replay, steps: Iterable[Step], file: str, note: Callable[[str], object]) -> Iterator[StepResult]:
    """Take the steps of a file; what was done in each. Raises BrokenStep for one that cannot be taken.

    `note` is told, once for each, which schedulers pods ask for that none of the profiles is.
    """
    foreign_names: set[str] = set()
    names = {profile.scheduler_name for profile in run.profiles}
    for number, step in enumerate(steps, 1):
        try:
            result = take(run, number, step)
        except ReplayError as exc:
            raise BrokenStep(file, number, exc.message, hint=exc.hint) from exc
        if step.kind == "schedule":
            wanted = run.pod(step.value).spec.scheduler_name
            if wanted not in names | foreign_names:
                foreign_names.add(wanted)
                note(f"{step.value} asks for schedulerName {wanted}; this is what the default plugins decide")
        yield result


def show(results: Iterable[StepResult], out: TextIO) -> None:
    """Write all steps, one after the other; in a pipe without colours and broken lines."""
    if Console(file=out).is_terminal:
        _print(results, Console(file=out, highlight=False))
        return
    page = io.StringIO()
    _print(results, Console(file=page, highlight=False, width=_UNBROKEN, force_terminal=False))
    out.write(page.getvalue())


def _print(results: Iterable[StepResult], console: Console) -> None:
    for result in results:
        console.print(assembled((f"step {result.number}", "bold"), f": {result.title}"))
        if result.answer is not None:
            console.print(text("  ").append_text(_told(result.answer)))
            for line in misses(result.answer):
                console.print(text(f"  {line}"))
        for line in result.lines[:MAX_LINES]:
            console.print(text(f"  {line}"))
        if len(result.lines) > MAX_LINES:
            console.print(text(f"  … and {len(result.lines) - MAX_LINES:,} more", style="dim"))


def _told(answer: Explanation) -> Text:
    if answer.held_back:
        return assembled(("is not tried", "bold yellow"), f": {answer.held_back}")
    if answer.node:
        return assembled("goes to ", (answer.node, "bold green"), f"; {answer.message}")
    return assembled(("does not fit", "bold red"), f": {answer.message}")


def misses(answer: Explanation) -> Iterable[str]:
    """The nodes that were refused for their storage, the nearest first."""
    if answer.node:
        return
    found = sorted((miss, each.name) for each in answer.nodes if (miss := each.miss) is not None)
    for miss, name in found[:MAX_MISSES]:
        yield f"{name}: {miss.told}"
    if len(found) > MAX_MISSES:
        yield f"… and {len(found) - MAX_MISSES:,} more nodes"
