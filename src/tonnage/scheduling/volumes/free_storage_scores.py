"""KEP-4049: a node's score by how full its storage would be with the pod's volumes in it.

For each class: utilisation = 100 * requested // capacity, 100 when more is requested than there is, or when there is
nothing; the score lies on the shape's lines at that point. A node's score is the mean over classes, halves rounded away
from zero. Mirrors buildScorerFunction, figure by figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from tonnage.scheduling.cluster.columns import Ints
from tonnage.scheduling.configuration.plugin_args_rules import Shape, along
from tonnage.scheduling.volumes.packing import MOST_BYTES

_FULL = 100
_MOST_TIMES_FULL = MOST_BYTES // _FULL


def class_scores(shape: Shape, requested: Ints | int, capacity: Ints) -> Ints:
    """The score of one class on each row: `requested` bytes of `capacity` bytes, which may be plain integers of any
    size (`added`)."""
    is_over = (capacity == 0) | (requested > capacity)
    # Go's division truncates toward zero; a negative capacity is always over, so that only positive ones are divided.
    if np.result_type(requested, capacity).kind == "i" and np.max(requested, initial=0) <= _MOST_TIMES_FULL:
        with np.errstate(divide="ignore"):
            percent = requested * _FULL // capacity
    else:  # beyond 80 PiB the product needs more than 64 bits
        whole = np.where(is_over, 1, capacity).astype(object)
        percent = np.where(is_over, 0, requested).astype(object) * _FULL // whole
    return _table(shape)[np.where(is_over, _FULL, percent).astype(np.int64, copy=False)]


def added(first: Ints, second: Ints | int) -> Ints:
    """Bytes by row, added up exactly: as plain integers where 64 bits may not hold them."""
    largest = int(np.abs(first).max(initial=0)) + int(np.abs(second).max(initial=0))
    wide: Any = first if largest <= MOST_BYTES else first.astype(object)
    total: Ints = wide + second
    return total


@cache
def _table(shape: Shape) -> Ints:
    """The score at each whole percent."""
    return along(shape, np.arange(_FULL + 1))


def class_score(shape: Shape, requested: int, capacity: int) -> int:
    """The same for one row, in plain numbers."""
    if capacity == 0 or requested > capacity:
        return _at(shape, _FULL)
    return _at(shape, requested * _FULL // capacity)


def mean(scores: Sequence[Ints], counted: Sequence[Ints]) -> Ints:
    """The mean over the classes that count on a row (1, or 0 where a class is left out); 0 where none does."""
    total = np.sum([score * count for score, count in zip(scores, counted, strict=True)], axis=0)
    classes = np.sum(counted, axis=0)
    safe = np.maximum(classes, 1)
    return np.where(classes > 0, (2 * total + safe) // (2 * safe), 0)  # scores are not negative


def mean_of(scores: Sequence[int]) -> int:
    """The same for one row."""
    return (2 * sum(scores) + len(scores)) // (2 * len(scores)) if scores else 0


@cache
def _at(shape: Shape, utilisation: int) -> int:
    """The score at one utilisation; division truncates."""
    previous: tuple[int, int] | None = None
    for point, score in shape:
        if utilisation <= point:
            if previous is None:
                return score
            left, low = previous
            rise = (score - low) * (utilisation - left)
            return low + (rise // (point - left) if rise >= 0 else -(-rise // (point - left)))
        previous = point, score
    return shape[-1][1]
