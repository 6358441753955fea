"""A limit on how many requests a client sends: a token bucket, on the clock that was handed in."""

from __future__ import annotations

import asyncio

from tonnage.clock import Clock


class TokenBucket:
    """At most `burst` at once and `qps` a second over time; who has to wait is let through in the order of asking."""

    def __init__(self, qps: float, burst: int, *, clock: Clock) -> None:
        if qps <= 0 or burst < 1:
            raise ValueError(f"a limit of {qps:g} requests a second with a burst of {burst} lets nothing through")
        self._qps = qps
        self._burst = burst
        self._clock = clock
        self._tokens = float(burst)
        self._filled_at = clock.monotonic()

    async def take(self) -> None:
        """Return when one more request may be sent. A cancelled wait gives its token back."""
        now = self._clock.monotonic()
        self._tokens = min(self._tokens + (now - self._filled_at) * self._qps, float(self._burst))
        self._filled_at = now
        self._tokens -= 1
        if self._tokens >= 0:
            return
        try:
            # The debt is paid off at `qps`; whoever asks later finds a larger one and waits longer.
            await self._clock.sleep(-self._tokens / self._qps)
        except asyncio.CancelledError:
            self._tokens += 1
            raise
