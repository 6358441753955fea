"""What was found of a driver, check by check.

What a check found.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tonnage.driver_check.catalogue import CATALOGUE


class CheckOutcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class CheckVerdict:
    """`message` says what was seen; of a check that was skipped, why."""

    outcome: CheckOutcome
    message: str = ""


PASSED = CheckVerdict(CheckOutcome.PASSED)


def passed(message: str = "") -> CheckVerdict:
    return CheckVerdict(CheckOutcome.PASSED, message)


def failed(message: str) -> CheckVerdict:
    return CheckVerdict(CheckOutcome.FAILED, message)


def skipped(reason: str) -> CheckVerdict:
    return CheckVerdict(CheckOutcome.SKIPPED, reason)


_WORST_LAST = (CheckOutcome.SKIPPED, CheckOutcome.PASSED, CheckOutcome.FAILED)


@dataclass(slots=True)
class Results:
    """By the name of a check. Of several verdicts on one, as for several nodes, the worst counts."""

    driver: str = ""
    version: str = ""
    verdicts: dict[str, CheckVerdict] = field(default_factory=dict)
    left_behind: list[str] = field(default_factory=list)

    def tell(self, name: str, verdict: CheckVerdict) -> None:
        if name not in CATALOGUE:
            raise KeyError(f"there is no check {name}")
        before = self.verdicts.get(name)
        if before is None or _WORST_LAST.index(verdict.outcome) > _WORST_LAST.index(before.outcome):
            self.verdicts[name] = verdict

    def skip(self, names: Iterable[str], reason: str) -> None:
        for name in names:
            if name not in self.verdicts:
                self.tell(name, skipped(reason))

    def outcome_of(self, name: str) -> CheckOutcome | None:
        found = self.verdicts.get(name)
        return found.outcome if found is not None else None

    def count(self, outcome: CheckOutcome) -> int:
        return sum(each.outcome is outcome for each in self.verdicts.values())

    @property
    def is_kept(self) -> bool:
        """No contract is broken."""
        return not self.count(CheckOutcome.FAILED)

    def document(self) -> dict[str, Any]:
        checks = []
        for name, check in CATALOGUE.items():
            verdict = self.verdicts.get(name) or skipped("it was not reached")
            entry = {"name": name, "outcome": verdict.outcome.value, "contract": check.contract}
            if verdict.message:
                entry["message"] = verdict.message
            if verdict.outcome is CheckOutcome.SKIPPED:
                entry["reason"] = verdict.message
            if verdict.outcome is CheckOutcome.FAILED:
                entry["remedy"] = check.remedy
            checks.append(entry)
        return {
            "driver": self.driver,
            "version": self.version,
            "passed": self.count(CheckOutcome.PASSED),
            "failed": self.count(CheckOutcome.FAILED),
            "skipped": len(checks) - self.count(CheckOutcome.PASSED) - self.count(CheckOutcome.FAILED),
            "checks": checks,
            "leftBehind": self.left_behind,
        }
