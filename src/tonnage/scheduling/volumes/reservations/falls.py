"""By how much an object's free bytes fell since decisions were made, and which volumes the falls pay for.

A provisioner may publish the smaller figure before the volume's PersistentVolume exists, between that and the binding
of the claim, or after it. So a fall is kept until a volume is there to pay for:

    figure falls ──► kept ──► a volume that was decided before the fall exists, and is not larger ──► paid for, shown
                       └────► figure rises: what was kept last is gone first        └─ the oldest volume comes first

The invariant: what is paid for is never more than what the figure was seen to fall. If only volumes make a figure fall,
the bytes that stay promised are never fewer than those that the figure does not show. A rise hides a fall as large: the
promise is kept longer than needed, which turns a pod away for a while and breaks nothing.

With several pools, bytes are not enough: 30Gi that are still promised leave other room than 10Gi and 20Gi. So unless
all volumes are of one size, a fall pays only if it is enough for every volume that may be in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple


class Decided(NamedTuple):
    """When a volume was decided on: only later falls may be of it."""

    tick: int
    """The last refresh of any object that was seen before."""
    asked_at: datetime | None = None
    """When its claim was given its node, by the server's clock; None when that is not told."""


EVER = Decided(-1)


class Fall(NamedTuple):
    tick: int
    size: int
    told_at: datetime | None = None
    """When the smaller figure was told, by the server's clock; None when it does not say."""

    def is_since(self, decided: Decided) -> bool:
        is_early = self.told_at is not None and decided.asked_at is not None and self.told_at < decided.asked_at
        return self.tick > decided.tick and not is_early


class UnshownVolume(NamedTuple):
    """A volume that an object's figure need not show yet."""

    size: int
    decided: Decided
    is_made: bool
    """Its PersistentVolume exists. One that does not may have been made all the same."""


class Falls:
    """The falls of one object that no volume was paid for with, the oldest first."""

    __slots__ = ("_falls",)

    def __init__(self) -> None:
        self._falls: list[Fall] = []

    def __bool__(self) -> bool:
        return bool(self._falls)

    def fell(self, tick: int, size: int, told_at: datetime | None = None) -> None:
        if size > 0:
            self._falls.append(Fall(tick, size, told_at))

    def rose(self, size: int) -> None:
        """There is more free than before: as much of the last falls is forgotten."""
        while size > 0 and self._falls:
            last = self._falls.pop()
            if last.size > size:
                self._falls.append(last._replace(size=last.size - size))
            size -= last.size

    def since(self, decided: Decided) -> int:
        """The bytes that fell since a decision."""
        return sum([each.size for each in self._falls if each.is_since(decided)])

    def take(self, decided: Decided, size: int) -> None:
        """Pay for a volume with what fell since it was decided on, the oldest fall first, as far as that goes."""
        left = list[Fall]()
        for each in self._falls:
            taken = min(each.size, size) if each.is_since(decided) else 0
            size -= taken
            if each.size > taken:
                left.append(each._replace(size=each.size - taken))
        self._falls = left

    def forget_until(self, tick: int) -> None:
        """Forget falls for which no volume can be paid that was decided on at this tick or later."""
        self._falls = [each for each in self._falls if each.tick > tick]

    def pay(self, volumes: Sequence[UnshownVolume], *, has_pools: bool) -> list[int]:
        """Pay for volumes of an object, the oldest first, and tell which of them, by their place in `volumes`."""
        if not self._falls or (has_pools and not self._are_enough_for_all(volumes)):
            return []
        paid = list[int]()
        for place, each in enumerate(volumes):
            if each.is_made and each.size <= self.since(each.decided):
                self.take(each.decided, each.size)
                paid.append(place)
        return paid

    def _are_enough_for_all(self, volumes: Sequence[UnshownVolume]) -> bool:
        """True if it makes no difference which volumes the falls are of: all are of one size, or there is enough for
        every volume that was made or may have been."""
        if len({each.size for each in volumes}) < 2:
            return True
        may_be_in = [each for each in volumes if each.is_made or each.size <= self.since(each.decided)]
        return sum([each.size for each in may_be_in]) <= self.since(EVER)
