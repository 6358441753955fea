"""Who is told when a driver's figures have changed: the capacity controller, or nobody."""

from __future__ import annotations

from typing import Protocol

from tonnage.objects.core_v1 import PersistentVolume


class Refresher(Protocol):
    """Asks the driver anew how much room there is. `CapacityController` is one."""

    def refresh(self, storage_class: str) -> None:
        """Something of this class was tried, and nobody knows where it went."""

    def refresh_volume(self, volume: PersistentVolume) -> None:
        """This volume was made, deleted or expanded."""


class NoRefresher:
    """For a provisioner that publishes no capacity."""

    def refresh(self, storage_class: str) -> None:
        """Nobody wants to know."""

    def refresh_volume(self, volume: PersistentVolume) -> None:
        """Nobody wants to know."""
