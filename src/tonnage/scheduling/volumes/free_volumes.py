"""The free volumes of one class in the order they are given away: smallest first, equal sizes by name.

Upstream goes through them in no certain order and keeps the smallest, so that among equals any may win; by name, a
decision can be repeated. Sizes are exact quantities, never rounded to bytes. What else a claim asks is judged once per
*trait* (access modes, volume mode, attributes class), of which there are a handful however many volumes; labels are
looked at only for a claim with a selector.

    position   0      1      2         3
    volumes    pv-7   pv-2   pv-3      pv-1
    size       1Gi    1Gi    1025Mi    4Gi       a claim of 1025Mi looks from position 2 on
    traits     0      0      1         0
    reaches    0      2      1         0         volume_reach.py

Changes are worked in when somebody asks, each at the cost of a copy of the columns; `volumes` is replaced and never
changed in place, so that who keeps it also keeps the meaning of its positions.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final, NamedTuple

import numpy as np

from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.requirements import InvalidSelector
from tonnage.objects.selectors import LabelSelector
from tonnage.quantity import Quantity
from tonnage.scheduling.cluster.columns import Ids, Interner
from tonnage.scheduling.volumes.volume_reach import Reaches

SizeKey = tuple[int, Quantity, str]
"""Rounded bytes, exact size, name: orders by exact size, but hardly ever has to compare quantities."""

_FEW: Final = 16
"""So few changes are worked in one by one; with more, everything is sorted anew."""


class Trait(NamedTuple):
    """What volumes have in common, as far as claims ask."""

    access_modes: frozenset[str]
    volume_mode: str
    attributes_class: str

    def suits(self, claim: PersistentVolumeClaim) -> bool:
        return has_mode_and_class(self, claim) and self.access_modes.issuperset(claim.spec.access_modes)


def trait_of(volume: PersistentVolume) -> Trait:
    spec = volume.spec
    return Trait(frozenset(spec.access_modes), spec.volume_mode, spec.volume_attributes_class_name)


def has_mode_and_class(trait: Trait, claim: PersistentVolumeClaim) -> bool:
    """What a volume must have even if it is kept for this very claim."""
    wanted = claim.spec
    return (trait.volume_mode, trait.attributes_class) == (wanted.volume_mode, wanted.volume_attributes_class_name)


def size_key(volume: PersistentVolume) -> SizeKey:
    """Orders volumes by size and name."""
    size = volume.size
    return size.value(), size, volume.name


class FreeVolumes:
    """Free volumes of one class; `len` of those there are."""

    def __init__(self, reaches: Reaches, traits: Interner[Trait]) -> None:
        self._all_reaches = reaches
        self._all_traits = traits
        self._now: dict[str, PersistentVolume] = {}
        self._stale: set[str] = set()  # names whose entry in the columns differs from `_now`
        self._keys: list[SizeKey] = []
        self._key_of: dict[str, SizeKey] = {}
        self.volumes: list[PersistentVolume] = []
        """By position; as of the last `settle`, as the columns are."""
        self.reaches: Ids = np.zeros(0, dtype=np.int32)
        self._traits: Ids = np.zeros(0, dtype=np.int32)

    def __len__(self) -> int:
        return len(self._now)

    def put(self, volume: PersistentVolume) -> None:
        """A volume is free, or changed."""
        self._now[volume.name] = volume
        self._stale.add(volume.name)

    def remove(self, name: str) -> None:
        """A volume is free no more."""
        if self._now.pop(name, None) is None:
            return
        if name in self._key_of:
            self._stale.add(name)
        else:  # came and went before anybody asked
            self._stale.discard(name)

    def settle(self) -> None:
        """Work the changes in."""
        if len(self._stale) > _FEW:
            self._sort_anew()
        else:
            for name in self._stale:
                self._take_out(name)
                if name in self._now:
                    self._put_in(self._now[name])
        self._stale.clear()

    def eligible(self, claim: PersistentVolumeClaim) -> Ids:
        """The positions of the volumes that suit a claim wherever they are, in order. They have to be settled."""
        size = claim.requested_size
        start = bisect_left(self._keys, (size.value(), size, ""))
        suits = np.array([trait.suits(claim) for trait in self._all_traits.things], dtype=np.bool_)
        found = np.flatnonzero(suits[self._traits[start:]]) + start
        if claim.spec.selector is not None:
            selector, volumes = claim.spec.selector, self.volumes
            found = np.array([each for each in found.tolist() if _selects(selector, volumes[each])], dtype=np.int32)
        return found.astype(np.int32, copy=False)

    # -- columns ------------------------------------------------------------------------------------------------------

    def _sort_anew(self) -> None:
        before = self.reaches.tolist()
        self._key_of = {name: size_key(volume) for name, volume in self._now.items()}
        self._keys = sorted(self._key_of.values())
        self.volumes = [self._now[name] for _, _, name in self._keys]
        self.reaches = np.array(list(map(self._all_reaches.hold, self.volumes)), dtype=np.int32)
        self._traits = np.array([self._all_traits.id_of(trait_of(each)) for each in self.volumes], dtype=np.int32)
        for number in before:  # last, so that a reach that stays keeps its number and its rows
            self._all_reaches.release(number)

    def _take_out(self, name: str) -> None:
        key = self._key_of.pop(name, None)
        if key is None:
            return
        at = bisect_left(self._keys, key)
        self._all_reaches.release(int(self.reaches[at]))
        del self._keys[at]
        self.volumes = self.volumes[:at] + self.volumes[at + 1 :]
        self.reaches, self._traits = np.delete(self.reaches, at), np.delete(self._traits, at)

    def _put_in(self, volume: PersistentVolume) -> None:
        key = self._key_of[volume.name] = size_key(volume)
        at = bisect_left(self._keys, key)
        self._keys.insert(at, key)
        self.volumes = [*self.volumes[:at], volume, *self.volumes[at:]]
        self.reaches = np.insert(self.reaches, at, self._all_reaches.hold(volume))
        self._traits = np.insert(self._traits, at, self._all_traits.id_of(trait_of(volume)))


def _selects(selector: LabelSelector, volume: PersistentVolume) -> bool:
    """Whether a claim's selector picks a volume. One that makes no sense, which no API server lets in, picks none."""
    try:
        return selector.matches(volume.metadata.labels)
    except InvalidSelector:
        return False
