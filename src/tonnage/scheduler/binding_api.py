"""What bindings do in the world: calls to the API server, waits for what others do there, news for people.

The real thing behind `framework.Api`. What is written is a patch of what changes, locked by the resourceVersion that
the change is based on: somebody else's change in between is a Conflict, the attempt fails, the next is based on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from tonnage.client.http import Client
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Key, Object
from tonnage.scheduler.metrics import Meter
from tonnage.scheduler.pod_conditions import Events
from tonnage.scheduler.pre_bind_waits import Check, Topic, Waits
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.framework import Api, Status
from tonnage.scheduling.plugins.volume_binding import RESCHEDULING

T = TypeVar("T", bound=Object)


class World(Api, Protocol):
    """An Api whose waits may say what they are about, so that they are not asked about everything."""

    async def settled(self, check: Check, timeout_s: float, about: Iterable[Topic] = ()) -> Status: ...


class LiveWorld:
    """An API server, by its client. `newest` gives a pod as the informer knows it, None when it is gone."""

    def __init__(
        self, client: Client, waits: Waits, events: Events, meter: Meter, newest: Callable[[Key], Pod | None]
    ) -> None:
        self._client = client
        self._waits = waits
        self._events = events
        self._meter = meter
        self._newest = newest

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        await self._client.bind(pod.key, node_name, uid=pod.pod.metadata.uid)

    async def patch(self, current: T, patch: Mapping[str, Any]) -> T:
        lock = {"resourceVersion": current.metadata.resource_version}
        return await self._client.patch(
            type(current), current.key, {**patch, "metadata": {**patch.get("metadata", {}), **lock}}
        )

    async def settled(self, check: Check, timeout_s: float, about: Iterable[Topic] = ()) -> Status:
        return await self._waits.settled(check, timeout_s, about)

    def is_gone(self, pod: PodInfo) -> bool:
        known = self._newest(pod.key)
        return known is None or known.metadata.uid != pod.pod.metadata.uid

    def event(self, regarding: Object, reason: str, action: str, note: str) -> None:
        if reason == RESCHEDULING:  # KEP-5925 counts these
            self._meter.rescheduled()
        self._events.event(regarding, "Normal", reason, action, note)
