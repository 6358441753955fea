"""Nominations shown to people: /debug/nominations, and metrics of what is held and for how long.

What is held, and when it is let go, is `scheduling/queue/nominator.py` and `scheduling/engine/held_nominations.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from prometheus_client.core import Metric

from tonnage.clock import rfc3339
from tonnage.scheduler.metrics import gauge
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.engine.held_nominations import writer_of


class NominationsReport:
    """Every nomination that a scheduler knows of, as a report."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def listed(self) -> list[dict[str, Any]]:
        """Who is expected where, since when, by whom, and whether room is held: what /debug/nominations shows.

        Sorted by node; on each, those who were nominated first come first, as they go first.
        """
        found = []
        for each in self._engine.queue.nominator:
            since, by = writer_of(each)
            found.append(
                {
                    "node": each.node,
                    "nodeExists": each.node in self._engine.cluster.row_of,
                    "pod": each.info.key,
                    "uid": each.info.uid,
                    "priority": each.info.priority,
                    "holds": each.holds,
                    "since": rfc3339(since),
                    "by": by,
                }
            )
        return sorted(found, key=lambda each: str(each["node"]))

    def families(self) -> Iterable[Metric]:
        """How many nominations hold room now, how old the oldest of them is, and how many cannot come true."""
        unreachable = {("node-missing",): 0.0, ("refused",): 0.0}
        for each in self._engine.queue.nominator:
            if each.node not in self._engine.cluster.row_of:
                unreachable[("node-missing",)] += 1
            elif not each.holds:
                unreachable[("refused",)] += 1
        held = [writer_of(each)[0] for each in self._engine.queue.nominator if each.holds]
        oldest_s = (self._engine.clock.now() - min(held)).total_seconds() if held else 0.0
        return (
            gauge("scheduler_held_nominations", "Nominated pods that room is held for.", (), {(): float(len(held))}),
            gauge(
                "scheduler_held_nominations_oldest_seconds",
                "How long room has been held for the pod that was nominated first; 0 when none is.",
                (),
                {(): max(oldest_s, 0.0)},
            ),
            gauge(
                "tonnage_nominations_unreachable",
                "Nominated pods that cannot go where they are expected, as things stand: the node is not there "
                "(node-missing), or it was tried and has no room that could still come free (refused).",
                ("cause",),
                unreachable,
            ),
        )
