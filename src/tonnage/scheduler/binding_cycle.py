"""The binding cycle: from a decision to a bound pod, beside the scheduling loop.

    PreBindPreFlight ─► nominated? ─► Permit? ─► PreBind ─► Bind ─► PostBind
       └────────────────────── any failure ─────────────────┴─► unreserve, forget, try again later

A pod is assumed before its binding starts, until the informer confirms it. While its pod waits, a binding lends out its
slot (bindings_under_way.py), and its node is published (nominations.py). Errors are in upstream's words.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from tonnage.client.calls import asking_first
from tonnage.errors import TonnageError
from tonnage.objects.core_v1 import Node, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Object
from tonnage.scheduler.binding_api import PodIsOver
from tonnage.scheduler.bindings_under_way import Check, Topic
from tonnage.scheduler.context import SchedulerContext
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.engine.attempt import Placement, broken, note_failure, plugin_status
from tonnage.scheduling.framework import Api, Code, Cycle, PreBindPlugin, Status

T = TypeVar("T", bound=Object)

OVER = Status(Code.ERROR, ("the pod does not wait for a node any more",))
"""The result of a binding whose pod was deleted meanwhile, or bound by another scheduler."""


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


def pre_bind_pre_flight(placement: Placement) -> Status | tuple[PreBindPlugin, ...]:
    """Ask all PreBind plugins whether they have work. Returns those that do, or the failure of one."""
    due: list[PreBindPlugin] = []
    for plugin in placement.profile.pre_bind:
        try:
            flight = plugin.pre_bind_pre_flight(placement.cycle, placement.node)
            is_ready = flight.is_success
        except Exception:
            flight, is_ready = broken(plugin.name, placement.pod), False
        if not is_ready:
            return Status(Code.ERROR, (f'running PreBindPreFlight "{plugin.name}": {flight.message}',), plugin.name)
        if flight.code is not Code.SKIP:
            due.append(plugin)
    return tuple(due)


async def prepare(context: SchedulerContext, placement: Placement, due: Sequence[PreBindPlugin]) -> Status:
    """Run the PreBind plugins that have work. An exception becomes a Status with code ERROR."""
    if not due:
        return Status()
    began_at = context.clock.monotonic()
    work = _pre_bind(context, placement, due, _PodApi(context, placement))
    status = await context.in_pre_bind.run(placement.pod.uid, work)
    if context.traces is not None:
        context.traces.phase(placement.pod.uid, "prebind", began_at)
    return status


async def _pre_bind(context: SchedulerContext, placement: Placement, due: Sequence[PreBindPlugin], api: Api) -> Status:
    """Run these PreBind plugins, one after another."""
    for plugin in due:
        status, began_at = Status(Code.ERROR), context.clock.monotonic()
        try:
            status = await _answer(plugin.pre_bind, placement, plugin.name, api)
        finally:
            context.metrics.pre_bind(plugin.name, status, context.clock.monotonic() - began_at)
        if not status.is_success:
            if status is OVER:
                return OVER
            note_failure(plugin, "PreBind")
            return plugin_status("PreBind", plugin.name, status)
    return Status()


async def bind(context: SchedulerContext, placement: Placement) -> Status:
    """Bind the pod. Never raises, like `prepare`."""
    api = _PodApi(context, placement)
    for binder in placement.profile.bind:
        status = await _answer(binder.bind, placement, binder.name, api)
        if status.code is not Code.SKIP:
            if status.is_success:
                _post_bind(placement)
            return OVER if status is OVER else plugin_status("Bind", binder.name, status)
    return Status(Code.ERROR, ("no Bind plugin took the pod; enable DefaultBinder in the profile",))


def _post_bind(placement: Placement) -> None:
    """Run PostBind. The pod is bound; a failing plugin cannot change that."""
    for plugin in placement.profile.post_bind:
        try:
            plugin.post_bind(placement.cycle, placement.node)
        except Exception:
            broken(plugin.name, placement.pod)


async def _answer(
    ask: Callable[[Cycle, str, Api], Awaitable[Status]], placement: Placement, plugin: str, api: Api
) -> Status:
    """The status that a plugin's method returns; BROKEN if it raises or returns something else."""
    try:
        status = await ask(placement.cycle, placement.node, api)
        if not isinstance(status, Status):
            raise TypeError(f"the answer is to be a Status, not {status!r}")
        return status
    except PodIsOver:
        return OVER
    except TonnageError as exc:
        return Status(Code.ERROR, (exc.message,))
    except Exception:
        return broken(plugin, placement.pod)


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
