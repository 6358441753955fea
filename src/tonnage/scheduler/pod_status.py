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
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from tonnage import logs
from tonnage.client.http import Client
from tonnage.client.reconciler import Reconciler
from tonnage.client.recorder import Recorder
from tonnage.clock import Clock, exponential_s, rfc3339
from tonnage.errors import Conflict, NotFound, TonnageError
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Key
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.queue.waiting_pods import uid_of

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


@dataclass(slots=True, eq=False)
class _Said:
    key: Key
    reason: str
    message: str
    failures: int = 0
    is_sent: bool = False
    """True while it is being written."""


@dataclass(eq=False)
class PodStatusWriter:
    """Writes the PodScheduled condition and events. `client`: for nominations; `telling`: for the rest."""

    client: Client
    telling: Client
    events: Recorder
    clock: Clock
    newest: Callable[[Key], Pod | None]
    dropped: int = 0
    """Conditions for which there was no room, or no time at the end."""
    _said: dict[str, _Said] = field(default_factory=dict)  # by uid, the newest condition that is not written yet
    _running: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self._work = Reconciler("pod-conditions", self._write_condition, clock=self.clock, workers=WRITERS)

    @property
    def pending(self) -> int:
        """The number of conditions that wait to be written."""
        return len(self._work.queue)

    def placed(self, pod: PodInfo) -> None:
        """The pod has a node: drop its waiting condition."""
        self._said.pop(pod.uid, None)

    def scheduled(self, pod: PodInfo, node_name: str) -> None:
        note = f"Successfully assigned {pod.key} to {node_name}"
        self.events.event(pod.pod, "Normal", "Scheduled", "Binding", note)

    def failed(
        self, pod: PodInfo, reason: str, message: str, *, nomination: str | None = None
    ) -> Coroutine[Any, Any, None] | None:
        """A pod could not be placed. `reason` is Unschedulable or SchedulerError. `nomination`: its new nominated node,
        "" for none; None leaves it unchanged. If it changes, the write is returned, to be awaited at once."""
        self.events.event(pod.pod, "Warning", "FailedScheduling", "Scheduling", message)
        said = _Said(pod.key, reason, message)
        if nomination is not None and nomination != pod.pod.status.nominated_node_name:
            self._said.pop(pod.uid, None)  # the nomination's write includes the condition
            return self._write_nomination(pod.pod, said, nomination)
        if not self._news(pod.pod, said):
            self._said.pop(pod.uid, None)
        elif not self._work.queue.is_closed and (pod.uid in self._said or len(self._said) < MAX_PENDING):
            self._said[pod.uid] = said
            self._work.add(pod.uid)
            self._running = self._running or asyncio.create_task(self._work.run())
        else:
            self.dropped += 1
        return None

    async def settle(self) -> None:
        """Wait until all noted conditions are written."""
        await self._work.queue.wait_idle()

    def close(self) -> None:
        """Forget unwritten conditions: the next scheduler writes them again. Running writes go on."""
        known = len(self._said)
        self._said = {uid: said for uid, said in self._said.items() if said.is_sent}
        self.dropped += known - len(self._said)
        self._work.queue.close()

    async def stop(self) -> None:
        """Forget unwritten conditions, and cancel running writes."""
        self.close()
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    # -- writing ------------------------------------------------------------------------------------------------------

    async def _write_condition(self, uid: str) -> float | None:
        """Write the newest condition of a pod. Returns the seconds until a retry; None if there is none."""
        said = self._said.get(uid)
        if said is None:
            return None
        pod, is_over = self.newest(said.key), True
        news = self._news(pod, said) if pod is not None else []
        if pod is not None and uid_of(pod) == uid and not pod.spec.node_name and news:
            lock = {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version}
            patch = {"metadata": lock, "status": {"conditions": news}}
            said.is_sent = True
            try:
                is_over = await self._patch(self.telling, said.key, patch)
            except Conflict:
                is_over = False
            said.is_sent = False
        if self._said.get(uid) is not said:
            return None  # it is out of date: there is a newer condition, or none is needed
        if not is_over and not self._work.queue.is_closed and said.failures < _REPEATS:
            said.failures += 1
            return exponential_s(_FIRST_PAUSE_S, said.failures - 1, max_s=_MAX_PAUSE_S)
        self.dropped += not is_over
        del self._said[uid]
        return None

    async def _write_nomination(self, pod: Pod, said: _Said, nomination: str) -> None:
        status: dict[str, Any] = {"nominatedNodeName": nomination or None}
        if news := self._news(pod, said):
            status["conditions"] = news
        try:
            await self._patch(self.client, said.key, {"metadata": {"uid": pod.metadata.uid}, "status": status})
        except Conflict as exc:
            _log.warning("Cannot write the condition of a pod", pod=said.key, error=exc.message)

    async def _patch(self, client: Client, key: Key, patch: dict[str, Any]) -> bool:
        """Patch a pod's status. True if nothing is left to write. Errors are logged, but a Conflict is raised."""
        try:
            await client.patch(Pod, key, patch, patch_type="strategic", subresource="status")
        except NotFound:
            pass  # it was deleted meanwhile
        except Conflict:
            raise
        except TonnageError as exc:
            _log.warning("Cannot write the condition of a pod", pod=key, error=exc.message)
            return False
        return True

    def _news(self, pod: Pod, said: _Said) -> list[dict[str, Any]]:
        return changed_condition(pod, "PodScheduled", "False", said.reason, said.message, self.clock.now())


def changed_condition(
    pod: Pod, type_: str, status: str, reason: str, message: str, now: datetime
) -> list[dict[str, Any]]:
    """The conditions of a patch: this one, or none if the pod has it. A new status has a new transition time."""
    known = pod.condition(type_)
    if known is not None and (known.status, known.reason, known.message) == (status, reason, message):
        return []
    made = {"type": type_, "status": status, "reason": reason, "message": message}
    if known is None or known.status != status or known.last_transition_time is None:
        made["lastTransitionTime"] = rfc3339(now)
    return [made]
