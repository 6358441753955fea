"""Running bindings: their waits, which of them can be cancelled, and how many call the API server at a time.

    feed ──changed──► the waits it concerns, by topic, at once        ──► look: has the wait an answer?
         └──────────► all others, at the next `sweep`

A binding has a slot while it calls the API server, and lends it out while its pod waits for volumes or a Permit plugin;
the loop stops deciding while all slots are taken. After a wait a binding calls at once, so for a moment more may call
than there are slots. A more important pod can cancel PreBind (PodsInPreBind).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from tonnage.client.transport.http_transport import MAX_CONNECTIONS
from tonnage.clock import Clock
from tonnage.keyed import Shelf
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.meta import Key, Object
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.framework import SUCCESS, Code, Status

Topic = tuple[type[Object], Key]
"""An object that a wait is about."""
Check = Callable[[], Status | None]
"""Returns an answer, or None: keep waiting."""

DEADLINE_EXCEEDED: Final = Status(Code.ERROR, ("context deadline exceeded",))


async def _is_answered(answer: asyncio.Future[Status], clock: Clock, seconds: float) -> bool:
    """Wait for an answer for at most `seconds`; False if there is none by then."""
    alarm = asyncio.create_task(clock.sleep(seconds))
    waited: tuple[asyncio.Future[Any], ...] = (answer, alarm)
    try:
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
    finally:
        alarm.cancel()
    return answer.done()


class _Wait:
    """A check without an answer yet."""

    def __init__(self, check: Check, about: frozenset[Topic]) -> None:
        self._check = check
        self.about = about
        self.answer: asyncio.Future[Status] = asyncio.get_running_loop().create_future()

    def look(self) -> None:
        """Run the check. Its exceptions go to the waiting binding, not to the reporter of the change."""
        if self.answer.done():
            return
        try:
            status = self._check()
        except Exception as exc:
            self.answer.set_exception(exc)
            return
        if status is not None:
            self.answer.set_result(status)


class PreBindWaits:
    """All checks that wait for an answer. Single-threaded."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._all: dict[_Wait, None] = {}
        self._by_topic: Shelf[Topic, _Wait, None] = Shelf()
        self._is_stale = False

    def __len__(self) -> int:
        return len(self._all)

    async def settled(self, check: Check, timeout_s: float, about: Iterable[Topic] = ()) -> Status:
        """Wait until `check` has an answer. A cancellation leaves nothing behind."""
        wait = _Wait(check, frozenset(about))
        wait.look()
        if wait.answer.done():
            return wait.answer.result()
        self._all[wait] = None
        for topic in wait.about:
            self._by_topic.put(topic, wait, None)
        try:
            is_answered = await _is_answered(wait.answer, self._clock, timeout_s)
            return wait.answer.result() if is_answered else DEADLINE_EXCEEDED
        finally:
            del self._all[wait]
            for topic in wait.about:
                self._by_topic.take(topic, wait)

    def changed(self, *states: Object | None) -> None:
        """An object came, changed or went: pass its old and new state. The waits it concerns are checked at once."""
        if not self._all:
            return
        self._is_stale = True
        concerned: dict[_Wait, None] = {}
        for topic in {topic for state in states if state is not None for topic in _topics(state)}:
            concerned.update(self._by_topic.at(topic))
        for wait in concerned:
            wait.look()

    def sweep(self) -> None:
        """Run all checks if anything changed since the last call. Call it every second, as often as upstream polls."""
        if self._is_stale:
            self._is_stale = False
            for wait in tuple(self._all):
                wait.look()


def _topics(each: Object) -> Iterable[Topic]:
    yield type(each), each.key
    if isinstance(each, PersistentVolume) and each.spec.claim_ref is not None:
        yield PersistentVolumeClaim, each.spec.claim_ref.key


class PodsInPreBind:
    """The tasks that run PreBind plugins, by pod uid. Single-threaded."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Task[Any]] = {}
        self._called_off: dict[str, str] = {}

    async def run(self, uid: str, work: Awaitable[Status]) -> Status:
        """Await the work in the current task. Returns an ERROR with the reason if it is called off before it ends."""
        task = asyncio.current_task()
        assert task is not None, "PreBind runs in a task"
        self._running[uid] = task
        status = Status(Code.ERROR)
        try:
            status = await work
        except asyncio.CancelledError:
            if uid not in self._called_off:
                raise
        finally:
            del self._running[uid]
        why = self._called_off.pop(uid, "")
        if why:
            task.uncancel()
            return Status(Code.ERROR, (why,))
        return status

    def call_off(self, uid: str, why: str) -> bool:
        """Cancel a pod's PreBind; False if it has none, or is past it."""
        task = self._running.get(uid)
        if task is None:
            return False
        if uid not in self._called_off:
            self._called_off[uid] = why
            task.cancel()
        return True


MAX_BINDINGS = MAX_CONNECTIONS
"""The most bindings that call the API server at a time. With more than there are connections, the claims of the first
pods would wait behind the nominations of the next ones."""


class BindingSlots:
    def __init__(self, limit: int = MAX_BINDINGS) -> None:
        self._limit = limit
        self.taken = 0
        self.free = asyncio.Event()
        """Set while a slot is free."""
        self.free.set()
        self._resting: set[asyncio.Task[Any]] = set()
        self._is_closed = False

    @property
    def resting(self) -> int:
        return len(self._resting)

    def take(self) -> None:
        self._count(1)

    def give(self) -> None:
        self._count(-1)

    @contextmanager
    def rest(self) -> Iterator[None]:
        """Lend the slot out inside the block. The task is cancelled if the slots are closed, before or during it."""
        task = asyncio.current_task()
        if self._is_closed or task is None:
            raise asyncio.CancelledError
        self._resting.add(task)
        self._count(-1)
        try:
            yield
        finally:
            self._count(1)
            self._resting.discard(task)

    def close(self) -> None:
        """Cancel all tasks that have lent out their slots."""
        self._is_closed = True
        for task in self._resting:
            task.cancel()

    def open(self) -> None:
        self._is_closed = False

    def _count(self, step: int) -> None:
        self.taken += step
        if self.taken < self._limit:
            self.free.set()
        else:
            self.free.clear()


MAX_WAIT_S = 15 * 60.0
"""The longest wait of a Permit plugin."""


class WaitingPod:
    """A pod that waits in Permit, for plugins."""

    def __init__(self, pod: PodInfo, node_name: str, deadlines_s: Mapping[str, float]) -> None:
        self.pod = pod
        self.node_name = node_name
        self._deadlines = {plugin: min(seconds, MAX_WAIT_S) for plugin, seconds in deadlines_s.items()}
        self._answer: asyncio.Future[Status] = asyncio.get_running_loop().create_future()

    def allow(self, plugin: str) -> None:
        """A plugin allows the pod."""
        self._deadlines.pop(plugin, None)
        if not self._deadlines and not self._answer.done():
            self._answer.set_result(SUCCESS)

    def reject(self, plugin: str, reason: str) -> None:
        """A plugin rejects the pod."""
        if not self._answer.done():
            self._answer.set_result(Status(Code.UNSCHEDULABLE, (reason,), plugin))

    def preempt(self, plugin: str) -> bool:
        """A more important pod needs the room: end the wait, without a rejection. False if it has ended already."""
        if self._answer.done():
            return False
        self._answer.set_result(Status(Code.ERROR, ("waiting on permit for pod: preempted",), plugin))
        return True

    async def wait(self, clock: Clock) -> Status:
        """The answer of the plugins, or a rejection at the first deadline."""
        if self._answer.done():
            return self._answer.result()
        first, seconds = min(self._deadlines.items(), key=lambda each: each[1])
        if not await _is_answered(self._answer, clock, seconds):
            self.reject(first, f"rejected due to timeout after waiting {seconds:g}s at plugin {first}")
        return self._answer.result()


def end_wait(waiting: Mapping[str, WaitingPod], uid: str) -> None:
    """A pod was deleted, is terminating, or has its node: if it waits in Permit, end its wait."""
    if (waiting_pod := waiting.get(uid)) is not None:
        waiting_pod.reject("", "removed")
