"""Waiting longer after each failure, each time a little differently.

The pause before try n is `first_s * factor^n`, at most `max_s`, times a random factor between 1 and 1 + `jitter`, so
that a thousand clients which lost one server do not come back in step. After a quiet spell it starts over by itself.
"""

from __future__ import annotations

import random

from tonnage.clock import Clock


class Backoff:
    """The pauses of one thing that is tried again. Numbers are those of client-go's reflector."""

    def __init__(
        self,
        *,
        clock: Clock,
        rng: random.Random,
        first_s: float = 0.8,
        max_s: float = 30.0,
        factor: float = 2.0,
        jitter: float = 1.0,
        reset_after_s: float = 120.0,
    ) -> None:
        self._clock = clock
        self._rng = rng
        self._first_s = first_s
        self._max_s = max_s
        self._factor = factor
        self._jitter = jitter
        self._reset_after_s = reset_after_s
        self._pause_s = first_s
        self._asked_at = clock.monotonic()

    def next_s(self) -> float:
        """How long to wait before the next try."""
        now = self._clock.monotonic()
        if now - self._asked_at > self._reset_after_s:
            self._pause_s = self._first_s
        self._asked_at = now
        pause_s, self._pause_s = self._pause_s, min(self._pause_s * self._factor, self._max_s)
        return jittered(pause_s, self._jitter, self._rng)

    def reset(self) -> None:
        """All is well again: the next pause is the first."""
        self._pause_s = self._first_s


def jittered(seconds: float, jitter: float, rng: random.Random) -> float:
    """Between `seconds` and `seconds * (1 + jitter)`."""
    return seconds * (1.0 + rng.random() * jitter)
