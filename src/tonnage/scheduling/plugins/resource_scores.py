"""What NodeResourcesFit and NodeResourcesBalancedAllocation share: for each resource, room and use as columns.

A resource takes part on a node that has some of it. An extended resource that the pod does not ask for takes no part at
all, for its absence says nothing about the node; ephemeral storage always does.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from tonnage.scheduling.amounts import CPU, EPHEMERAL_STORAGE, MEMORY
from tonnage.scheduling.columns import Ints, Rows
from tonnage.scheduling.framework import Cycle

Shape = tuple[tuple[int, int], ...]
"""(utilisation in percent, score 0..100), by rising utilisation."""

NATIVE = (CPU, MEMORY, EPHEMERAL_STORAGE)


def uses(
    cycle: Cycle, resources: tuple[tuple[str, int], ...], rows: Rows, *, scored: bool
) -> Iterator[tuple[int, Ints, Ints, int]]:
    """(weight, allocatable, in use, asked for by the pod) of each resource that takes part.

    With `scored`, CPU and memory are the figures with something assumed for containers that do not say.
    """
    cluster, pod = cycle.cluster, cycle.pod
    for name, weight in resources:
        if scored and name in (CPU, MEMORY):
            which = 0 if name == CPU else 1
            in_use, asked = cluster.scored_usage[which][rows], pod.scored_requests[which]
        else:
            asked = pod.requests.get(name, 0)
            if not asked and name not in NATIVE:
                continue
            in_use = cluster.requested[cluster.resource_id(name)][rows]
        yield weight, cluster.allocatable[cluster.resource_id(name)][rows], in_use, asked


def percent(part: Ints, whole: Ints) -> Ints:
    """100 * part // whole, and 0 where there is no whole."""
    result = np.zeros_like(whole)
    np.floor_divide(100 * part, whole, out=result, where=whole > 0)
    return result


def along(shape: Shape, utilisation: Ints) -> Ints:
    """The score at each utilisation, on straight lines between the shape's points; division truncates, as Go's does."""
    score = np.full_like(utilisation, shape[-1][1])
    for (left, low), (right, high) in reversed(list(pairwise(shape))):
        rise = (high - low) * (utilisation - left)
        step = np.sign(rise) * (np.abs(rise) // (right - left))
        score = np.where(utilisation <= right, low + step, score)
    return np.where(utilisation <= shape[0][0], shape[0][1], score)
