"""How many bindings may talk to the API server at a time.

A decision that cannot be carried out helps nobody, so the loop stops deciding while all slots are taken. A binding has
a slot while it calls; while it rests (its pod waits for its volumes, or for a Permit plugin) it lends the slot out.
Were it to keep it, a few hundred pods that wait minutes for a slow driver would hold up every other pod. Resting costs
a little memory and is not limited. Who rises from a rest calls at once, so that for a moment more may call than there
are slots; the loop lets them finish first.

When the scheduler stops, `close` ends every rest by cancelling it and lets nobody rest any more; calls under way go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

MAX_BINDINGS = 256
"""Bindings that call at a time."""


class BindingSlots:
    def __init__(self, limit: int = MAX_BINDINGS) -> None:
        self._limit = limit
        self._taken = 0
        self._free = asyncio.Event()
        self._free.set()
        self._resting: set[asyncio.Task[Any]] = set()
        self._is_closed = False

    @property
    def taken(self) -> int:
        return self._taken

    @property
    def resting(self) -> int:
        return len(self._resting)

    async def wait_free(self) -> None:
        """Wait until a slot is free. It does not take one."""
        await self._free.wait()

    def take(self) -> None:
        self._count(1)

    def give(self) -> None:
        self._count(-1)

    @contextmanager
    def rest(self) -> Iterator[None]:
        """Lend the slot out while the block waits. When the slots are closed, then or before, it is cancelled."""
        task = asyncio.current_task()
        if self._is_closed or task is None:
            raise asyncio.CancelledError
        self._resting.add(task)
        self._count(-1)
        try:
            yield
        finally:
            self._count(1)
            self._resting.discard(task)

    def close(self) -> None:
        """Wake whoever rests by cancelling it."""
        self._is_closed = True
        for task in self._resting:
            task.cancel()

    def open(self) -> None:
        self._is_closed = False

    def _count(self, step: int) -> None:
        self._taken += step
        if self._taken < self._limit:
            self._free.set()
        else:
            self._free.clear()
