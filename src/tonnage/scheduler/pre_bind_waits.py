"""Bindings that wait for the world: for a claim to be bound, say. They are asked again when something happens.

    feed ──changed──► the waits it concerns, at once        ──► look: has the wait an answer?
         └──────────► all others, at the next `sweep`

Hundreds of pods may wait for their volumes while thousands of events a second pass by, so an event wakes by topic: the
claims of the waiting pod, its node, the pod itself. A volume counts under the claim it names. What a check reads beyond
that is not forgotten: after any change at all, `sweep` asks everybody, once a second at most. Nothing is asked while
nothing happens.
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
DEADLINE_EXCEEDED: Final = Status(Code.ERROR, ("context deadline exceeded",))


class _Wait:
    """One check that has no answer yet."""

    def __init__(self, check: Check) -> None:
        self._check = check
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


class PreBindWaits:
    """All checks that wait for an answer. Single-threaded."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._all: dict[_Wait, frozenset[Topic]] = {}
        self._by_topic: dict[Topic, set[_Wait]] = {}
        self._is_stale = False

    def __len__(self) -> int:
        return len(self._all)

    async def settled(self, check: Check, timeout_s: float, about: Iterable[Topic] = ()) -> Status:
        """Wait until `check` has an answer. A cancellation, like an answer, leaves nothing behind."""
        wait = _Wait(check)
        wait.look()
        if wait.answer.done():
            return wait.answer.result()
        self._add(wait, frozenset(about))
        alarm = asyncio.ensure_future(self._clock.sleep(timeout_s))
        try:
            await asyncio.wait((wait.answer, alarm), return_when=asyncio.FIRST_COMPLETED)
        finally:
            alarm.cancel()
            self._remove(wait)
        return wait.answer.result() if wait.answer.done() else DEADLINE_EXCEEDED

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

    def _add(self, wait: _Wait, about: frozenset[Topic]) -> None:
        self._all[wait] = about
        for topic in about:
            self._by_topic.setdefault(topic, set()).add(wait)

    def _remove(self, wait: _Wait) -> None:
        for topic in self._all.pop(wait):
            waiting = self._by_topic[topic]
            waiting.discard(wait)
            if not waiting:
                del self._by_topic[topic]


def _topics(each: Object) -> Iterable[Topic]:
    yield type(each), each.key
    if isinstance(each, PersistentVolume) and each.spec.claim_ref is not None:
        yield PersistentVolumeClaim, each.spec.claim_ref.key
