"""Bindings that wait for the world: for a claim to be bound, say. They are asked again when something happens.

    feed ──changed──► the waits it concerns, at once        ──► look: has the wait an answer?
         └──────────► all others, at the next `sweep`

Hundreds of pods may wait for their volumes while thousands of events a second pass by, so an event wakes by topic: the
claims of the waiting pod, its node, the pod itself. A volume counts under the claim it names. What a check reads beyond
that is not forgotten: after any change at all, `sweep` asks everybody, once a second at most. Nothing is asked while
nothing happens.

Waits of the same timeout end in the order in which they began, so that one alarm is set for the first of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from tonnage.clock import Clock
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.meta import Key, Object
from tonnage.scheduling.framework import Code, Status

Topic = tuple[type[Object], Key]
"""What a wait is about."""
Check = Callable[[], Status | None]
"""An answer, or None: keep waiting."""

SWEEP_EVERY_S: Final = 1.0
"""How often to call `sweep`: upstream polls as often."""
_HAIR_S: Final = 1e-6
"""Sums of fractions end a hair's breadth before their time."""
DEADLINE_EXCEEDED: Final = Status(Code.ERROR, ("context deadline exceeded",))


class _Wait:
    """One check that has no answer yet, until `ends_at_s`."""

    def __init__(self, check: Check, about: frozenset[Topic], ends_at_s: float) -> None:
        self._check = check
        self.about = about
        self.ends_at_s = ends_at_s
        self.answer: asyncio.Future[Status] = asyncio.get_running_loop().create_future()

    def look(self) -> None:
        """Ask the check. What it raises is for the one who waits, not for whoever told of the change."""
        if self.answer.done():
            return
        try:
            found = self._check()
        except Exception as exc:
            self.answer.set_exception(exc)
            return
        if found is not None:
            self.answer.set_result(found)

    def end(self) -> None:
        if not self.answer.done():
            self.answer.set_result(DEADLINE_EXCEEDED)


class PreBindWaits:
    """All checks that wait for an answer. Single-threaded."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._all: dict[_Wait, None] = {}
        self._by_topic: dict[Topic, set[_Wait]] = {}
        self._by_timeout: dict[float, dict[_Wait, None]] = {}  # each in the order of their ends
        self._alarms: dict[float, asyncio.Task[None]] = {}
        self._is_stale = False

    def __len__(self) -> int:
        return len(self._all)

    async def settled(self, check: Check, timeout_s: float, about: Iterable[Topic] = ()) -> Status:
        """Wait until `check` has an answer. A cancellation, like an answer, leaves nothing behind."""
        wait = _Wait(check, frozenset(about), self._clock.monotonic() + timeout_s)
        wait.look()
        if wait.answer.done():
            return wait.answer.result()
        self._add(wait, timeout_s)
        try:
            return await wait.answer
        finally:
            self._remove(wait, timeout_s)

    def changed(self, *states: Object | None) -> None:
        """An object came, changed or went: hand in what it was and what it is. Whoever it concerns is asked at once."""
        if not self._all:
            return
        self._is_stale = True
        concerned: dict[_Wait, None] = {}
        for topic in {topic for state in states if state is not None for topic in _topics(state)}:
            concerned.update(dict.fromkeys(self._by_topic.get(topic, ())))
        for wait in concerned:
            wait.look()

    def sweep(self) -> None:
        """Ask everybody, if anything changed since the last time."""
        if self._is_stale:
            self._is_stale = False
            for wait in tuple(self._all):
                wait.look()

    def _add(self, wait: _Wait, timeout_s: float) -> None:
        self._all[wait] = None
        for topic in wait.about:
            self._by_topic.setdefault(topic, set()).add(wait)
        self._by_timeout.setdefault(timeout_s, {})[wait] = None
        if timeout_s not in self._alarms:
            self._alarms[timeout_s] = asyncio.create_task(self._end_overdue(timeout_s))

    def _remove(self, wait: _Wait, timeout_s: float) -> None:
        del self._all[wait]
        for topic in wait.about:
            waiting = self._by_topic[topic]
            waiting.discard(wait)
            if not waiting:
                del self._by_topic[topic]
        of_timeout = self._by_timeout[timeout_s]
        del of_timeout[wait]
        if not of_timeout:
            del self._by_timeout[timeout_s]
            self._alarms.pop(timeout_s).cancel()

    async def _end_overdue(self, timeout_s: float) -> None:
        """The alarm of all waits of one timeout, for as long as there are any."""
        while True:
            now_s = self._clock.monotonic()
            ends_at_s = now_s + timeout_s  # of one that comes from now on, at the earliest
            for wait in self._by_timeout[timeout_s]:
                if wait.ends_at_s > now_s + _HAIR_S:
                    ends_at_s = wait.ends_at_s
                    break
                wait.end()
            await self._clock.sleep(ends_at_s - now_s)


def _topics(each: Object) -> Iterable[Topic]:
    yield type(each), each.key
    if isinstance(each, PersistentVolume) and each.spec.claim_ref is not None:
        yield PersistentVolumeClaim, each.spec.claim_ref.key
