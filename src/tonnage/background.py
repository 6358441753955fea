"""Work that goes on beside a program for as long as a block lasts, and ends with it.

async with in_background(repeatedly(clock, 60.0, certificate.refresh), "serving certificate"):
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

from tonnage.clock import Clock


@asynccontextmanager
async def in_background(work: Coroutine[Any, Any, None], name: str) -> AsyncIterator[None]:
    """Run `work` as a task inside the block; it is cancelled at the end, and has ended when the block is left."""
    task = asyncio.create_task(work, name=name)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def repeatedly(clock: Clock, every_s: float, look: Callable[[], object]) -> None:
    """Call `look` after every pause, for ever."""
    while True:
        await clock.sleep(every_s)
        look()
