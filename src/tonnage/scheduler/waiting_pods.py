"""Pods that Permit plugins hold back, between their decision and their binding.

A pod waits for every plugin that said WAIT, each with its own deadline. It goes on when all have allowed it, and fails
when one rejects it or a deadline passes; whichever comes first counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from tonnage.clock import Clock
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.framework import SUCCESS, Code, Status

MAX_WAIT_S = 15 * 60.0
"""No plugin makes a pod wait longer than this."""


class WaitingPod:
    """One held pod, as a Permit plugin sees it."""

    def __init__(self, pod: PodInfo, node_name: str, deadlines_s: Mapping[str, float]) -> None:
        self.pod = pod
        self.node_name = node_name
        self._deadlines = {plugin: min(seconds, MAX_WAIT_S) for plugin, seconds in deadlines_s.items()}
        self._answer: asyncio.Future[Status] = asyncio.get_running_loop().create_future()

    @property
    def pending_plugins(self) -> tuple[str, ...]:
        return tuple(self._deadlines)

    def allow(self, plugin: str) -> None:
        """One plugin lets the pod go."""
        self._deadlines.pop(plugin, None)
        if not self._deadlines and not self._answer.done():
            self._answer.set_result(SUCCESS)

    def reject(self, plugin: str, reason: str) -> None:
        """One plugin will not let it go."""
        if not self._answer.done():
            self._answer.set_result(Status(Code.UNSCHEDULABLE, (reason,), plugin))

    def preempt(self, plugin: str) -> bool:
        """A more important pod needs the room: nobody refuses this one, it may try again. False if it is past that."""
        if self._answer.done():
            return False
        self._answer.set_result(Status(Code.ERROR, ("waiting on permit for pod: preempted",), plugin))
        return True

    async def wait(self, clock: Clock) -> Status:
        """The word of the plugins, or of the first deadline."""
        if self._answer.done():
            return self._answer.result()
        first, seconds = min(self._deadlines.items(), key=lambda each: each[1])
        alarm = asyncio.create_task(_sleep(clock, seconds))
        try:
            await asyncio.wait((self._answer, alarm), return_when=asyncio.FIRST_COMPLETED)
        finally:
            alarm.cancel()
        if not self._answer.done():
            self.reject(first, f"rejected due to timeout after waiting {seconds:g}s at plugin {first}")
        return self._answer.result()


async def _sleep(clock: Clock, seconds: float) -> Status:
    await clock.sleep(seconds)
    return SUCCESS


class WaitingPods:
    """All held pods, for plugins that act on pods other than their own."""

    def __init__(self) -> None:
        self._by_uid: dict[str, WaitingPod] = {}

    def add(self, waiting: WaitingPod) -> None:
        self._by_uid[waiting.pod.uid] = waiting

    def remove(self, uid: str) -> None:
        self._by_uid.pop(uid, None)

    def get(self, uid: str) -> WaitingPod | None:
        return self._by_uid.get(uid)

    def pod_gone(self, uid: str) -> None:
        """The pod was deleted, is going, or has its node: there is nothing to wait for."""
        waiting = self._by_uid.get(uid)
        if waiting is not None:
            waiting.reject("", "removed")

    def __len__(self) -> int:
        return len(self._by_uid)
