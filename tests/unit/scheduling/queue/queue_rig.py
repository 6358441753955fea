"""A scheduling queue on virtual time, for the tests of this folder, with plugins whose word is set by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from support.scheduling_sight import in_flight
from support.virtual_clock import VirtualClock
from tonnage.objects.core_v1 import Pod
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.events import ActionType, ClusterEvent, EventResource
from tonnage.scheduling.framework import SUCCESS, EventHint, PreEnqueuePlugin, Status, unresolvable
from tonnage.scheduling.queue.queues import QueueName
from tonnage.scheduling.queue.scheduling_queue import SchedulingQueue
from tonnage.scheduling.queue.waiting_pods import QueuedPod, QueueingRules

NODE_LABEL = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_LABEL)
NODE_TAINT = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_TAINT)
NODE_ANY = ClusterEvent(EventResource.NODE, ActionType.ALL)
POD_DELETE = ClusterEvent(EventResource.POD, ActionType.DELETE)
POD_LABEL = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_LABEL)

PLAIN: Mapping[str, Sequence[EventHint]] = {
    "Labels": ((NODE_LABEL, None), (POD_LABEL, None)),
    "Taints": ((NODE_TAINT, None),),
    "Room": ((POD_DELETE, None), (NODE_ANY, None)),
}
"""Three plugins that hear of some events and look no closer."""


class Gate(PreEnqueuePlugin):
    """Holds back the pods that are named to it."""

    def __init__(self, name: str, holds: Iterable[str] = ()) -> None:
        self.name = name  # type: ignore[misc]  # several gates of one class, told apart by name
        self.holds = set(holds)
        self.asked: list[str] = []

    def pre_enqueue(self, pod: PodInfo) -> Status:
        self.asked.append(pod.pod.name)
        return unresolvable("held") if pod.pod.name in self.holds else SUCCESS


class QueueRig:
    """A queue, its clock, and a diary of what it did."""

    def __init__(
        self,
        hints: Mapping[str, Sequence[EventHint]] = PLAIN,
        gates: Sequence[PreEnqueuePlugin] = (),
        **options: Any,
    ) -> None:
        self.clock = VirtualClock()
        self.wakes = 0
        self.diary: list[tuple[str, str, str]] = []
        self.errors: list[tuple[str, str, str]] = []
        self.queue = SchedulingQueue(
            self.clock,
            {"default-scheduler": QueueingRules(gates, hints)},
            on_active=self._woken,
            on_queued=lambda queued, queue, why: self.diary.append((queued.pod.name, str(queue), why)),
            on_plugin_error=lambda plugin, queued, exc: self.errors.append((plugin, queued.pod.name, str(exc))),
            **options,
        )

    def _woken(self) -> None:
        self.wakes += 1

    def add(self, *pods: Pod) -> None:
        for each in pods:
            self.queue.add(each)

    def pop(self) -> QueuedPod:
        queued = self.queue.pop_nowait()
        assert queued is not None, "nothing to pop"
        return queued

    def pop_names(self) -> list[str]:
        """Pop until there is nothing left."""
        names = []
        while (queued := self.queue.pop_nowait()) is not None:
            names.append(queued.pod.name)
        return names

    def refuse(self, *plugins: str) -> QueueName | None:
        """Pop the next pod and let these plugins refuse it."""
        return self.queue.add_unschedulable_if_not_present(self.pop(), unschedulable_plugins=plugins)

    def park(self, pod: Pod, *plugins: str) -> None:
        """Add a pod and let it be refused at once; long enough ago that its backoff is over."""
        self.queue.add(pod)
        assert self.refuse(*plugins) is QueueName.UNSCHEDULABLE
        self.clock.advance(60)

    def names(self, queue: QueueName) -> list[str]:
        return [queued.pod.name for queued in self.queue.pods_in(queue)]

    def where(self, pod: Pod) -> str:
        """The place a pod waits in; "in flight", or "unknown"."""
        for queue in QueueName:
            if any(queued.uid == pod.uid for queued in self.queue.pods_in(queue)):
                return str(queue)
        return "in flight" if any(each.uid == pod.uid for each in in_flight(self.queue)) else "unknown"
