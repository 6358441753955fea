"""What was made for the checks, and how it goes again: also after a failure, a timeout or Ctrl-C.

Everything is noted before it is asked for, so that what a call did before it was cut off is known. A volume whose id
never came is asked for once more under its name, which CSI answers with the same volume, and then deleted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tonnage.csi import csi_pb2 as csi


@dataclass(slots=True)
class MadeVolume:
    request: csi.CreateVolumeRequest
    volume_id: str = ""
    """Empty until the driver has told it."""


@dataclass(frozen=True, slots=True)
class Use:
    """A volume on a node: published there by the controller, or staged or published at a path."""

    volume_id: str
    node_id: str
    path: Path | None = None


@dataclass(slots=True)
class Made:
    """What there is now, the latest last."""

    volumes: dict[str, MadeVolume] = field(default_factory=dict)
    """By name."""
    published: list[Use] = field(default_factory=list)
    staged: list[Use] = field(default_factory=list)
    targets: list[Use] = field(default_factory=list)

    def name_of(self, volume_id: str) -> str:
        return next((name for name, each in self.volumes.items() if each.volume_id == volume_id), "")

    @property
    def volume_ids(self) -> list[str]:
        return [each.volume_id for each in self.volumes.values() if each.volume_id]
