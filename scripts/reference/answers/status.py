"""What `status` and `version` answer."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from reference.answers.words import Answer, Bytes, Quantity


class Program(Answer):
    name: str
    pid: int | None
    state: str
    url: str | None


class NodeState(Answer):
    name: str
    ready: bool
    unschedulable: bool
    pods: int


class PoolState(Answer):
    node: Annotated[str | None, Meta(description="null for an object that reaches several")]
    storage_class: str
    capacity: Quantity | None
    pools: list[Quantity]
    object: str


class Fault(Answer):
    kind: str
    node: Annotated[str, Meta(description="empty: every node")]
    value: float


class UnknownContents(Answer):
    node: str
    pool: int
    path: str
    bytes: Bytes


class Status(Answer):
    """A running `tonnage up`."""

    data_dir: str
    pid: int
    kubeconfig: str
    programs: list[Program]
    nodes: Annotated[list[NodeState] | None, Meta(description="null while the API server is away")]
    pools: Annotated[list[PoolState] | None, Meta(description="null while the API server is away")]
    faults: list[Fault]
    unknown_contents: list[UnknownContents] | None
    storage: Annotated[list[str], Meta(description="what the API server says is wrong with its store")]
    dashboard: Annotated[str | None, Meta(description="its address, with its token; null without --dashboard")]


class ClassRoom(Answer):
    free: Bytes
    total: Bytes
    largest: Annotated[int, Meta(description="bytes of the largest volume that one free pool can hold")]
    percent_full: int
    nearly_full: Annotated[bool, Meta(description="as the alert TonnageClassNearlyFull has it")]


class Overview(Answer):
    nodes_ready: int
    nodes_not_ready: int
    nodes_cordoned: Annotated[int, Meta(description="ready nodes among them")]
    pending: Annotated[int, Meta(description="pods that wait for a node")]
    gated: Annotated[int, Meta(description="pods that the scheduler does not try yet: they have scheduling gates")]
    on_their_way: Annotated[int, Meta(description="volumes that are being made, or rebuilt on another node")]
    classes: Annotated[dict[str, ClassRoom], Meta(description="by StorageClass, those with the most bytes first")]


class Trouble(Answer):
    severity: Annotated[str, Meta(description="error, warning or info")]
    kind: Annotated[str, Meta(description="one word, to be relied on")]
    object: str
    headline: str
    meaning: str
    command: Annotated[str, Meta(description="the next command; it looks, and changes nothing")]
    since: str
    older: Annotated[bool, Meta(description="it may have begun earlier: nothing tells when")]
    count: Annotated[int, Meta(description="how many objects it is about")]
    more: Annotated[int, Meta(description="how many of its kind are left out after it")]


class Troubles(Answer):
    """What is wrong with a cluster now."""

    server: str
    at: str
    started_at: Annotated[str, Meta(description="when looking began")]
    fine_since: Annotated[str | None, Meta(description="since when nothing is wrong; null while something is")]
    overview: Overview
    troubles: Annotated[list[Trouble], Meta(description="worst first")]
    unseen: Annotated[list[str], Meta(description="what may not be read")]


class Version(Answer):
    """What runs."""

    tonnage: str
    kubernetes: Annotated[str, Meta(description="the release whose behaviour is followed")]
    python: str
