"""How long a key waits before it is tried again: twice as long after each failure, a little differently each time.

A queue alone cannot say it, because an event wakes its keys at once, and our own writes are events too: a claim whose
condition says "no room" would be tried again because it says so. So each failure notes *what was asked* (the node, the
size, the class). The same question waits for its time, whoever wakes the key; another one is asked at once.
"""

from __future__ import annotations

import random
from collections.abc import Hashable
from dataclasses import dataclass

from tonnage.backoff import jittered
from tonnage.clock import Clock

_JITTER = 0.2
_TICK_S = 1e-6
"""Sums of floats may come out a hair before the time they were meant to be."""


@dataclass(slots=True)
class _Pause:
    question: Hashable
    failures: int
    due_at_s: float


class Pauses:
    """The failures of many keys. Pauses run from `first_s`, doubling, to `max_s`, each up to a fifth longer."""

    def __init__(self, *, clock: Clock, rng: random.Random, first_s: float, max_s: float) -> None:
        self._clock = clock
        self._rng = rng
        self._first_s = first_s
        self._max_s = max_s
        self._pauses: dict[str, _Pause] = {}

    def left_s(self, key: str, question: Hashable) -> float:
        """How long this question has to wait; 0 when it may be asked."""
        pause = self._pauses.get(key)
        if pause is None or pause.question != question:
            return 0.0
        left_s = pause.due_at_s - self._clock.monotonic()
        return left_s if left_s > _TICK_S else 0.0

    def failed(self, key: str, question: Hashable, *, at_least_s: float = 0.0) -> float:
        """Note a failure; how long to wait now."""
        before = self._pauses.get(key)
        failures = before.failures + 1 if before is not None and before.question == question else 1
        # 2^40 first pauses are longer than any maximum; more would only be a large number.
        plain_s = min(self._first_s * 2.0 ** min(failures - 1, 40), self._max_s)
        pause_s = jittered(max(plain_s, at_least_s), _JITTER, self._rng)
        self._pauses[key] = _Pause(question, failures, self._clock.monotonic() + pause_s)
        return pause_s

    def forget(self, key: str) -> None:
        """It went well, or is given up: the next failure is the first again."""
        self._pauses.pop(key, None)

    def __len__(self) -> int:
        return len(self._pauses)
