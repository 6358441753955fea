"""What `drain-preview` answers."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType, field

from reference.answers.disks import Disk
from reference.answers.words import Answer, Bytes, ClaimName, PodName


class MovedVolume(Answer):
    claim: ClaimName
    action: Literal["rebuild", "reattach", "stays"]
    bytes: Bytes | None


class Move(Answer):
    pod: PodName
    workload: str
    from_: str = field(name="from")
    to: str
    volumes: list[MovedVolume]
    equally_good: list[str] | UnsetType = UNSET
    during: str | UnsetType = UNSET


class Stuck(Answer):
    pod: PodName
    workload: str
    from_: str = field(name="from")
    message: str
    evicted: bool
    volumes: list[MovedVolume]
    during: str | UnsetType = UNSET
    comes_back: bool | UnsetType = UNSET


class Budget(Answer):
    name: str
    pods: list[PodName]
    why: str


class LostPod(Answer):
    pod: PodName
    from_: str = field(name="from")
    message: str


class DaemonPod(Answer):
    pod: PodName
    node: str


class LeftBehind(Answer):
    node: str
    what: str
    volume: str | None
    claim: str | None
    bytes: Bytes | None
    pods: list[PodName]


class LostData(Answer):
    pod: PodName
    volume: str
    what: str
    bytes: Bytes | None


class RebuiltBetween(Answer):
    from_: str = field(name="from")
    to: str
    bytes: Bytes
    volumes: int


class BytesRebuilt(Answer):
    total: Bytes
    moves: list[RebuiltBetween]


class OrderCost(Answer):
    stuck: int
    bytes_rebuilt: Bytes


class Order(Answer):
    best: list[str]
    stuck: int
    bytes_rebuilt: Bytes
    given: OrderCost
    tried: int
    complete: bool


class OneMoreFailure(Answer):
    node: str
    during: list[str]
    stuck: list[Stuck]


class OneMore(Answer):
    holds: bool | None
    tried: int
    not_tried: int
    complete: bool
    failures: list[OneMoreFailure]


class DrainPreview(Answer):
    """What draining would do."""

    drained: list[str]
    moves: list[Move]
    stuck: list[Stuck]
    holds: bool | None
    budgets: list[Budget]
    preempted: list[Move]
    lost: list[LostPod]
    daemons: list[DaemonPod]
    data_left_behind: list[LeftBehind]
    data_lost: list[LostData]
    bytes_rebuilt: BytesRebuilt
    waiting_before: list[PodName]
    kubectl_flags: list[str]
    one_by_one: bool
    survives_one_more: OneMore
    disks_before: list[Disk]
    disks_after: list[Disk]
    partial: bool
    order: Order | UnsetType = UNSET
