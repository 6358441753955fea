"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`message` says what was seen; of a check that was skipped, why."""

    outcome: Outcome
    message: str = ""


PASSED = Verdict(Outcome.PASSED)


def passed(message: str = "") -> Verdict:
    return Verdict(Outcome.PASSED, message)


def failed(message: str) -> Verdict:
    return Verdict(Outcome.FAILED, message)


def skipped(reason: str) -> Verdict:
    return Verdict(Outcome.SKIPPED, reason)
