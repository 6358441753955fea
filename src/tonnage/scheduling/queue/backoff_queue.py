"""Pods that failed a moment ago, until they may be tried again.

A pod backs off for 1 s after its first failure, doubling up to 10 s. Refusals and errors are counted apart, because
their backoffs have different aims: the first keeps a hopeless pod from taking the turns of others, the second spares an
API server in trouble. So a refused pod may be taken out early, when nobody else wants the turn (`pop`); one that met an
error waits its time out.

    expiry = start of the second that holds  queued_at + min(max, initial * 2^(failures - 1))

Expiries are cut to whole seconds, and a pod is through once its second is over. Pods of one second leave together,
ordered among themselves as in the active queue, so that a more important pod is not behind one whose backoff ended a
millisecond before its own. Mirrors upstream's backoffQueue with SchedulerPopFromBackoffQ, which 1.36 has on (KEP-5142).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from tonnage.keyed_heap import KeyedHeap
from tonnage.scheduling.queue.queued_pod import QueuedPod, SortKey

INITIAL_BACKOFF_S: Final = 1.0
MAX_BACKOFF_S: Final = 10.0
"""podInitialBackoffSeconds and podMaxBackoffSeconds of KubeSchedulerConfiguration."""

WINDOW_S: Final = 1.0

# 1 s doubled so often is centuries: no limit is beyond it, and a float holds it.
_MOST_DOUBLINGS: Final = 40


class BackoffQueue:
    """Backing-off pods, those refused and those that met an error in heaps of their own."""

    def __init__(
        self, sort_key: SortKey, *, initial_s: float = INITIAL_BACKOFF_S, max_s: float = MAX_BACKOFF_S
    ) -> None:
        self._sort_key = sort_key
        self._initial_s = initial_s
        self._max_s = max_s
        self._refused: KeyedHeap[QueuedPod] = KeyedHeap()
        self._errors: KeyedHeap[QueuedPod] = KeyedHeap()

    def until(self, queued: QueuedPod) -> float:
        """The start of the second in which its backoff ends; minus infinity when it has none to wait for."""
        failures = queued.consecutive_errors or queued.unschedulable_count
        if failures == 0 or self._max_s == 0:  # a maximum of 0 switches backoff off
            return -math.inf
        if queued.backoff_until is None:
            duration_s = min(self._max_s, self._initial_s * 2 ** min(failures - 1, _MOST_DOUBLINGS))
            queued.backoff_until = _window(queued.queued_at + duration_s)
        return queued.backoff_until

    def is_backing_off(self, queued: QueuedPod, now_s: float) -> bool:
        """Its second is not over yet."""
        return self.until(queued) >= _window(now_s)

    def add(self, queued: QueuedPod) -> None:
        """Add a pod, or put it in its place again after an update."""
        order = (self.until(queued), self._sort_key(queued.info, queued.queued_at), queued.sequence)
        self._heap_for(queued).put(queued.uid, order, queued)

    def pop(self) -> QueuedPod | None:
        """Take out the refused pod whose backoff ends first, before it has ended."""
        return self._refused.pop()

    def pop_completed(self, now_s: float) -> list[QueuedPod]:
        """Take out every pod whose backoff is over."""
        completed = []
        for heap in (self._refused, self._errors):
            while (head := heap.peek()) is not None and not self.is_backing_off(head, now_s):
                heap.pop()
                completed.append(head)
        return completed

    def next_completion_at(self) -> float | None:
        """When the first of them will be through; None when nobody waits."""
        heads = [head for heap in (self._refused, self._errors) if (head := heap.peek()) is not None]
        return min((self.until(head) + WINDOW_S for head in heads), default=None)

    def get(self, uid: str) -> QueuedPod | None:
        return self._refused.get(uid) or self._errors.get(uid)

    def remove(self, uid: str) -> QueuedPod | None:
        return self._refused.remove(uid) or self._errors.remove(uid)

    def _heap_for(self, queued: QueuedPod) -> KeyedHeap[QueuedPod]:
        return self._errors if queued.consecutive_errors else self._refused

    def __contains__(self, uid: str) -> bool:
        return uid in self._refused or uid in self._errors

    def __len__(self) -> int:
        return len(self._refused) + len(self._errors)

    def __iter__(self) -> Iterator[QueuedPod]:
        yield from self._refused
        yield from self._errors


def _window(instant: float) -> float:
    return math.floor(instant / WINDOW_S) * WINDOW_S
