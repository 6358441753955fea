"""Nominations that may follow: while many pods wait for their turn, a pod's claim is written first, and this after it.

    noted ──► the loop has nothing to try, or PATIENCE_S are over ──► written, some at a time
         └──► its binding goes on to the pod itself, or fails ──► forgotten: there is nothing left to tell

A write to a pod's status costs an API server twice what one to a claim does, and nobody can begin with it: the claim is
what a provisioner waits for. So a burst of pods has its claims written first. Which pods may be treated so stands in
`nominations`. None of them waits for long: after `PATIENCE_S` it has its turn beside the claims of others, and it is
written before the pod is bound, or not at all.

A burst may last. Whoever is noted then writes one that is overdue before its own claim is (`write_overdue`): one comes,
one goes, so that the line is never longer than what `PATIENCE_S` brought, and those who bring more are slowed down as
if they had written their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from tonnage import logs
from tonnage.clock import Clock
from tonnage.scheduling.cluster.pod_info import PodInfo

PATIENCE_S: Final = 5.0
"""How long a nomination waits at most for others' claims. Those who read nominations look every ten seconds."""
WRITERS: Final = 32
"""Nominations written at a time: enough for servers that take 50 ms to answer."""

Write = Callable[[PodInfo, str], Awaitable[None]]

_log = logs.logger("tonnage.scheduler")


@dataclass(frozen=True, slots=True)
class _Noted:
    pod: PodInfo
    node_name: str
    at_s: float


class FollowingNominations:
    """What is still to be told of pods whose bindings are under way. Single-threaded.

    `write` tells one; `is_busy` says whether pods wait to be tried.
    """

    def __init__(self, write: Write, clock: Clock, *, is_busy: Callable[[], bool]) -> None:
        self._write = write
        self._clock = clock
        self._is_busy = is_busy
        self._noted: dict[str, _Noted] = {}  # in the order of noting
        self._writing: dict[str, asyncio.Future[None]] = {}
        self._writers: set[asyncio.Task[None]] = set()

    def note(self, pod: PodInfo, node_name: str) -> None:
        self._noted[pod.uid] = _Noted(pod, node_name, self._clock.monotonic())

    def wake(self) -> None:
        """Write what has its turn. To be called when the loop has nothing to try, and now and then."""
        wanted = len(self._noted) + len(self._writing)  # one that hangs keeps nobody else waiting
        while len(self._writers) < min(WRITERS, wanted) and self._next() is not None:
            writer = asyncio.create_task(self._write_noted())
            self._writers.add(writer)
            writer.add_done_callback(self._writers.discard)

    async def write_overdue(self) -> None:
        """Write the one that has waited longest, if it has its turn."""
        uid = self._next()
        if uid is not None:
            await self._write_one(uid)

    async def over(self, uid: str) -> None:
        """The pod's node is told otherwise now, or not at all. Returns when nothing is being written about it."""
        self._noted.pop(uid, None)
        writing = self._writing.get(uid)
        if writing is not None:
            await asyncio.wait((writing,))

    def close(self) -> None:
        """Forget what was not written yet; writes under way go on."""
        self._noted.clear()

    async def settle(self) -> None:
        """Wait until everything that is being written is."""
        while self._writers:
            await asyncio.wait(self._writers)

    async def stop(self) -> None:
        """Forget the rest, and drop the writes that are under way."""
        self.close()
        for writer in self._writers:
            writer.cancel()
        await self.settle()

    def _next(self) -> str | None:
        """The pod that has waited longest, if it has its turn."""
        uid = next(iter(self._noted), None)
        if uid is None or not self._is_busy():
            return uid
        return uid if self._clock.monotonic() - self._noted[uid].at_s >= PATIENCE_S else None

    async def _write_noted(self) -> None:
        while (uid := self._next()) is not None:
            await self._write_one(uid)

    async def _write_one(self, uid: str) -> None:
        noted = self._noted.pop(uid)
        self._writing[uid] = written = asyncio.get_running_loop().create_future()
        try:
            await self._write(noted.pod, noted.node_name)
        except Exception as exc:  # a fault of ours is no reason to fail whoever writes it
            _log.error("Telling where a pod goes failed", pod=noted.pod.key, error=repr(exc))
        finally:
            del self._writing[uid]
            written.set_result(None)
