"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
