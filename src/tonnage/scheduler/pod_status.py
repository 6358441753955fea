"""What the scheduler writes about a pod: its PodScheduled condition, and events.

    an attempt failed ──► is a nomination to be written? ── yes ──► now, with the condition, among the bindings
                                       │ no
                                       ▼
                          noted, the newest a pod ──► written a few at a time, by a client that has a limit of its own

Reporting must not delay placing. A waiting condition is replaced by a newer one, forgotten if its pod is placed or
gone, and dropped and counted if `MAX_PENDING` are waiting. It is written if it is still news, locked by the pod's
resourceVersion, and retried after a pause if that fails. Final failures are logged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from tonnage import logs
from tonnage.backoff import exponential_s
from tonnage.clock import Clock, rfc3339
from tonnage.errors import Conflict, NotFound, TonnageError
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Key
from tonnage.scheduler.nominations import StatusWrites
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.queue.queued_pod import uid_of

MAX_PENDING: Final = 10_000
"""The most conditions that wait to be written: about 10 MB."""
WRITERS: Final = 4
"""Conditions written at a time."""
_FIRST_PAUSE_S: Final = 0.5
"""After a conflict, the informer gets this time to show the changed pod."""
_MAX_PAUSE_S: Final = 30.0
_REPEATS: Final = 12
"""Retries of a failed write: about four minutes. Then the queue's flush is near, and the next attempt reports it."""

_log = logs.logger("tonnage.scheduler")


class Events(Protocol):
    """The event recorder."""

    def event(self, regarding: Any, type: Any, reason: str, action: str, note: str, related: Any = None) -> None: ...


@dataclass(frozen=True, slots=True)
class _Said:
    key: Key
    reason: str
    message: str
    failures: int = 0
    """How often writing it has failed."""


class PodStatusWriter:
    """Writes the PodScheduled condition and events. `client`: for nominations; `telling`: for the rest."""

    def __init__(
        self,
        client: StatusWrites,
        telling: StatusWrites,
        events: Events,
        clock: Clock,
        newest: Callable[[Key], Pod | None],
    ) -> None:
        self._client = client
        self._telling = telling
        self._events = events
        self._clock = clock
        self._newest = newest
        self._pending: dict[str, _Said] = {}
        self._writers: set[asyncio.Task[None]] = set()
        self._writing: set[str] = set()  # pods being written: one write at a time, or an older one could come last
        self._withdrawn: set[str] = set()  # of these, pods whose condition is out of date: it is not retried
        self._repeats: dict[str, asyncio.Task[None]] = {}  # by pod: failed writes that wait for a retry
        self._is_closed = False
        self.dropped = 0
        """Conditions for which there was no room, or no time at the end."""

    @property
    def pending(self) -> int:
        """The number of conditions that wait to be written."""
        return len(self._pending)

    def placed(self, pod: PodInfo) -> None:
        """The pod has a node: drop its waiting condition."""
        self._forget(pod.uid)

    def scheduled(self, pod: PodInfo, node_name: str) -> None:
        note = f"Successfully assigned {pod.key} to {node_name}"
        self._events.event(pod.pod, "Normal", "Scheduled", "Binding", note)

    def failed(
        self, pod: PodInfo, reason: str, message: str, *, nomination: str | None = None
    ) -> Coroutine[Any, Any, None] | None:
        """A pod could not be placed. `reason` is Unschedulable or SchedulerError. `nomination`: its new nominated node,
        "" for none; None leaves it unchanged. If it changes, the write is returned, to be awaited at once."""
        self._events.event(pod.pod, "Warning", "FailedScheduling", "Scheduling", message)
        said = _Said(pod.key, reason, message)
        if nomination is not None and nomination != pod.pod.status.nominated_node_name:
            self._forget(pod.uid)  # the nomination's write includes the condition
            return self._write_nomination(pod.pod, said, nomination)
        if (repeat := self._repeats.pop(pod.uid, None)) is not None:
            repeat.cancel()  # there is a newer condition
        if not _is_news(pod.pod, said):
            self._withdraw(pod.uid)
        elif pod.uid in self._pending or len(self._pending) < MAX_PENDING:
            self._pending[pod.uid] = said
            self._wake()
        else:
            self.dropped += 1
        return None

    async def settle(self) -> None:
        """Wait until all noted conditions are written."""
        while self._writers:
            await asyncio.wait(self._writers)

    def close(self) -> None:
        """Forget unwritten conditions: the next scheduler writes them again. Running writes go on."""
        self._is_closed = True
        self.dropped += len(self._pending) + len(self._repeats)
        self._pending.clear()
        for repeat in self._repeats.values():
            repeat.cancel()
        self._repeats.clear()

    async def stop(self) -> None:
        """Forget unwritten conditions, and cancel running writes."""
        self.close()
        for writer in self._writers:
            writer.cancel()
        await self.settle()

    # -- writing ------------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        if len(self._writers) < WRITERS:
            writer = asyncio.create_task(self._write_pending())
            self._writers.add(writer)
            writer.add_done_callback(self._ended)

    def _ended(self, writer: asyncio.Task[None]) -> None:
        self._writers.discard(writer)
        if not writer.cancelled() and writer.exception() is not None:
            _log.error("Telling what became of pods failed", error=repr(writer.exception()))
            if self._pending:
                self._wake()

    async def _write_pending(self) -> None:
        # The longest waiting; a newer condition keeps the place of the older.
        while (uid := next((each for each in self._pending if each not in self._writing), None)) is not None:
            self._writing.add(uid)
            try:
                await self._write_condition(uid, self._pending.pop(uid))
            finally:
                self._writing.discard(uid)
                self._withdrawn.discard(uid)

    async def _write_condition(self, uid: str, said: _Said) -> None:
        pod = self._newest(said.key)
        if pod is None or uid_of(pod) != uid or pod.spec.node_name or not _is_news(pod, said):
            return
        lock = {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version}
        patch = {"metadata": lock, "status": {"conditions": [self._condition(pod, said)]}}
        try:
            is_over = await self._patch(self._telling, said.key, patch)
        except Conflict:
            is_over = False
        if not is_over and uid not in self._pending and uid not in self._withdrawn:  # else out of date
            self._repeat_later(uid, replace(said, failures=said.failures + 1))

    def _repeat_later(self, uid: str, said: _Said) -> None:
        if self._is_closed or said.failures > _REPEATS:
            self.dropped += 1
            return

        async def repeat() -> None:
            await self._clock.sleep(exponential_s(_FIRST_PAUSE_S, said.failures - 1, max_s=_MAX_PAUSE_S))
            del self._repeats[uid]
            self._pending[uid] = said
            self._wake()

        self._repeats[uid] = asyncio.create_task(repeat())

    def _withdraw(self, uid: str) -> None:
        self._pending.pop(uid, None)
        if uid in self._writing:
            self._withdrawn.add(uid)

    def _forget(self, uid: str) -> None:
        self._withdraw(uid)
        if (repeat := self._repeats.pop(uid, None)) is not None:
            repeat.cancel()

    async def _write_nomination(self, pod: Pod, said: _Said, nomination: str) -> None:
        status: dict[str, Any] = {"nominatedNodeName": nomination or None}
        if _is_news(pod, said):
            status["conditions"] = [self._condition(pod, said)]
        try:
            await self._patch(self._client, said.key, {"metadata": {"uid": pod.metadata.uid}, "status": status})
        except Conflict as exc:
            _log.warning("Cannot write what became of a pod", pod=said.key, error=exc.message)

    async def _patch(self, client: StatusWrites, key: Key, patch: dict[str, Any]) -> bool:
        """Patch a pod's status. True if nothing is left to write. Errors are logged, but a Conflict is raised."""
        try:
            await client.patch(Pod, key, patch, patch_type="strategic", subresource="status")
        except NotFound:
            pass  # it was deleted meanwhile
        except Conflict:
            raise
        except TonnageError as exc:
            _log.warning("Cannot write what became of a pod", pod=key, error=exc.message)
            return False
        return True

    def _condition(self, pod: Pod, said: _Said) -> dict[str, Any]:
        known = pod.condition("PodScheduled")
        told: dict[str, Any] = {
            "type": "PodScheduled",
            "status": "False",
            "reason": said.reason,
            "message": said.message,
        }
        if known is None or known.status != "False" or known.last_transition_time is None:
            told["lastTransitionTime"] = rfc3339(self._clock.now())
        return told


def _is_news(pod: Pod, said: _Said) -> bool:
    known = pod.condition("PodScheduled")
    return known is None or (known.status, known.reason, known.message) != ("False", said.reason, said.message)
