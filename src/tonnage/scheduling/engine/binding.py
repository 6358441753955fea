"""The plugins' part of a binding cycle: PreBindPreFlight, PreBind, Bind and PostBind, in the order of the profile.

The live scheduler runs it as a task on a real API, a simulation on virtual time. A plugin that raises has failed the
binding; nothing is raised here. Errors are in upstream's words.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from tonnage.errors import TonnageError
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.engine.attempt import Placement, broken, note_failure, plugin_status
from tonnage.scheduling.framework import Api, Code, Cycle, PreBindPlugin, Status

OVER: Final = Status(Code.ERROR, ("the pod does not wait for a node any more",))
"""The result of a binding whose pod was deleted meanwhile, or bound by another scheduler."""

Timed = Callable[[str, Awaitable[Status]], Awaitable[Status]]
"""Awaits the answer of the plugin of this name, and may measure it."""


class PodIsOver(TonnageError):
    """Nothing is written for a pod that is gone, terminating, or has its node. Its attempt ends silently."""

    def __init__(self, pod: PodInfo) -> None:
        self.pod = pod
        super().__init__(f"pod {pod.key} does not wait for a node any more")


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


async def pre_bind(
    placement: Placement, due: Sequence[PreBindPlugin], api: Api, timed: Timed = lambda name, work: work
) -> Status:
    """Run these PreBind plugins, one after another."""
    for plugin in due:
        status = await timed(plugin.name, _answer(plugin.pre_bind, placement, plugin.name, api))
        if not status.is_success:
            if status is OVER:
                return OVER
            note_failure(plugin, "PreBind")
            return plugin_status("PreBind", plugin.name, status)
    return Status()


async def bind(placement: Placement, api: Api) -> Status:
    """Bind the pod by the first Bind plugin that takes it, and run PostBind, whose failures cannot change that."""
    for binder in placement.profile.bind:
        status = await _answer(binder.bind, placement, binder.name, api)
        if status.code is Code.SKIP:
            continue
        for plugin in placement.profile.post_bind if status.is_success else ():
            try:
                plugin.post_bind(placement.cycle, placement.node)
            except Exception:
                broken(plugin.name, placement.pod)
        return OVER if status is OVER else plugin_status("Bind", binder.name, status)
    return Status(Code.ERROR, ("no Bind plugin took the pod; enable DefaultBinder in the profile",))


async def _answer(
    ask: Callable[[Cycle, str, Api], Awaitable[Status]], placement: Placement, plugin: str, api: Api
) -> Status:
    """The status that a plugin's method returns; BROKEN if it raises or returns something else."""
    try:
        status = await ask(placement.cycle, placement.node, api)
        if not isinstance(status, Status):
            raise TypeError(f"the answer must be a Status, not {status!r}")
        return status
    except PodIsOver:
        return OVER
    except TonnageError as exc:
        return Status(Code.ERROR, (exc.message,))
    except Exception:
        return broken(plugin, placement.pod)
