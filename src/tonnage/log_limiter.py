"""One line a cause and interval: what strangers can make a program say, they can make it say a million times.

    E1115 02:29:13 tonnage.listener] "No connection can be accepted: Too many open files; …"
    E1115 02:29:23 tonnage.listener] "No connection can be accepted: Too many open files; … (1011 more like it)"

A cause is the logger, the level, the text before its values are filled in, and the type of the exception. Only loggers
that speak about what comes from outside are limited, and only from INFO on; what a program says about its own work is
as much as it does. The number of those left out is told with the next of the cause or, if it stays away, with whatever
is logged next.

An API server that is away, has trouble of its own, or lets us do nothing, is one cause too, whoever speaks of it.
Twenty informers, a leader election and every queue of a program fail for the same reason at once, and again after each
pause. Their lines are known by the field `error` (`server_cause`), and told once a minute.

    W1115 02:29:13 tonnage.client.informer] "Cannot follow" resource="nodes" error="GET https://…: connection refused"
    W1115 02:30:14 tonnage.client.leader] "Cannot reach the lease (repeated 57 times in 60 s)" error="PUT https://…"
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

INTERVAL_S: Final = 10.0
SERVER_INTERVAL_S: Final = 60.0
LIMITED: Final = (
    "aiohttp",
    "asyncio",
    "tonnage.listener",
    "tonnage.http_connection",
    "tonnage.apiserver",
    "tonnage.client.delegated_access",
    "tonnage.client.transport",
)
"""Loggers that speak about requests, connections and their faults."""
_UNANSWERED: Final = re.compile(r"^[A-Z]+ (https?://[^/\s]+)\S*: (.*)$", re.DOTALL)
"""How a request that got no answer is told: method, address, what happened (`Disconnected`)."""
_ANSWER: Final = re.compile(r"^the answer is (\d+)\b")
"""An answer that is no Status: of a load balancer in between, say, whose page may be another one each time."""
_IN_TROUBLE: Final = re.compile(
    r"^(Internal error occurred|Too many requests|Timeout: |apiserver not ready|etcdserver: |context deadline exceeded|"
    r"rpc error: |the server is currently unable|the server has received too many|the server was unable to return|"
    r"the server could not|storage is \(re\)initializing)"
)
"""How servers begin that have trouble of their own; which object they were asked about does not matter."""
_OUT_OF_STEP: Final = "not in step with the API server"
_FOLLOWING: Final = ("tonnage.client.informer", "Cannot follow")
_SAME_FOR_ALL: Final = frozenset({"No watch-list here; listing instead", "No end of the state comes; listing instead"})
"""What every informer finds out about the same server."""
_FORBIDDEN: Final = re.compile(r"forbidden: (User .* cannot .*)$", re.DOTALL)
_SERVER: Final = "server"
_MAX_CAUSES: Final = 1000
"""Causes remembered at once; a library that puts values into its texts may make one of each."""

Cause = tuple[str, int, str, str]


@dataclass(slots=True)
class _Told:
    at: float
    until: float
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
        server_interval_s: float = SERVER_INTERVAL_S,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._limited = tuple(f"{name}." for name in limited)
        self._interval_s = interval_s
        self._server_interval_s = server_interval_s
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
        cause = self._cause(record)
        self._sum_up(now, cause)
        if cause is None:
            return True
        told = self._told.get(cause)
        if told is not None and now < told.until:
            told.left_out += 1
            return False
        if told is not None and told.left_out:
            record.msg = f"{record.getMessage()} ({_counted(cause, told, now)})"
            record.args = ()
        interval_s = self._server_interval_s if cause[0] == _SERVER else self._interval_s
        self._told.pop(cause, None)
        self._told[cause] = _Told(now, now + interval_s)
        if len(self._told) > _MAX_CAUSES:
            del self._told[next(iter(self._told))]
        return True

    def _cause(self, record: logging.LogRecord) -> Cause | None:
        """Why a record may have been said before; None for one that is never left out."""
        if record.levelno < logging.INFO:
            return None
        error = getattr(record, "tonnage_fields", {}).get("error")
        if isinstance(error, str):
            why = server_cause(error)
            if not why and (record.name, record.msg) == _FOLLOWING:
                why = f"{record.msg}: {error}"[:300]  # all informers, whatever they follow
            if why:
                return _SERVER, 0, why, ""
        is_limited = record.msg in _SAME_FOR_ALL or f"{record.name}.".startswith(self._limited)
        return _cause(record) if is_limited else None

    def _sum_up(self, now: float, but: Cause | None) -> None:
        """Tell the numbers of causes whose interval is over; a cause that comes again does so itself."""
        due = [(cause, told) for cause, told in self._told.items() if now >= told.until and cause != but]
        for cause, told in due:
            del self._told[cause]
            if told.left_out and self._handler is not None:
                name, level, text, _ = cause
                if name == _SERVER:
                    name, level = "tonnage.client", logging.WARNING
                    text = f"{text}: {_counted(cause, told, now)}"
                    said = _Summary(name, level, "", 0, "%s", (text,), None)
                else:
                    said = _Summary(name, level, "", 0, "%d more were left out of: %s", (told.left_out, text), None)
                self._handler.handle(said)


def _counted(cause: Cause, told: _Told, now: float) -> str:
    if cause[0] == _SERVER:
        times = "once" if told.left_out == 1 else f"{told.left_out} times"
        return f"repeated {times} in {now - told.at:.0f} s"
    return f"{told.left_out} more like it"


def server_cause(error: str) -> str:
    """What is wrong with the API server or with our rights there, told by an error; empty for any other error.

    Which object it was about does not matter: who cannot list pods cannot list those of any namespace.
    """
    if error == "Unauthorized":
        return "The API server does not know who we are (Unauthorized)"
    if error.startswith(_OUT_OF_STEP):
        return "The API server is not followed"
    if _IN_TROUBLE.match(error):
        return f"The API server has trouble: {error}"[:300]
    if found := _UNANSWERED.match(error):
        if answer := _ANSWER.match(found[2]):
            return f"{found[1]} answers {answer[1]}"
        return f"{found[1]} does not answer: {found[2]}"[:300]
    if found := _FORBIDDEN.search(error):
        return f"Forbidden: {found[1]}"[:300]
    return ""


def _cause(record: logging.LogRecord) -> Cause:
    error = record.exc_info[0] if record.exc_info else None
    return record.name, record.levelno, str(record.msg)[:200], error.__name__ if error is not None else ""
