"""Virtual time for tests: tasks that sleep are woken while time passes."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final

from tonnage import clock

# How often `run_for` lets the event loop turn at one instant. A woken task passes its result on through a few futures
# and queues, one turn each; a hundred is far more than any chain here, and costs about a millisecond.
_TURNS: Final = 100


class VirtualClock(clock.VirtualClock):
    """The clock of replays, for tests: it can let time pass, and its time of day can be set."""

    def set_time_of_day(self, ahead_s: float) -> None:
        """Set the time of day, forward or back; spans and sleeps do not change."""
        self._start += timedelta(seconds=ahead_s)

    async def run_for(self, seconds: float) -> None:
        """Let `seconds` pass: sleepers wake at their own times and may sleep again. Waits for no thread or socket."""
        until_ns = self._until(seconds)
        await _settle()
        while self._sleepers and self._sleepers[0][0] <= until_ns:
            self._elapsed_ns = max(self._elapsed_ns, self._sleepers[0][0])
            while self._sleepers and self._sleepers[0][0] <= self._elapsed_ns:
                self._wake_first()
            await _settle()
        self._elapsed_ns = until_ns


async def _settle() -> None:
    for _ in range(_TURNS):
        await asyncio.sleep(0)
