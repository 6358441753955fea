"""A limit on how long something may take, on the clock that was handed in: `asyncio.timeout` has only the real one."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from tonnage.clock import Clock

R = TypeVar("R")


async def within(clock: Clock, seconds: float, work: Coroutine[Any, Any, R]) -> R:
    """The result of `work`, or TimeoutError after `seconds`; however this ends, `work` has ended too."""
    task, timer = asyncio.ensure_future(work), asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait((task, timer), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise TimeoutError(f"not done within {seconds:g} s")
    finally:
        timer.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))
            if not task.cancelled():
                task.exception()  # looked at, so that it is not reported as forgotten: the timeout is what counts
