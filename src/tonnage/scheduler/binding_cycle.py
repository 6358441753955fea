"""The binding cycle: from a decision to a bound pod, beside the scheduling loop.

    PreBindPreFlight ─► nominated? ─► Permit? ─► PreBind ─► Bind ─► PostBind
       └────────────────────── any failure ─────────────────┴─► unreserve, forget, try again later

A pod is assumed before its binding starts, until the informer confirms it. While its pod waits, a binding lends out its
slot (bindings_under_way.py), and its node is published (nominations.py). Errors are in upstream's words.

A binding that is refused because the pod is bound already, or deleted, raises PodIsOver. One without an answer may have
been carried out: the pod is read, however long it takes, and counts as not bound only if it has no node.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final, TypeVar

from tonnage import errors, logs
from tonnage.client.calls import asking_first
from tonnage.client.errors import Disconnected
from tonnage.client.http import Client
from tonnage.clock import Backoff
from tonnage.objects import core_v1, meta
from tonnage.scheduler.bindings_under_way import Check, Topic
from tonnage.scheduler.context import SchedulerContext
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.engine.attempt import Placement, PodIsOver, run_bind, run_pre_bind
from tonnage.scheduling.framework import Code, PreBindPlugin, Status
from tonnage.scheduling.queue.waiting_pods import is_over

T = TypeVar("T", bound=meta.Object)

_LOOK_EVERY_S: Final = 5.0
"""The longest pause between checks whether a binding was carried out."""

_log = logs.logger("tonnage.scheduler")


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

    work = run_pre_bind(placement, due, _PodApi(context, placement), timed)
    status = await context.in_pre_bind.run(placement.pod.uid, work)
    context.traces.phase(placement.pod.uid, "prebind", began_at)
    return status


async def bind(context: SchedulerContext, placement: Placement) -> Status:
    """Bind the pod. Never raises, like `prepare`."""
    return await run_bind(placement, _PodApi(context, placement))


class _PodApi:
    """The API of one binding: it lends out its slot while it waits, and is woken by changes that concern its pod."""

    def __init__(self, context: SchedulerContext, placement: Placement) -> None:
        self._context = context
        self._pod = pod = placement.pod
        claims: list[Topic] = [(core_v1.PersistentVolumeClaim, key) for key in pod.claim_keys]
        self._about: list[Topic] = [*claims, (core_v1.Node, placement.node), (core_v1.Pod, pod.key)]

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        self._look_again()
        await send_binding(self._context.client, pod, node_name)

    async def patch(self, current: T, patch: Mapping[str, Any]) -> T:
        self._look_again()
        with asking_first(self._look_again):  # it may wait for the client's limit
            return await send_patch(self._context.client, current, patch)

    async def settled(self, check: Check, timeout_s: float) -> Status:
        with self._context.slots.rest():
            return await self._context.waits.settled(check, timeout_s, self._about)

    def is_gone(self, pod: PodInfo) -> bool:
        return self._context.is_over(pod)

    def _look_again(self) -> None:
        """Call it right before every write: much may have happened since the decision. Raises PodIsOver."""
        if self._context.is_over(self._pod):
            raise PodIsOver(self._pod)

    def event(self, regarding: meta.Object, reason: str, action: str, note: str) -> None:
        self._context.events.event(regarding, "Normal", reason, action, note)


async def send_binding(client: Client, pod: PodInfo, node_name: str) -> None:
    """Bind a pod. Raises PodIsOver if another has bound or deleted it."""
    try:
        await client.bind(pod.key, node_name, uid=pod.uid)
    except Disconnected as exc:
        if not exc.in_doubt or not await _was_bound(client, pod, node_name):
            raise
    except (errors.Conflict, errors.NotFound):
        if await _has_ended(client, pod):
            raise PodIsOver(pod) from None
        raise


async def send_patch(client: Client, current: T, patch: Mapping[str, Any]) -> T:
    """Patch an object at the version that the patch is based on. Raises Conflict if it has changed."""
    lock = {"resourceVersion": current.metadata.resource_version}
    return await client.patch(type(current), current.key, {**patch, "metadata": {**patch.get("metadata", {}), **lock}})


async def _has_ended(client: Client, pod: PodInfo) -> bool:
    """True if a binding was refused because the pod was bound by another, or deleted; watches may show it later."""
    try:
        return is_over(pod, await client.find(core_v1.Pod, pod.key))
    except errors.TonnageError:
        return False


async def _was_bound(client: Client, pod: PodInfo, node_name: str) -> bool:
    """True if a binding without an answer was carried out. Waits for an unreachable server."""
    backoff = Backoff(clock=client.clock, rng=client.rng, max_s=_LOOK_EVERY_S)
    while True:
        try:
            found = await client.find(core_v1.Pod, pod.key)
            return found is not None and found.uid == pod.uid and found.spec.node_name == node_name
        except Disconnected as exc:
            _log.warning("Cannot find out whether a pod was bound", pod=pod.key, node=node_name, error=exc.message)
        await client.clock.sleep(backoff.next_s())
