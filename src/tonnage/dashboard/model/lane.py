"""One pod's lane: its steps in order, each once, and not without end."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import msgspec

from tonnage.dashboard.model import lane_steps
from tonnage.dashboard.wire.rows import PodStep
from tonnage.objects.meta import Key

MOST_STEPS: Final = 60
SAME: Final = timedelta(seconds=15)
"""An object and an Event that say the same within this are one step."""
_ONCE: Final = frozenset(("created", "bound", "started", "succeeded", "failed", "terminating", "deleted"))
"""What happens to a pod once."""
_LEAST: Final = ("event", "refused", "released", "detached")
"""What is left out first of a lane that grows too long."""
_UNDER_WAY: Final = frozenset(("rebuilding", "attaching", "terminating"))
_OVER: Final = frozenset(("rebuilt", "attached", "detached", "started"))
"""What ends what is under way. Refusals do neither: they may be told late."""


@dataclass(slots=True)
class Lane:
    pod: Key
    uid: str
    has_claims: bool
    steps: list[PodStep] = field(default_factory=list)
    state: str = ""
    """As the pod is now: its phase, or "gone"."""
    heard: set[PodStep] = field(default_factory=set)
    """Those of the steps that an Event told."""

    @property
    def is_done(self) -> bool:
        if self.state in ("gone", "Failed", "Succeeded"):
            return True
        last = next((each.kind for each in reversed(self.steps) if each.kind in _UNDER_WAY | _OVER), "")
        return self.state == "Running" and last not in _UNDER_WAY

    @property
    def last_at(self) -> datetime:
        return self.steps[-1].at

    def told(self) -> tuple[PodStep, ...]:
        """The steps, none of them before the one it follows: some tell only the second that they happened in."""
        found: list[PodStep] = []
        for step in self.steps:
            is_behind = not found or step.at >= found[-1].at
            found.append(step if is_behind else msgspec.structs.replace(step, at=found[-1].at))
        return tuple(found)

    def add(self, step: PodStep, *, is_heard: bool = False) -> bool:
        """Put a step where its time says; False when it is told already."""
        if any(_is_same(step, known, is_heard != (known in self.heard)) for known in self.steps):
            return False
        if is_heard:
            self.heard.add(step)
        at = len(self.steps)
        while at and _comes_first(step, self.steps[at - 1]):
            at -= 1
        if at and step.kind == "refused" and _last_refusal(self.steps[:at]) == step.text:
            return False
        self.steps.insert(at, step)
        if len(self.steps) > MOST_STEPS:
            least = (number for number, each in enumerate(self.steps[:-1]) if number and each.kind in _LEAST)
            self.heard.discard(self.steps.pop(next(least, 1)))
        return True


def _is_same(step: PodStep, known: PodStep, is_by_another: bool) -> bool:
    """Whether two steps are one; `is_by_another`: an object tells one of them, an Event the other."""
    if step.kind != known.kind:
        return False
    if step.kind in _ONCE:
        return True
    is_about_same = step.claim == known.claim or (is_by_another and not (step.claim and known.claim))
    if not is_about_same:
        return False
    if step.text == known.text and step.at == known.at:
        return True
    if is_by_another and step.kind != "event" and (not step.node or not known.node or step.node == known.node):
        return abs(step.at - known.at) <= SAME and (step.kind != "refused" or step.text == known.text)
    # Made, and then bound to: one thing.
    return step.kind == "provisioned" and step.text.startswith("bound to ")


def _comes_first(step: PodStep, other: PodStep) -> bool:
    if "created" in (step.kind, other.kind):  # nothing happens to a pod before, whoever's clock says so
        return step.kind == "created"
    if _is_coarse(step) != _is_coarse(other) and step.at.replace(microsecond=0) == other.at.replace(microsecond=0):
        return _rank(step) < _rank(other)  # an object tells the second alone, an Event the very moment within it
    return (step.at, _rank(step)) < (other.at, _rank(other))


def _is_coarse(step: PodStep) -> bool:
    return step.at.microsecond == 0


def _rank(step: PodStep) -> int:
    return lane_steps.ORDER.index(step.kind) if step.kind in lane_steps.ORDER else len(lane_steps.ORDER)


def _last_refusal(steps: list[PodStep]) -> str:
    """The last refusal, unless the pod has come further since."""
    for each in reversed(steps):
        if each.kind == "refused":
            return each.text
        if each.kind in ("decided", "bound", "nominated"):
            return ""
    return ""
