"""Keeps the event loop free: threads for large requests, turns for long loops, and a measure of its lag.

Most requests are a few kilobytes and take a millisecond: a thread would cost more. Work that may take longer than 50
ms, judged by the size of the request and of the stored object, runs in one of a few threads. The store is read and
written on the loop only: in between, a change is a proposal that the store's optimistic lock refuses if the object has
changed. Long work on the loop itself goes in turns (`Turn`).
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Final, TypeVar

from tonnage.errors import TooManyRequests

T = TypeVar("T")

LARGE_BYTES: Final = 64 * 1024
"""A longer text is large. Long strings cost little per byte: 64 KiB take a few milliseconds at most."""
LARGE_VALUES: Final = 500
"""More values than this are large too. The most expensive, an empty container, takes up to 0.1 ms with its defaults and
rules; an ordinary pod has a hundred values."""
LARGE_PROTOBUF_BYTES: Final = 8 * 1024
"""Protobuf has no commas to count; a controller's pod has 2 or 3 KiB. The decoded values are counted in any case."""
LARGE_LIST_BYTES: Final = 4 * 1024 * 1024
"""Documents that are joined as stored: about a gigabyte a second."""
LARGE_ADMISSION_BYTES: Final = 1024 * 1024
"""Other objects that admission reads for a new one: a megabyte takes five to ten milliseconds."""
THREADS: Final = 2
MAX_UNDER_WAY: Final = 64
"""Large requests that run or wait. Well below the limit of all requests, so that small ones always have a share."""


def is_large(*texts: bytes) -> bool:
    """True if JSON or YAML documents of this text may take longer than the loop can spare."""
    size = sum(map(len, texts))
    if size > LARGE_BYTES:
        return True
    if size < LARGE_VALUES:
        return False
    # Every value but the first of a list or map has a comma before it in JSON, and its own line in YAML; and nothing
    # nests deeper than a hundred levels.
    return sum(text.count(mark) for text in texts for mark in (b",", b"\n-", b"\n ", b"\r")) > LARGE_VALUES


class Workers:
    def __init__(self, *, threads: int = THREADS, max_under_way: int = MAX_UNDER_WAY) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="tonnage-large-request")
        self._max_under_way = max_under_way
        self.under_way = 0
        """Work that runs or waits; if its client has gone, it counts until its thread is free."""

    async def work(self, is_large: bool, work: Callable[[], T]) -> T:
        """The result of `work`: run here, or in a thread if it is large."""
        return await self.run(work) if is_large else work()

    async def run(self, work: Callable[[], T]) -> T:
        """The result of `work`, run in a thread. Raises TooManyRequests when too many wait."""
        if self.under_way >= self._max_under_way:
            raise TooManyRequests("Too many large requests, please try again later.", retry_after_s=1)
        loop = asyncio.get_running_loop()
        self.under_way += 1
        future = self._pool.submit(_in_thread, loop, work)

        def count_down() -> None:
            self.under_way -= 1

        def done(_: Future[T]) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(count_down)

        future.add_done_callback(done)
        try:
            return await asyncio.wrap_future(future)
        finally:
            # The error's traceback refers to this call, and the future to the error: a cycle, which would keep a large
            # request in memory until the next garbage collection.
            del future

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


_local = threading.local()


def _in_thread(loop: asyncio.AbstractEventLoop, work: Callable[[], T]) -> T:
    _local.loop = loop
    try:
        return work()
    finally:
        _local.loop = None


def on_loop(read: Callable[[], T]) -> T:
    """The result of `read`, called on the loop if this is one of the threads, else here."""
    loop: asyncio.AbstractEventLoop | None = getattr(_local, "loop", None)
    if loop is None:
        return read()

    async def on() -> T:
        return read()

    answer = asyncio.run_coroutine_threadsafe(on(), loop)
    try:
        while True:
            try:
                return answer.result(timeout=1.0)
            except TimeoutError:
                if answer.done():
                    raise
                if loop.is_closed():
                    raise RuntimeError("the server has ended") from None
    finally:
        del answer  # as in `Workers.run`


_EVERY_S: Final = 0.1
_WORTH_TELLING_S: Final = 0.25
_QUIET_S: Final = 10.0
"""A blocked loop is blocked again and again; one log line in so long is enough."""

_log = logging.getLogger(__name__)


async def measure_lag(observe: Callable[[float], None]) -> None:
    """Until cancelled, ten times a second, call `observe` with the seconds by which the loop wakes a task late."""
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


TURN_S: Final = 0.01
"""Long compared to a switch of tasks, short compared to the 50 ms limit."""


class Turn:
    """Whether the current work has had the loop for long enough. Check it after every piece."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = time.monotonic() + TURN_S

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._until

    async def pause(self) -> None:
        """Let other tasks run, and begin a new turn."""
        await asyncio.sleep(0)
        self._until = time.monotonic() + TURN_S
