"""What bindings do at the API server: writes, waits for changes, events for people.

Writes are patches, locked by the resourceVersion that the change is based on. A binding that is refused because the pod
is bound already, or deleted, raises PodIsOver. A binding without an answer may have been carried out: the pod is read,
however long it takes, and counts as not bound only if it has no node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from tonnage import logs
from tonnage.backoff import Backoff
from tonnage.client.errors import Disconnected
from tonnage.client.http import Client
from tonnage.errors import Conflict, NotFound, TonnageError
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Key, Object
from tonnage.scheduler.bindings_under_way import Check, PreBindWaits, Topic
from tonnage.scheduler.pod_status import Events
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.engine.binding import PodIsOver
from tonnage.scheduling.framework import Api, Status
from tonnage.scheduling.queue.queued_pod import is_over

T = TypeVar("T", bound=Object)

_LOOK_EVERY_S = 5.0
"""The longest pause between checks whether a binding was carried out."""

_log = logs.logger("tonnage.scheduler")


class BindingApi(Api, Protocol):
    """An Api whose waits may name their objects, so that they are not checked on every change."""

    async def settled(self, check: Check, timeout_s: float, about: Iterable[Topic] = ()) -> Status: ...

    async def pod(self, key: Key) -> Pod | None:
        """The server's current pod, not the watch's; None if it is gone."""
        ...


@dataclass(slots=True, eq=False)
class LiveBindingApi:
    """An API server, through its client. `newest`: the informer's pod, None if it is gone."""

    client: Client
    waits: PreBindWaits
    events: Events
    newest: Callable[[Key], Pod | None]

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        try:
            await self.client.bind(pod.key, node_name, uid=pod.pod.metadata.uid)
        except Disconnected as exc:
            if not exc.in_doubt or not await self._was_bound(pod, node_name):
                raise
        except (Conflict, NotFound):
            if await self._is_over(pod):
                raise PodIsOver(pod) from None
            raise

    async def _is_over(self, pod: PodInfo) -> bool:
        """True if a binding was refused because the pod was bound by another, or deleted; watches may show it later."""
        try:
            return is_over(pod, await self.pod(pod.key))
        except TonnageError:
            return False

    async def _was_bound(self, pod: PodInfo, node_name: str) -> bool:
        """True if a binding without an answer was carried out. Waits for an unreachable server."""
        backoff = Backoff(clock=self.client.clock, rng=self.client.rng, max_s=_LOOK_EVERY_S)
        while True:
            try:
                found = await self.client.get(Pod, pod.key)
                return found.metadata.uid == pod.pod.metadata.uid and found.spec.node_name == node_name
            except NotFound:
                return False
            except Disconnected as exc:
                _log.warning("Cannot find out whether a pod was bound", pod=pod.key, node=node_name, error=exc.message)
            await self.client.clock.sleep(backoff.next_s())

    async def patch(self, current: T, patch: Mapping[str, Any]) -> T:
        lock = {"resourceVersion": current.metadata.resource_version}
        return await self.client.patch(
            type(current), current.key, {**patch, "metadata": {**patch.get("metadata", {}), **lock}}
        )

    async def settled(self, check: Check, timeout_s: float, about: Iterable[Topic] = ()) -> Status:
        return await self.waits.settled(check, timeout_s, about)

    async def pod(self, key: Key) -> Pod | None:
        try:
            return await self.client.get(Pod, key)
        except NotFound:
            return None

    def is_gone(self, pod: PodInfo) -> bool:
        return is_over(pod, self.newest(pod.key))

    def event(self, regarding: Object, reason: str, action: str, note: str) -> None:
        self.events.event(regarding, "Normal", reason, action, note)
