"""Waiting for what another process, thread or task brings about: look until it holds, with a bound.

    pod = eventually(lambda: cluster.get(path).body["status"].get("phase"))
    await eventually_async(stage.is_bound, "the claim to be bound", details=stage.events)
    reply = eventually(ask, holds=lambda reply: reply.code == 404)

The bound is for a hung test, not a measure of speed, and the pauses between two looks start short and grow. A wait that
fails says what it waited for, what it saw last, and what `details` knows (a log, the events of a namespace).
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar, overload

T = TypeVar("T")
Holds = Callable[[Any], object]
Details = Callable[[], object]

PATIENCE_S = 60.0
_FIRST_PAUSE_S = 0.005
_LONGEST_PAUSE_S = 0.05


def eventually(
    look: Callable[[], T | None],
    what: str = "it to come true",
    *,
    holds: Holds = bool,
    within_s: float = PATIENCE_S,
    details: Details | None = None,
) -> T:
    """Look until what is seen holds (by default: is true), and return it. Raises AssertionError after `within_s`."""
    ends_at = time.monotonic() + within_s
    pauses = _pauses()
    while not holds(seen := look()):
        if time.monotonic() >= ends_at:
            raise AssertionError(_failure(what, within_s, seen, details() if details else ""))
        time.sleep(next(pauses))
    return seen  # type: ignore[return-value]  # what holds is not None


@overload
async def eventually_async(
    look: Callable[[], Awaitable[T | None]],
    what: str = "it to come true",
    *,
    holds: Holds = bool,
    within_s: float = PATIENCE_S,
    details: Details | None = None,
) -> T: ...


@overload
async def eventually_async(
    look: Callable[[], T | None],
    what: str = "it to come true",
    *,
    holds: Holds = bool,
    within_s: float = PATIENCE_S,
    details: Details | None = None,
) -> T: ...


async def eventually_async(
    look: Callable[[], Any],
    what: str = "it to come true",
    *,
    holds: Holds = bool,
    within_s: float = PATIENCE_S,
    details: Details | None = None,
) -> Any:
    """`eventually` for a task: `look` and `details` may be coroutine functions; a look that hangs is cancelled."""
    seen: Any = None
    bound = asyncio.timeout(within_s)
    try:
        async with bound:
            for pause_s in _pauses():
                if holds(seen := await _answer(look)):
                    return seen
                await asyncio.sleep(pause_s)
    except TimeoutError:
        if not bound.expired():
            raise
    raise AssertionError(_failure(what, within_s, seen, await _answer(details) if details else ""))


async def _answer(ask: Callable[[], Any]) -> Any:
    answer = ask()
    return await answer if inspect.isawaitable(answer) else answer


def _pauses() -> Iterator[float]:
    pause_s = _FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)


def _failure(what: str, within_s: float, seen: object, details: object) -> str:
    more = f"\n{details}" if details else ""
    return f"waited {within_s:g} s for {what}; last seen: {seen!r}{more}"
