"""What one node would do for a pod's volumes: which are there, which it would bind, which would be made, and of what.

VolumeBinding judges all nodes at once; when one is chosen, this is worked out for it alone, kept at Reserve and carried
out in PreBind (`binding.py`). `explain` shows it for every node.
"""

from __future__ import annotations

from typing import NamedTuple

from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.storage_v1 import CSIStorageCapacity


class BoundVolume(NamedTuple):
    """A claim that has its volume, where it is."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume


class StaticBinding(NamedTuple):
    """A claim that takes a volume which exists and is free."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume


class Provision(NamedTuple):
    """A claim whose volume is to be made here, of the room that `capacity` tells of; None where nobody keeps count.

    `is_rebuild`: the claim is bound, its volume is elsewhere, and the driver will make it anew here (KEP-5925).
    """

    claim: PersistentVolumeClaim
    capacity: CSIStorageCapacity | None
    is_rebuild: bool = False


class VolumePlan(NamedTuple):
    bound: tuple[BoundVolume, ...] = ()
    static: tuple[StaticBinding, ...] = ()
    provisions: tuple[Provision, ...] = ()

    @property
    def is_done(self) -> bool:
        """Nothing has to be written: every claim is bound and stays where it is."""
        return not self.static and not self.provisions
