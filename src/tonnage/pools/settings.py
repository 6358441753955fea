"""The settings of `tonnage pools`."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from tonnage.errors import TonnageError
from tonnage.objects.storage_v1 import POOLS_PROGRAM
from tonnage.quantity import InvalidQuantity, Quantity

PROGRAM: Final = POOLS_PROGRAM
"""Its field manager, its user agent, and the prefix of its lease's name."""


def manager_of(node: str) -> str:
    """This program's field manager and `managed-by`; for copies that keep one node each, one per node.

    A hash, because node names may be longer than either may be.
    """
    return f"{PROGRAM}-{sha256(node.encode()).hexdigest()[:16]}" if node else PROGRAM


MOST_UNCHECKED_S: Final = 150.0
"""A scheduler holds volumes created since the last check at least this long: not for ever, and not so short that a
large cluster writes all the time."""


class InvalidKeepFree(TonnageError):
    def __init__(self, text: str) -> None:
        super().__init__(f'"{text}" is not a part of a pool; write an amount like "1Gi", or a share like "2%"')


@dataclass(frozen=True)
class KeepFree:
    """What stays free in every pool, for metadata, parity or snapshots: an amount, or a share of what is free."""

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
        share = -int(-free_bytes * self.percent // 100)  # rounded up, to be on the safe side
        return max(free_bytes - self.amount_bytes - share, 0)


@dataclass(frozen=True)
class PoolsSettings:
    drivers: tuple[str, ...]
    """Provisioners of the StorageClasses to keep."""
    source_namespace: str = ""
    """Namespace of the source's objects; empty: any."""
    keep_free: KeepFree = KeepFree()
    sets_policy: bool = True
    sets_groups: bool = False
    sets_sizes: bool = True
    size_rules: str = ""
    """The sizes that the driver makes, if they are known better than by its name."""
    policy: str = ""
    """The driver's policy, if it is known better than the source tells."""
    drop_after_s: float = 300.0
    """How long the pools of a silent source are kept, marked as stale, before they are removed."""
    creates_objects: bool = False
    """True: classes of a driver that publishes no capacity get capacity objects."""
    namespace: str = "kube-system"
    """Of the created objects."""
    workers: int = 4

    @property
    def check_every_s(self) -> float:
        """Seconds between two writes of the time of the last check, if nothing else changes."""
        return min(self.drop_after_s / 2, MOST_UNCHECKED_S)
