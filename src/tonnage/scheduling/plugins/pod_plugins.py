"""Plugins that look at the pod alone: SchedulingGates, PrioritySort, OutOfScope; and DefaultBinder, which binds it."""

from __future__ import annotations

from collections.abc import Iterable

from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.events import ActionType, ClusterEvent, EventResource
from tonnage.scheduling.framework import (
    SUCCESS,
    Api,
    BindPlugin,
    Code,
    Cycle,
    EventHint,
    PreEnqueuePlugin,
    PreFilterPlugin,
    QueueSortPlugin,
    Status,
    unresolvable,
)
from tonnage.scheduling.plugins.node_constraints import about_itself


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


class PrioritySort(QueueSortPlugin):
    name = "PrioritySort"

    def sort_key(self, pod: PodInfo, queued_at: float) -> tuple[int, float]:
        return -pod.priority, queued_at


class DefaultBinder(BindPlugin):
    name = "DefaultBinder"

    async def bind(self, cycle: Cycle, node_name: str, api: Api) -> Status:
        await api.bind(cycle.pod, node_name)
        return SUCCESS


class OutOfScope(PreFilterPlugin):
    name = "OutOfScope"

    def pre_filter(self, cycle: Cycle) -> Status | None:
        spec = cycle.pod.pod.spec
        if spec.resource_claims:
            return unresolvable("pod asks for devices by resource claims, which Tonnage does not allocate")
        if spec.scheduling_group is not None:
            return unresolvable("pod belongs to a pod group, and Tonnage does not place groups")
        return None
