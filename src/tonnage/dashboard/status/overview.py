"""The line above the troubles, and its history: samples for charts, when each trouble began, and which have ended.

5 nodes ready, 1 not · pools 42% full, largest free pool 80Gi · 3 pods pending · 2 volumes on their way

    log = StatusLog(started_at)
    log.note(troubles, overview, refused, now)      # as often as one looks; `refused` counts from the start

Memory is bounded. Samples lie SAMPLE_S apart for an hour, then are merged to COARSE_S for a day. A merged sample keeps
the worst of its time: the most pods that waited, the least free bytes, all refusals.

A trouble whose objects do not say since when it lasts began when it was first seen; if that was the first look, it may
be older, and `is_older` says so.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from tonnage.dashboard.status.sight import Sight, Trouble
from tonnage.dashboard.wire import NodeRow, PodRow, Row, VolumeRow
from tonnage.scheduler.storage_totals import ClassTotals, class_totals, homes
from tonnage.whatif.doctor.facts import Severity
from tonnage.whatif.page import bytes_text, count_text

MOST_CLASSES: Final = 24
"""Of more classes those with the most bytes are kept."""


class ClassRoom(Row):
    """Bytes of a StorageClass. `largest`: the largest volume that one free pool can hold."""

    free: int = 0
    total: int = 0
    largest: int = 0
    nearly_full: bool = False

    @property
    def percent_full(self) -> int:
        return 100 * (self.total - self.free) // self.total if self.total else 0

    def document(self) -> dict[str, Any]:
        return {
            "free": self.free,
            "total": self.total,
            "largest": self.largest,
            "percentFull": self.percent_full,
            "nearlyFull": self.nearly_full,
        }


class Overview(Row, omit_defaults=False):
    nodes_ready: int = 0
    nodes_not_ready: int = 0
    nodes_cordoned: int = 0
    pending: int = 0
    """Pods that wait for a node."""
    gated: int = 0
    """Pods that the scheduler does not try yet: they have scheduling gates."""
    on_their_way: int = 0
    """Volumes that are being made, or rebuilt on another node."""
    classes: Mapping[str, ClassRoom] = {}
    """By name; those with the most bytes first."""

    def document(self) -> dict[str, Any]:
        classes = {name: each.document() for name, each in self.classes.items()}
        return {**msgspec.to_builtins(self), "classes": classes}


def totals_of(sight: Sight) -> dict[str, ClassTotals]:
    known = sight.objects
    home_of = homes(known.claims.get, known.nodes, known.drivers)
    return class_totals(known.capacities.values(), known.volumes.values(), known.classes, home_of)


def overview(sight: Sight, totals: Mapping[str, ClassTotals]) -> Overview:
    pods = Counter(pod_row.state for pod_row in sight.rows.of(PodRow).values())
    nodes = [node_row for node_row in sight.rows.of(NodeRow).values() if not node_row.gone]
    ready = sum(node.ready for node in nodes)
    largest_first = sorted(totals.items(), key=lambda each: (-each[1].total, each[0]))[:MOST_CLASSES]
    return Overview(
        nodes_ready=ready,
        nodes_not_ready=len(nodes) - ready,
        nodes_cordoned=sum(node.ready and node.cordoned for node in nodes),
        pending=pods["waiting"],
        gated=pods["gated"],
        on_their_way=sum(volume_row.state in ("making", "moving") for volume_row in sight.rows.of(VolumeRow).values()),
        classes={
            name: ClassRoom(free=each.free, total=each.total, largest=each.largest, nearly_full=each.is_nearly_full)
            for name, each in largest_first
        },
    )


def overview_texts(found: Overview) -> Iterator[str]:
    """The parts of the line."""
    nodes = f"{count_text(found.nodes_ready, 'node')} ready"
    nodes += f", {found.nodes_not_ready:,} not" if found.nodes_not_ready else ""
    yield nodes + (f", {found.nodes_cordoned:,} cordoned" if found.nodes_cordoned else "")
    for name, each in found.classes.items():
        yield f"{name} {each.percent_full}% full, largest free pool {bytes_text(each.largest)}"
    yield f"{count_text(found.pending, 'pod')} pending" + (f", {found.gated:,} gated" if found.gated else "")
    yield f"{count_text(found.on_their_way, 'volume')} on {'its' if found.on_their_way == 1 else 'their'} way"


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
