"""Bindings that can still be called off: those whose pods are being prepared by PreBind plugins.

A pod that waits minutes for its volumes may have to give way to a more important one. Nothing runs yet, so that it need
not be deleted: its attempt fails, and it queues up again. Mirrors podsInPreBind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from tonnage.scheduling.framework import Code, Status


class PodsInPreBind:
    """By the uid of the pod, the tasks that run its PreBind plugins. Single-threaded."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Task[Any]] = {}
        self._called_off: dict[str, str] = {}

    async def run(self, uid: str, work: Awaitable[Status]) -> Status:
        """Do the work, in the task that asks for it; an ERROR that says why, if it is called off before it ends."""
        task = asyncio.current_task()
        assert task is not None, "PreBind runs in a task"
        self._running[uid] = task
        status = Status(Code.ERROR)
        try:
            status = await work
        except asyncio.CancelledError:
            if uid not in self._called_off:
                raise
        finally:
            del self._running[uid]
        why = self._called_off.pop(uid, "")
        if why:
            task.uncancel()
            return Status(Code.ERROR, (why,))
        return status

    def call_off(self, uid: str, why: str) -> bool:
        """End a preparation; False when the pod has none, or is past it."""
        task = self._running.get(uid)
        if task is None:
            return False
        if uid not in self._called_off:
            self._called_off[uid] = why
            task.cancel()
        return True
