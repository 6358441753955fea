"""How long the event loop keeps everybody waiting, measured all the time.

A task asks to be woken every tenth of a second and notes how much later that is. What is late was held up by one piece
of work that should have been in a thread or in turns (`workers`, `turns`): from 250 ms on the log says so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from tonnage.background import in_background

_EVERY_S: Final = 0.1
_WORTH_TELLING_S: Final = 0.25
_QUIET_S: Final = 10.0
"""A loop that is held up is held up again and again; one line in so long is enough."""

_log = logging.getLogger(__name__)


@asynccontextmanager
async def lag_measured(observe: Callable[[float], None]) -> AsyncIterator[None]:
    """Tell `observe` how late the loop is, in seconds, inside the block."""
    async with in_background(_measure(observe), "lag of the event loop"):
        yield


async def _measure(observe: Callable[[float], None]) -> None:
    loop = asyncio.get_running_loop()
    quiet_until = 0.0
    while True:
        asked_at = loop.time()
        await asyncio.sleep(_EVERY_S)
        now = loop.time()
        lag_s = max(0.0, now - asked_at - _EVERY_S)
        observe(lag_s)
        if lag_s >= _WORTH_TELLING_S and now >= quiet_until:
            quiet_until = now + _QUIET_S
            _log.warning("the event loop was held up for %.0f ms: every request waited as long", lag_s * 1000)
