"""What plugins answer: about a pod as a whole, about rows, about events; and how scores are normalised."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tonnage.scheduling.cluster.columns import Ints, Mask
from tonnage.scheduling.events import ClusterEvent, HintFn

if TYPE_CHECKING:
    from tonnage.scheduling.cluster.pod_info import PodInfo

MAX_SCORE = 100


Bits = npt.NDArray[np.int64]


EventHint = tuple[ClusterEvent, HintFn | None]
"""A mask of events and a closer look at those it covers; without one, each of them is worth a try."""


class Code(Enum):
    """What a plugin says about a pod as a whole."""

    SUCCESS = "success"
    UNSCHEDULABLE = "unschedulable: preemption may help"
    UNRESOLVABLE = "unschedulable and unresolvable: it may not"
    WAIT = "wait: a Permit plugin holds the pod"
    SKIP = "skip: nothing to do for this pod, do not ask again in this cycle"
    PENDING = "pending: somebody else has to act first"
    ERROR = "error: something broke"


@dataclass(frozen=True, slots=True)
class Status:
    """A plugin's word on a pod, with countable reasons in upstream's wording."""

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def is_success(self) -> bool:
        return self.code in (Code.SUCCESS, Code.SKIP)

    @property
    def is_rejection(self) -> bool:
        return self.code in (Code.UNSCHEDULABLE, Code.UNRESOLVABLE, Code.PENDING)

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)


SUCCESS = Status()


SKIP = Status(Code.SKIP)


def unschedulable(*reasons: str) -> Status:
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    return Status(Code.UNRESOLVABLE, reasons)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A filter's answer over the rows it was asked about.

    Bit i of `bits[k]` is set when `reasons[i]` holds against row k; 0 lets the row pass. reason_bits.py says how many
    there may be. `unresolvable` says for which of the refused rows preemption cannot help: all, none, or as a mask.
    """

    bits: Bits
    reasons: tuple[str, ...]
    unresolvable: bool | Mask = True


def refuse(refused: Mask, reason: str, *, unresolvable: bool) -> Judgement:
    """The commonest answer: one reason, and the rows it holds against."""
    return Judgement(refused.astype(np.int64), (reason,), unresolvable)


@dataclass(frozen=True, slots=True)
class Narrowing:
    """A PreFilter plugin may leave only some nodes in the race; the others are refused in its name."""

    rows: frozenset[int]


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """SUCCESS when room can be made on `nominated_node`; else a status that says why that would not help.

    Nothing is done yet: whoever runs the plugin deletes the `victims`, the most important first in the list.
    """

    status: Status
    nominated_node: str = ""
    victims: tuple[PodInfo, ...] = ()
    budget_violations: int = 0
    """How many of the victims go against a PodDisruptionBudget."""
    withdraws_nomination: bool = False
    """All nodes were looked at in vain: where nominations are cleared at all, this pod's is. (Upstream: a result
    without a node, as against no result.)"""


def scaled_to_max(scores: Ints, *, reverse: bool = False) -> Ints:
    """0..100 in proportion to the largest, integer division; reversed, the smallest gets 100.

    Mirrors helper.DefaultNormalizeScore: with a largest of 0, all are 0, or 100 when reversed.
    """
    largest = int(scores.max(initial=0))
    if largest == 0:
        return np.full_like(scores, MAX_SCORE if reverse else 0)
    part: Ints = MAX_SCORE * scores // largest
    return MAX_SCORE - part if reverse else part
