"""What NodeResourcesFit and NodeResourcesBalancedAllocation share: for each resource, room and use as columns.

A resource takes part on a node that has some of it. An extended resource that the pod does not ask for takes no part at
all, for its absence says nothing about the node; ephemeral storage always does.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tonnage.scheduling.amounts import CPU, MEMORY, NATIVE
from tonnage.scheduling.columns import Ints, Rows
from tonnage.scheduling.framework import Cycle

Shape = tuple[tuple[int, int], ...]
"""(utilisation in percent, score 0..100), by rising utilisation."""

_ASSUMED = (CPU, MEMORY)  # the rows of Cluster.scored_usage, and the first two of the others


class Uses(NamedTuple):
    """R resources that take part, over k rows. Not to be written to: some are views of the cluster's columns."""

    weights: tuple[int, ...]
    has: Ints
    """R x k: allocatable."""
    in_use: Ints
    """R x k."""
    asked: Ints
    """R x 1: what the pod would add."""

    @property
    def is_everywhere(self) -> bool:
        """Every row has some of every resource."""
        return bool(np.minimum.reduce(self.has, axis=None, initial=1) > 0)


def uses(cycle: Cycle, resources: tuple[tuple[str, int], ...], rows: Rows, *, scored: bool) -> Uses:
    """Room, use and demand of each resource that takes part, in their order.

    With `scored`, CPU and memory are the figures with something assumed for containers that do not say.
    """
    cluster = cycle.cluster
    amounts = cycle.pod.scored_amounts if scored else cycle.pod.requests
    numbers, weights, asked = [], [], []
    for name, weight in resources:
        amount = amounts.get(name, 0)
        number = cluster.resources.find(name)
        if number is not None and (amount or name in NATIVE):  # else no node has ever had any of it
            numbers.append(number)
            weights.append(weight)
            asked.append([amount])
    if numbers == [0, 1]:  # CPU and memory, what nearly every profile looks at: no need to gather them
        used = cluster.scored_usage if scored else cluster.requested[:2]
        return Uses(tuple(weights), cluster.allocatable[:2, rows], used[:, rows], np.array(asked))
    used = cluster.requested[numbers][:, rows]
    if scored:
        for place, number in enumerate(numbers):
            if number < len(_ASSUMED):
                used[place] = cluster.scored_usage[number, rows]
    return Uses(
        tuple(weights),
        cluster.allocatable[numbers][:, rows],
        used,
        np.array(asked, dtype=np.int64).reshape(len(numbers), 1),
    )


def percent(part: Ints, whole: Ints) -> Ints:
    """100 * part // whole, and 0 where there is no whole."""
    with np.errstate(divide="ignore"):
        found: Ints = 100 * part // whole  # numpy's answer to an integer divided by 0 is 0
    return found


def along(shape: Shape, utilisation: Ints) -> Ints:
    """The score at each utilisation, on straight lines between the shape's points; division truncates, as Go's does."""
    score = np.full_like(utilisation, shape[-1][1])
    for (left, low), (right, high) in reversed(list(pairwise(shape))):
        rise = (high - low) * (utilisation - left)
        step = np.sign(rise) * (np.abs(rise) // (right - left))
        score = np.where(utilisation <= right, low + step, score)
    return np.where(utilisation <= shape[0][0], shape[0][1], score)
