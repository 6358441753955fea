"""PrioritySort: higher priority first, then who has waited longer."""

from __future__ import annotations

from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.framework import QueueSortPlugin


class PrioritySort(QueueSortPlugin):
    name = "PrioritySort"

    def sort_key(self, pod: PodInfo, queued_at: float) -> tuple[int, float]:
        return -pod.priority, queued_at
