"""What a node has said of each of its pods, so that a status that somebody else writes over it stands for a while.

A kubelet owns the conditions Ready and ContainersReady. What it has not said yet it says at once; what it has said and
somebody overwrote, it says again when it next compares: upstream's status manager does that every ten seconds. Until
then the other's word stands, and who counts ready pods counts by it. Conditions of other types are never touched.
Nothing of this survives the program; after a restart everything is said once more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tonnage.objects.document import Doc

RECONCILE_S: Final = 10.0
"""Upstream's syncPeriod of the status manager."""

Statement = tuple[object, ...]
"""What a status says, without its times."""


@dataclass(slots=True)
class _Report:
    statement: Statement
    overwritten_at_s: float | None = None


class StatusReports:
    """What was said last of each pod, by uid."""

    def __init__(self) -> None:
        self._reports: dict[str, _Report] = {}

    def pause_s(self, uid: str, patch: Doc, now_s: float) -> float:
        """How long another's word still stands before this patch is written; 0 to write it now."""
        report = self._reports.get(uid)
        if report is None or report.statement != statement(patch):
            return 0.0
        if report.overwritten_at_s is None:
            report.overwritten_at_s = now_s
        return max(0.0, report.overwritten_at_s + RECONCILE_S - now_s)

    def is_said(self, uid: str, patch: Doc) -> bool:
        """Whether this was said last; what of it was left out for want of room counts as said."""
        report = self._reports.get(uid)
        return report is not None and report.statement == statement(patch)

    def written(self, uid: str, patch: Doc) -> None:
        self._reports[uid] = _Report(statement(patch))

    def in_step(self, uid: str) -> None:
        """The API says what we say: whoever wrote over it has put it right."""
        report = self._reports.get(uid)
        if report is not None:
            report.overwritten_at_s = None

    def forget(self, uid: str) -> None:
        self._reports.pop(uid, None)

    def clear(self) -> None:
        """The node comes back after it was given up: nothing that was said of its pods meanwhile has to stand."""
        self._reports.clear()


def statement(patch: Doc) -> Statement:
    """What a patch of the status says of the pod: phase, conditions, containers."""
    status = patch["status"]
    conditions = tuple((each["type"], each["status"], each.get("reason") or "") for each in status["conditions"])
    containers = tuple((each["name"], each["ready"], each["started"]) for each in status["containerStatuses"])
    return (status["phase"], conditions, containers)
