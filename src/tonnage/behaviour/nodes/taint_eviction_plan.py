"""When a pod has to leave a node with NoExecute taints. Pure: the plan of the taint eviction controller.

Each taint is looked up among the pod's tolerations. One that none tolerates evicts the pod at once. Else it may stay
as long as the shortest of the tolerations used says, counted from when the taints were first seen; for ever if none
says anything. Taints that go again take the plan with them. Mirrors processPodOnNode, but for taints or tolerations
that change while the pod waits: upstream keeps the first plan, here the present ones count, from the same beginning.

The count starts anew when the program does: a pod may then stay longer than it asked, never shorter.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tonnage.objects.node_selectors import NO_EXECUTE, Taint, Toleration, tolerates


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod's leave: begun at `since_s`, and over at `due_s`."""

    uid: str
    since_s: float
    due_s: float


def no_execute(taints: Iterable[Taint]) -> tuple[Taint, ...]:
    return tuple(taint for taint in taints if taint.effect == NO_EXECUTE)


def stay_s(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> float:
    """How long a pod may stay where these taints are: 0 is not at all, infinity for ever."""
    stays = [math.inf]
    for taint in taints:
        used = next((each for each in tolerations if tolerates(each, taint)), None)
        if used is None:
            return 0.0
        if used.toleration_seconds is not None:
            stays.append(max(float(used.toleration_seconds), 0.0))
    return min(stays)


def plan(
    uid: str, planned: Eviction | None, taints: Sequence[Taint], tolerations: Sequence[Toleration], now_s: float
) -> Eviction | None:
    """The pod's eviction as it should be planned now; None when it may stay for ever."""
    if planned is not None and planned.uid != uid:
        planned = None  # another pod of the same name
    allowed_s = stay_s(taints, tolerations)
    if math.isinf(allowed_s):
        return None
    if allowed_s == 0:
        return Eviction(uid, now_s, now_s)
    since_s = now_s if planned is None else planned.since_s
    return Eviction(uid, since_s, since_s + allowed_s)
