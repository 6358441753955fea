"""The score of VolumeBinding: how full a node's storage would be with the pod's volumes (KEP-4049).

For each class, utilisation = 100 * requested // capacity, or 100 if the request exceeds the capacity; the shape maps it
to a score. A node's score is the mean over classes, halves rounded away from zero (buildScorerFunction). A node where
the pod takes existing volumes is scored by these, otherwise by the capacity objects for its new volumes, less promises.
A usable node that has all volumes of a pod, which other nodes would rebuild, gets the highest score.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from tonnage.objects.core_v1 import is_out_of_use
from tonnage.scheduling.cluster.columns import Ints, Rows, only_row, row_count, row_numbers
from tonnage.scheduling.configuration.plugin_args_rules import Shape, along
from tonnage.scheduling.framework import MAX_SCORE
from tonnage.scheduling.volumes.capacity.class_capacity import NOTHING
from tonnage.scheduling.volumes.demand import Demand
from tonnage.scheduling.volumes.packing.pool_fits import MOST_BYTES
from tonnage.scheduling.volumes.static_volumes import Match
from tonnage.scheduling.volumes.volume_fit import ProvisioningDemand, VolumeFit

_FULL = 100
_MOST_TIMES_FULL = MOST_BYTES // _FULL


def class_scores(shape: Shape, requested: Ints | int, capacity: Ints) -> Ints:
    """The score of one class by row; `requested` and `capacity` in bytes may be plain integers of any size."""
    is_over = (capacity == 0) | (requested > capacity)
    # Go's division truncates toward zero; a negative capacity is always over, so only positive ones are divided.
    part, whole = np.where(is_over, 1, requested), np.where(is_over, 1, capacity)
    if part.max(initial=0) > _MOST_TIMES_FULL:  # beyond 80 PiB the product needs more than 64 bits
        part = part.astype(object)
    return _table(shape)[(part * _FULL // whole).astype(np.int64, copy=False)]


def added(first: Ints, second: Ints | int) -> Ints:
    """The sum of bytes by row, exact: plain integers where 64 bits may not be enough."""
    largest = int(np.abs(first).max(initial=0)) + int(np.abs(second).max(initial=0))
    wide: Any = first if largest <= MOST_BYTES else first.astype(object)
    total: Ints = wide + second
    return total


@cache
def _table(shape: Shape) -> Ints:
    """The score at each whole percent."""
    return along(shape, np.arange(_FULL + 1))


def mean(scores: Sequence[Ints], counted: Sequence[Ints]) -> Ints:
    """The mean over the classes that count on a row (1, or 0 where a class is left out); 0 where none does."""
    if len(scores) == 1:
        return scores[0] * counted[0]
    total = np.sum([score * count for score, count in zip(scores, counted, strict=True)], axis=0)
    classes = np.sum(counted, axis=0)
    safe = np.maximum(classes, 1)
    return np.where(classes > 0, (2 * total + safe) // (2 * safe), 0)  # scores are not negative


class VolumeScores:
    """Scores by one shape: points of (utilisation in percent, score 0..100)."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape

    def of_provisioning(self, fit: VolumeFit, provisioning: ProvisioningDemand, rows: Rows) -> Ints:
        """By row, the score by the objects that these volumes would be created from."""
        if (row := only_row(rows)) >= 0:
            return np.array([self._at(fit, provisioning, row)], dtype=np.int64)
        requested: dict[str, Ints] = {}
        capacity: dict[str, Ints] = {}
        for place, unit in enumerate(provisioning.units):
            index, own = fit.index.of(unit.class_name), fit.own_claims(provisioning, place)
            numbers = index.choices(fit.policy, unit.sizes, rows, own, is_scored=True)
            is_known = numbers != NOTHING
            asked = np.where(is_known, min(sum(unit.sizes), MOST_BYTES), 0)
            # Several units of a class (each claim alone): requests add up, the capacity counts once.
            before = capacity.get(unit.class_name)
            requested[unit.class_name] = asked if before is None else added(asked, requested[unit.class_name])
            found = np.where(is_known, index.reading(fit.policy).scored_by_object(own)[numbers], _UNKNOWN)
            capacity[unit.class_name] = found if before is None else np.where(is_known, found, before)
        if not requested:
            return np.zeros(row_count(rows), dtype=np.int64)
        scores = [class_scores(self._shape, requested[name], capacity[name]) for name in requested]
        return mean(scores, [(capacity[name] != _UNKNOWN).astype(np.int64) for name in requested])

    def _at(self, fit: VolumeFit, provisioning: ProvisioningDemand, row: int) -> int:
        """`of_provisioning` for one row, without arrays."""
        requested: dict[str, int] = {}
        capacity: dict[str, int] = {}
        for place, unit in enumerate(provisioning.units):
            number, name = fit.number_at(provisioning, place, row, is_scored=True), unit.class_name
            if number != NOTHING:
                reading, own = fit.index.of(name).reading(fit.policy), fit.own_claims(provisioning, place)
                requested[name] = requested.get(name, 0) + min(sum(unit.sizes), MOST_BYTES)
                capacity[name] = reading.scored_by_object(own).item(number)
        total, table = 0, _table(self._shape)
        for name, asked in requested.items():
            is_over = capacity[name] == 0 or asked > capacity[name]
            total += table.item(_FULL if is_over else asked * _FULL // capacity[name])
        return (2 * total + len(requested)) // (2 * len(requested)) if requested else 0

    def of(self, fit: VolumeFit, demand: Demand, rows: Rows) -> Ints:
        """By row, the score of a pod that may take existing volumes, or whose needs differ between rows."""
        found: Ints = np.zeros(row_count(rows), dtype=np.int64)
        for provisioning, places, match in fit.provisioning_demands(demand, rows):
            if match is not None and (match.chosen[:, places] >= 0).any():
                found[places] = self._of_match(match, places)
            elif provisioning.units:
                found[places] = self.of_provisioning(fit, provisioning, row_numbers(rows)[places])
        homes = {rebuild.row for rebuild in demand.rebuilds}
        if len(homes) == 1 and not demand.loose and not demand.pinned:
            (home,) = homes
            if home >= 0 and not is_out_of_use(fit.cluster.nodes[home]):
                found[row_numbers(rows) == home] = MAX_SCORE
        return found

    def _of_match(self, match: Match, places: Ints) -> Ints:
        """Rows where the same claims take existing volumes: requested bytes against the volumes' sizes, by class."""
        requested: dict[str, Ints] = {}
        capacity: dict[str, Ints] = {}
        for claim, chosen in zip(match.claims, match.chosen, strict=True):
            numbers = chosen[places]
            if (numbers < 0).any():
                continue  # the claim takes no volume on these rows
            name = claim.class_name
            asked = claim.requested.value() if claim.requested is not None else 0
            distinct, place = np.unique(numbers, return_inverse=True)
            sizes = [match.volumes[number].size.value() for number in distinct.tolist()]
            nothing: Ints = np.zeros(len(places), dtype=np.int64)
            requested[name] = added(requested.get(name, nothing), asked)
            capacity[name] = added(capacity.get(name, nothing), np.array(sizes)[place])
        scores = [class_scores(self._shape, requested[name], capacity[name]) for name in requested]
        return mean(scores, [np.ones(len(places), dtype=np.int64)] * len(scores))


_UNKNOWN = -(1 << 62)
"""Stands for a capacity where no object exists."""
