"""Keeps the memory of long-running commands small and level.

    async with memory_kept_level(SystemClock()):
        …

Measured on a cluster of four nodes under load, three things take memory that no object of ours needs:

- asyncio's read buffer of 256 KiB per TLS connection: 70 MB for the watches of a cluster, while records have at most
  16 KiB. A smaller buffer is only read more often.
- Cycles of dead objects, such as aborted connections. In the API server Python collects old cycles once in hours. So
  they are collected by the clock.
- Free memory between used blocks, in one glibc heap per thread: 20 of 90 MB in the API server. Two heaps are enough
  where one thread runs at a time, and free pages are returned once a minute, which takes 3 ms.
"""

from __future__ import annotations

import ctypes
import gc
from asyncio.sslproto import SSLProtocol
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Final

from tonnage.clock import Clock, in_background

READ_BUFFER_BYTES: Final = 32 << 10
"""Two of TLS' largest records."""
TIDY_EVERY_S: Final = 60.0
_ALL_EVERY: Final = 10
"""Every tenth collection covers all objects, the others those of the last minute: few connections live long, but a
million objects may."""
_M_ARENA_MAX: Final = -8
"""From glibc's malloc.h."""
_ARENAS: Final = 2


_YOUNG_OBJECTS: Final = 20_000
"""Allocations between two collections of the youngest generation, in a program that runs for long. Python's 700 are one
or two pods, or three requests."""


def settle() -> None:
    """Freeze loaded objects, so that garbage collections skip them: most stay, reference counts free what belongs to a
    pod or a request, and cycles are rare. At 5,000 nodes decisions took about a sixth less time in one comparison.
    Nothing is collected first: loading leaves a few hundred objects behind, and to find them takes 30 ms and more."""
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 20, 20)


@asynccontextmanager
async def memory_kept_level(clock: Clock) -> AsyncIterator[None]:
    """Bound the memory of connections and threads, and collect garbage once a minute inside the block."""
    bound_tls_buffers()
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):  # glibc; other libraries have no such heaps
        libc.mallopt(_M_ARENA_MAX, _ARENAS)
    async with in_background(_tidied(clock, libc), "memory"):
        yield


def bound_tls_buffers() -> None:
    """Shrink asyncio's read buffers of TLS connections, if this Python has them (3.11 to 3.14)."""
    if isinstance(getattr(SSLProtocol, "max_size", None), int):
        SSLProtocol.max_size = min(SSLProtocol.max_size, READ_BUFFER_BYTES)


async def _tidied(clock: Clock, libc: ctypes.CDLL) -> None:
    for number in count(1):
        await clock.sleep(TIDY_EVERY_S)
        gc.collect(1 if number % _ALL_EVERY else 2)
        if hasattr(libc, "malloc_trim"):
            libc.malloc_trim(0)
