"""How surely a pod's volumes fit each node: the grade of a node is the worst of its groups (docs/decisions/004).

A group is the claims of one class, or of classes that share their pools. Which claims are left to be made on a row, and
which free volumes are taken there, is `volume_fit.py`'s; how sure each group's fit is, `packing/pool_grades.py`'s.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tonnage.scheduling.cluster.columns import Ints
from tonnage.scheduling.volumes.demand import ClaimGroup, Demand
from tonnage.scheduling.volumes.packing import Grade
from tonnage.scheduling.volumes.volume_fit import ProvisioningDemand, VolumeFit


def may_differ(fit: VolumeFit, provisioning: ProvisioningDemand) -> bool:
    """Whether these volumes may fit one node more surely than another."""
    return any(has_grades(fit, unit) for unit in provisioning.units)


def has_grades(fit: VolumeFit, unit: ClaimGroup) -> bool:
    """Not a claim alone, which goes wherever it fits, nor what is made of single pools: they fit, or they do not."""
    objects = fit.index.of(unit.class_name)
    return objects.leaves_choices(fit.policy) and (len(unit.sizes) > 1 or objects.has_promises(fit.policy))


def grades_at(
    fit: VolumeFit, demand: Demand | None, provisioning: ProvisioningDemand, rows: npt.NDArray[np.intp]
) -> Ints:
    """The grade of each of these rows, all of which hold the volumes. `demand` where rows differ in what is made there;
    None where it is `provisioning` on every row.

    Orders are looked for only if no row is guaranteed: else ORDERED is told as POSSIBLE.
    """
    found = _grades(fit, demand, provisioning, rows, with_order=False)
    return found if found.max() >= Grade.GUARANTEED else _grades(fit, demand, provisioning, rows, with_order=True)


def _grades(
    fit: VolumeFit,
    demand: Demand | None,
    provisioning: ProvisioningDemand,
    rows: npt.NDArray[np.intp],
    *,
    with_order: bool,
) -> Ints:
    if demand is None:
        return _of_groups(fit, provisioning, rows, with_order=with_order)
    found: Ints = np.full(len(rows), Grade.GUARANTEED, dtype=np.int64)
    for left, places, _ in fit.provisioning_demands(demand, demand.rebuilds, rows):
        found[places] = _of_groups(fit, left, rows[places], with_order=with_order)
    for place, row, rebuilds in fit.own_rows(demand, rows):
        left, _, _ = next(fit.provisioning_demands(demand, rebuilds, slice(row, row + 1)))
        found[place] = _of_groups(fit, left, rows[place : place + 1], with_order=with_order)[0]
    return found


def _of_groups(
    fit: VolumeFit, provisioning: ProvisioningDemand, rows: npt.NDArray[np.intp], *, with_order: bool
) -> Ints:
    lowest: Ints = np.full(len(rows), Grade.GUARANTEED, dtype=np.int64)
    for unit in provisioning.units:
        if has_grades(fit, unit):
            of_unit = fit.index.of(unit.class_name).grades(fit.policy, unit.sizes, rows, with_order=with_order)
            np.minimum(lowest, of_unit, out=lowest)
    return lowest
