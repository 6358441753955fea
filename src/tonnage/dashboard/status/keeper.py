"""Looks at a shown cluster again and again, and keeps its status: troubles, the line above them, and history.

keeper = StatusKeeper(cluster)
async with keeper.looking():            # every LOOK_S
    document = await keeper.current()   # at most FRESH_S old
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Final

from tonnage import logs
from tonnage.clock import in_background, rfc3339
from tonnage.dashboard.model.shown_cluster import ShownCluster
from tonnage.dashboard.status.history import StatusLog
from tonnage.dashboard.status.overview import Overview, overview, totals_of
from tonnage.dashboard.status.sight import Sight, Trouble
from tonnage.dashboard.status.troubles import folded, troubles
from tonnage.errors import ApiError, TonnageError

LOOK_S: Final = 5.0
FRESH_S: Final = 1.0
REST: Final = 10
"""Pause after a look, in multiples of its duration: a large cluster is looked at less often."""

_log = logs.logger("tonnage.dashboard")


class StatusKeeper:
    """`flags`: what is appended to commands, so that they reach this cluster: `--kubeconfig FILE`."""

    def __init__(self, cluster: ShownCluster, *, flags: str = "") -> None:
        self._cluster = cluster
        self.server = cluster.source
        self._flags = f" {flags}" if flags else ""
        self.log = StatusLog(cluster.clock.now())
        self.found: list[Trouble] = []
        self.overview = Overview()
        self.unseen: list[str] = []
        """What cannot be seen, and why."""
        self.is_blind = False
        """True if nodes or pods cannot be read: then little is known."""
        self.looked_at: datetime | None = None
        self._looked_s = 0.0

    @asynccontextmanager
    async def looking(self) -> AsyncIterator[None]:
        """Look every LOOK_S while the block runs."""
        async with in_background(self._look_on(), "look for troubles"):
            yield

    async def _look_on(self) -> None:
        while True:
            began = self._cluster.clock.monotonic()
            try:
                await self.look()
            except Exception:  # a bug of ours must not stop the looks for good
                _log.exception("Troubles cannot be looked for")
            took_s = self._cluster.clock.monotonic() - began
            await self._cluster.clock.sleep(max(LOOK_S, REST * took_s))

    async def look(self) -> None:
        cluster, unseen = self._cluster, []
        leases = None
        try:
            leases = await cluster.leases()
        except ApiError as exc:
            unseen.append(f"cannot see leases: {exc.message}")
        except (TonnageError, TimeoutError):
            pass  # the server does not answer: that is a notice already
        model, now = cluster.model, cluster.clock.now()
        unlisted = cluster.unread()
        self.is_blind = not unlisted.keys().isdisjoint(("Node", "Pod"))
        unseen += [f"cannot see {kind} objects: {why}" for kind, why in unlisted.items()]
        sight = Sight(
            model.objects,
            cluster.collections,
            now,
            refusals=model.refusals.of_claim,
            leases=leases,
            running=model.memory.scheduler_names,
            unlisted=unlisted,
        )
        totals = totals_of(sight)
        self.found, self.overview, self.unseen = troubles(sight, totals), overview(sight, totals), unseen
        self.log.note(self.found, self.overview, model.refusals.count, now)
        self.looked_at, self._looked_s = now, cluster.clock.monotonic()

    def command_of(self, found: Trouble) -> str:
        return f"{found.command}{self._flags}"

    async def current(self) -> dict[str, Any]:
        """The status as a document. Looks again if the last look is old."""
        if self.looked_at is None or self._cluster.clock.monotonic() - self._looked_s > FRESH_S:
            await self.look()
        return {**self.document(), "ended": list(reversed(self.log.ended))}

    def document(self, *, is_whole: bool = False) -> dict[str, Any]:
        """The last look; with `is_whole`, every trouble is listed, else a few of each kind."""
        shown = [(each, 0) for each in self.found] if is_whole else folded(self.found)
        return {
            "server": self.server,
            "at": _told_at(self.looked_at),
            "startedAt": _told_at(self.log.started_at),
            "fineSince": _told_at(self.log.fine_since),
            "overview": self.overview.document(),
            "troubles": [self._told(each, more) for each, more in shown],
            "unseen": self.unseen,
        }

    def _told(self, found: Trouble, more: int) -> dict[str, Any]:
        began = self.log.began(found)
        return {
            "severity": found.severity,
            "kind": found.kind,
            "object": found.object,
            "headline": found.headline,
            "meaning": found.meaning,
            "command": self.command_of(found),
            "since": _told_at(began.since),
            "older": began.is_older,
            "count": found.count,
            "more": more,
        }


def _told_at(at: datetime | None) -> str | None:
    return rfc3339(at) if at is not None else None
