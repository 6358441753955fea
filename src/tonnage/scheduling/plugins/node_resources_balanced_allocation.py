"""NodeResourcesBalancedAllocation: prefer the node whose resources the pod makes more evenly used.

    evenness(f) = int((1 - std(f)) * 100),  f = use / allocatable of each resource, at most 1
    score       = 50 + trunc((50 + evenness with the pod - evenness without it) / 2)

With two resources std is |f1 - f2| / 2. A pod that asks for none of the resources has no say.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tonnage.scheduling.columns import Ints, Rows
from tonnage.scheduling.framework import MAX_SCORE, SKIP, Cycle, PreScorePlugin, ScorePlugin, Status
from tonnage.scheduling.plugins.node_resources_fit import DEFAULT_RESOURCES
from tonnage.scheduling.plugins.resource_scores import uses

Fractions = npt.NDArray[np.float64]


class NodeResourcesBalancedAllocation(PreScorePlugin, ScorePlugin):
    name = "NodeResourcesBalancedAllocation"
    row_local = True

    def __init__(self, resources: tuple[tuple[str, int], ...] = DEFAULT_RESOURCES) -> None:
        self._resources = resources

    def pre_score(self, cycle: Cycle) -> Status | None:
        asks = any(cycle.pod.requests.get(name, 0) for name, _ in self._resources)
        return None if asks else SKIP

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        _, has, in_use, asked = found = uses(cycle, self._resources, rows, scored=False)
        use = np.empty((2, *has.shape), dtype=np.int64)  # without the pod, and with it
        use[0] = in_use
        np.add(in_use, asked, out=use[1])
        if len(has) == 2 and found.is_everywhere:  # what nearly every profile asks of nearly every cluster
            fractions = use / has
            np.minimum(fractions, 1.0, out=fractions)
            std = np.abs(fractions[:, 0] - fractions[:, 1]) / 2
        else:
            std = _deviation(use, has)
        before, after = ((1 - std) * MAX_SCORE).astype(np.int64)
        # Fractions of 0 to 1 deviate by 0.5 at most, so that this is never negative and rounding down is truncating.
        gain: Ints = (MAX_SCORE // 2 + after - before) // 2
        return np.add(gain, MAX_SCORE // 2)


def _deviation(use: Ints, has: Ints) -> Fractions:
    """2 x k: the standard deviation over the resources a row has; of two it is half their distance, of fewer 0.

    Sums run in the order of the resources, as Go's do: the last bit decides about a whole point.
    """
    fractions = np.zeros(use.shape)
    np.divide(use, has, out=fractions, where=has > 0)
    np.minimum(fractions, 1.0, out=fractions)
    total, squares, distance = np.zeros((3, 2, has.shape[1]))
    counts = np.zeros(has.shape[1], dtype=np.int64)
    for place in range(len(has)):
        fraction = fractions[:, place]
        distance += np.where(counts == 0, fraction, -fraction)  # only looked at where there are two
        total += fraction
        counts += has[place] > 0
    some = np.maximum(counts, 1)
    mean = total / some
    for place in range(len(has)):
        apart = fractions[:, place] - mean
        squares += np.where(has[place] > 0, apart * apart, 0.0)
    several: Fractions = np.sqrt(squares / some)
    return np.where(counts == 2, np.abs(distance / 2), np.where(counts > 2, several, 0.0))
