"""SchedulingGates: a pod with a gate is not tried."""

from __future__ import annotations

from collections.abc import Iterable

from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.events import ActionType, ClusterEvent, EventResource
from tonnage.scheduling.framework import SUCCESS, Code, EventHint, PreEnqueuePlugin, Status
from tonnage.scheduling.plugins.taint_toleration import about_itself


class SchedulingGates(PreEnqueuePlugin):
    name = "SchedulingGates"

    def events(self) -> Iterable[EventHint]:
        opened = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
        return ((opened, about_itself),)

    def pre_enqueue(self, pod: PodInfo) -> Status:
        gates = pod.pod.spec.scheduling_gates
        if not gates:
            return SUCCESS
        names = " ".join(gate.name for gate in gates)
        return Status(Code.UNRESOLVABLE, (f"waiting for scheduling gates: [{names}]",), self.name)
