"""Which nodes of a pool go, and when: two steps, so that no pod is caught by them.

                idle for unneeded_s            idle still, settle_s later
      ready ───────────────────────► marked ─────────────────────────────► removed
        ▲                              │
        └──────────────────────────────┘
           somebody is on it or expected

A marked node takes no new pods. Between the mark and the removal lies the time that a scheduler needs to say, in a
nomination or a binding, what it decided before it saw the mark. The mark is on the node, with its time, so that a
scaler which is restarted goes on from there; since when a node is idle is known to one life of the scaler only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tonnage.nodescaler.node_pool import NodePool, marked_at
from tonnage.nodescaler.plan import ScalePlan
from tonnage.objects.core_v1 import Node


class IdleSince:
    """Since when each node has had nothing to do."""

    def __init__(self) -> None:
        self._since_s: dict[str, float] = {}

    def note(self, idle: Iterable[str], now_s: float) -> None:
        """These are idle now, and no others."""
        self._since_s = {name: self._since_s.get(name, now_s) for name in idle}

    def span_s(self, name: str, now_s: float) -> float:
        """How long it has been idle; 0 when it is not."""
        return now_s - self._since_s.get(name, now_s)


@dataclass(frozen=True, slots=True)
class Removals:
    """What to do about nodes with nothing to do, and when to look again (seconds from now, None for never)."""

    mark: tuple[str, ...] = ()
    unmark: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    next_s: float | None = None


def removals(
    plan: ScalePlan, nodes: Mapping[str, Node], pool: NodePool, idle: IdleSince, *, now_s: float, time_s: float
) -> Removals:
    """Decide about every node of the pool. `now_s` is the monotonic time of `idle`, `time_s` seconds since 1970."""
    mark: list[str] = []
    unmark: list[str] = []
    remove: list[str] = []
    waits_s: list[float] = []
    may_go = len(plan.members) - pool.min_nodes
    # Those that were marked come first: they are on their way. Then those that have been idle longest.
    for name in sorted(
        plan.members, key=lambda name: (marked_at(nodes[name]) is None, -idle.span_s(name, now_s), name)
    ):
        at_s = marked_at(nodes[name])
        # One that was marked in the future, before the clock was set back, is marked anew.
        if name in plan.in_use or may_go <= 0 or (at_s is not None and at_s > time_s + pool.settle_s):
            unmark += [name] if at_s is not None else []
            continue
        left_s = pool.unneeded_s - idle.span_s(name, now_s) if at_s is None else at_s + pool.settle_s - time_s
        if left_s > 0:
            waits_s.append(left_s)
            may_go -= at_s is not None
            continue
        (mark if at_s is None else remove).append(name)
        may_go -= 1
    if mark:
        waits_s.append(pool.settle_s)
    return Removals(tuple(mark), tuple(unmark), tuple(remove), min(waits_s, default=None))
