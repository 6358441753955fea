"""Utilisation shapes: a score as a line over utilisation, as `shape` in plugin arguments draws it.

NodeResourcesFit (RequestedToCapacityRatio) and VolumeBinding (KEP-4049) score by them.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from tonnage.scheduling.cluster.columns import Ints
from tonnage.scheduling.configuration.plugin_args_rules import UtilizationShapePoint

Shape = tuple[tuple[int, int], ...]
"""(utilisation in percent, score 0..100), by rising utilisation."""

_TO_PERCENT = 10
"""Files have scores of 0 to 10; nodes are scored 0 to 100."""


def shape_of(points: Iterable[UtilizationShapePoint]) -> Shape:
    """A shape as a configuration file has it."""
    return tuple((point.utilization, point.score * _TO_PERCENT) for point in points)


def along(shape: Shape, utilisation: Ints) -> Ints:
    """The score at each utilisation, on straight lines between the shape's points; division truncates, as Go's does."""
    score = np.full_like(utilisation, shape[-1][1])
    for (left, low), (right, high) in reversed(list(pairwise(shape))):
        rise = (high - low) * (utilisation - left)
        step = np.sign(rise) * (np.abs(rise) // (right - left))
        score = np.where(utilisation <= right, low + step, score)
    return np.where(utilisation <= shape[0][0], shape[0][1], score)
