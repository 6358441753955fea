"""Nominations that may follow: in a burst of pods a pod's claim is written first, and this after it.

    noted ──► the burst is over, or PATIENCE_S are ──► written, some at a time
         └──► its binding goes on to the pod itself, or fails ──► forgotten: there is nothing left to tell

A write to a pod's status costs an API server twice what one to a claim does, and nobody can begin with it: the claim is
what a provisioner waits for. So a burst of pods has its claims written first. Which pods may be treated so stands in
`nominations`. None of them waits for long: after `PATIENCE_S` it has its turn beside the claims of others, and it is
written before the pod is bound, or not at all.

A burst is pods that come one after the other, whether or not they have to wait to be tried: a scheduler decides faster
than most clients create, and what a burst is short of is the API server's time. It goes on while pods are placed or
bound (`Burst`): where volumes come quickly, most pods are bound before there is any need to say where they will be.

A burst may last. Whoever is noted then writes one that is overdue before its own claim is (`write_overdue`): one comes,
one goes, so that the line is never longer than what `PATIENCE_S` brought, and those who bring more are slowed down as
if they had written their own.
"""

from __future__ import annotations

import asyncio
from collections import deque
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
BURST_STEPS: Final = 8
BURST_S: Final = 0.5
"""So many pods that come or are bound within so many seconds are a burst; and so often its end is looked for."""

Write = Callable[[PodInfo, str], Awaitable[None]]

_log = logs.logger("tonnage.scheduler")


@dataclass(frozen=True, slots=True)
class _Noted:
    pod: PodInfo
    node_name: str
    at_s: float


class Burst:
    """Whether pods come, or are bound, one after the other: a pod that comes alone, or with a few, is no burst."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at_s = deque([float("-inf")] * BURST_STEPS, maxlen=BURST_STEPS)

    def step(self) -> None:
        """A pod is about to be tried, or was bound."""
        self._at_s.append(self._clock.monotonic())

    @property
    def is_on(self) -> bool:
        return self._clock.monotonic() - self._at_s[0] < BURST_S


class FollowingNominations:
    """What is still to be told of pods whose bindings are under way. Single-threaded.

    `write` tells one; `is_busy` says whether a burst is under way.
    """

    def __init__(self, write: Write, clock: Clock, *, is_busy: Callable[[], bool]) -> None:
        self._write = write
        self._clock = clock
        self._is_busy = is_busy
        self._noted: dict[str, _Noted] = {}  # in the order of noting
        self._writing: dict[str, asyncio.Future[None]] = {}
        self._writers: set[asyncio.Task[None]] = set()
        self._looking: asyncio.Task[None] | None = None

    def note(self, pod: PodInfo, node_name: str) -> None:
        self._noted[pod.uid] = _Noted(pod, node_name, self._clock.monotonic())
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())

    def wake(self) -> None:
        """Write what has its turn."""
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
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

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

    async def _look(self) -> None:
        """Look again and again while something is noted: the end of a burst is nothing that happens."""
        while self._noted:
            await self._clock.sleep(BURST_S)
            self.wake()
        self._looking = None

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
