"""From a decision to a bound pod, beside the scheduling loop.

    PreBindPreFlight ─► nominated? ─► Permit? ─► PreBind ─► Bind ─► PostBind
       └────────────────────── any failure ─────────────────┴─► unreserve, forget, try again later

Bindings run concurrently with decisions and with one another. A pod is assumed before its binding starts and stays so
until the informer confirms it, so a decision made meanwhile counts it. A failed binding gives back everything that was
kept for it, in reverse order. While its pod waits, for a Permit plugin or for its volumes, a binding rests (slots.py),
and others are told where it goes (nominations.py); a pod with nothing to wait for costs one call, the binding's.

Errors say who ran into them, in upstream's words: `running PreBind plugin "VolumeBinding": …`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tonnage import logs
from tonnage.clock import Clock
from tonnage.errors import TonnageError
from tonnage.objects.core_v1 import Node, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Object
from tonnage.scheduler.binding_api import World
from tonnage.scheduler.binding_slots import Slots
from tonnage.scheduler.pre_bind_waits import Check, Topic
from tonnage.scheduler.preparations import Preparations
from tonnage.scheduler.waiting_pods import WaitingPod, WaitingPods
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.engine import reserving
from tonnage.scheduling.engine.profiles import Assembled
from tonnage.scheduling.framework import Api, Code, Cycle, PreBindPlugin, Status
from tonnage.scheduling.queue.queued_pod import QueuedPod

T = TypeVar("T", bound=Object)

BROKEN = Status(Code.ERROR, ("a plugin failed; see the scheduler's log",))

_log = logs.logger("tonnage.scheduler")


@dataclass(slots=True)
class Placement:
    """A pod on its way to a node."""

    queued: QueuedPod
    profile: Assembled
    cycle: Cycle
    node: str
    to_prepare: tuple[PreBindPlugin, ...] = ()
    """The PreBind plugins that have something to do for it, once they were asked."""


def reserve(placement: Placement) -> Status:
    """Keep what the pod needs; on a refusal everything kept so far is given back."""
    try:
        status = reserving.reserve(placement.profile.reserve, placement.cycle, placement.node)
    except Exception:  # this runs on the loop, which must not end because of a plugin
        unreserve(placement)
        return _broken(placement, "Reserve")
    return _told("Reserve", status.plugin, status)


def unreserve(placement: Placement) -> None:
    reserving.unreserve(placement.profile.reserve, placement.cycle, placement.node)


def permit(placement: Placement, waiting: WaitingPods) -> Status:
    """Ask the Permit plugins. WAIT enters the pod among the waiting ones."""
    deadlines_s: dict[str, float] = {}
    for plugin in placement.profile.permit:
        status, seconds = plugin.permit(placement.cycle, placement.node)
        if status.code is Code.WAIT:
            deadlines_s[plugin.name] = seconds
        elif not status.is_success:
            return Status(status.code, status.reasons, plugin.name)
    if not deadlines_s:
        return Status()
    waiting.add(WaitingPod(placement.queued.info, placement.node, deadlines_s))
    return Status(Code.WAIT)


async def permitted(placement: Placement, waiting: WaitingPods, clock: Clock, slots: Slots) -> Status:
    """Wait for the Permit plugins that hold the pod, if any do."""
    uid = placement.queued.uid
    held = waiting.get(uid)
    if held is None:
        return Status()
    try:
        with slots.rest():
            return await held.wait(clock)
    finally:
        waiting.remove(uid)


def look_ahead(placement: Placement) -> Status:
    """Ask all PreBind plugins whether they have something to do, and note those that have."""
    due: list[PreBindPlugin] = []
    for plugin in placement.profile.pre_bind:
        try:
            flight = plugin.pre_bind_pre_flight(placement.cycle, placement.node)
        except Exception:
            flight = _broken(placement, plugin.name)
        if not flight.is_success:
            return Status(Code.ERROR, (f'running PreBindPreFlight "{plugin.name}": {flight.message}',), plugin.name)
        if flight.code is not Code.SKIP:
            due.append(plugin)
    placement.to_prepare = tuple(due)
    return Status()


async def carry_out(placement: Placement, world: World, slots: Slots, preparations: Preparations) -> Status:
    """Prepare and bind. Never raises for what the API says or a plugin breaks: that is a Status with code ERROR."""
    api = _BindingApi(world, placement, slots)
    status = Status()
    if placement.to_prepare:
        status = await preparations.run(placement.queued.uid, _prepare(placement, api))
    return await _bind(placement, api) if status.is_success else status


async def _prepare(placement: Placement, api: Api) -> Status:
    """Let the PreBind plugins that have something to do for the pod do it, one after another."""
    for plugin in placement.to_prepare:
        status = await _answer(plugin.pre_bind(placement.cycle, placement.node, api), placement, plugin.name)
        if not status.is_success:
            return _told("PreBind", plugin.name, status)
    return Status()


async def _bind(placement: Placement, api: Api) -> Status:
    cycle, node, profile = placement.cycle, placement.node, placement.profile
    for binder in profile.bind:
        status = await _answer(binder.bind(cycle, node, api), placement, binder.name)
        if status.code is not Code.SKIP:
            if status.is_success:
                _observe(placement)
            return _told("Bind", binder.name, status)
    return Status(Code.ERROR, ("no Bind plugin took the pod; enable DefaultBinder in the profile",))


def _observe(placement: Placement) -> None:
    """The pod is bound, and no PostBind plugin that breaks can change that."""
    for plugin in placement.profile.post_bind:
        try:
            plugin.post_bind(placement.cycle, placement.node)
        except Exception:
            _broken(placement, plugin.name)


async def _answer(work: Awaitable[Status], placement: Placement, plugin: str) -> Status:
    try:
        return await work
    except TonnageError as exc:
        return Status(Code.ERROR, (exc.message,))
    except Exception:
        return _broken(placement, plugin)


def _broken(placement: Placement, plugin: str) -> Status:
    _log.exception("A plugin failed", plugin=plugin, pod=placement.queued.info.key)
    return BROKEN


def _told(point: str, plugin: str, status: Status) -> Status:
    """A plugin's answer with its name; an error also says where it happened, a refusal speaks for itself."""
    if status.code is Code.ERROR:
        return Status(Code.ERROR, (f'running {point} plugin "{plugin}": {status.message}',), plugin)
    return Status(status.code, status.reasons, plugin)


class _BindingApi:
    """The world as one binding has it: it rests while it waits, and is woken by what concerns its pod."""

    def __init__(self, world: World, placement: Placement, slots: Slots) -> None:
        self._world = world
        self._slots = slots
        pod = placement.queued.info
        claims: list[Topic] = [(PersistentVolumeClaim, key) for key in pod.claim_keys]
        self._about: list[Topic] = [*claims, (Node, placement.node), (Pod, pod.key)]

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        await self._world.bind(pod, node_name)

    async def patch(self, current: T, patch: Mapping[str, Any]) -> T:
        return await self._world.patch(current, patch)

    async def settled(self, check: Check, timeout_s: float) -> Status:
        with self._slots.rest():
            return await self._world.settled(check, timeout_s, self._about)

    def is_gone(self, pod: PodInfo) -> bool:
        return self._world.is_gone(pod)

    def event(self, regarding: Object, reason: str, action: str, note: str) -> None:
        self._world.event(regarding, reason, action, note)
