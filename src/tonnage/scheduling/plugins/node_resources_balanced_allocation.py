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
        found = list(uses(cycle, self._resources, rows, scored=False))
        has = [allocatable for _, allocatable, _, _ in found]
        before = _evenness([in_use for _, _, in_use, _ in found], has, cycle, rows)
        after = _evenness([in_use + asked for _, _, in_use, asked in found], has, cycle, rows)
        gain = MAX_SCORE // 2 + after - before
        half: Ints = np.sign(gain) * (np.abs(gain) // 2)
        return MAX_SCORE // 2 + half


def _evenness(used: list[Ints], has: list[Ints], cycle: Cycle, rows: Rows) -> Ints:
    """100 for a node whose resources are used alike, less the more they differ. Sums run in resource order, as Go's."""
    shape = cycle.cluster.exists[rows].shape
    fractions: list[Fractions] = []
    counts = np.zeros(shape, dtype=np.int64)
    total = np.zeros(shape, dtype=np.float64)
    for use, room in zip(used, has, strict=True):
        fraction = np.zeros(shape, dtype=np.float64)
        np.divide(use, room, out=fraction, where=room > 0)
        np.minimum(fraction, 1.0, out=fraction)
        fractions.append(fraction)
        counts += room > 0
        total += fraction
    if len(fractions) == 2:
        std = np.where(counts == 2, np.abs((fractions[0] - fractions[1]) / 2), 0.0)
    else:
        std = _std(fractions, has, counts, total)
    return ((1 - std) * MAX_SCORE).astype(np.int64)


def _std(fractions: list[Fractions], has: list[Ints], counts: Ints, total: Fractions) -> Fractions:
    """The standard deviation over the resources a node has; of two it is half their distance, of fewer 0."""
    some = np.maximum(counts, 1)
    mean = total / some
    squares = np.zeros_like(total)
    for fraction, room in zip(fractions, has, strict=True):
        squares += np.where(room > 0, (fraction - mean) * (fraction - mean), 0.0)
    pair = np.zeros_like(total)
    signs = np.ones_like(total)
    for fraction, room in zip(fractions, has, strict=True):
        pair += np.where(room > 0, signs * fraction, 0.0)
        signs = np.where(room > 0, -signs, signs)
    several: Fractions = np.sqrt(squares / some)
    return np.where(counts == 2, np.abs(pair / 2), np.where(counts > 2, several, 0.0))
