"""VolumeBinding's score: how much of the free storage a pod's volumes would use (KEP-4049).

A node where the pod takes volumes that exist is scored by how well those are filled; else by the capacity objects its
new volumes would be made of. The basis is chosen per node, as upstream does. Classes of which nobody keeps count are
left out; with none left, a node scores 0. A node in use that has all volumes of a pod, which would be rebuilt on any
other (KEP-5925), has the highest score. With KEP-5925's gate what is promised of an object is not free, and where
several objects of a class would do, the one with most free bytes counts; without it the first does, as upstream has it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tonnage.objects.core_v1 import is_out_of_use
from tonnage.scheduling.cluster.columns import Ints, Rows, row_count, row_numbers
from tonnage.scheduling.configuration.plugin_args_rules import Shape
from tonnage.scheduling.framework import MAX_SCORE
from tonnage.scheduling.volumes.capacity.class_capacity import NOTHING
from tonnage.scheduling.volumes.demand import Demand
from tonnage.scheduling.volumes.free_storage_scores import added, class_score, class_scores, mean, mean_of
from tonnage.scheduling.volumes.packing import MOST_BYTES
from tonnage.scheduling.volumes.rebuilds import Rebuild
from tonnage.scheduling.volumes.static_volumes import Match
from tonnage.scheduling.volumes.volume_fit import ProvisioningDemand, VolumeFit


class VolumeScores:
    """Scores by one shape: points of (utilisation in percent, score 0..100)."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape

    def of_provisioning(self, fit: VolumeFit, provisioning: ProvisioningDemand, rows: Rows) -> Ints:
        """Every row by the objects that these volumes would be made of there."""
        if len(provisioning.units) == 1:
            (unit,), own = provisioning.units, fit.own_claims(provisioning, 0)
            asked_bytes = min(sum(unit.sizes), MOST_BYTES)
            return fit.index.of(unit.class_name).scores(
                fit.policy, unit.sizes, rows, own, lambda scored: class_scores(self._shape, asked_bytes, scored)
            )
        requested: dict[str, Ints] = {}
        capacity: dict[str, Ints] = {}
        for place, unit in enumerate(provisioning.units):
            index, own = fit.index.of(unit.class_name), fit.own_claims(provisioning, place)
            numbers = index.scored_choices(fit.policy, unit.sizes, rows, own)
            is_known = numbers != NOTHING
            asked = np.where(is_known, min(sum(unit.sizes), MOST_BYTES), 0)
            # Several units of a class (each claim on its own): requests add up, the capacity is counted once.
            requested[unit.class_name] = added(asked, requested.get(unit.class_name, 0))
            before = capacity.get(unit.class_name)
            found = np.where(is_known, index.scored_bytes(fit.policy, numbers, own), _UNKNOWN)
            capacity[unit.class_name] = found if before is None else np.where(is_known, found, before)
        if not requested:
            return np.zeros(row_count(rows), dtype=np.int64)
        scores = [class_scores(self._shape, requested[name], capacity[name]) for name in requested]
        return mean(scores, [(capacity[name] != _UNKNOWN).astype(np.int64) for name in requested])

    def at(self, fit: VolumeFit, provisioning: ProvisioningDemand, row: int) -> int:
        """The same for one row, in plain numbers."""
        if len(provisioning.units) == 1:
            (only,) = provisioning.units
            free = fit.index.of(only.class_name).scored_at(fit.policy, only.sizes, row)
            return 0 if free is None else class_score(self._shape, sum(only.sizes), free)
        requested: dict[str, int] = {}
        capacity: dict[str, int] = {}
        for unit in provisioning.units:
            free_bytes = fit.index.of(unit.class_name).scored_at(fit.policy, unit.sizes, row)
            if free_bytes is not None:
                requested[unit.class_name] = requested.get(unit.class_name, 0) + sum(unit.sizes)
                capacity[unit.class_name] = free_bytes
        return mean_of([class_score(self._shape, requested[name], capacity[name]) for name in requested])

    def of(self, fit: VolumeFit, demand: Demand, rows: Rows) -> Ints:
        """Rows of a pod that may take volumes which exist, or whose claims are not all alike everywhere."""
        found = self._of(fit, demand, demand.rebuilds, rows)
        for place, row, left in fit.own_rows(demand, rows):
            is_all_there = not (left or demand.loose or demand.pinned or is_out_of_use(fit.cluster.nodes[row]))
            found[place] = MAX_SCORE if is_all_there else self._of(fit, demand, left, slice(row, row + 1))[0]
        return found

    def _of(self, fit: VolumeFit, demand: Demand, rebuilds: Sequence[Rebuild], rows: Rows) -> Ints:
        found: Ints = np.zeros(row_count(rows), dtype=np.int64)
        for provisioning, places, match in fit.provisioning_demands(demand, rebuilds, rows):
            if match is not None and (match.chosen[:, places] >= 0).any():
                found[places] = self._of_match(match, places)
            elif provisioning.units:
                found[places] = self.of_provisioning(fit, provisioning, row_numbers(rows)[places])
        return found

    def _of_match(self, match: Match, places: Ints) -> Ints:
        """Rows where the same claims take volumes that exist: what they ask for of what those hold, by class."""
        requested: dict[str, Ints] = {}
        capacity: dict[str, Ints] = {}
        for claim, chosen in zip(match.claims, match.chosen, strict=True):
            numbers = chosen[places]
            if (numbers < 0).any():
                continue  # this claim finds none on these rows
            name = claim.class_name
            asked = claim.requested.value() if claim.requested is not None else 0
            distinct, place = np.unique(numbers, return_inverse=True)
            sizes = [_bytes_of(match, number) for number in distinct.tolist()]
            nothing: Ints = np.zeros(len(places), dtype=np.int64)
            requested[name] = added(requested.get(name, nothing), asked)
            capacity[name] = added(capacity.get(name, nothing), np.array(sizes)[place])
        scores = [class_scores(self._shape, requested[name], capacity[name]) for name in requested]
        return mean(scores, [np.ones(len(places), dtype=np.int64)] * len(scores))


_UNKNOWN = -(1 << 62)
"""Instead of a capacity: no object is there."""


def _bytes_of(match: Match, number: int) -> int:
    size = match.volume(number).spec.capacity.get("storage")
    return size.value() if size is not None else 0
