"""Bound claims of which nothing was known before, after a restart say: is something promised for them?

its volume is on its way to another node            a rebuild, for as long as it takes
its volume has just arrived there                   a rebuild that is over, and need not show yet
its volume is younger than the longest timeout      made, and need not show yet
else                                                nothing: the figures show it, or never will
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from tonnage.clock import Clock
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.scheduling.volumes.rebuilds import Progress, is_on_its_way
from tonnage.scheduling.volumes.reservations.holds import LongestTimeout
from tonnage.scheduling.volumes.reservations.promised_objects import PromisedObjects
from tonnage.scheduling.volumes.reservations.promises import Promise


class MetClaim(NamedTuple):
    """What is promised for a bound claim."""

    is_rebuild: bool
    since: datetime
    age_s: float | None
    """How long ago the volume was made, or arrived; None while it is on its way."""


class MetClaims:
    """Judges bound claims when they are met for the first time."""

    def __init__(self, objects: PromisedObjects, clock: Clock, longest: LongestTimeout) -> None:
        self._objects = objects
        self._clock = clock
        self._longest = longest

    def judged(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> MetClaim | None:
        """What is promised for a claim that is bound to this volume; None for nothing."""
        now = self._clock.now()
        if is_on_its_way(claim, volume):
            return MetClaim(is_rebuild=True, since=now, age_s=None)
        if self._has_just_arrived(claim, volume):
            return MetClaim(is_rebuild=True, since=now, age_s=0.0)
        created_at = volume.metadata.creation_timestamp
        if created_at is None or not claim.selected_node:
            return None
        age_s = self.age_s(volume)
        if age_s >= self._longest.timeout_s and not self._objects.is_unchecked(Promise(claim, created_at)):
            return None
        return MetClaim(is_rebuild=False, since=created_at, age_s=age_s)

    def age_s(self, volume: PersistentVolume) -> float:
        """Seconds since a volume was created; of one that does not say, for ever."""
        created_at = volume.metadata.creation_timestamp
        return float("inf") if created_at is None else max((self._clock.now() - created_at).total_seconds(), 0.0)

    def _has_just_arrived(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
        """Whether a volume that was rebuilt on the claim's node may be missing in the figures of that node.

        Nothing tells when it arrived. But versions are given out in one order: an object that is older than the
        volume's last change may have been measured before it. One that changed since for another reason is held for a
        while without need.
        """
        is_marked = bool(claim.rebuild_target) and claim.rebuild_target == claim.selected_node
        if not is_marked or self._objects.progress(claim, volume) is not Progress.ARRIVED:
            return False
        objects = self._objects.charged_to(Promise(claim, self._clock.now(), is_rebuild=True))
        return any(each.has_kept_pools or each.metadata.revision < volume.metadata.revision for each in objects)
