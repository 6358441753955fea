"""`Clock` is the only source of time: code that decides gets one and never reads the machine's clock itself.

`SystemClock` is for live programs, `VirtualClock` for tests, replays and simulations. Virtual time wakes sleepers in
time order, ties in the order in which they fell asleep, so that a run repeats exactly. The second half writes and reads
times as Kubernetes does, in UTC, and durations in Go's grammar (`15s`, `1m30s`), exact to the nanosecond.

`Backoff` and `KeyedBackoff` are growing pauses between tries: the pause before try n is `first_s * factor^n`, at most
`max_s`, times a random factor between 1 and 1 + `jitter`, so that a thousand clients which lost one server do not come
back in step.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import random
import re
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Final, Protocol, Self, TypeVar

from tonnage.errors import TonnageError


class Clock(Protocol):
    def now(self) -> datetime:
        """The time of day, aware and in UTC."""

    def monotonic(self) -> float:
        """Seconds since an unspecified start. Never goes back, and counts while the machine is suspended."""

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`; zero or less only yields to other tasks."""


# time.monotonic stands still while a Linux machine is suspended, so a lease would seem younger than it is.
# CLOCK_BOOTTIME counts that time; without it (macOS, BSD) the plain clock is used.
_BOOTTIME: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


MOST_SET_BACK: Final = timedelta(days=30)
"""Clocks are assumed to be set back by less: a certificate valid for so long before its issue stays valid then."""


class StampAges:
    """The age of timestamps from the API, measured so that setting the system clock changes no age.

    When a timestamp is first seen, the time of day gives its age (0 for one in the future); from then on the monotonic
    clock counts. Beyond `most` keys, the least recently used is forgotten.
    """

    def __init__(self, clock: Clock, *, most: int = 4096) -> None:
        self._clock = clock
        self._most = most
        self._seen: dict[Hashable, tuple[datetime, float]] = {}

    def age_s(self, key: Hashable, stamp: datetime) -> float:
        """Seconds since the key's timestamp, 0 or more; a new timestamp for the key starts anew."""
        now_s, known = self._clock.monotonic(), self._seen.pop(key, None)
        if known is None or known[0] != stamp:
            known = (stamp, now_s - max((self._clock.now() - stamp).total_seconds(), 0.0))
            if len(self._seen) >= self._most:
                del self._seen[next(iter(self._seen))]
        self._seen[key] = known
        return now_s - known[1]

    def now(self, key: Hashable, stamp: datetime | None) -> datetime:
        """The time of day as if the clock had not been set since `stamp`; without a stamp, the current time."""
        return self._clock.now() if stamp is None else stamp + timedelta(seconds=self.age_s(key, stamp))

    def forget(self, key: Hashable) -> None:
        self._seen.pop(key, None)


# Any fixed instant will do; this one is easy to recognise in a test.
_START: Final = datetime(2000, 1, 1, tzinfo=UTC)


class VirtualClock:
    """Time that stands still until it is moved, in whole nanoseconds: ten sleeps of 0.1 s end where one of 1 s does."""

    def __init__(self, start: datetime = _START) -> None:
        self._start = _aware(start).astimezone(UTC)
        self._elapsed_ns = 0
        self._order = count()
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        return self._start + timedelta(microseconds=self._elapsed_ns // 1000)

    def monotonic(self) -> float:
        return self._elapsed_ns / 1e9

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has been moved by `seconds`; cancelling is safe."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        wake = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed_ns + _ns(seconds), next(self._order), wake))
        await wake

    def advance(self, seconds: float) -> None:
        """Jump: all sleepers that are due wake in order, and see the time after the jump."""
        until_ns = self._until(seconds)
        while self._sleepers and self._sleepers[0][0] <= until_ns:
            self._wake_first()
        self._elapsed_ns = until_ns

    def _until(self, seconds: float) -> int:
        if seconds < 0:
            raise ValueError(f"time does not go back: cannot advance by {seconds} s")
        return self._elapsed_ns + _ns(seconds)

    def _wake_first(self) -> None:
        _, _, wake = heapq.heappop(self._sleepers)
        if not wake.done():  # a cancelled sleeper is gone
            wake.set_result(None)


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


class InvalidTime(TonnageError):
    """A text that is no timestamp as Kubernetes writes it."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(f'"{text}" is not an RFC 3339 time; write it like "2026-11-15T02:29:13Z"')


_RFC3339: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})"
)


def rfc3339(at: datetime) -> str:
    """`2026-11-15T02:29:13Z`, as metav1.Time; fractions of a second are cut off."""
    return f"{_in_utc(at).isoformat(timespec='seconds')}Z"


def rfc3339_micro(at: datetime) -> str:
    """`2026-11-15T02:29:13.000000Z`, as metav1.MicroTime."""
    return f"{_in_utc(at).isoformat(timespec='microseconds')}Z"


def parse_rfc3339(text: str) -> datetime:
    """The time in UTC, from any offset; digits beyond microseconds are cut off. Raises InvalidTime."""
    if _RFC3339.fullmatch(text) is None:
        raise InvalidTime(text)
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError) as exc:  # the 30th of February, an offset of 99 hours, the year 0
        raise InvalidTime(text) from exc


def _in_utc(at: datetime) -> datetime:
    return _aware(at).astimezone(UTC).replace(tzinfo=None)


def _aware(at: datetime) -> datetime:
    if at.tzinfo is None:
        raise ValueError(f"{at.isoformat()} has no time zone; Kubernetes' times are in UTC")
    return at


R = TypeVar("R")


async def within(clock: Clock, seconds: float, work: Coroutine[Any, Any, R]) -> R:
    """The result of `work`, or TimeoutError after `seconds`; `work` has ended in either case."""
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
                task.exception()  # retrieved, so that asyncio does not log it: the timeout counts


_UNITS_NS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_MOST_NS = 2**63 - 1
_MAX_TEXT = 1_000
"""Longer than any sensible duration, and short enough to parse all digits."""


def parse_duration(text: str) -> float | None:
    """Seconds; None when the text is no duration: no unit, an unknown unit, or more than 292 years."""
    if len(text) > _MAX_TEXT:
        return None
    rest = text.removeprefix("-") if text.startswith("-") else text.removeprefix("+")
    if rest == "0":
        return 0.0
    total_ns, at = 0, 0
    while at < len(rest):
        part = _PART.match(rest, at)
        if part is None or not (part[1] or part[2]):
            return None
        unit_ns, digits = _UNITS_NS[part[3]], part[2] or ""
        # Below a nanosecond is cut off, part by part, as Go does.
        total_ns += int(part[1] or "0") * unit_ns + int(digits or "0") * unit_ns // 10 ** len(digits)
        at = part.end()
    if at == 0 or total_ns > _MOST_NS:
        return None
    return (-total_ns if text.startswith("-") else total_ns) / 10**9


def format_duration(seconds: float) -> str:
    """As Go prints it: hours, minutes and seconds from one second on (`1h0m0s`), else the largest fitting unit."""
    left_ns = round(abs(seconds) * 10**9)
    sign = "-" if seconds < 0 else ""
    if left_ns == 0:
        return "0s"
    for unit in ("ns", "µs", "ms"):
        if left_ns < _UNITS_NS[unit] * 1000:
            return f"{sign}{_decimal(left_ns, _UNITS_NS[unit])}{unit}"
    minutes, second_ns = divmod(left_ns, _UNITS_NS["m"])
    hours, minutes_left = divmod(minutes, 60)
    before = f"{hours}h{minutes_left}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{before}{_decimal(second_ns, _UNITS_NS['s'])}s"


def _decimal(amount_ns: int, unit_ns: int) -> str:
    whole, rest = divmod(amount_ns, unit_ns)
    fraction = f"{rest:0{len(str(unit_ns)) - 1}d}".rstrip("0") if rest else ""
    return f"{whole}.{fraction}" if fraction else str(whole)


@asynccontextmanager
async def in_background(work: Coroutine[Any, Any, None], name: str) -> AsyncIterator[None]:
    """Run `work` as a task inside the block; the task is cancelled and awaited at its end."""
    task = asyncio.create_task(work, name=name)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class Closing(ABC):
    """Open from the start, and closed at the end of `async with`."""

    @abstractmethod
    async def close(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Running(ABC):
    """Runs inside `async with`, or between `start` and `stop`."""

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    async def stop(self) -> None: ...

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


async def repeatedly(clock: Clock, every_s: float, look: Callable[[], object]) -> None:
    while True:
        await clock.sleep(every_s)
        look()


# -- pauses between tries ----------------------------------------------------------------------------------------------

_MOST_STEPS: Final = 60
"""2^60 first pauses are longer than any maximum."""
_TICK_S: Final = 1e-6
"""Sums of floats may come out a little before the intended time."""


@dataclass(kw_only=True)
class Backoff:
    """The pauses of one operation that is tried again. The defaults are those of client-go's reflector."""

    clock: Clock
    rng: random.Random
    first_s: float = 0.8
    max_s: float = 30.0
    factor: float = 2.0
    jitter: float = 1.0
    reset_after_s: float = 120.0

    def __post_init__(self) -> None:
        self._pause_s = self.first_s
        self._asked_at = self.clock.monotonic()

    def next_s(self) -> float:
        now = self.clock.monotonic()
        if now - self._asked_at > self.reset_after_s:
            self._pause_s = self.first_s
        self._asked_at = now
        pause_s, self._pause_s = self._pause_s, min(self._pause_s * self.factor, self.max_s)
        return jittered(pause_s, self.jitter, self.rng)

    def reset(self) -> None:
        """After a success: the next pause is the first again."""
        self._pause_s = self.first_s


@dataclass(kw_only=True)
class KeyedBackoff:
    """When each of many keys may be tried again: pauses run from `first_s`, doubling, to `max_s`, with jitter.

    A failure notes its request (the node, the size, the class). The same request waits even if an event wakes the key,
    because our own writes are events too; another request may be tried at once.
    """

    clock: Clock
    rng: random.Random
    first_s: float
    max_s: float
    jitter: float = 0.2
    _entries: dict[str, _Entry] = field(default_factory=dict, init=False)

    def left_s(self, key: str, request: Hashable) -> float:
        """Seconds that this request has to wait; 0 when it may be tried."""
        entry = self._entries.get(key)
        if entry is None or entry.request != request:
            return 0.0
        return remaining_s(entry.due_at_s, self.clock.monotonic())

    def failed(self, key: str, request: Hashable, *, at_least_s: float = 0.0) -> float:
        """Note a failure. Returns the seconds to wait."""
        before = self._entries.get(key)
        failures = before.failures + 1 if before is not None and before.request == request else 1
        plain_s = exponential_s(self.first_s, failures - 1, max_s=self.max_s)
        pause_s = jittered(max(plain_s, at_least_s), self.jitter, self.rng)
        self._entries[key] = _Entry(request, failures, self.clock.monotonic() + pause_s)
        return pause_s

    def forget(self, key: str) -> None:
        """After a success, or when the key is given up: the next failure is the first again."""
        self._entries.pop(key, None)

    def __len__(self) -> int:
        return len(self._entries)


@dataclass(slots=True)
class _Entry:
    request: Hashable
    failures: int
    due_at_s: float


def exponential_s(first_s: float, retries: int, *, max_s: float = math.inf, factor: float = 2.0) -> float:
    """The pause after `retries` retries: `first_s * factor^retries`, at most `max_s`."""
    return min(first_s * factor ** min(retries, _MOST_STEPS), max_s)


def remaining_s(due_s: float, now_s: float) -> float:
    """Seconds until `due_s`; 0 once it has passed, or is nearer than a clock can resolve."""
    left_s = due_s - now_s
    return left_s if left_s > _TICK_S else 0.0


def jittered(seconds: float, jitter: float, rng: random.Random) -> float:
    """Between `seconds` and `seconds * (1 + jitter)`."""
    return seconds * (1.0 + rng.random() * jitter)
