"""One line a cause and interval: what strangers can make a program say, they can make it say a million times.

    E1115 02:29:13 tonnage.listener] "No connection can be accepted: Too many open files; …"
    E1115 02:29:23 tonnage.listener] "No connection can be accepted: Too many open files; … (1011 more like it)"

A cause is the logger, the level, the text before its values are filled in, and the type of the exception. Only loggers
that speak about what comes from outside are limited, and only from INFO on; what a program says about its own work is
as much as it does. The number of those left out is told with the next of the cause or, if it stays away, with whatever
is logged next.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

INTERVAL_S: Final = 10.0
LIMITED: Final = ("aiohttp", "asyncio", "tonnage.listener", "tonnage.http_connection", "tonnage.apiserver")
"""Loggers that speak about requests, connections and their faults."""
_MAX_CAUSES: Final = 1000
"""Causes remembered at once; a library that puts values into its texts may make one of each."""

Cause = tuple[str, int, str, str]


@dataclass(slots=True)
class _Told:
    at: float
    left_out: int = 0


class _Summary(logging.LogRecord):
    """A record of our own, which is not limited again."""


class LogLimiter(logging.Filter):
    """For a handler: lets the first record of a cause through, counts the rest of the interval."""

    def __init__(
        self,
        *,
        limited: Sequence[str] = LIMITED,
        interval_s: float = INTERVAL_S,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._limited = tuple(f"{name}." for name in limited)
        self._interval_s = interval_s
        self._now = now
        self._told: dict[Cause, _Told] = {}  # the one told longest ago first
        self._handler: logging.Handler | None = None
        self._lock = threading.RLock()  # records come from every thread

    def attach(self, handler: logging.Handler) -> None:
        """Limit what a handler writes."""
        self._handler = handler
        handler.addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record, _Summary):
            return True
        with self._lock:
            return self._passes(record)

    def _passes(self, record: logging.LogRecord) -> bool:
        now = self._now()
        is_limited = record.levelno >= logging.INFO and f"{record.name}.".startswith(self._limited)
        cause = _cause(record) if is_limited else None
        self._sum_up(now, cause)
        if cause is None:
            return True
        told = self._told.get(cause)
        if told is not None and now - told.at < self._interval_s:
            told.left_out += 1
            return False
        if told is not None and told.left_out:
            record.msg = f"{record.getMessage()} ({told.left_out} more like it)"
            record.args = ()
        self._told.pop(cause, None)
        self._told[cause] = _Told(now)
        if len(self._told) > _MAX_CAUSES:
            del self._told[next(iter(self._told))]
        return True

    def _sum_up(self, now: float, but: Cause | None) -> None:
        """Tell the numbers of causes whose interval is over; a cause that comes again does so itself."""
        due: list[tuple[Cause, _Told]] = []
        for cause, told in self._told.items():
            if now - told.at < self._interval_s:
                break
            if cause != but:
                due.append((cause, told))
        for cause, told in due:
            del self._told[cause]
            if told.left_out and self._handler is not None:
                name, level, text, _ = cause
                said = _Summary(name, level, "", 0, "%d more were left out of: %s", (told.left_out, text), None)
                self._handler.handle(said)


def _cause(record: logging.LogRecord) -> Cause:
    error = record.exc_info[0] if record.exc_info else None
    return record.name, record.levelno, str(record.msg)[:200], error.__name__ if error is not None else ""
