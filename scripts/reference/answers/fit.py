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
    nodes: Annotated[list[str], Meta(description="any one of them does")]
    changes: list[Remedy] | UnsetType = UNSET


class NodesNeeded(Answer):
    nodes: int
    pods: int
    template: str


class Grades(Answer):
    count: str
    at_most: str


class Replicas(Answer):
    wanted: int
    present: int


class PreemptingReplica(Answer):
    pod: str
    node: str
    victims: list[str]


class Fit(Answer):
    """How many more replicas fit."""

    workload: str
    text: Annotated[str, Meta(description="how many fit, in words")]
    count: Annotated[int, Meta(description="for certain: by the driver's policy where it is known, else the worst")]
    at_most: Annotated[int, Meta(description="if the driver picks its pools well")]
    grades: Annotated[Grades, Meta(description="guaranteed, or possible")]
    replicas: Annotated[Replicas, Meta(description="how many the workload asks for and has")]
    by_node: dict[str, int]
    by_zone: dict[str, int]
    stops: Annotated[list[Stop], Meta(description="what stops the next one")]
    preempting: Annotated[list[PreemptingReplica], Meta(description="replicas that run by preempting others")]
    stuck: Annotated[list[str], Meta(description="replicas with some of their volumes and no room for the others")]
    would_help: Annotated[list[str], Meta(description="the least that would let it in, in words")]
    remedies: list[Remedy]
    notes: Annotated[list[str], Meta(description="what a person should know about the answer")]
    partial: Annotated[bool, Meta(description="--max or Ctrl-C ended it")]
    interrupted: bool
    disks: list[Disk]
    nodes_needed: NodesNeeded | UnsetType = UNSET
