"""What the scheduler says about a pod in the API: its PodScheduled condition, and events.

Condition and nomination go in one patch, and only when they say something new; a pod that fails for the same reason a
hundred times costs one write. Events are aggregated by the recorder. None of it may hold up or break scheduling: what
cannot be written is logged.
"""

from __future__ import annotations

from typing import Any, Protocol

from tonnage import logs
from tonnage.clock import Clock, rfc3339
from tonnage.errors import NotFound, TonnageError
from tonnage.objects.core_v1 import Pod
from tonnage.scheduler.nominations import StatusWrites
from tonnage.scheduling.cluster.pod_info import PodInfo

_log = logs.logger("tonnage.scheduler")


class Events(Protocol):
    """The recorder."""

    def event(self, regarding: Any, type: Any, reason: str, action: str, note: str, related: Any = None) -> None: ...


class PodStatusWriter:
    """Writes the PodScheduled condition and the scheduler's events."""

    def __init__(self, client: StatusWrites, events: Events, clock: Clock) -> None:
        self._client = client
        self._events = events
        self._clock = clock

    def scheduled(self, pod: PodInfo, node_name: str) -> None:
        note = f"Successfully assigned {pod.key} to {node_name}"
        self._events.event(pod.pod, "Normal", "Scheduled", "Binding", note)

    async def failed(self, pod: PodInfo, reason: str, message: str, *, nomination: str | None = None) -> None:
        """A pod could not be placed. `reason` is Unschedulable or SchedulerError.

        `nomination` is where it is expected from now on, "" for nowhere; None leaves that as it is.
        """
        self._events.event(pod.pod, "Warning", "FailedScheduling", "Scheduling", message)
        status: dict[str, Any] = {}
        condition = pod.pod.condition("PodScheduled")
        if condition is None or (condition.status, condition.reason, condition.message) != ("False", reason, message):
            said = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
            if condition is None or condition.status != "False" or condition.last_transition_time is None:
                said["lastTransitionTime"] = rfc3339(self._clock.now())
            status["conditions"] = [said]
        if nomination is not None and nomination != pod.pod.status.nominated_node_name:
            status["nominatedNodeName"] = nomination or None
        if not status:
            return
        patch = {"metadata": {"uid": pod.pod.metadata.uid}, "status": status}
        try:
            await self._client.patch(Pod, pod.key, patch, patch_type="strategic", subresource="status")
        except NotFound:
            pass  # it was deleted meanwhile; there is nobody to tell
        except TonnageError as exc:
            _log.warning("Cannot write what became of a pod", pod=pod.key, error=exc.message)
