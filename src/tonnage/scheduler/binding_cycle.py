"""The binding cycle: from a decision to a bound pod, beside the scheduling loop.

    PreBindPreFlight ─► nominated? ─► Permit? ─► PreBind ─► Bind ─► PostBind
       └────────────────────── any failure ─────────────────┴─► unreserve, forget, try again later

A pod is assumed before its binding starts, until the informer confirms it. While its pod waits, a binding lends out its
slot (bindings_under_way.py), and its node is published (nominations.py). Errors are in upstream's words.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, TypeVar

from tonnage.client.calls import asking_first
from tonnage.objects.core_v1 import Node, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Object
from tonnage.scheduler.bindings_under_way import Check, Topic
from tonnage.scheduler.context import SchedulerContext
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.engine import binding
from tonnage.scheduling.engine.attempt import Placement
from tonnage.scheduling.engine.binding import PodIsOver
from tonnage.scheduling.framework import Code, PreBindPlugin, Status

T = TypeVar("T", bound=Object)


async def wait_on_permit(context: SchedulerContext, placement: Placement) -> Status:
    """Wait for the Permit plugins that make the pod wait, if any. Mirrors WaitOnPermit."""
    uid, waiting = placement.pod.uid, context.waiting_pods
    held = waiting.get(uid)
    if held is None:
        return Status()
    try:
        with context.slots.rest():
            return await held.wait(context.clock)
    finally:
        waiting.pop(uid, None)


async def prepare(context: SchedulerContext, placement: Placement, due: Sequence[PreBindPlugin]) -> Status:
    """Run the PreBind plugins that have work. An exception becomes a Status with code ERROR."""
    if not due:
        return Status()
    began_at = context.clock.monotonic()

    async def timed(plugin: str, answer: Awaitable[Status]) -> Status:
        status, asked_at = Status(Code.ERROR), context.clock.monotonic()
        try:
            status = await answer
        finally:
            context.metrics.pre_bind(plugin, status, context.clock.monotonic() - asked_at)
        return status

    work = binding.pre_bind(placement, due, _PodApi(context, placement), timed)
    status = await context.in_pre_bind.run(placement.pod.uid, work)
    if context.traces is not None:
        context.traces.phase(placement.pod.uid, "prebind", began_at)
    return status


async def bind(context: SchedulerContext, placement: Placement) -> Status:
    """Bind the pod. Never raises, like `prepare`."""
    return await binding.bind(placement, _PodApi(context, placement))


class _PodApi:
    """The API of one binding: it lends out its slot while it waits, and is woken by changes that concern its pod."""

    def __init__(self, context: SchedulerContext, placement: Placement) -> None:
        self._api = context.api
        self._is_over = context.is_over
        self._slots = context.slots
        self._pod = pod = placement.pod
        claims: list[Topic] = [(PersistentVolumeClaim, key) for key in pod.claim_keys]
        self._about: list[Topic] = [*claims, (Node, placement.node), (Pod, pod.key)]

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        self._look_again()
        await self._api.bind(pod, node_name)

    async def patch(self, current: T, patch: Mapping[str, Any]) -> T:
        self._look_again()
        with asking_first(self._look_again):  # it may wait for the client's limit
            return await self._api.patch(current, patch)

    async def settled(self, check: Check, timeout_s: float) -> Status:
        with self._slots.rest():
            return await self._api.settled(check, timeout_s, self._about)

    def is_gone(self, pod: PodInfo) -> bool:
        return self._is_over(pod)

    def _look_again(self) -> None:
        """Call it right before every write: much may have happened since the decision. Raises PodIsOver."""
        if self._is_over(self._pod):
            raise PodIsOver(self._pod)

    def event(self, regarding: Object, reason: str, action: str, note: str) -> None:
        self._api.event(regarding, reason, action, note)
