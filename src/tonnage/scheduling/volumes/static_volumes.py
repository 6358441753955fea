"""Existing volumes that may be bound when a pod is placed, and which of them a pod's claims take on each node.

A free volume is Available and has no `claimRef`; a volume with a `claimRef` is only for the claim it names. Terminating
volumes do not count. The rules are upstream's (findMatchingVolumes, FindMatchingVolume), for one node:

1. Claims come smallest first. Each takes one volume of its class or none; a taken volume is gone for later claims.
   A claim mounted twice comes twice.
2. A volume pre-bound to the claim is taken if it is large enough and has the volume mode and attributes class. If
   the node cannot reach it, the claim takes no volume here, not even a free one.
3. Otherwise the claim takes the smallest suitable free volume that the node can reach; equal sizes go by name, so
   that a decision can be repeated (upstream leaves that to chance).

All rows are computed at once. Of a reach, only its smallest volumes can matter, one more than there are earlier claims
of the class.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from tonnage.keyed import Shelf
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.meta import Key
from tonnage.objects.requirements import InvalidSelector
from tonnage.objects.selectors import LabelSelector
from tonnage.objects.volume_matching import AVAILABLE, is_bound_to_claim
from tonnage.quantity import Quantity
from tonnage.scheduling.cluster.cluster import Cluster, matching
from tonnage.scheduling.cluster.columns import Ids, Interner, Mask, Rows, row_count
from tonnage.scheduling.volumes.volume_reach import EVERYWHERE, Reaches, RowNumbers, affinity_of

SizeKey = tuple[int, Quantity, str]
"""Rounded bytes, exact size, name: sorts by exact size, but rarely compares quantities."""


class Trait(NamedTuple):
    """The properties of volumes that claims ask for."""

    access_modes: frozenset[str]
    volume_mode: str
    attributes_class: str

    def suits(self, claim: PersistentVolumeClaim) -> bool:
        return has_mode_and_class(self, claim) and self.access_modes.issuperset(claim.spec.access_modes)


def trait_of(volume: PersistentVolume) -> Trait:
    spec = volume.spec
    return Trait(frozenset(spec.access_modes), spec.volume_mode, spec.volume_attributes_class_name)


def has_mode_and_class(trait: Trait, claim: PersistentVolumeClaim) -> bool:
    """What even a volume pre-bound to the claim must have."""
    wanted = claim.spec
    return (trait.volume_mode, trait.attributes_class) == (wanted.volume_mode, wanted.volume_attributes_class_name)


def size_key(volume: PersistentVolume) -> SizeKey:
    """A sort key: size, then name."""
    size = volume.size
    return size.value(), size, volume.name


class FreeVolumes:
    """The free volumes of one class, smallest first; `len` counts them."""

    def __init__(self, reaches: Reaches, traits: Interner[Trait]) -> None:
        self._all_reaches = reaches
        self._all_traits = traits
        self._keys: list[SizeKey] = []
        self._key_of: dict[str, SizeKey] = {}
        # By position, as `_keys`.
        self.volumes: list[PersistentVolume] = []
        self._reaches = array("i")
        self._traits = array("i")

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def reaches(self) -> Ids:
        return np.array(self._reaches, dtype=np.int32)

    def put(self, volume: PersistentVolume) -> None:
        key = self._key_of[volume.name] = size_key(volume)
        at = bisect_left(self._keys, key)
        self._keys.insert(at, key)
        self.volumes.insert(at, volume)
        self._reaches.insert(at, self._all_reaches.hold(volume))
        self._traits.insert(at, self._all_traits.id_of(trait_of(volume)))

    def remove(self, name: str) -> None:
        """Remove a volume that is no longer free, if it was."""
        key = self._key_of.pop(name, None)
        if key is None:
            return
        at = bisect_left(self._keys, key)
        self._all_reaches.release(self._reaches[at])
        for column in (self._keys, self.volumes, self._reaches, self._traits):
            del column[at]

    def eligible(self, claim: PersistentVolumeClaim) -> Ids:
        """The positions of the volumes that suit a claim anywhere, in order."""
        size = claim.requested_size
        start = bisect_left(self._keys, (size.value(), size, ""))
        suits = np.array([trait.suits(claim) for trait in self._all_traits.things], dtype=np.bool_)
        found = np.flatnonzero(suits[np.array(self._traits, dtype=np.int32)[start:]]) + start
        if claim.spec.selector is not None:
            selector, volumes = claim.spec.selector, self.volumes
            found = np.array([each for each in found.tolist() if _selects(selector, volumes[each])], dtype=np.int32)
        return found.astype(np.int32, copy=False)


def _selects(selector: LabelSelector, volume: PersistentVolume) -> bool:
    """True if a claim's selector matches a volume. An invalid selector, which no API server admits, matches none."""
    try:
        return selector.matches(volume.metadata.labels)
    except InvalidSelector:
        return False


_NONE: Final = np.iinfo(np.int32).max
"""The position of no volume; larger than every real one."""


class StaticBinding(NamedTuple):
    """A claim that takes an existing free volume."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume


@dataclass(frozen=True, slots=True)
class Match:
    """Which volumes some claims take on some rows. Later changes do not affect it."""

    claims: tuple[PersistentVolumeClaim, ...]
    """In matching order: smallest first; equal sizes keep their order."""
    chosen: Ids
    """[claims, rows]: the number of the volume that a claim takes on a row, -1 for none."""
    volumes: Sequence[PersistentVolume]
    """By number."""

    def bindings(self, place: int) -> Iterator[StaticBinding]:
        """The claims that take a volume on the row at `place`."""
        for claim, chosen in zip(self.claims, self.chosen, strict=True):
            number = int(chosen[place])
            if number >= 0:
                yield StaticBinding(claim, self.volumes[number])


class StaticVolumes:
    """The existing volumes that claims may take. Get it with `cluster.index(StaticVolumes)`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._reaches = Reaches(cluster)
        self._traits: Interner[Trait] = Interner()
        self._free: dict[str, FreeVolumes] = {}
        self._kept: Shelf[Key, str, PersistentVolume] = Shelf()
        for volume in cluster.storage.volumes:
            self._changed(None, volume)
        cluster.storage.on_change(PersistentVolume, self._changed)

    def may_match(self, claims: Sequence[PersistentVolumeClaim]) -> bool:
        """True if any claim has a candidate; a few look-ups. If False, `match` finds nothing."""
        if not self._free and not self._kept:
            return False
        return any(self._free.get(claim.class_name) or self._kept_for(claim) for claim in claims)

    def match(self, claims: Sequence[PersistentVolumeClaim], rows: Rows) -> Match:
        """The volumes that these claims, delayed and without a selected node, take on each row, by the rules above."""
        ordered = sorted(claims, key=lambda claim: claim.requested_size) if len(claims) > 1 else claims
        chosen: Ids = np.full((len(ordered), row_count(rows)), -1, dtype=np.int32)
        volumes: list[PersistentVolume] = []
        starts: dict[tuple[str, str], int] = {}

        def first_of(kind: str, name: str, stock: Sequence[PersistentVolume]) -> int:
            """The number of a stock's first volume."""
            if (kind, name) not in starts:
                starts[kind, name] = len(volumes)
                volumes.extend(stock)
            return starts[kind, name]

        for place, claim in enumerate(ordered):
            taken, takes = chosen[:place], chosen[place]
            is_open: Mask | bool = True  # whether it may take free volumes
            if kept := self._kept_for(claim):
                is_open = self._take_kept(kept, first_of("claim", claim.key, kept), taken, takes, rows)
            name = claim.class_name
            if np.any(is_open) and (free := self._free.get(name)):
                first = first_of("class", name, free.volumes)
                rivals = taken[[earlier.class_name == name for earlier in ordered[:place]]] if place else taken
                found = self._smallest_free(free, claim, first, rivals, rows)
                np.add(found, first, out=takes, where=is_open & (found != _NONE))
        return Match(tuple(ordered), chosen, volumes)

    def _take_kept(self, kept: Sequence[PersistentVolume], first: int, taken: Ids, takes: Ids, rows: Rows) -> Mask:
        """Record where a claim takes a reachable volume pre-bound to it. Returns rows where it may take free ones."""
        is_open = np.ones(len(takes), dtype=np.bool_)
        for number, volume in enumerate(kept, start=first):
            is_left = ~(taken == number).any(axis=0)  # taken only where the same claim, mounted twice, has it
            is_open &= ~is_left
            affinity = affinity_of(volume)
            is_reached = is_left if affinity is None else is_left & matching(self._cluster, affinity, rows)
            takes[is_reached & (takes < 0)] = number
        return is_open

    def _smallest_free(
        self, free: FreeVolumes, claim: PersistentVolumeClaim, first: int, taken: Ids, rows: Rows
    ) -> Ids:
        """By row, the position of the smallest suitable free volume that is not taken; _NONE if there is none.

        Every reach offers one volume at a time, smallest first. It takes one round more than volumes may be taken on a
        row: after that, every remaining volume of a reach comes after a smaller free one.
        """
        places, reaches = self._reaches.pairs(rows)
        found: Ids = np.full(row_count(rows), _NONE, dtype=np.int32)
        left, reach_by_volume = free.eligible(claim), free.reaches
        if len(places) < len(left):  # few rows: most local volumes are elsewhere
            is_near = np.zeros(len(self._reaches), dtype=np.bool_)
            is_near[reaches] = is_near[EVERYWHERE] = True
            left = left[is_near[reach_by_volume[left]]]
        for rounds_to_go in range(len(taken), -1, -1):
            reach_of = reach_by_volume[left]
            smallest: Ids = np.full(len(self._reaches), _NONE, dtype=np.int32)
            smallest[reach_of[::-1]] = left[::-1]  # backwards: the first of several is written last
            np.minimum.at(found, places, _not_taken(smallest[reaches], first, taken, places))
            if smallest[EVERYWHERE] != _NONE:
                everywhere = np.full(len(found), smallest[EVERYWHERE], dtype=np.int32)
                np.minimum(found, _not_taken(everywhere, first, taken), out=found)
            if rounds_to_go:
                left = left[smallest[reach_of] != left]
        return found

    # -- keeping the candidates ---------------------------------------------------------------------------------------

    def is_kept_for(self, claim: PersistentVolumeClaim) -> bool:
        """True if a volume names this claim, suitable or not."""
        return claim.key in self._kept

    def _kept_for(self, claim: PersistentVolumeClaim) -> list[PersistentVolume]:
        """The suitable volumes that name this claim, smallest first; nearly always none."""
        kept = [
            volume
            for volume in self._kept[claim.key]
            if is_bound_to_claim(volume, claim)
            and volume.class_name == claim.class_name
            and volume.size >= claim.requested_size
            and has_mode_and_class(trait_of(volume), claim)
        ]
        return sorted(kept, key=size_key)

    def _changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if old is not None and old.spec.claim_ref is not None:
            self._kept.take(old.spec.claim_ref.key, old.name)
        elif old is not None and old.class_name in self._free:
            self._free[old.class_name].remove(old.name)
        if new is None or new.metadata.is_terminating:
            return
        if new.spec.claim_ref is not None:
            self._kept.put(new.spec.claim_ref.key, new.name, new)
        elif new.status.phase == AVAILABLE:
            self._free.setdefault(new.class_name, FreeVolumes(self._reaches, self._traits)).put(new)


def _not_taken(offered: Ids, first: int, taken: Ids, places: RowNumbers | None = None) -> Ids:
    """Replace volumes that earlier claims took by _NONE. Changes and returns `offered`."""
    for earlier in taken:
        offered[offered == (earlier if places is None else earlier[places]) - first] = _NONE
    return offered
