"""Growing pauses between tries, with jitter.

The pause before try n is `first_s * factor^n`, at most `max_s`, times a random factor between 1 and 1 + `jitter`, so
that a thousand clients which lost one server do not come back in step.
"""

from __future__ import annotations

import math
import random
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final

from tonnage.clock import Clock

_MOST_STEPS: Final = 60
"""2^60 first pauses are longer than any maximum."""
_TICK_S: Final = 1e-6
"""Sums of floats may come out a little before the intended time."""


@dataclass(kw_only=True)
class Backoff:
    """The pauses of one operation that is tried again. The defaults are those of client-go's reflector."""

    clock: Clock
    rng: random.Random
    first_s: float = 0.8
    max_s: float = 30.0
    factor: float = 2.0
    jitter: float = 1.0
    reset_after_s: float = 120.0

    def __post_init__(self) -> None:
        self._pause_s = self.first_s
        self._asked_at = self.clock.monotonic()

    def next_s(self) -> float:
        now = self.clock.monotonic()
        if now - self._asked_at > self.reset_after_s:
            self._pause_s = self.first_s
        self._asked_at = now
        pause_s, self._pause_s = self._pause_s, min(self._pause_s * self.factor, self.max_s)
        return jittered(pause_s, self.jitter, self.rng)

    def reset(self) -> None:
        """After a success: the next pause is the first again."""
        self._pause_s = self.first_s


@dataclass(kw_only=True)
class KeyedBackoff:
    """When each of many keys may be tried again: pauses run from `first_s`, doubling, to `max_s`, with jitter.

    A failure notes its request (the node, the size, the class). The same request waits even if an event wakes the key,
    because our own writes are events too; another request may be tried at once.
    """

    clock: Clock
    rng: random.Random
    first_s: float
    max_s: float
    jitter: float = 0.2
    _entries: dict[str, _Entry] = field(default_factory=dict, init=False)

    def left_s(self, key: str, request: Hashable) -> float:
        """Seconds that this request has to wait; 0 when it may be tried."""
        entry = self._entries.get(key)
        if entry is None or entry.request != request:
            return 0.0
        return remaining_s(entry.due_at_s, self.clock.monotonic())

    def failed(self, key: str, request: Hashable, *, at_least_s: float = 0.0) -> float:
        """Note a failure. Returns the seconds to wait."""
        before = self._entries.get(key)
        failures = before.failures + 1 if before is not None and before.request == request else 1
        plain_s = exponential_s(self.first_s, failures - 1, max_s=self.max_s)
        pause_s = jittered(max(plain_s, at_least_s), self.jitter, self.rng)
        self._entries[key] = _Entry(request, failures, self.clock.monotonic() + pause_s)
        return pause_s

    def forget(self, key: str) -> None:
        """After a success, or when the key is given up: the next failure is the first again."""
        self._entries.pop(key, None)

    def __len__(self) -> int:
        return len(self._entries)


@dataclass(slots=True)
class _Entry:
    request: Hashable
    failures: int
    due_at_s: float


def exponential_s(first_s: float, retries: int, *, max_s: float = math.inf, factor: float = 2.0) -> float:
    """The pause after `retries` retries: `first_s * factor^retries`, at most `max_s`."""
    return min(first_s * factor ** min(retries, _MOST_STEPS), max_s)


def remaining_s(due_s: float, now_s: float) -> float:
    """Seconds until `due_s`; 0 once it has passed, or is nearer than a clock can resolve."""
    left_s = due_s - now_s
    return left_s if left_s > _TICK_S else 0.0


def jittered(seconds: float, jitter: float, rng: random.Random) -> float:
    """Between `seconds` and `seconds * (1 + jitter)`."""
    return seconds * (1.0 + rng.random() * jitter)
