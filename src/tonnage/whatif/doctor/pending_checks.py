"""Pods that wait, one finding a cause: `explain --pending` in short."""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.whatif.doctor.findings import CATALOGUE, Finding
from tonnage.whatif.page import named
from tonnage.whatif.pending import causes
from tonnage.whatif.pending.pending import PendingAnswer, PendingGroup

_MEANT = (causes.GATED, causes.FOREIGN)
"""Pods that somebody holds back on purpose, or that are another's."""


def pending_findings(answer: PendingAnswer) -> Iterator[Finding]:
    for group in answer.groups:
        if not group.pods[0].fits and group.cause.kind not in _MEANT:
            yield CATALOGUE["pods-pending"].about(
                f"Pod {named([each.key for each in group.pods])}", group.message, _remedy(group)
            )


def _remedy(group: PendingGroup) -> str:
    if not group.helps:
        return "`tonnage explain --pending` shows every node; no single change that was tried lets them in"
    best = group.helps[0]
    count = len({each.key for each in group.pods}.intersection(best.pods))
    whom = "it" if len(group.pods) == 1 else "all of them" if count == len(group.pods) else f"{count:,} of them"
    return f"{best.change}: that would let {whom} in"
