"""How surely a pod's volumes fit a node, and which claims get their node one after the other (docs/decisions/004).

    guaranteed    the claims of a group are sent together
    ordered       claims are sent in a safe order, each after the volume before it was created
    possible      the least harmful claim is sent; after its volume is created and the figures show it, the rest is
                  judged again, and claims that no longer fit are not sent

A node's grade is the worst grade of its groups. Unsent claims are assumed, which keeps their room; unsent claims of
pods decided later do not block a claim that waits here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster.columns import Ints, Rows
from tonnage.scheduling.cluster.storage import Storage
from tonnage.scheduling.volumes.capacity.class_capacity import NOTHING, identity, members_of
from tonnage.scheduling.volumes.capacity.reading import Question
from tonnage.scheduling.volumes.demand import ClaimSequence, counted_bytes
from tonnage.scheduling.volumes.packing import claim_orders, pool_fits, shared_pools
from tonnage.scheduling.volumes.packing.pool_grades import Grade
from tonnage.scheduling.volumes.volume_fit import ProvisioningDemand, VolumeFit

MadeAt = tuple[ProvisioningDemand, Rows]
"""What must be created, and where: places in the rows in question."""


def grades_at(fit: VolumeFit, made: Sequence[MadeAt], rows: npt.NDArray[np.intp]) -> Ints:
    """The grade of each row; all rows hold the volumes. ORDERED is returned as POSSIBLE if any row is GUARANTEED."""
    found = _grades(fit, made, rows, with_order=False)
    return found if found.max() >= Grade.GUARANTEED else _grades(fit, made, rows, with_order=True)


def _grades(fit: VolumeFit, made: Sequence[MadeAt], rows: npt.NDArray[np.intp], *, with_order: bool) -> Ints:
    lowest: Ints = np.full(len(rows), Grade.GUARANTEED, dtype=np.int64)
    for provisioning, places in made:
        for unit in provisioning.units:
            if fit.has_grades(unit):
                objects = fit.index.of(unit.class_name)
                of_unit = objects.grades(fit.policy, unit.sizes, rows[places], with_order=with_order)
                lowest[places] = np.minimum(lowest[places], of_unit)
    return lowest


class NoLongerFits(Exception):  # an answer, not an error
    """The unsent claims of a group no longer fit; none of them was sent."""


def sequences_at(fit: VolumeFit, provisioning: ProvisioningDemand, row: int) -> Iterator[ClaimSequence]:
    """The groups whose claims must be sent one after the other on a row. Must be called before they are assumed."""
    storage, node_name = fit.cluster.storage, fit.cluster.name(row)
    for place, unit in enumerate(provisioning.units):
        if not fit.has_grades(unit):
            continue
        of_unit = [claim for claim, at in zip(provisioning.claims, provisioning.places, strict=True) if at == place]
        unsent = {
            claim.key: counted_bytes(claim, storage, is_rebuild=claim.is_bound) or 0
            for claim in of_unit
            if claim.selected_node != node_name
        }
        if not unsent:
            continue
        sequence = ClaimSequence(unit, row, unsent)
        number, grade = _graded(fit, sequence, tuple(unsent))
        if grade is Grade.ORDERED:
            sequence.order = _safe_order(fit, sequence, number, tuple(unsent))
        if grade is not Grade.GUARANTEED:
            yield sequence


def next_claims(fit: VolumeFit, sequence: ClaimSequence, is_shown: Callable[[Key], bool]) -> list[Key]:
    """The claims to send now; empty: not yet. `is_shown`: figures include a claim's volume. Raises NoLongerFits."""
    if not sequence.unsent:
        return []
    if sequence.order:
        return sequence.order[:1]
    if not all(is_shown(key) for key in sequence.under_way):
        return []
    own = (*sequence.unsent, *_unsent_by_later_pods(fit.cluster.storage, sequence.unsent))
    search = fit.index.search
    search.renew()  # outside of any decision
    number, grade = _graded(fit, sequence, own)
    # The object that holds the claims; if none does, the first object that reaches the node.
    objects, sizes = fit.index.of(sequence.unit.class_name), _sizes(fit, sequence)
    numbers = [number] if number != NOTHING else objects.numbers_at(sequence.row)
    capacity = objects.entries[numbers[0]].capacity if numbers else None
    is_crowded = capacity is not None and _are_being_made(fit, capacity, own)
    if grade is Grade.NONE:
        if search.undecided or is_crowded:
            return []  # the figures may already include what is promised to others, which would be subtracted twice
        raise NoLongerFits
    if grade is Grade.GUARANTEED:
        return list(sequence.unsent)
    if grade is Grade.ORDERED:
        sequence.order = _safe_order(fit, sequence, number, own)
        return sequence.order[:1]
    if is_crowded:
        return []  # others were decided earlier, and one of these claims might take their room
    reading = objects.reading(fit.policy)
    first: pool_fits.Sizes
    if (view := reading.view_beside(number, own)) is not None:
        first = view.next_claim(sizes, sequence.unit.class_name, search)
    else:
        first = (claim_orders.next_claim(reading.rooms[number].pools, sizes, objects.pool_policy, search),)
    return list(claims_in_order(first, sequence.unsent, classes_of(fit.cluster.storage, sequence.unsent)))


def _are_being_made(fit: VolumeFit, capacity: CSIStorageCapacity, own: Collection[Key]) -> bool:
    """True if volumes of other claims are about to be created there. Rebuilds do not count: they may take hours."""
    if fit.holds is None or fit.holds.keeps_whole_objects:
        return False
    holds = (hold for member in members_of(capacity) for hold in fit.holds.holds_on(identity(member)))
    return any(not hold.is_rebuild and not set(hold.claims) <= set(own) for hold in holds)


def _graded(fit: VolumeFit, sequence: ClaimSequence, own: tuple[Key, ...]) -> tuple[int, Grade]:
    """The number of the object that holds the unsent claims, and its grade; promises to `own` are ignored."""
    objects, sizes = fit.index.of(sequence.unit.class_name), _sizes(fit, sequence)
    number = objects.choice_at(fit.policy, sizes, sequence.row, own)
    if number == NOTHING:
        return number, Grade.NONE
    return number, objects.reading(fit.policy).says_one(Question.GRADE_WITH_ORDER, sizes, number, own)


def _safe_order(fit: VolumeFit, sequence: ClaimSequence, number: int, own: tuple[Key, ...]) -> list[Key]:
    objects = fit.index.of(sequence.unit.class_name)
    reading, sizes, search = objects.reading(fit.policy), _sizes(fit, sequence), fit.index.search
    order: pool_fits.Sizes | None
    if (view := reading.view_beside(number, own)) is not None:
        order = view.order(sizes, sequence.unit.class_name, search)
    else:
        pools, promised = reading.rooms[number].pools, reading.held_beside(number, own) or ()
        order = claim_orders.safe_order(pools, sizes, promised, search, objects.pool_policy)
    return list(claims_in_order(order or (), sequence.unsent, classes_of(fit.cluster.storage, sequence.unsent)))


def claims_in_order(order: pool_fits.Sizes, sized: Mapping[Key, int], classes: Mapping[Key, str]) -> Iterator[Key]:
    """Claims in the given order of sizes, and of classes if it tells them; claims that are alike keep their order."""
    left, owners = dict(sized), order.owners if isinstance(order, shared_pools.OwnedSizes) else [""] * len(order)
    for size, owner in zip(order, owners, strict=True):
        key = next(key for key, each in left.items() if each == size and owner in ("", classes.get(key)))
        del left[key]
        yield key


def _sizes(fit: VolumeFit, sequence: ClaimSequence) -> pool_fits.Sizes:
    classes = classes_of(fit.cluster.storage, sequence.unsent)
    return fit.sizes_of((size, classes[key]) for key, size in sequence.unsent.items())


def classes_of(storage: Storage, claims: Iterable[Key]) -> dict[Key, str]:
    """The classes of claims; empty for a claim that is gone."""
    known = {key: storage.claims.get(key) for key in claims}
    return {key: claim.class_name if claim is not None else "" for key, claim in known.items()}


def _unsent_by_later_pods(storage: Storage, mine: Collection[Key]) -> Iterator[Key]:
    """Claims that were assumed after one of `mine` and are not in the API yet."""
    is_later = False
    for claim in storage.claims.assumed():
        if claim.key in mine:
            is_later = True
        elif is_later:
            known = storage.claims.api(claim.key)
            if known is not None and known.selected_node != claim.selected_node:
                yield claim.key
