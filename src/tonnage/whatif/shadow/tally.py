"""What a shadow has seen so far: counts of everything, and of what differs the first so many in full."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from tonnage.clock import rfc3339
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
