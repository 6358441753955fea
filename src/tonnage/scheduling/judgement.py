"""A filter's answer: by row, which of its reasons apply.

The bits of an integer say which reasons apply to a node. There are 63; further reasons share one name, so that a node
is never admitted because its reason had no bit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tonnage.scheduling.cluster.columns import Mask

Bits = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Judgement:
    """A filter's answer for the rows it was asked about. Bit i of `bits[k]` is set if `reasons[i]` applies to row k; 0
    lets the row pass. `unresolvable`: the refused rows for which preemption cannot help: all, none, or a mask."""

    bits: Bits
    reasons: tuple[str, ...]
    unresolvable: bool | Mask = True


def refuse(refused: Mask, reason: str, *, unresolvable: bool) -> Judgement:
    """The most common answer: one reason, and the rows it applies to."""
    return Judgement(refused.astype(np.int64), (reason,), unresolvable)


MAX_REASONS = 63
"""The most reasons of a judgement: they are the bits of an integer."""
SEARCH_ENDED = "node(s) may have enough free storage, but the search for it ended at its limit of steps"
"""Not a final refusal: the pod is tried again, and the search continues."""

OTHER_REASONS = "node(s) were refused for other reasons"
"""Stands for all reasons without a bit."""


def with_reasons(known: tuple[str, ...], more: Iterable[str]) -> tuple[str, ...]:
    """Reasons with more appended, without duplicates. `OTHER_REASONS` stands for those that do not fit."""
    found = dict.fromkeys(known)
    for reason in more:
        if reason not in found:
            found[reason if len(found) < MAX_REASONS - 1 else OTHER_REASONS] = None
    return tuple(found)


def reason_place(reasons: tuple[str, ...], reason: str) -> int:
    """The bit of a reason."""
    return reasons.index(reason if reason in reasons else OTHER_REASONS)
