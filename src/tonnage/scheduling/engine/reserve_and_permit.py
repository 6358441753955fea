"""Reserve and Permit: the plugins keep what a placed pod needs, and may hold the pod back.

    reserve ──► a status; after a refusal nothing is kept         permit ──► a status, and who holds the pod back
    unreserve ──► every plugin gives back what it kept

A plugin that raises, or answers with something else than it should, has refused: the status is BROKEN, and the log has
the traceback. No plugin keeps the others from giving back what they keep.
"""

from __future__ import annotations

from tonnage.scheduling.engine.attempt import Attempt, Placement, broken
from tonnage.scheduling.framework import SUCCESS, Code, Plugin, Status
from tonnage.scheduling.plugins.volume_binding import VolumeBinding


def reserve(attempt: Attempt, placement: Placement) -> Status:
    """Keep what the pod needs; on a refusal, which names its plugin, everything kept so far is given back."""
    cycle = placement.cycle
    for plugin in placement.profile.reserve:
        try:
            found = cycle.run("Reserve", plugin, plugin.reserve, cycle, placement.node)
            status = SUCCESS if found.is_success else plugin_status("Reserve", plugin.name, found)
        except Exception as exc:
            attempt.exception, status = exc, broken(plugin.name, placement.pod)
        if not status.is_success:
            unreserve(placement)
            note_failure(plugin, "Reserve")
            return status
    return SUCCESS


def unreserve(placement: Placement) -> None:
    """Give back what was kept for the pod, in reverse order. Does not raise."""
    for plugin in reversed(placement.profile.reserve):
        try:
            plugin.unreserve(placement.cycle, placement.node)
        except Exception:
            broken(plugin.name, placement.pod)


def permit(attempt: Attempt, placement: Placement) -> tuple[Status, dict[str, float]]:
    """Ask the Permit plugins: the first refusal; else the plugins that hold the pod back, with their seconds."""
    waits: dict[str, float] = {}
    for plugin in placement.profile.permit:
        try:
            found, seconds = plugin.permit(placement.cycle, placement.node)
            if found.code is Code.WAIT:
                waits[plugin.name] = float(seconds)
            elif not found.is_success:
                return Status(found.code, found.reasons, plugin.name), {}
        except Exception as exc:
            attempt.exception = exc
            return broken(plugin.name, placement.pod), {}
    return SUCCESS, waits


def note_failure(plugin: Plugin, point: str) -> None:
    """An attempt ended because a plugin failed at Reserve or PreBind: VolumeBinding's failures are counted."""
    if isinstance(plugin, VolumeBinding):
        plugin.failed(point)


def plugin_status(point: str, plugin: str, status: Status) -> Status:
    """A plugin's answer with its name; an error also says where it happened, a refusal speaks for itself."""
    if status.code is Code.ERROR:
        return Status(Code.ERROR, (f'running {point} plugin "{plugin}": {status.message}',), plugin)
    return Status(status.code, status.reasons, plugin)
