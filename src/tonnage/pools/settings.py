"""What `tonnage pools` is told to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tonnage.errors import TonnageError
from tonnage.objects.storage_v1 import POOLS_PROGRAM
from tonnage.quantity import InvalidQuantity, Quantity

PROGRAM: Final = POOLS_PROGRAM
"""Its field manager, its user agent, and its lease's name before the source's."""

MOST_UNCHECKED_S: Final = 150.0
"""What was made since the source was looked at last is held that long at least: not for ever, and not so short that a
large cluster has to write all the time."""


class InvalidKeepFree(TonnageError):
    """Not a part of a pool."""

    def __init__(self, text: str) -> None:
        super().__init__(f'"{text}" is no part of a pool; write an amount like "1Gi", or a share like "2%"')


@dataclass(frozen=True)
class KeepFree:
    """What is left free of each pool, for metadata, parity or snapshots: an amount, or a share of what is free."""

    amount_bytes: int = 0
    percent: float = 0.0

    @classmethod
    def parse(cls, text: str) -> KeepFree:
        """Raises InvalidKeepFree."""
        try:
            if text.endswith("%"):
                found = cls(percent=float(text[:-1]))
            else:
                found = cls(amount_bytes=Quantity.parse(text).value())
        except (ValueError, InvalidQuantity) as exc:
            raise InvalidKeepFree(text) from exc
        if not (0 <= found.percent <= 100 and found.amount_bytes >= 0):
            raise InvalidKeepFree(text)
        return found

    def of(self, free_bytes: int) -> int:
        share = -int(-free_bytes * self.percent // 100)  # rounded up: what is in doubt is kept
        return max(free_bytes - self.amount_bytes - share, 0)


@dataclass(frozen=True)
class PoolsSettings:
    drivers: tuple[str, ...]
    """Whose classes: the `provisioner` of StorageClasses."""
    source_namespace: str = ""
    """Where the source's objects are; empty: in any."""
    keep_free: KeepFree = KeepFree()
    sets_policy: bool = True
    sets_groups: bool = False
    policy: str = ""
    """What is known of the driver beyond what the source says."""
    drop_after_s: float = 300.0
    """How long the pools of a silent source are kept, marked, before they are taken away."""
    workers: int = 4

    @property
    def check_every_s(self) -> float:
        """How often it is written of each object that its source was looked at, if nothing else is."""
        return min(self.drop_after_s / 2, MOST_UNCHECKED_S)
