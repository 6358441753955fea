"""What `simulate --recording` and `shadow` answer: decisions beside those of somebody else."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from reference.answers.explain import Explanation
from reference.answers.words import Answer, Instant, PodName


class Difference(Answer):
    pod: PodName
    theirs: str | None
    ours: str | None
    why: str
    theirs_refused: bool
    by_storage_capacity_scoring: bool


class FirstDifference(Answer):
    what: Literal["attempt", "pop", "postFilter"]
    at: Instant
    pod: PodName
    recorded: str | None
    repeated: str | None
    explanation: Explanation | UnsetType = UNSET


class Repeated(Answer):
    decisions: int
    equal: int
    first_difference: FirstDifference | None


class RecordedRun(Answer):
    decisions: int
    agreed: int
    ties: int
    differences: list[Difference]
    differences_left_out: int


class Recording(Answer):
    """What a scheduler wrote down, decided again."""

    seed: int
    since: Instant
    until: Instant
    ending: str | None
    partial: bool
    repeated: Repeated
    runs: dict[str, RecordedRun]


class Refusal(Answer):
    pod: PodName
    node: str
    seen_by: str
    claims: Annotated[list[str], Meta(description="whose volumes were refused, as far as it is known")]
    avoided: bool
    tonnage: str
    why: str


class VolumesRefused(Answer):
    theirs: Annotated[int, Meta(description="pods that were sent where volumes were refused")]
    volumes: Annotated[int, Meta(description="volumes of these pods that were refused")]
    not_judged: Annotated[int, Meta(description="volumes refused after decisions that were not judged")]
    would_have_been_avoided: int
    refusals: list[Refusal]
    refusals_left_out: int


class Shadow(Answer):
    """Decisions of a cluster's scheduler beside ours."""

    since: Instant
    until: Instant
    decisions: int
    agreed: int
    ties: int
    differences: list[Difference]
    differences_by_storage_capacity_scoring: int
    differences_left_out: int
    volumes_refused: VolumesRefused
    unseen: int
