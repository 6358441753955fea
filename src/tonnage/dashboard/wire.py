"""What goes over the wire, version v1: rows, and what of them changed since somebody last asked.

Page, terminal and scripts read the same rows (docs/reference/dashboard.md). A row stands in a collection under its key.
Fields that have their default are left out on the wire. Sizes are bytes, instants are RFC 3339. Names and messages come
from the cluster as they are: whoever shows them makes them harmless.

    nodes         by name            also nodes that are gone and that volumes still name
    capacities    by namespace/name  CSIStorageCapacity objects with what is kept back of them
    volumes       by claim's key, or by the volume's name where no claim has it
    pods          by key             those that wait, and those with claims
    classes       by name            StorageClasses
    lanes         by pod's uid       what happened to a pod, step by step (the flow)
    faults        by kind@node       what is made to go wrong on an embedded cluster
    notices       by topic           what a person should know: kinds that cannot be read, a server that is away

A follower takes messages: the whole state first ("state": true), then differences; one that is slow is told of a row
once, as it is when it next takes. "at" in a message says up to where its reader knows everything: whoever lost the
connection goes on from there, for as long as it is remembered which rows changed last.

    follower = state.follow()               # or state.follow_since("3f2a09c1-7"), None when that is too long ago
    await follower.changed()
    message = follower.take()               # {"set": {"nodes": {"node-1": {…}}}, "gone": {…}, "revision": 7, "at": …}
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final, TypeVar, cast

import msgspec

from tonnage.objects.meta import Record

VERSION: Final = "v1"


class Row(Record):
    """One row; equal rows are no change."""


class AttachSlots(Row):
    """Volumes of one driver on a node; without a limit `limit` is absent."""

    driver: str
    used: int = 0
    limit: int | None = None


class NodeRow(Row):
    """A node. `gone`: volumes name it, and there is no such node any more."""

    name: str
    zone: str = ""
    ready: bool = True
    cordoned: bool = False
    gone: bool = False
    reason: str = ""
    """Why it is not ready, in its own words."""
    taints: tuple[str, ...] = ()
    """key=value:Effect of those that keep new pods away, besides the one that cordoning sets."""
    pods: int = 0
    """Pods there that have not ended."""
    slots: tuple[AttachSlots, ...] = ()
    pools: tuple[PoolRow, ...] = ()
    """Its pools where they can be seen (the embedded driver's records); else `capacities` say what is free."""


class PoolRow(Row):
    """One pool of a node, seen from inside; the pools of a node are in the driver's order, the first is pool 0."""

    size: int
    """0 when the driver does not serve the node any more."""
    free: int
    volumes: tuple[str, ...] = ()
    """Keys of `volumes` that lie in it."""
    arriving: tuple[str, ...] = ()
    """Keys of `volumes` that are being rebuilt into it."""
    other: int = 0
    """Bytes of everything else: `snapshots`, `unknown`, and volumes that the API server does not know."""
    snapshots: int = 0
    unknown: int = 0
    """Bytes of contents that no record names: kept, and counted as used."""


class ReservedRow(Row):
    """What is kept back of a capacity object, for whom, since when and why."""

    mode: str
    pod: str
    claims: tuple[str, ...] = ()
    bytes: int = 0
    since: datetime
    why: str = ""
    storage_class: str = ""
    """The class of its claims where that is not the object's own: classes of one capacity group share their pools, and
    what is promised of one is kept back of the objects of all, until each is told anew."""


class CapacityRow(Row):
    """A CSIStorageCapacity: room of one class on the nodes that it reaches."""

    storage_class: str
    nodes: tuple[str, ...] = ()
    """Those it reaches, sorted; at most 64 of them, `node_count` says how many there are."""
    node_count: int = 0
    pools: tuple[int, ...] = ()
    """Free bytes of each pool, in the object's order; one number where it tells none."""
    tells_pools: bool = False
    capacity: int | None = None
    largest: int | None = None
    """maximumVolumeSize."""
    told_at: datetime | None = None
    stale: str = ""
    """Why its figures are not to be believed; empty when they are."""
    reserved: tuple[ReservedRow, ...] = ()
    left: int | None = None
    """Bytes that nobody was promised: none of an object that is kept back as a whole (mode Object). Absent when the
    object tells no sum. A large claim may still not fit: it needs one pool."""


class VolumeRow(Row):
    """A claim with its volume, or a volume without a claim."""

    claim: str = ""
    volume: str = ""
    storage_class: str = ""
    driver: str = ""
    bytes: int = 0
    state: str = "waiting"
    """waiting, making (a node is chosen, or its class does not wait for one), bound, moving (being rebuilt on
    `target`), lost (it was bound, and its volume is gone); without a claim: released, or available to any."""
    node: str = ""
    """Where it is, or is being made; empty for one that several nodes reach, or that is nowhere yet. Of one that moves:
    where it comes from, as far as that is known; its `target` once its driver has it there, and only its node affinity
    is still to be set."""
    nodes: tuple[str, ...] = ()
    """Those that reach it where its affinity names several; at most 16."""
    zones: tuple[str, ...] = ()
    """Zones that reach it, of one whose affinity names zones instead of nodes."""
    target: str = ""
    """Where it is on its way to."""
    pool: int = -1
    """Number of its pool on `node`, where that can be seen."""
    shared: bool = False
    """Several nodes may use it at once (ReadWriteMany, ReadOnlyMany)."""
    attached: tuple[str, ...] = ()
    attaching: tuple[str, ...] = ()
    """Nodes that it is being attached to, or refused by."""
    attach_error: str = ""
    error: str = ""
    """Why it cannot be made, in the provisioner's words."""
    why: str = ""
    """What is odd about it, in words: its node is gone, its volume was deleted, …"""
    terminating: bool = False
    """Its claim is being deleted, or the volume where there is no claim."""
    pods: tuple[str, ...] = ()
    """Pods that use it and have not ended."""
    since: datetime | None = None
    """Since when it is in its state, as far as objects tell."""


class PodRow(Row):
    """A pod that waits, or has claims."""

    uid: str
    phase: str = "Pending"
    state: str = "waiting"
    """gated, waiting, decided (the scheduler has sent it to `node`, the API does not show it yet), bound (its volumes
    are made ready, its containers started), running, succeeded, failed, terminating."""
    node: str = ""
    nominated: str = ""
    claims: tuple[str, ...] = ()
    workload: str = ""
    """KIND/NAMESPACE/NAME of its controller; of a ReplicaSet's or a Job's pod, who made that."""
    scheduler: str = ""
    created: datetime | None = None
    message: str = ""
    """Why it waits, in the scheduler's words (PodScheduled), or why it failed."""
    terminating: bool = False


class ClassRow(Row):
    driver: str
    mode: str = ""
    group: str = ""
    """tonnage.dev/capacity-group: classes that share their pools."""
    is_default: bool = False


class PodStep(Row):
    """One thing that happened to a pod."""

    at: datetime
    kind: str
    """created, refused (by the scheduler), nominated, decided, reserved, released (capacity that was kept back),
    provisioning, provisioned, provision-failed, bound (to its node), attaching, attached, attach-failed, detached,
    rebuilding, rebuilt (its volume has arrived), started, succeeded, failed, terminating, deleted; event: any other."""
    text: str
    node: str = ""
    claim: str = ""
    """The claim that it is about; empty for what happened to the pod itself."""
    source: str = ""
    """Who says so: api, scheduler, or the component of an event."""


class LaneRow(Row):
    """What happened to a pod, in order; the newest 60 steps."""

    pod: str
    steps: tuple[PodStep, ...] = ()
    done: bool = False
    """It runs, has ended or is gone: nothing more is under way."""


class FaultRow(Row):
    kind: str
    node: str = ""
    value: float = 0.0


class NoticeRow(Row):
    severity: str = "warning"
    """error, warning or info."""
    text: str
    hint: str = ""


COLLECTIONS: Final[dict[str, type[Row]]] = {
    "nodes": NodeRow,
    "capacities": CapacityRow,
    "volumes": VolumeRow,
    "pods": PodRow,
    "classes": ClassRow,
    "lanes": LaneRow,
    "faults": FaultRow,
    "notices": NoticeRow,
}


R = TypeVar("R", bound=Row)

MOST_REMEMBERED: Final = 20_000
"""Rows of which it is remembered when they last changed."""

_encoder: Final = msgspec.json.Encoder()
_NAME_OF: Final[dict[type[Row], str]] = {kind: name for name, kind in COLLECTIONS.items()}


class Collections:
    """All rows that there are. `revision` grows with every change."""

    def __init__(self) -> None:
        self.revision = 0
        self._rows: dict[str, dict[str, Row]] = {name: {} for name in COLLECTIONS}
        self._encoded: dict[str, dict[str, msgspec.Raw]] = {name: {} for name in COLLECTIONS}
        self._followers: set[CollectionFollower] = set()
        self._start = secrets.token_hex(4)
        self._changed_at: dict[tuple[str, str], int] = {}  # those that changed last are last
        self._forgotten = 0  # changes up to this revision are not remembered any more

    @property
    def at(self) -> str:
        """The state as it is now, by name: from there one may go on following."""
        return f"{self._start}-{self.revision}"

    def of(self, kind: type[R]) -> Mapping[str, R]:
        """The rows of one class by key: `of(NodeRow)` is the collection nodes."""
        return cast("Mapping[str, R]", self._rows[_NAME_OF[kind]])

    def encoded(self, collection: str, key: str) -> msgspec.Raw | None:
        return self._encoded[collection].get(key)

    def put(self, collection: str, key: str, row: Row) -> None:
        """Add a row, or change it; one that is as it was is no change."""
        rows = self._rows[collection]
        if rows.get(key) == row:
            return
        rows[key] = row
        self._encoded[collection][key] = msgspec.Raw(_encoder.encode(row))
        self._tell(collection, key)

    def remove(self, collection: str, key: str) -> None:
        if self._rows[collection].pop(key, None) is not None:
            del self._encoded[collection][key]
            self._tell(collection, key)

    def state(self) -> bytes:
        return _encoder.encode(
            {"state": True, "revision": self.revision, "at": self.at, "set": self._encoded, "gone": {}}
        )

    def follow(self) -> CollectionFollower:
        """Somebody who is told from now on, the whole state first; `CollectionFollower.close` ends it."""
        follower = CollectionFollower(self)
        self._followers.add(follower)
        return follower

    def follow_since(self, at: str) -> CollectionFollower | None:
        """Somebody who knows the state as it was then; None when it is not known any more what changed since."""
        changed = self._changed_since(at)
        if changed is None:
            return None
        follower = self.follow()
        follower.goes_on(changed)
        return follower

    def _changed_since(self, at: str) -> list[tuple[str, str]] | None:
        start, _, told = at.partition("-")
        if start != self._start or not (told.isascii() and told.isdigit() and len(told) <= 20):
            return None
        revision = int(told)
        if not self._forgotten <= revision <= self.revision:
            return None
        found = []
        for changed, changed_at in reversed(self._changed_at.items()):
            if changed_at <= revision:
                break
            found.append(changed)
        return found

    def leave(self, follower: CollectionFollower) -> None:
        self._followers.discard(follower)

    def _tell(self, collection: str, key: str) -> None:
        self.revision += 1
        self._changed_at.pop((collection, key), None)
        self._changed_at[collection, key] = self.revision
        if len(self._changed_at) > MOST_REMEMBERED:
            oldest = next(iter(self._changed_at))
            self._forgotten = self._changed_at.pop(oldest)
        for follower in self._followers:
            follower.note(collection, key)


class CollectionFollower:
    """Somebody who is told what changed. Nothing is lost, and nothing is told twice."""

    def __init__(self, collections: Collections) -> None:
        self._collections = collections
        self._knows_state = False
        self._changed: dict[str, set[str]] = {}
        self._is_changed = asyncio.Event()
        self._is_changed.set()

    def note(self, collection: str, key: str) -> None:
        if self._knows_state:
            self._changed.setdefault(collection, set()).add(key)
            self._is_changed.set()

    def goes_on(self, changed: Iterable[tuple[str, str]]) -> None:
        self._knows_state = True
        self._is_changed.clear()
        for collection, key in changed:
            self.note(collection, key)

    async def changed(self) -> None:
        await self._is_changed.wait()

    def take(self) -> bytes:
        """What this follower does not know yet, as one message; the whole state the first time."""
        self._is_changed.clear()
        changed, self._changed = self._changed, {}
        collections = self._collections
        if not self._knows_state:
            self._knows_state = True
            return collections.state()
        present: dict[str, dict[str, msgspec.Raw]] = {}
        gone: dict[str, list[str]] = {}
        for name, keys in changed.items():
            for key in sorted(keys):
                row = collections.encoded(name, key)
                if row is None:
                    gone.setdefault(name, []).append(key)
                else:
                    present.setdefault(name, {})[key] = row
        return _encoder.encode({"revision": collections.revision, "at": collections.at, "set": present, "gone": gone})

    def close(self) -> None:
        self._collections.leave(self)
