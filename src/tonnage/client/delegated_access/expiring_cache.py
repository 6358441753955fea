"""Answers that are true for a while: at most so many, the one that was asked for longest ago goes first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from tonnage.clock import Clock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ExpiringCache(Generic[K, V]):
    """Values by key, each with its own end; None is no value."""

    def __init__(self, size: int, *, clock: Clock) -> None:
        self._size = size
        self._clock = clock
        self._entries: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def get(self, key: K) -> V | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        until, value = entry
        if self._clock.monotonic() >= until:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return value

    def put(self, key: K, value: V, *, for_s: float) -> None:
        """Keep a value; for no time at all, it is not kept."""
        if for_s <= 0:
            return
        self._entries[key] = (self._clock.monotonic() + for_s, value)
        self._entries.move_to_end(key)
        while len(self._entries) > self._size:
            self._entries.popitem(last=False)

    def __len__(self) -> int:
        return len(self._entries)
