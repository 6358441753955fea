"""How a cluster came to be as it is: samples for charts, when each trouble began, and which ones have ended.

    log = StatusLog(started_at)
    log.note(troubles, overview, refused, now)      # as often as one looks; `refused` counts from the start

Memory is bounded. Samples lie SAMPLE_S apart for an hour, then are merged to COARSE_S for a day. A merged sample keeps
the worst of its time: the most pods that waited, the least free bytes, all refusals.

A trouble whose objects do not say since when it lasts began when it was first seen; if that was the first look, it may
be older, and `is_older` says so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from tonnage.dashboard.status.overview import ClassRoom, Overview
from tonnage.dashboard.status.sight import Trouble
from tonnage.dashboard.wire import Row
from tonnage.whatif.doctor.facts import Severity

SAMPLE_S: Final = 10
FINE_SAMPLES: Final = 366
"""An hour, and a minute of it before it is merged."""
COARSE_S: Final = 120
COARSE_SAMPLES: Final = 720
"""A day."""
MOST_ENDED: Final = 100
MOST_KNOWN: Final = 10_000
"""Limit of troubles whose beginning is remembered."""


class Sample(Row):
    """The cluster at one moment; `refused`: volumes that were refused since the sample before it."""

    at: datetime
    nodes_not_ready: int = 0
    pending: int = 0
    on_their_way: int = 0
    refused: int = 0
    troubles: int = 0
    """Errors and warnings."""
    classes: Mapping[str, ClassRoom] = {}


class EndedTrouble(Row):
    severity: str
    kind: str
    headline: str
    since: datetime
    until: datetime


class Began(NamedTuple):
    since: datetime
    is_older: bool
    """It was there at the first look: it may have begun earlier."""


class StatusLog:
    def __init__(self, started_at: datetime) -> None:
        self.started_at = started_at
        self.fine_since: datetime | None = None
        """Since when nothing is wrong; None while something is."""
        self.ended: deque[EndedTrouble] = deque(maxlen=MOST_ENDED)
        self._fine: deque[Sample] = deque()
        self._coarse: deque[Sample] = deque(maxlen=COARSE_SAMPLES)
        self._known: dict[str, tuple[Trouble, Began]] = {}
        self._has_looked = False
        self._refused = 0

    def note(self, found: Sequence[Trouble], overview: Overview, refused: int, now: datetime) -> None:
        """Take in what was seen at `now`."""
        known = self._known
        self._known = {trouble.key: (trouble, self._began(trouble, known, now)) for trouble in found[:MOST_KNOWN]}
        for key, (each, began) in known.items():
            if key not in self._known and each.severity != Severity.INFO.value:
                self._end(each, began, now)
        wrong = sum(trouble.severity != Severity.INFO.value for trouble in found)
        if wrong:
            self.fine_since = None
        elif self.fine_since is None:
            self.fine_since = now if self._has_looked else self.started_at
        self._has_looked = True
        if not self._fine or (now - self._fine[-1].at).total_seconds() >= SAMPLE_S:
            self._sample(overview, max(refused - self._refused, 0), wrong, now)
            self._refused = refused

    def began(self, found: Trouble) -> Began:
        """When a trouble of the last look began."""
        return self._known[found.key][1]

    def samples(self, since: datetime | None = None) -> list[Sample]:
        """The samples after an instant, the oldest first."""
        return [sample for sample in (*self._coarse, *self._fine) if since is None or sample.at > since]

    def _began(self, found: Trouble, known: dict[str, tuple[Trouble, Began]], now: datetime) -> Began:
        if found.since is not None:
            return Began(found.since, is_older=False)
        before = known.get(found.key)
        return before[1] if before is not None else Began(now, is_older=not self._has_looked)

    def _end(self, found: Trouble, began: Began, now: datetime) -> None:
        if now - began.since >= timedelta(seconds=SAMPLE_S):
            self.ended.append(
                EndedTrouble(
                    severity=found.severity, kind=found.kind, headline=found.headline, since=began.since, until=now
                )
            )

    def _sample(self, overview: Overview, refused: int, wrong: int, now: datetime) -> None:
        self._fine.append(
            Sample(
                at=now,
                nodes_not_ready=overview.nodes_not_ready,
                pending=overview.pending,
                on_their_way=overview.on_their_way,
                refused=refused,
                troubles=wrong,
                classes=overview.classes,
            )
        )
        while len(self._fine) > FINE_SAMPLES:
            self._merge(self._fine.popleft())

    def _merge(self, old: Sample) -> None:
        last = self._coarse[-1] if self._coarse else None
        if last is not None and int(last.at.timestamp()) // COARSE_S == int(old.at.timestamp()) // COARSE_S:
            self._coarse[-1] = merged(last, old)
        else:
            self._coarse.append(old)


def merged(one: Sample, other: Sample) -> Sample:
    """The worst of two samples, at the time of the later one; `one` is the earlier."""
    classes = dict(one.classes)
    for name, room in other.classes.items():
        before = classes.get(name)
        if before is None or room.free <= before.free:
            classes[name] = room
    return Sample(
        at=other.at,
        nodes_not_ready=max(one.nodes_not_ready, other.nodes_not_ready),
        pending=max(one.pending, other.pending),
        on_their_way=max(one.on_their_way, other.on_their_way),
        refused=one.refused + other.refused,
        troubles=max(one.troubles, other.troubles),
        classes=classes,
    )
