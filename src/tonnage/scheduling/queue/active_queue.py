"""Pods to be tried now, in the order of the QueueSort plugin, and a turn now and then for those never tried before.

PrioritySort orders equals by when they failed last. So a pod that was just made stands behind all that were woken
before it, however often those were refused: 5,000 hopeless pods that one event wakes are 5,000 attempts before a new
pod's first. Upstream has it so. With `retries_in_a_row`, after so many retries a first try of the same priority has its
turn; the others keep their order, and what comes first by priority comes first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tonnage.keyed_heap import KeyedHeap
from tonnage.scheduling.queue.queued_pod import QueuedPod


class ActiveQueue:
    """Pods by uid. `retries_in_a_row` of 0: the order of the plugin and nothing else, as upstream has it."""

    def __init__(self, *, retries_in_a_row: int = 0) -> None:
        self._all: KeyedHeap[QueuedPod] = KeyedHeap()
        self._first_tries: KeyedHeap[QueuedPod] = KeyedHeap()
        self._retries_in_a_row = retries_in_a_row
        self._retries = 0  # that were popped one after another while a first try waited

    def put(self, queued: QueuedPod, order: Any) -> None:
        """Add a pod, or put it where it belongs now."""
        self._all.put(queued.uid, order, queued)
        if self._retries_in_a_row and not queued.attempts:
            self._first_tries.put(queued.uid, order, queued)

    def get(self, uid: str) -> QueuedPod | None:
        return self._all.get(uid)

    def remove(self, uid: str) -> QueuedPod | None:
        """Take a pod out; None when it is not there."""
        self._first_tries.remove(uid)
        return self._all.remove(uid)

    def pop(self) -> QueuedPod | None:
        """Take out the pod whose turn it is; None when there is none."""
        first, new = self._all.peek(), self._first_tries.peek()
        if first is None:
            return None
        if not first.attempts or new is None or new.info.priority != first.info.priority:
            self._retries = 0
        elif self._retries == self._retries_in_a_row:
            first, self._retries = new, 0
        else:
            self._retries += 1
        return self.remove(first.uid)

    def __contains__(self, uid: str) -> bool:
        return uid in self._all

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(self._all)
