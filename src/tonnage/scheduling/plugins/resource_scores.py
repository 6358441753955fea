"""What NodeResourcesFit and NodeResourcesBalancedAllocation share: for each resource, room and use as columns.

A resource takes part on a node that has some of it. An extended resource that the pod does not ask for takes no part at
all, for its absence says nothing about the node; ephemeral storage always does.

Most questions are about the few rows that changed since the pod before, where a numpy call costs as much as a dozen
plain sums. So both have a second form for a single row, in plain integers (`uses_at`); measured for one row, Fit's
score takes 4 µs and not 13, balance 4 µs and not 19. A property test holds the two forms together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tonnage.scheduling.cluster.amounts import NATIVE
from tonnage.scheduling.cluster.columns import LARGE, MOST, Ints, Rows
from tonnage.scheduling.framework import Cycle

_CPU_AND_MEMORY = [0, 1]
"""Their places in `Cluster.scored_usage`, which has no others, and in the cluster's other tables."""


FEW_ROWS = 4
"""Up to so many rows are scored one by one."""


class Uses(NamedTuple):
    """R resources that take part, over k rows. Not to be written to: some are views of the cluster's columns."""

    numbers: list[int]
    """Their places in the cluster's tables."""
    weights: tuple[int, ...]
    has: Ints
    """R x k: allocatable."""
    in_use: Ints
    """R x k."""
    asked: Ints
    """R x 1: what the pod would add."""
    is_large: bool = False
    """Sums and products of these may be more than 64 bits hold."""

    @property
    def together(self) -> Ints:
        """R x k: what is in use with the pod, as far as 64 bits go; a new array."""
        if not self.is_large:
            return self.in_use + self.asked
        return np.minimum(self.in_use, MOST - self.asked) + self.asked

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
    used = picked(cluster.requested, numbers, rows)
    if scored and numbers == _CPU_AND_MEMORY:
        used = cluster.scored_usage[:, rows]
    elif scored:
        for place, number in enumerate(numbers):
            if number in _CPU_AND_MEMORY:
                used[place] = cluster.scored_usage[number, rows]
    return Uses(
        numbers,
        tuple(weights),
        picked(cluster.allocatable, numbers, rows),
        used,
        np.array(asked, dtype=np.int64).reshape(len(numbers), 1),
        cluster.counts_large or any(amount >= LARGE for (amount,) in asked),
    )


def picked(table: Ints, numbers: list[int], rows: Rows) -> Ints:
    """R x k: some of the resources in one of the cluster's tables; of CPU and memory it may be a view."""
    if numbers == _CPU_AND_MEMORY:  # what nearly every profile looks at: no need to gather them
        return table[:2, rows]
    return table[numbers][:, rows]


UseAt = tuple[int, int, int, int]
"""One resource that takes part, on one row that has some of it: weight, has, in use, asked."""


def uses_at(cycle: Cycle, resources: tuple[tuple[str, int], ...], row: int, *, scored: bool) -> list[UseAt]:
    """The same as `uses`, of one row."""
    cluster = cycle.cluster
    amounts = cycle.pod.scored_amounts if scored else cycle.pod.requests
    found = []
    for name, weight in resources:
        amount = amounts.get(name, 0)
        number = cluster.resources.find(name)
        if number is not None and (amount or name in NATIVE) and (has := cluster.allocatable.item(number, row)):
            used = cluster.scored_usage if scored and number in _CPU_AND_MEMORY else cluster.requested
            found.append((weight, has, used.item(number, row), amount))
    return found


def percent(part: Ints, whole: Ints, *, is_large: bool = False) -> Ints:
    """100 * part // whole, and 0 where there is no whole. Written over `part`."""
    if is_large:
        exact = part.astype(object) * 100 // np.where(whole == 0, 1, whole).astype(object)
        return np.where(whole == 0, 0, exact).astype(np.int64)
    part *= 100
    with np.errstate(divide="ignore"):
        part //= whole  # numpy's answer to an integer divided by 0 is 0
    return part
