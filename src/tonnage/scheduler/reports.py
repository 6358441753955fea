"""What the scheduler says about a pod in the API: its PodScheduled condition, and events.

A condition is patched only when it says something new; a pod that fails for the same reason a hundred times costs one
write. Events are aggregated by the recorder. Neither may hold up or break scheduling: what cannot be written is logged.
"""

from __future__ import annotations

from typing import Any, Protocol

from tonnage import logs
from tonnage.clock import Clock, rfc3339
from tonnage.errors import NotFound, TonnageError
from tonnage.objects.core_v1 import Pod
from tonnage.scheduling.pod_info import PodInfo

_log = logs.logger("tonnage.scheduler")


class Writes(Protocol):
    """The two calls this needs of a client."""

    async def patch(self, cls: type[Pod], key: str, patch: Any, *, patch_type: Any, subresource: str) -> Pod: ...


class Events(Protocol):
    """The recorder."""

    def event(self, regarding: Any, type: Any, reason: str, action: str, note: str) -> None: ...


class Reports:
    def __init__(self, client: Writes, events: Events, clock: Clock) -> None:
        self._client = client
        self._events = events
        self._clock = clock

    def scheduled(self, pod: PodInfo, node_name: str) -> None:
        note = f"Successfully assigned {pod.key} to {node_name}"
        self._events.event(pod.pod, "Normal", "Scheduled", "Binding", note)

    async def failed(self, pod: PodInfo, reason: str, message: str, *, nominated_node: str = "") -> None:
        """A pod could not be placed. `reason` is Unschedulable or SchedulerError; room may be made on a node for it."""
        self._events.event(pod.pod, "Warning", "FailedScheduling", "Scheduling", message)
        condition = pod.pod.condition("PodScheduled")
        known = condition is not None and (condition.status, condition.reason, condition.message)
        if known == ("False", reason, message) and nominated_node in ("", pod.pod.status.nominated_node_name):
            return
        now = rfc3339(self._clock.now())
        moved = condition is None or condition.status != "False"
        since = now if moved or condition is None or condition.last_transition_time is None else None
        said: dict[str, Any] = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        if since is not None:
            said["lastTransitionTime"] = since
        status: dict[str, Any] = {"conditions": [said]}
        if nominated_node:
            status["nominatedNodeName"] = nominated_node
        patch = {"metadata": {"uid": pod.pod.metadata.uid}, "status": status}
        try:
            await self._client.patch(Pod, pod.key, patch, patch_type="strategic", subresource="status")
        except NotFound:
            pass  # it was deleted meanwhile; there is nobody to tell
        except TonnageError as exc:
            _log.warning("Cannot write the condition of a pod", pod=pod.key, error=exc.message)
