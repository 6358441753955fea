"""Volumes that exist and may be bound when a pod is placed, and which of them a pod's claims take on each node.

    storage.volumes ──► StaticVolumes ┬─ free, by class                (free_volumes.py, volume_reach.py)
                                      └─ kept for a claim, by its key

Only candidates are indexed: a free volume is Available and has no `claimRef`; one with a `claimRef` is found by the
claim it names and by nobody else, so that volumes in use cost nothing. Volumes being deleted are in neither. What a
decision has assumed counts like what the API says (`assumed_objects`).

The rules are upstream's (findMatchingVolumes, FindMatchingVolume), of one node:

1. The claims come smallest first. Each takes a volume of its class, or none, and what one took the next cannot have. A
   claim that is mounted twice comes twice.
2. A volume kept for this claim is it, if it is large enough and has the volume mode and attributes class: selector,
   access modes and phase are not asked. If the node cannot reach it, the claim takes none here, free ones neither.
3. Otherwise it takes the smallest free volume that suits and that the node can reach, without looking further: a later
   claim may go without, though another choice would have served both.

All of it is asked of every row at once. Of a reach only its smallest volumes can matter, one more than there are claims
of its class before this one; for each of these a claim costs a pass over the volumes and one over the reached rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.meta import Key
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import Ids, Interner, Mask, Rows, row_count
from tonnage.scheduling.cluster.node_matching import matching
from tonnage.scheduling.volumes.free_volumes import (
    FreeVolumes,
    Trait,
    has_mode_and_class,
    size_key,
    trait_of,
)
from tonnage.scheduling.volumes.volume_reach import EVERYWHERE, Reaches, RowNumbers, affinity_of

_AVAILABLE: Final = "Available"
_NONE: Final = np.iinfo(np.int32).max
"""No volume, while the smallest is looked for."""


@dataclass(frozen=True, slots=True)
class Match:
    """Which volumes some claims take on some rows. It stays true to what was asked, whatever changes afterwards."""

    claims: tuple[PersistentVolumeClaim, ...]
    """In the order they were matched: smallest first, those of one size as they were given."""
    chosen: Ids
    """[claims, rows]: the number of the volume that a claim takes on a row, -1 for none."""
    stocks: tuple[Sequence[PersistentVolume], ...]
    """Where the volumes stand; their numbers run through one after the other."""

    def volume(self, number: int) -> PersistentVolume:
        """The volume of a number in `chosen`; IndexError for any other, -1 among them."""
        left = number
        for stock in self.stocks:
            if 0 <= left < len(stock):
                return stock[left]
            left -= len(stock)
        raise IndexError(f"no volume of this match has the number {number}; there are {sum(map(len, self.stocks))}")


class StaticVolumes:
    """The candidates of a cluster. A view: `cluster.index(StaticVolumes)`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._reaches = Reaches(cluster)
        self._traits: Interner[Trait] = Interner()
        self._free: dict[str, FreeVolumes] = {}
        self._kept: dict[Key, dict[str, PersistentVolume]] = {}
        self.tick = 0
        """Moves whenever an answer may change for another reason than the nodes."""
        for volume in cluster.storage.volumes:
            self._learn(volume)
        cluster.storage.on_change(PersistentVolume, self._changed)

    def may_match(self, claims: Sequence[PersistentVolumeClaim]) -> bool:
        """Whether there is any candidate for any of these claims; a few look-ups. If not, `match` need not be asked."""
        if not self._free and not self._kept:
            return False
        return any(self._free.get(claim.class_name) or self._kept_for(claim) for claim in claims)

    def match(self, claims: Sequence[PersistentVolumeClaim], rows: Rows) -> Match:
        """What these claims take on each of these rows, by the rules above.

        The claims are delayed ones for which no node was selected yet. Rows without a node get some answer or other.
        """
        ordered = sorted(claims, key=lambda claim: claim.requested_size) if len(claims) > 1 else claims
        chosen: Ids = np.full((len(ordered), row_count(rows)), -1, dtype=np.int32)
        numbers = _Numbers()
        for place, claim in enumerate(ordered):
            taken, takes = chosen[:place], chosen[place]
            is_open: Mask | bool = True  # whether it may look at free volumes
            if kept := self._kept_for(claim):
                is_open = self._take_kept(kept, numbers.first("claim", claim.key, kept), taken, takes, rows)
            name = claim.class_name
            if np.any(is_open) and (free := self._free.get(name)):
                free.settle()
                first = numbers.first("class", name, free.volumes)
                rivals = taken[[earlier.class_name == name for earlier in ordered[:place]]] if place else taken
                found = self._smallest_free(free, claim, first, rivals, rows)
                np.add(found, first, out=takes, where=is_open & (found != _NONE))
        return Match(tuple(ordered), chosen, tuple(numbers.stocks))

    def _take_kept(self, kept: Sequence[PersistentVolume], first: int, taken: Ids, takes: Ids, rows: Rows) -> Mask:
        """Write down where a claim takes a volume kept for it; tells on which rows it may look at free ones instead.

        Which of several such volumes upstream meets first is left to chance; here it is one that can be reached.
        """
        is_open = np.ones(len(takes), dtype=np.bool_)
        for number, volume in enumerate(kept, start=first):
            is_left = ~(taken == number).any(axis=0)  # gone only where the same claim, mounted twice, has it already
            is_open &= ~is_left
            affinity = affinity_of(volume)
            is_reached = is_left if affinity is None else is_left & matching(self._cluster, affinity, rows)
            takes[is_reached & (takes < 0)] = number
        return is_open

    def _smallest_free(
        self, free: FreeVolumes, claim: PersistentVolumeClaim, first: int, taken: Ids, rows: Rows
    ) -> Ids:
        """By row the position of the smallest free volume that suits a claim and was not taken, _NONE for none.

        Of each reach one volume is offered at a time, the smallest first. As many rounds do as volumes may be taken
        on a row, and one more: whoever is left in a reach after that has a smaller one before it that is free.
        """
        places, reaches = self._reaches.pairs(rows)
        found: Ids = np.full(row_count(rows), _NONE, dtype=np.int32)
        left = free.eligible(claim)
        if len(places) < len(left):  # few rows: most local volumes are somewhere else
            is_near = np.zeros(len(self._reaches), dtype=np.bool_)
            is_near[reaches] = is_near[EVERYWHERE] = True
            left = left[is_near[free.reaches[left]]]
        for rounds_to_go in range(len(taken), -1, -1):
            reach_of = free.reaches[left]
            smallest: Ids = np.full(len(self._reaches), _NONE, dtype=np.int32)
            smallest[reach_of[::-1]] = left[::-1]  # backwards: of several the last one written stays
            np.minimum.at(found, places, _not_taken(smallest[reaches], first, taken, places))
            if smallest[EVERYWHERE] != _NONE:
                everywhere = np.full(len(found), smallest[EVERYWHERE], dtype=np.int32)
                np.minimum(found, _not_taken(everywhere, first, taken), out=found)
            if rounds_to_go:
                left = left[smallest[reach_of] != left]
        return found

    # -- keeping the candidates ---------------------------------------------------------------------------------------

    def is_kept_for(self, claim: PersistentVolumeClaim) -> bool:
        """Whether a volume names this claim, suitable or not."""
        return claim.key in self._kept

    def _kept_for(self, claim: PersistentVolumeClaim) -> list[PersistentVolume]:
        """The volumes that name this very claim and would do, smallest first; nearly always none."""
        kept = self._kept.get(claim.key)
        return sorted((each for each in kept.values() if _is_kept_for(each, claim)), key=size_key) if kept else []

    def _changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        self.tick += 1
        if old is not None:
            self._forget(old)
        if new is not None:
            self._learn(new)

    def _learn(self, volume: PersistentVolume) -> None:
        owner = volume.spec.claim_ref
        if volume.metadata.is_terminating:
            return
        if owner is not None:
            self._kept.setdefault(owner.key, {})[volume.name] = volume
        elif volume.status.phase == _AVAILABLE:
            name = volume.class_name
            if name not in self._free:
                self._free[name] = FreeVolumes(self._reaches, self._traits)
            self._free[name].put(volume)

    def _forget(self, volume: PersistentVolume) -> None:
        owner = volume.spec.claim_ref
        if owner is None:
            if free := self._free.get(volume.class_name):
                free.remove(volume.name)
        elif kept := self._kept.get(owner.key):
            kept.pop(volume.name, None)
            if not kept:
                del self._kept[owner.key]


class _Numbers:
    """Gives the volumes of a match their numbers, stock by stock."""

    def __init__(self) -> None:
        self.stocks: list[Sequence[PersistentVolume]] = []
        self._first: dict[tuple[str, str], int] = {}
        self._next = 0

    def first(self, kind: str, name: str, stock: Sequence[PersistentVolume]) -> int:
        """The number of the first volume of a stock; the same each time the stock is named."""
        found = self._first.get((kind, name))
        if found is None:
            found = self._first[kind, name] = self._next
            self._next += len(stock)
            self.stocks.append(stock)
        return found


def _is_kept_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume whose `claimRef` has a claim's key is meant for this life of it, and would do."""
    owner = volume.spec.claim_ref
    return (
        owner is not None
        and owner.uid in ("", claim.uid)
        and volume.class_name == claim.class_name
        and volume.size >= claim.requested_size
        and has_mode_and_class(trait_of(volume), claim)
    )


def _not_taken(offered: Ids, first: int, taken: Ids, places: RowNumbers | None = None) -> Ids:
    """What is offered to each place, with _NONE for what earlier claims have taken there. Changes `offered`."""
    for earlier in taken:
        offered[offered == (earlier if places is None else earlier[places]) - first] = _NONE
    return offered
