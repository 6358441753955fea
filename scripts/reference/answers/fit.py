"""What `fit` answers."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from reference.answers.disks import Disk
from reference.answers.words import Answer


class Stop(Answer):
    reason: str
    nodes: int


class Remedy(Answer):
    kind: str
    node: str | None
    amount: int
    text: str
    changes: list[Remedy] | UnsetType = UNSET


class NodesNeeded(Answer):
    nodes: int
    pods: int
    template: str


class Fit(Answer):
    """How many more replicas fit."""

    workload: str
    count: int
    by_node: dict[str, int]
    by_zone: dict[str, int]
    stops: Annotated[list[Stop], Meta(description="what stops the next one")]
    would_help: Annotated[list[str], Meta(description="the least that would let it in, in words")]
    remedies: list[Remedy]
    partial: Annotated[bool, Meta(description="--max or Ctrl-C ended it")]
    interrupted: bool
    disks: list[Disk]
    nodes_needed: NodesNeeded | UnsetType = UNSET
