"""What one node would do for a pod's volumes: which are there, which it would bind, which would be made, and of what.

VolumeBinding judges all nodes at once; when one is chosen, this is worked out for it alone, kept at Reserve and carried
out in PreBind (`sending.py`). `explain` shows it for every node.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.volumes.demand import ClaimGroup


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


@dataclass(slots=True)
class ClaimSequence:
    """The claims of one group on its chosen node that are sent one after the other, and how far that is.

    Which of them is next says `claim_sequences.py`.
    """

    unit: ClaimGroup
    row: int
    unsent: dict[Key, int]
    """Bytes by claim."""
    order: list[Key] = field(default_factory=list)
    """How all unsent claims are to be sent; empty while that is decided from claim to claim."""
    under_way: list[Key] = field(default_factory=list)
    """The claims that were sent last; the next wait for their volumes."""
    made: list[Key] = field(default_factory=list)
    """Those before."""

    def send(self, keys: Collection[Key]) -> None:
        """These claims are given their node."""
        self.made += self.under_way
        self.under_way = list(keys)
        self.order = [key for key in self.order if key not in keys]
        for key in keys:
            self.unsent.pop(key, None)


class VolumePlan(NamedTuple):
    bound: tuple[BoundVolume, ...] = ()
    static: tuple[StaticBinding, ...] = ()
    provisions: tuple[Provision, ...] = ()
    sequences: tuple[ClaimSequence, ...] = ()
    """The groups among them whose claims are sent one after the other (`claim_sequences.py`)."""

    @property
    def is_done(self) -> bool:
        """Nothing has to be written: every claim is bound and stays where it is."""
        return not self.static and not self.provisions
