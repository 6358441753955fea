"""Keeping the event loop free: threads for large requests, turns for long walks, and a measure of how late it is.

Most requests are about a few kilobytes and take a millisecond: handing them to a thread would cost more than they do.
What may take longer than 50 ms, by the size of what was sent and of what is stored, is worked on in one of a few
threads, which take turns with the loop. Reading and writing the store stays on the loop: between the two a change is
only a proposal, which the store's optimistic lock refuses when the object has moved on. Long work that reads what only
the loop may read goes on in turns (`Turn`).
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
"""Text beyond this is large. A long text costs little by the byte: 64 KiB take a few milliseconds at most."""
LARGE_VALUES: Final = 500
"""And so are more values than this. The dearest, an empty container, takes up to 0.1 ms with its defaults and rules; an
ordinary pod has a hundred."""
LARGE_PROTOBUF_BYTES: Final = 8 * 1024
"""Protobuf has no commas to count; a pod of a controller has 2 or 3 KiB. What comes out is counted in any case."""
LARGE_LIST_BYTES: Final = 4 * 1024 * 1024
"""Documents that are joined as they are stored: a gigabyte a second, in round numbers."""
LARGE_ADMISSION_BYTES: Final = 1024 * 1024
"""Other objects that are read for a new one: a megabyte takes five to ten milliseconds."""
THREADS: Final = 2
MAX_UNDER_WAY: Final = 64
"""Large requests that are worked on or wait. Well below the requests that may be under way at all, of which the small
ones thus always have their part."""


def is_large(*texts: bytes) -> bool:
    """May documents of this text, JSON or YAML, take longer than the loop can spare?"""
    size = sum(map(len, texts))
    if size > LARGE_BYTES:
        return True
    if size < LARGE_VALUES:
        return False
    # Every value but the first of a list or map has a comma before it in JSON, and a line of its own in YAML; and
    # nothing is nested deeper than a hundred levels.
    return sum(text.count(mark) for text in texts for mark in (b",", b"\n-", b"\n ", b"\r")) > LARGE_VALUES


class Workers:
    def __init__(self, *, threads: int = THREADS, max_under_way: int = MAX_UNDER_WAY) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="tonnage-large-request")
        self._max_under_way = max_under_way
        self.under_way = 0
        """Pieces of work that run or wait; one whose client has gone counts until its thread is free again."""

    async def run(self, work: Callable[[], T]) -> T:
        """What `work` gives or raises, from a thread. Raises TooManyRequests when too many wait already."""
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
            # An error knows this call by its traceback, and the future knows the error: a circle, which would keep a
            # large request until the garbage collector comes by.
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
    """What `read` gives, called where the store may be read: here, or on the loop when this is one of the threads."""
    loop: asyncio.AbstractEventLoop | None = getattr(_local, "loop", None)
    if loop is None:
        return read()
    answer: Future[T] = Future()
    loop.call_soon_threadsafe(_read_for, answer, read)
    try:
        return _waited_for(answer, loop)
    finally:
        del answer  # as in `Workers.run`


def _read_for(answer: Future[T], read: Callable[[], T]) -> None:
    try:
        answer.set_result(read())
    except BaseException as exc:
        answer.set_exception(exc)
    finally:
        del answer  # which the traceback knows as well


def _waited_for(answer: Future[T], loop: asyncio.AbstractEventLoop) -> T:
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
        del answer


_EVERY_S: Final = 0.1
_WORTH_TELLING_S: Final = 0.25
_QUIET_S: Final = 10.0
"""A loop that is held up is held up again and again; one line in so long is enough."""

_log = logging.getLogger(__name__)


async def measure_lag(observe: Callable[[float], None]) -> None:
    """Until cancelled, ten times a second, tell `observe` by how many seconds the loop wakes a task too late."""
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
"""Long beside what a change of turns costs, short beside the 50 ms that nobody may take."""


class Turn:
    """Whether the work has had the loop for long enough. Ask after each piece."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = time.monotonic() + TURN_S

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._until

    async def pause(self) -> None:
        """Let everybody else have a turn, and begin another."""
        await asyncio.sleep(0)
        self._until = time.monotonic() + TURN_S
