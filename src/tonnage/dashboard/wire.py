"""What goes over the wire, version v1: rows, and the changes of rows since a client last asked.

Page, terminal and scripts read the same rows (docs/reference/dashboard.md). A row stands in a collection under its key.
Fields with their default value are left out. Sizes are bytes, instants are RFC 3339. Names and messages come unchanged
from the cluster: whoever shows them must escape them.

    nodes         by name            also deleted nodes that volumes still name
    capacities    by namespace/name  CSIStorageCapacity objects with what is kept back of them
    volumes       by claim's key, or by the volume's name where no claim has it
    pods          by key             those that wait, and those with claims
    classes       by name            StorageClasses
    lanes         by pod's uid       what happened to a pod, step by step (the flow)
    faults        by kind@node       what is made to go wrong on an embedded cluster
    notices       by topic           what a person should know: unreadable kinds, an unreachable server

A follower takes messages: the whole state first ("state": true), then differences. A slow follower gets a changed row
once, in its latest version. "at" names the state after a message: a client that lost the connection continues from
there, while the changed rows are still remembered.

    follower = state.follow()               # or state.follow_since("3f2a09c1-7"), None when that is too long ago
    await follower.is_changed.wait()
    message = follower.take()               # {"set": {"nodes": {"node-1": {…}}}, "gone": {…}, "revision": 7, "at": …}
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from datetime import datetime
from itertools import takewhile
from typing import Final, TypeVar, cast

import msgspec

from tonnage.objects.meta import Record

VERSION: Final = "v1"


class Row(Record):
    """One row. Replacing a row by an equal one is no change."""


class AttachSlots(Row):
    """Attached volumes of one driver on a node. `limit` is absent without a limit."""

    driver: str
    used: int = 0
    limit: int | None = None


class NodeRow(Row):
    """A node. `gone`: the node was deleted, and volumes still name it."""

    name: str
    zone: str = ""
    ready: bool = True
    cordoned: bool = False
    gone: bool = False
    reason: str = ""
    """Why the node is not ready, in its own words."""
    taints: tuple[str, ...] = ()
    """key=value:Effect of taints that keep new pods away, except the taint of cordoning."""
    pods: int = 0
    """Number of pods on the node that have not ended."""
    slots: tuple[AttachSlots, ...] = ()
    pools: tuple[PoolRow, ...] = ()
    """The node's pools, if visible (the embedded driver's records); else `capacities` say what is free."""
    pools_driver: str = ""
    """The driver of `pools`: volumes and capacity objects of other drivers are beside them."""

    def has_in_pools(self, driver: str) -> bool:
        """True if `pools` show where the driver's volumes are. An unknown driver counts as theirs."""
        return bool(self.pools) and (not driver or not self.pools_driver or driver == self.pools_driver)


class PoolRow(Row):
    """One pool of a node from its driver's records. A node's pools are in the driver's order, starting with pool 0."""

    size: int
    """0 when the driver no longer serves the node."""
    free: int
    volumes: tuple[str, ...] = ()
    """Keys of the `volumes` in this pool."""
    arriving: tuple[str, ...] = ()
    """Keys of the `volumes` that are being rebuilt into this pool."""
    other: int = 0
    """Bytes of everything else: `snapshots`, `unknown`, and volumes that the API server does not know."""
    snapshots: int = 0
    unknown: int = 0
    """Bytes of contents without a record: kept, and counted as used."""


class ReservedRow(Row):
    """What is kept back of a capacity object, for whom, since when and why."""

    mode: str
    pod: str
    claims: tuple[str, ...] = ()
    bytes: int = 0
    since: datetime
    why: str = ""
    storage_class: str = ""
    """The class of its claims, if that is not the object's own: classes of one capacity group share their pools, and a
    promise is kept back from the objects of all of them until they are updated."""


class CapacityRow(Row):
    """A CSIStorageCapacity: room of one storage class on the nodes that it reaches."""

    storage_class: str
    nodes: tuple[str, ...] = ()
    """The nodes it reaches, sorted, at most 64 of them; `node_count` is their number."""
    node_count: int = 0
    pools: tuple[int, ...] = ()
    """Free bytes of each pool, in the object's order; one number if the object has no pools."""
    tells_pools: bool = False
    capacity: int | None = None
    largest: int | None = None
    """maximumVolumeSize."""
    told_at: datetime | None = None
    stale: str = ""
    """Why its figures may be wrong; empty when nothing speaks against them."""
    reserved: tuple[ReservedRow, ...] = ()
    left: int | None = None
    """Bytes that are not promised; 0 for an object that is kept back as a whole (mode Object). Absent when the object
    has no sum. A large claim may still not fit: it needs one pool."""


class VolumeRow(Row):
    """A claim with its volume, or a volume without a claim."""

    claim: str = ""
    volume: str = ""
    storage_class: str = ""
    driver: str = ""
    bytes: int = 0
    state: str = "waiting"
    """waiting, making (a node is chosen, or its class does not wait for one), bound, moving (being rebuilt on
    `target`), lost (it was bound, and its volume is gone); without a claim: released, or available to any claim."""
    node: str = ""
    """The node where the volume is or is being made; empty if several nodes reach it, or before a node is chosen. For a
    moving volume: the node it comes from, if known; its `target` once the driver has it there and only the node
    affinity remains to be set."""
    nodes: tuple[str, ...] = ()
    """The nodes that reach it, if its affinity names several; at most 16."""
    zones: tuple[str, ...] = ()
    """The zones that reach it, if its affinity names zones instead of nodes."""
    target: str = ""
    """The node that the volume moves to."""
    pool: int = -1
    """Number of its pool on `node`, if visible."""
    shared: bool = False
    """Several nodes may use it at once (ReadWriteMany, ReadOnlyMany)."""
    attached: tuple[str, ...] = ()
    attaching: tuple[str, ...] = ()
    """Nodes to which it is being attached, or whose attachment fails."""
    attach_error: str = ""
    error: str = ""
    """Why it cannot be made, in the provisioner's words."""
    why: str = ""
    """What is unusual, in words: its node is gone, its volume was deleted, …"""
    terminating: bool = False
    """Its claim is being deleted, or the volume if there is no claim."""
    pods: tuple[str, ...] = ()
    """Pods that use it and have not ended."""
    since: datetime | None = None
    """Since when it is in its state, as far as objects say."""


class PodRow(Row):
    """A pod that waits or has claims."""

    uid: str
    phase: str = "Pending"
    state: str = "waiting"
    """gated, waiting, decided (the scheduler chose `node`, the API does not show it yet), bound (volumes and containers
    are being prepared), running, succeeded, failed, terminating."""
    node: str = ""
    nominated: str = ""
    claims: tuple[str, ...] = ()
    workload: str = ""
    """KIND/NAMESPACE/NAME of its controller; for a pod of a ReplicaSet or Job, of their controller if they have one."""
    scheduler: str = ""
    created: datetime | None = None
    message: str = ""
    """Why it waits, in the scheduler's words (PodScheduled), or why it failed."""
    terminating: bool = False


class ClassRow(Row):
    driver: str
    mode: str = ""
    group: str = ""
    """tonnage.dev/capacity-group: classes of one group share their pools."""
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
    """The claim of the step; empty for what happened to the pod itself."""
    source: str = ""
    """Who reports it: api, scheduler, or the component of an Event."""


class LaneRow(Row):
    """What happened to a pod, in order; the newest 60 steps."""

    pod: str
    steps: tuple[PodStep, ...] = ()
    headline: int = -1
    """Number of the step that says what happened to the pod; steps after it are bookkeeping. -1: the last step."""
    done: bool = False
    """The pod runs, has ended or is gone: nothing more is under way."""


class FaultRow(Row):
    kind: str
    node: str = ""
    value: float = 0.0


class NoticeRow(Row):
    severity: str = "warning"
    """error, warning or info."""
    text: str
    hint: str = ""
    since: datetime | None = None
    """Since when what is shown is old, if it is."""


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
"""Limit of rows whose last change is remembered."""

_encoder: Final = msgspec.json.Encoder()
_NAME_OF: Final[dict[type[Row], str]] = {kind: name for name, kind in COLLECTIONS.items()}


class Collections:
    """All rows. `revision` grows with every change."""

    def __init__(self) -> None:
        self.revision = 0
        self._rows: dict[str, dict[str, Row]] = {name: {} for name in COLLECTIONS}
        self.followers: set[CollectionFollower] = set()
        self._start = secrets.token_hex(4)
        self._changed_at: dict[tuple[str, str], int] = {}  # in the order of their last change
        self._forgotten = 0  # changes up to this revision are no longer remembered

    @property
    def at(self) -> str:
        """The name of the current state; `follow_since` continues from it."""
        return f"{self._start}-{self.revision}"

    def of(self, kind: type[R]) -> Mapping[str, R]:
        """The rows of one class by key: `of(NodeRow)` is the collection nodes."""
        return cast("Mapping[str, R]", self._rows[_NAME_OF[kind]])

    def snapshot(self) -> Collections:
        """A copy of the rows, which another thread may read."""
        collections = Collections()
        collections._rows = {name: dict(rows) for name, rows in self._rows.items()}
        return collections

    def put(self, collection: str, key: str, row: Row) -> None:
        """Add or replace a row. An equal row is no change."""
        rows = self._rows[collection]
        if rows.get(key) == row:
            return
        rows[key] = row
        self._tell(collection, key)

    def remove(self, collection: str, key: str) -> None:
        if self._rows[collection].pop(key, None) is not None:
            self._tell(collection, key)

    def state(self) -> bytes:
        return _encoder.encode({"state": True, "revision": self.revision, "at": self.at, "set": self._rows, "gone": {}})

    def difference(self, revision: int) -> bytes:
        """One message: the rows that changed after `revision`, each in its latest version."""
        changed = takewhile(lambda each: each[1] > revision, reversed(self._changed_at.items()))
        present: dict[str, dict[str, Row]] = {}
        gone: dict[str, list[str]] = {}
        for name, key in sorted(place for place, _ in changed):
            row = self._rows[name].get(key)
            if row is None:
                gone.setdefault(name, []).append(key)
            else:
                present.setdefault(name, {})[key] = row
        return _encoder.encode({"revision": self.revision, "at": self.at, "set": present, "gone": gone})

    def follow(self, revision: int | None = None) -> CollectionFollower:
        """A follower that knows the state of `revision`; else its first message is the whole state. `close` ends it."""
        follower = CollectionFollower(self, revision)
        self.followers.add(follower)
        return follower

    def follow_since(self, at: str) -> CollectionFollower | None:
        """A follower that knows the state `at`; None when the changes since then are no longer remembered."""
        start, _, told = at.partition("-")
        if start != self._start or not (told.isascii() and told.isdigit() and len(told) <= 20):
            return None
        return self.follow(int(told)) if self._forgotten <= int(told) <= self.revision else None

    def _tell(self, collection: str, key: str) -> None:
        self.revision += 1
        self._changed_at.pop((collection, key), None)
        self._changed_at[collection, key] = self.revision
        if len(self._changed_at) > MOST_REMEMBERED:  # but followers still need what changed since their last message
            needed = min((each.revision for each in self.followers if each.revision is not None), default=self.revision)
            while len(self._changed_at) > MOST_REMEMBERED and next(iter(self._changed_at.values())) <= needed:
                self._forgotten = self._changed_at.pop(next(iter(self._changed_at)))
        for follower in self.followers:
            follower.is_changed.set()


class CollectionFollower:
    """Receives changes: every change, none of them twice. `revision`: the last state that it has taken."""

    def __init__(self, collections: Collections, revision: int | None) -> None:
        self._collections = collections
        self.revision = revision
        self.is_changed = asyncio.Event()
        if revision != collections.revision:
            self.is_changed.set()

    def take(self) -> bytes:
        """The changes since the last call as one message; the first time, the whole state."""
        self.is_changed.clear()
        known, self.revision = self.revision, self._collections.revision
        return self._collections.state() if known is None else self._collections.difference(known)

    def close(self) -> None:
        self._collections.followers.discard(self)
