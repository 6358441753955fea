"""One call at a time for each volume: others for the same volume wait their turn, all others go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager


class Locks:
    """A lock for each name, as long as somebody holds it or waits for it."""

    def __init__(self) -> None:
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def hold(self, *names: str) -> AsyncIterator[None]:
        """Hold all of these, taken in the order of their names, so that no two callers wait for one another."""
        async with AsyncExitStack() as held:
            for name in sorted(set(names)):
                await held.enter_async_context(self._one(name))
            yield

    @asynccontextmanager
    async def _one(self, name: str) -> AsyncIterator[None]:
        lock, interested = self._locks.get(name, (None, 0))
        lock = lock or asyncio.Lock()
        self._locks[name] = (lock, interested + 1)
        try:
            async with lock:
                yield
        finally:
            interested = self._locks[name][1] - 1
            if interested:
                self._locks[name] = (lock, interested)
            else:
                del self._locks[name]
