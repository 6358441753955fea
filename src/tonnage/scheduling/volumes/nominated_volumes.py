"""Room for a pod's volumes beside the volumes of pods nominated for the same node (KEP-5278).

Every group of claims goes to one capacity object, and an object must hold all groups that go to it. Only claims that
share room count. A nominated pod counts if its node could hold its volumes without any holds: a pod that can never run
there blocks nobody. In mode Object, a newcomer does not get an object that a nominated pod needs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from tonnage.objects import core_v1, storage_v1
from tonnage.objects.meta import Key
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.framework import Status
from tonnage.scheduling.volumes.capacity import class_capacity, reading
from tonnage.scheduling.volumes.demand import Demand, counted_bytes, demand_of, sorted_claims
from tonnage.scheduling.volumes.volume_fit import NO_SPACE, NO_SPACE_FOUND, NO_VOLUME, VolumeFit

_MOST_TRIES: Final = 1000
"""The search looks at this many ways to assign groups to objects, then refuses the newcomer."""
_NEWCOMER: Final = 0
_Part = tuple[core_v1.PersistentVolumeClaim, ...]
"""The claims of one pod that go to one object."""


class Beside(NamedTuple):
    """How a newcomer's volumes fit a node beside those of nominated pods."""

    refusal: int = 0
    """Bits of `volume_fit.REASONS`; 0 if they fit."""
    chosen: Mapping[Key, storage_v1.CSIStorageCapacity] = {}
    """By claim of the newcomer, the object that its volume will be created from."""


def expected_demand(fit: VolumeFit, pod: PodInfo, row: int) -> Demand | None:
    """What a nominated pod needs on a row; None if it can never run there, or a claim cannot be judged."""
    claims, classes = sorted_claims(pod, fit.cluster.storage), fit.cluster.storage.classes
    if isinstance(claims, Status):
        return None
    if any(
        each.class_name and each.class_name not in classes and not each.spec.volume_name for each in claims.immediate
    ):
        return None
    demand = demand_of(fit.cluster, claims, is_joint=True)
    refusal = int(fit.refusals(demand, slice(row, row + 1))[0])
    if refusal & ~NO_SPACE_FOUND:
        return None
    if refusal:
        provisioning, _ = fit.made_at(demand, row)
        for unit in provisioning.units:
            if not fit.index.of(unit.class_name).fits(fit.unheld, unit.sizes, np.array([row]))[0]:
                return None
    return demand


def judge_beside(fit: VolumeFit, demand: Demand, expected: Sequence[Demand], row: int) -> Beside:
    """Whether a row holds a newcomer's volumes beside those of nominated pods. It holds each pod's volumes alone."""
    together, owner_of = _together(fit, demand, expected)
    provisioning, _ = fit.made_at(together, row)
    if None in provisioning.checks:  # an existing volume goes to one pod only
        return Beside(NO_VOLUME)
    chosen: dict[Key, storage_v1.CSIStorageCapacity] = {}
    for place, unit in enumerate(provisioning.units):
        parts: dict[int, _Part] = {}
        for claim, at in zip(provisioning.claims, provisioning.places, strict=True):
            if at == place:
                owner = owner_of[claim.key]
                parts[owner] = (*parts.get(owner, ()), claim)
        objects = fit.index.of(unit.class_name)
        found = _first_choice(fit, unit.class_name, parts, objects.numbers_at(row))
        if found is None:
            return Beside(NO_SPACE)
        for claim in parts.get(_NEWCOMER, ()):
            chosen[claim.key] = class_capacity.member_of(objects.entries[found].capacity, claim.class_name)
    return Beside(0, chosen)


def _together(fit: VolumeFit, demand: Demand, expected: Sequence[Demand]) -> tuple[Demand, dict[Key, int]]:
    """All claims that share the newcomer's room, and their owners. Shared claims belong to the newcomer. Claims with a
    promise in the ledger are left out: they are counted already."""
    groups, is_promised = fit.index.groups, fit.holds is not None and not fit.holds.keeps_whole_objects

    def room(claim: core_v1.PersistentVolumeClaim) -> Hashable:
        return groups.of(claim.class_name) or claim.class_name

    own = (*demand.pinned, *demand.loose, *(rebuild.claim for rebuild in demand.rebuilds))
    owner_of, wanted = dict.fromkeys((each.key for each in own), _NEWCOMER), {room(each) for each in own}
    pinned, loose, rebuilds = list(demand.pinned), list(demand.loose), list(demand.rebuilds)
    for number, theirs in enumerate(expected, start=_NEWCOMER + 1):

        def is_news(claim: core_v1.PersistentVolumeClaim, owner: int = number) -> bool:
            return room(claim) in wanted and owner_of.setdefault(claim.key, owner) == owner

        pinned += [each for each in theirs.pinned if not is_promised and is_news(each)]
        loose += [each for each in theirs.loose if is_news(each)]
        rebuilds += [rebuild for rebuild in theirs.rebuilds if is_news(rebuild.claim)]
    return demand._replace(pinned=tuple(pinned), loose=tuple(loose), rebuilds=tuple(rebuilds)), owner_of


def _first_choice(fit: VolumeFit, class_name: str, parts: Mapping[int, _Part], numbers: Sequence[int]) -> int | None:
    """The first object for the newcomer such that all other pods' claims find objects too; None if none."""
    objects = fit.index.of(class_name)

    def fits(number: int, group: Sequence[_Part]) -> bool:
        on_their_way = {any(claim.selected_node and not claim.is_bound for claim in part) for part in group}
        if fit.holds is not None and fit.holds.keeps_whole_objects and len(on_their_way) > 1:
            return False
        asked = fit.provisioning_demand([claim for part in group for claim in part])
        sizes, own = asked.units[0].sizes, fit.own_claims(asked, 0)
        return bool(objects.reading(fit.policy).says_one(reading.Question.FITS, sizes, number, own))

    def rank(owner: int) -> tuple[bool, int]:
        sizes = (counted_bytes(claim, fit.cluster.storage, is_rebuild=claim.is_bound) for claim in parts[owner])
        return owner != _NEWCOMER, -sum(size or 0 for size in sizes)

    chosen = _share_out([parts[owner] for owner in sorted(parts, key=rank)], numbers, fits)
    return chosen[0] if chosen else None


def _share_out(
    parts: Sequence[_Part], numbers: Sequence[int], fits: Callable[[int, Sequence[_Part]], bool]
) -> list[int]:
    """Assign every part an object such that every object holds all its parts; earlier objects are preferred."""
    chosen: list[int] = []
    tries = 0

    def goes_on() -> bool:
        nonlocal tries
        at = len(chosen)
        if at == len(parts):
            return True
        for number in numbers:
            tries += 1
            if tries > _MOST_TRIES:
                return False
            there = [part for part, other in zip(parts, chosen, strict=False) if other == number]
            if fits(number, [*there, parts[at]]):
                chosen.append(number)
                if goes_on():
                    return True
                chosen.pop()
        return False

    return chosen if goes_on() else []


# -- for waking -------------------------------------------------------------------------------------------------------


def held_by(fit: VolumeFit, pod: PodInfo, row: int) -> frozenset[Hashable]:
    """What a nominated pod holds on a row: its claims with bytes, and by class the objects that reach the row. If any
    of it changes, other pods may find room."""
    fit.index.search.renew()  # outside of any decision
    demand = expected_demand(fit, pod, row)
    if demand is None:
        return frozenset()
    claims = (*demand.pinned, *demand.loose, *(rebuild.claim for rebuild in demand.rebuilds if rebuild.row != row))
    storage, node_name = fit.cluster.storage, fit.cluster.name(row)
    found: set[Hashable] = {(claim.key, counted_bytes(claim, storage, is_rebuild=claim.is_bound)) for claim in claims}
    for name in {name for claim in claims for name in fit.index.groups.classes_with(claim.class_name)}:
        objects = fit.index.objects_at(name, node_name)
        versions = [capacity.figures_version for capacity in objects] if len(objects) > 1 else []
        found.add((name, *map(class_capacity.identity, objects), *versions))
    return frozenset(found)
