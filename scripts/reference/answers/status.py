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


class Version(Answer):
    """What runs."""

    tonnage: str
    kubernetes: Annotated[str, Meta(description="the release whose behaviour is followed")]
    python: str
