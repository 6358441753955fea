"""Keeping what a decided pod needs, and giving it back: the Reserve plugins of a profile, in order and in reverse.

A decision that is to hold goes through here before its pod is assumed: in the live scheduler and in a replay alike.
"""

from __future__ import annotations

from collections.abc import Sequence

from tonnage.scheduling.framework import Cycle, ReservePlugin, Status


def reserve(plugins: Sequence[ReservePlugin], cycle: Cycle, node_name: str) -> Status:
    """Keep what the pod needs; on a refusal, which names its plugin, everything kept so far is given back."""
    for plugin in plugins:
        status = plugin.reserve(cycle, node_name)
        if not status.is_success:
            unreserve(plugins, cycle, node_name)
            return Status(status.code, status.reasons, plugin.name)
    return Status()


def unreserve(plugins: Sequence[ReservePlugin], cycle: Cycle, node_name: str) -> None:
    """Give everything back, the last thing kept first."""
    for plugin in reversed(plugins):
        plugin.unreserve(cycle, node_name)
