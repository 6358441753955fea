"""Every check by a name that scripts may rely on (docs/reference/driver-checks.md), and its verdict."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import resources
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class DriverCheck:
    """A block of `catalogue.txt`. `remedy` is what a driver's author does if the check fails."""

    name: str
    contract: str
    remedy: str


_TEXT: Final = resources.files("tonnage.driver_check").joinpath("catalogue.txt").read_text(encoding="utf-8")
_CHECKS: Final = [DriverCheck(*map(str.strip, block.splitlines())) for block in _TEXT.split("\n\n") if block]
CATALOGUE: Final = {check.name: check for check in _CHECKS}
"""In the order in which they are shown."""


class CheckOutcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class CheckVerdict:
    """`message` is what was seen; for a skipped check, why."""

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


@dataclass(frozen=True, slots=True)
class Measured:
    """An annotation for the driver's StorageClasses. `value` is empty if it could not be told; `told` says why."""

    annotation: str
    value: str
    told: str


@dataclass(slots=True)
class Results:
    """Verdicts by check. Of several verdicts on one check, as for several nodes, the worst counts."""

    driver: str = ""
    version: str = ""
    verdicts: dict[str, CheckVerdict] = field(default_factory=dict)
    left_behind: list[str] = field(default_factory=list)
    measured: list[Measured] = field(default_factory=list)

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
        check_verdict = self.verdicts.get(name)
        return check_verdict.outcome if check_verdict is not None else None

    def count(self, outcome: CheckOutcome) -> int:
        return sum(verdict.outcome is outcome for verdict in self.verdicts.values())

    @property
    def is_kept(self) -> bool:
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
            "measured": [
                {"annotation": each.annotation, "value": each.value, "message": each.told} for each in self.measured
            ],
        }
