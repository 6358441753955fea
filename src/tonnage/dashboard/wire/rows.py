"""The rows of the dashboard's JSON, version v1, as page, terminal and scripts read them (docs/reference/dashboard.md).

A row stands in a collection under its key. Fields that have their default are left out on the wire. Sizes are bytes,
instants are RFC 3339. Names and messages come from the cluster as they are: whoever shows them makes them harmless.

    nodes         by name            also nodes that are gone and that volumes still name
    capacities    by namespace/name  CSIStorageCapacity objects with what is kept back of them
    volumes       by claim's key, or by the volume's name where no claim has it
    pods          by key             those that wait, and those with claims
    classes       by name            StorageClasses
    lanes         by pod's uid       what happened to a pod, step by step (the flow)
    faults        by kind@node       what is made to go wrong on an embedded cluster
    notices       by topic           what a person should know: kinds that cannot be read, a server that is away
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

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
