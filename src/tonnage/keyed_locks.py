"""One at a time for each key: others with the same key wait their turn, all others go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager


class KeyedLocks:
    """A lock for each key, as long as somebody holds it or waits for it."""

    def __init__(self) -> None:
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def hold(self, *keys: str) -> AsyncIterator[None]:
        """Hold all of these, taken in the order of keys, so that no two callers wait for one another."""
        async with AsyncExitStack() as held:
            for key in sorted(set(keys)):
                await held.enter_async_context(self._one(key))
            yield

    @asynccontextmanager
    async def _one(self, key: str) -> AsyncIterator[None]:
        lock, interested = self._locks.get(key, (None, 0))
        lock = lock or asyncio.Lock()
        self._locks[key] = (lock, interested + 1)
        try:
            async with lock:
                yield
        finally:
            interested = self._locks[key][1] - 1
            if interested:
                self._locks[key] = (lock, interested)
            else:
                del self._locks[key]
