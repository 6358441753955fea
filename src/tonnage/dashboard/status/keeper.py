"""Looks at a shown cluster again and again, and keeps its status: troubles, the line above them, and history.

keeper = StatusKeeper(cluster)
async with keeper.looking():            # every LOOK_S
    document = await keeper.current()   # at most FRESH_S old
show(keeper, page)                      # the line, then the troubles, worst first: `tonnage status`, `tonnage top`

3 nodes ready, 1 not · pools 42% full, largest free pool 80Gi · 1 pod pending · 0 volumes on their way

ERROR    node-2 is not ready                                                                     for 12m
         Kubelet stopped posting node status. It has 4 pods.
         kubectl describe node node-2
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Final

from rich.text import Text

from tonnage import logs
from tonnage.clock import in_background, rfc3339
from tonnage.dashboard.model.shown_cluster import ShownCluster
from tonnage.dashboard.status.overview import Overview, StatusLog, overview, overview_texts, totals_of
from tonnage.dashboard.status.sight import Sight, Trouble
from tonnage.dashboard.status.troubles import folded, troubles
from tonnage.errors import ApiError, TonnageError
from tonnage.printable import assembled, text
from tonnage.whatif.doctor.facts import Severity
from tonnage.whatif.page import Page, count_text, time_text

LOOK_S: Final = 5.0
FRESH_S: Final = 1.0
MOST_AT_ONCE: Final = 5000
"""Nodes, pods and volumes that are judged within milliseconds; more are judged in a thread."""
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
        self._next_s = 0.0

    def looking(self) -> AbstractAsyncContextManager[None]:
        """Look every LOOK_S while the block runs."""
        return in_background(self._look_on(), "look for troubles")

    async def _look_on(self) -> None:
        while True:
            try:
                await self._look_again()
            except Exception:  # a bug of ours must not stop the looks for good
                _log.exception("Troubles cannot be looked for")
            await self._cluster.clock.sleep(LOOK_S)

    async def _look_again(self) -> None:
        """Look, unless somebody does already or the last look was slow and just now."""
        clock = self._cluster.clock
        if clock.monotonic() < self._next_s:
            return
        began_s, self._next_s = clock.monotonic(), math.inf
        try:
            await self.look()
        finally:
            ended_s = clock.monotonic()
            self._next_s = ended_s + max(FRESH_S, REST * (ended_s - began_s))

    async def look(self) -> None:
        """Look now; nothing is concluded from a state that is not read yet."""
        cluster, unseen = self._cluster, []
        if not cluster.is_known:
            return
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
        is_large = len(model.objects.pods) + len(model.objects.volumes) + len(model.objects.nodes) > MOST_AT_ONCE
        sight = Sight(
            model.objects.snapshot() if is_large else model.objects,
            cluster.collections.snapshot() if is_large else cluster.collections,
            now,
            refusals=dict(model.refusals.of_claim),
            leases=leases,
            running=model.memory.scheduler_names,
            unlisted=unlisted,
        )
        refused = model.refusals.count
        self.found, self.overview = await asyncio.to_thread(_judged, sight) if is_large else _judged(sight)
        self.unseen = unseen
        self.log.note(self.found, self.overview, refused, now)
        self.looked_at = now

    def command_of(self, found: Trouble) -> str:
        return f"{found.command}{self._flags}"

    async def current(self) -> dict[str, Any]:
        """The status as a document. Looks again if the last look is old."""
        await self._look_again()
        return {**self.document(), "ended": list(reversed(self.log.ended))}

    def document(self, *, is_whole: bool = False) -> dict[str, Any]:
        """The last look; with `is_whole`, every trouble is listed, else a few of each kind."""
        shown = [(trouble, 0) for trouble in self.found] if is_whole else folded(self.found)
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


def _judged(sight: Sight) -> tuple[list[Trouble], Overview]:
    totals = totals_of(sight)
    return troubles(sight, totals), overview(sight, totals)


def _told_at(at: datetime | None) -> str | None:
    return rfc3339(at) if at is not None else None


STYLES: Final[Mapping[str, str]] = {
    Severity.ERROR.value: "bold red",
    Severity.WARNING.value: "bold yellow",
    Severity.INFO.value: "bold cyan",
}
INDENT: Final = 9


def show(keeper: StatusKeeper, page: Page) -> None:
    page.say(text(keeper.server, style="dim"))
    page.say(text(" · ".join(overview_texts(keeper.overview)), style="bold"))
    for each, more in folded(keeper.found):
        page.blank()
        show_trouble(keeper, each, page)
        if more:
            page.more(more, f"of this kind; -o json lists {'it' if more == 1 else 'them'}", INDENT)
    page.part(verdict(keeper))
    for sentence in keeper.unseen:
        page.say(text(sentence, style="dim"))


def show_trouble(keeper: StatusKeeper, found: Trouble, page: Page) -> None:
    assert keeper.looked_at is not None
    age = age_text(keeper, found, keeper.looked_at)
    word = text(f"{found.severity.upper():<{INDENT}}", style=STYLES[found.severity])
    page.say(assembled((found.headline, "bold"), (f", {age}", "dim")), INDENT, lead=word)
    page.say(text(found.meaning), indent=INDENT)
    page.say(text(keeper.command_of(found), style="cyan"), indent=INDENT)


def age_text(keeper: StatusKeeper, found: Trouble, now: datetime) -> str:
    """`for 12m`; `for 12m or longer` if it was there at the first look."""
    began = keeper.log.began(found)
    age_s = max(int((now - began.since).total_seconds()), 0)
    if began.is_older:
        return f"for {time_text(age_s)} or longer" if age_s else "seen now"
    return f"for {time_text(age_s)}"


def verdict(keeper: StatusKeeper) -> Text:
    """The last line: how much is wrong, or since when nothing is."""
    counted = {each: sum(found.severity == each for found in keeper.found) for each in STYLES}
    errors, warnings = counted[Severity.ERROR.value], counted[Severity.WARNING.value]
    if errors or warnings:
        told = [count_text(errors, "error")] if errors else []
        told += [count_text(warnings, "warning")] if warnings else []
        return text(", ".join(told), style=STYLES[Severity.ERROR.value if errors else Severity.WARNING.value])
    since = keeper.log.fine_since
    is_new = since is None or keeper.looked_at is None or (keeper.looked_at - since).total_seconds() < 1
    when = "" if is_new or since is None else f" since {rfc3339(since)}"
    soon = "; a pending pod counts after 30 s" if keeper.overview.pending else ""
    return text(f"Nothing is wrong{' that can be seen' if keeper.unseen else ''}{when}{soon}.", style="bold green")
