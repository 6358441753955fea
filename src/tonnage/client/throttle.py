"""Limits on the requests of a client: token buckets, on the given clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tonnage.clock import Clock

PATIENCE_S = 10.0
"""How long a less urgent request gives way; after that it competes with the others, so that a busy program still writes
events."""
BUSY_QPS = 10.0
BUSY_BURST = 8
"""Less urgent requests, per second and at once, of a program with urgent work."""
LONG_LINE_S = 20.0
LONG_BUSY_QPS = 50.0
"""The rate once less urgent requests have waited for long; otherwise they would come later and later."""
_LOOK_EVERY_S = 0.05
"""How often a request that gives way checks whether the urgent work is done."""
_SHORTEST_WAIT_S = 0.001
"""Sums of fractions end a little before the token is whole; without a minimum the wait would be 0."""


class TokenBucket:
    """At most `burst` at once and `qps` a second over time; waiting requests go in the order of asking."""

    def __init__(self, qps: float, burst: int, *, clock: Clock) -> None:
        if qps <= 0 or burst < 1:
            raise ValueError(f"a limit of {qps:g} requests a second with a burst of {burst} allows no requests")
        self._qps = qps
        self._burst = burst
        self._clock = clock
        self._tokens = float(burst)
        self._filled_at = clock.monotonic()

    def take_now(self) -> bool:
        self._fill()
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    async def take(self) -> None:
        """Return when one more request may be sent. A cancelled wait gives its token back."""
        self._fill()
        self._tokens -= 1
        if self._tokens >= 0:
            return
        try:
            # The debt is paid off at `qps`; a later caller finds a larger debt and waits longer.
            await self._clock.sleep(-self._tokens / self._qps)
        except asyncio.CancelledError:
            self._tokens += 1
            raise

    def take_spare(self) -> float:
        """Take a token if more than half of the burst is left: 0.0. Else the seconds until that may be so."""
        self._fill()
        kept = self._burst // 2
        if self._tokens >= kept + 1:
            self._tokens -= 1
            return 0.0
        return (kept + 1 - self._tokens) / self._qps

    def _fill(self) -> None:
        now = self._clock.monotonic()
        self._tokens = min(self._tokens + (now - self._filled_at) * self._qps, float(self._burst))
        self._filled_at = now


class SpareTokens:
    """A limit for less urgent requests, within what another bucket leaves over; half of its burst is not touched.

    While one of `busy` returns True, few requests are sent. The others follow when none is busy, at the latest after
    `PATIENCE_S`; a line that has stood for `LONG_LINE_S` moves faster.
    """

    def __init__(self, own: TokenBucket, of: TokenBucket | None, *, clock: Clock) -> None:
        self._own = own
        self._of = of
        self._clock = clock
        self._while_busy = TokenBucket(BUSY_QPS, BUSY_BURST, clock=clock)
        self._while_long_busy = TokenBucket(LONG_BUSY_QPS, BUSY_BURST, clock=clock)
        self._first = asyncio.Lock()
        self._in_line = 0
        self._in_line_since_s = 0.0
        self.busy: list[Callable[[], bool]] = []
        self.hurried = 0
        """How many callers have no time left; while there is one, all requests may use the other bucket's limit."""

    async def take(self) -> None:
        gives_up_at = self._clock.monotonic() + PATIENCE_S
        await self._give_way(gives_up_at)
        if self.hurried:
            if self._of is not None:
                await self._of.take()
            return
        await self._own.take()
        if self._of is None:
            return
        while (wait_s := self._of.take_spare()) > 0.0:
            left_s = gives_up_at - self._clock.monotonic()
            if left_s <= 0.0:
                await self._of.take()
                return
            await self._clock.sleep(max(min(wait_s, left_s), _SHORTEST_WAIT_S))

    async def _give_way(self, gives_up_at: float) -> None:
        """Wait until no work is busy, or for one of the few tokens meanwhile. Only the first in line checks."""
        if not self._first.locked() and not self._is_busy():
            return
        if not self._in_line:
            self._in_line_since_s = self._clock.monotonic()
        self._in_line += 1
        try:
            async with self._first:
                while self._is_busy() and not self._may_pass():
                    left_s = gives_up_at - self._clock.monotonic()
                    if left_s <= 0.0:
                        return
                    await self._clock.sleep(max(min(_LOOK_EVERY_S, left_s), _SHORTEST_WAIT_S))
        finally:
            self._in_line -= 1

    def _may_pass(self) -> bool:
        is_long = self._clock.monotonic() - self._in_line_since_s >= LONG_LINE_S
        return (self._while_long_busy if is_long else self._while_busy).take_now()

    def _is_busy(self) -> bool:
        return not self.hurried and any(says() for says in self.busy)


Limit = TokenBucket | SpareTokens
