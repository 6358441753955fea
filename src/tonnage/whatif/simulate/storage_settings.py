"""How the storage of a simulation behaves: the reference driver's parameters, for one driver or for all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

PickPolicy = Literal["most-free", "best-fit", "first-fit", "random"]
PICK_POLICIES: Final[tuple[PickPolicy, ...]] = ("most-free", "best-fit", "first-fit", "random")
DEFAULT_PICK: Final[PickPolicy] = "best-fit"

MI: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class DriverSettings:
    """One driver. Times are in seconds of virtual time."""

    pick: PickPolicy | None = None
    """None: as the class or its driver is annotated (`tonnage.dev/pool-policy`), else best-fit."""
    create_latency_s: float = 0.5
    attach_latency_s: float = 0.5
    delete_latency_s: float = 0.5
    refresh_delay_s: float = 1.0
    """From a change of the disks to the capacity object that shows it."""
    overstates: float = 1.0
    """Published figures are the true ones times this: figures that lie."""
    attach_slots: int | None = None
    """What a node really takes; None: what its CSINode says."""
    rebuild_bytes_per_s: float = 200.0 * MI


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """All drivers: those that are named, and the rest."""

    rest: DriverSettings = DriverSettings()
    drivers: dict[str, DriverSettings] = field(default_factory=dict)

    def of(self, driver: str) -> DriverSettings:
        return self.drivers.get(driver, self.rest)
