"""From a decision to a bound pod, beside the scheduling loop.

    Permit? ─► PreBindPreFlight ─► PreBind ─► Bind ─► PostBind
       └──────────── any failure ─────────────┴─► unreserve, forget, try again later

Bindings run concurrently with decisions and with one another. A pod is assumed before its binding starts and stays so
until the informer confirms it, so a decision made meanwhile counts it. A failed binding gives back everything that was
kept for it, in reverse order.
"""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.clock import Clock
from tonnage.errors import TonnageError
from tonnage.scheduler.waiting import WaitingPod, WaitingPods
from tonnage.scheduling.assembly import Assembled
from tonnage.scheduling.framework import Api, Code, Cycle, Status
from tonnage.scheduling.queued_pod import QueuedPod


@dataclass(slots=True)
class Placement:
    """A pod on its way to a node."""

    queued: QueuedPod
    profile: Assembled
    cycle: Cycle
    node: str


def reserve(placement: Placement) -> Status:
    """Keep what the pod needs; on a refusal everything kept so far is given back."""
    for plugin in placement.profile.reserve:
        status = plugin.reserve(placement.cycle, placement.node)
        if not status.is_success:
            unreserve(placement)
            return Status(status.code, status.reasons, plugin.name)
    return Status()


def unreserve(placement: Placement) -> None:
    for plugin in reversed(placement.profile.reserve):
        plugin.unreserve(placement.cycle, placement.node)


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


async def permitted(placement: Placement, waiting: WaitingPods, clock: Clock) -> Status:
    """Wait for the Permit plugins that hold the pod, if any do."""
    uid = placement.queued.uid
    held = waiting.get(uid)
    if held is None:
        return Status()
    try:
        return await held.wait(clock)
    finally:
        waiting.remove(uid)


async def carry_out(placement: Placement, api: Api) -> Status:
    """Prepare and bind. Never raises for what the API says: that is a Status with code ERROR."""
    try:
        return await _bind(placement, api)
    except TonnageError as exc:
        return Status(Code.ERROR, (exc.message,), "DefaultBinder")


async def _bind(placement: Placement, api: Api) -> Status:
    cycle, node, profile = placement.cycle, placement.node, placement.profile
    for plugin in profile.pre_bind:
        flight = plugin.pre_bind_pre_flight(cycle, node)
        if flight.code is Code.SKIP:
            continue
        status = flight if not flight.is_success else await plugin.pre_bind(cycle, node, api)
        if not status.is_success:
            told = f'running PreBind plugin "{plugin.name}": {status.message}'
            return Status(Code.ERROR if status.code is Code.ERROR else status.code, (told,), plugin.name)
    for binder in profile.bind:
        status = await binder.bind(cycle, node, api)
        if status.code is not Code.SKIP:
            if status.is_success:
                for observer in profile.post_bind:
                    observer.post_bind(cycle, node)
            return Status(status.code, status.reasons, binder.name)
    return Status(Code.ERROR, ("no Bind plugin took the pod; enable DefaultBinder in the profile",))
