"""What `explain` and `replay` answer."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from reference.answers.words import Answer, ClaimName, Instant, PodName, Quantity


class Held(Answer):
    """A pod that is expected on the node."""

    pod: PodName
    since: Annotated[str, Meta(description="RFC 3339; empty when nobody knows")]
    by: Annotated[str, Meta(description="who wrote status.nominatedNodeName")]


class NodeAnswer(Answer):
    """One node, best first."""

    name: str
    feasible: bool
    rejected_by: Annotated[str, Meta(description="the plugin that refused it; empty for none")]
    reasons: list[str]
    unresolvable: Annotated[bool, Meta(description="evicting pods would not help")]
    scores: Annotated[dict[str, int], Meta(description="by plugin, weighted")]
    total: int
    passed_over: Annotated[str, Meta(description="why others are preferred for a while")] | UnsetType = UNSET
    held_by: list[Held] | UnsetType = UNSET
    nearest_miss: Annotated[str, Meta(description="how near a refused node came")] | UnsetType = UNSET


class Takes(Answer):
    pool: Annotated[int, Meta(description="its number in pools, from 0")]


class Step(Answer):
    claim: str | None
    size: Quantity
    pool: Quantity | None


class ReservedBy(Answer):
    pod: str
    since: Instant


class Promised(Answer):
    claim: str
    pod: str | None
    size: Quantity
    since: Instant


class Attach(Answer):
    driver: str
    used: int
    limit: int | None


class ClaimAnswer(Answer):
    """Where the bytes of one claim come from on one node, or why they do not."""

    claim: ClaimName
    kind: Literal["bound", "static", "dynamic", "rebuild"]
    pools: Annotated[list[Quantity], Meta(description="what the capacity object says is free, largest first")]
    volume: str | UnsetType = UNSET
    capacity: Annotated[str | None, Meta(description="the capacity object, namespace/name")] | UnsetType = UNSET
    capacity_group: str | UnsetType = UNSET
    size: Quantity | UnsetType = UNSET
    maximum_volume_size: Quantity | UnsetType = UNSET
    free_volumes: Annotated[int, Meta(description="volumes that can still be made, if limited")] | UnsetType = UNSET
    takes: Takes | UnsetType = UNSET
    grade: Literal["guaranteed", "ordered", "possible", "none"] | UnsetType = UNSET
    pool_policy: str | UnsetType = UNSET
    bad_sequence: list[Step] | UnsetType = UNSET
    reserved_by: ReservedBy | UnsetType = UNSET
    promised: list[Promised] | UnsetType = UNSET
    attach: Attach | UnsetType = UNSET
    miss: str | UnsetType = UNSET


class Preemption(Answer):
    node: str
    victims: Annotated[list[PodName], Meta(description="the most important first")]
    budget_violations: int


class Cause(Answer):
    kind: Literal[
        "storage", "reserved", "capacity", "volumes", "slots", "resources", "taints", "cordoned", "gates", "scheduler",
        "selector", "places", "nobody", "reasons", "fits", "assumed", "terminating",
    ]  # fmt: skip
    about: str
    where: str
    message: str


class WouldHelp(Answer):
    change: str
    pods: Annotated[int, Meta(description="how many it lets in")]


class Explanation(Answer):
    """The answer for one pod."""

    pod: PodName
    schedulable: bool
    node: str | None
    message: Annotated[str, Meta(description="kube-scheduler's sentence; for a pod that is not decided on, what it is")]
    nodes: list[NodeAnswer]
    volumes: Annotated[dict[str, list[ClaimAnswer]], Meta(description="by node")]
    held_back: Annotated[str, Meta(description="why it is not tried at all")] | UnsetType = UNSET
    preemption: Preemption | UnsetType = UNSET
    state: Literal["new", "pending", "bound", "assumed", "terminating"] | UnsetType = UNSET
    workload: Annotated[str | None, Meta(description="Kind/namespace/name")] | UnsetType = UNSET
    cause: Cause | UnsetType = UNSET
    would_help: list[WouldHelp] | UnsetType = UNSET
