"""Profiles of a running program at /debug/pprof/, after Go's pages of that name.

    /debug/pprof/                     what there is
    /debug/pprof/profile?seconds=30   where the time goes: stacks of all threads, looked at a hundred times a second,
                                      a line each with how often it was seen, as flame graphs and speedscope read them
    /debug/pprof/goroutine            what is waited for: every task and thread with where it stands
    /debug/pprof/cmdline              the program's command line

The format is text, not pprof's, because `go tool pprof` knows nothing of Python's frames. Sampling costs about a
percent of one CPU; one profile is made at a time, of at most five minutes. The program's gate decides who may read the
pages.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Final

from aiohttp import web

from tonnage.clock import Clock
from tonnage.health import Page

_EVERY_S: Final = 0.01
_DEFAULT_S, _MOST_S = 30.0, 300.0
_DEEPEST: Final = 200
_MOST_STACKS: Final = 2_000
"""Different stacks that are kept; others are counted together."""

_INDEX: Final = """\
/debug/pprof/profile?seconds=30   stacks of all threads, a hundred times a second: for flame graphs
/debug/pprof/goroutine            tasks and threads, and where each of them stands
/debug/pprof/cmdline              the command line
"""


def pages(clock: Clock) -> Mapping[str, Page]:
    profiler = Profiler(clock)

    def told(text: Callable[[], str]) -> Page:
        async def page(request: web.BaseRequest) -> web.StreamResponse:
            return web.Response(text=text())

        return page

    async def profile(request: web.BaseRequest) -> web.StreamResponse:
        try:
            seconds = float(request.query.get("seconds") or _DEFAULT_S)
        except ValueError:
            seconds = 0.0
        if not 0 < seconds <= _MOST_S:
            return web.Response(status=400, text=f"seconds is a number up to {_MOST_S:g}\n")
        if profiler.is_busy:
            return web.Response(status=500, text="Could not enable CPU profiling: cpu profiling already in use\n")
        return web.Response(text=await profiler.stacks(seconds))

    return {
        "/debug/pprof": told(lambda: _INDEX),
        "/debug/pprof/": told(lambda: _INDEX),
        "/debug/pprof/profile": profile,
        "/debug/pprof/goroutine": told(where_all_stand),
        "/debug/pprof/cmdline": told(lambda: "\x00".join(sys.argv)),
    }


class Profiler:
    """Samples stacks from a thread of its own, one profile at a time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.is_busy = False

    async def stacks(self, seconds: float) -> str:
        """`outermost;…;innermost count`, one line per stack, most frequent first."""
        seen: Counter[str] = Counter()
        stop = threading.Event()
        looking = threading.Thread(target=_look, args=(seen, stop), name="profiler", daemon=True)
        self.is_busy = True
        try:
            looking.start()
            await self._clock.sleep(seconds)
        finally:
            stop.set()
            looking.join(timeout=1.0)
            self.is_busy = False
        return "".join(f"{stack} {count}\n" for stack, count in seen.most_common())


def _look(seen: Counter[str], stop: threading.Event) -> None:
    own = threading.get_ident()
    while not stop.wait(_EVERY_S):
        for thread, frame in sys._current_frames().items():
            if thread == own:
                continue
            stack = _folded(frame)
            seen[stack if stack in seen or len(seen) < _MOST_STACKS else "(others)"] += 1


def _folded(frame: FrameType | None) -> str:
    names: list[str] = []
    while frame is not None and len(names) < _DEEPEST:
        names.append(f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_qualname}:{frame.f_lineno}")
        frame = frame.f_back
    return ";".join(reversed(names))


def where_all_stand() -> str:
    """Every asyncio task of this loop and every thread, with its stack."""
    parts: list[str] = []
    for task in sorted(asyncio.all_tasks(), key=lambda each: each.get_name()):
        frames = task.get_stack(limit=_DEEPEST)
        where = "".join(traceback.format_list(traceback.StackSummary.extract((each, each.f_lineno) for each in frames)))
        parts.append(f"task {task.get_name()} {getattr(task.get_coro(), '__qualname__', '?')}\n{where}")
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        parts.append(f"thread {names.get(ident, ident)}\n{''.join(traceback.format_stack(frame, limit=_DEEPEST))}")
    return "\n".join(parts)
