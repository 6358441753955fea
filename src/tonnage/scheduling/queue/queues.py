"""Where pods wait, and the only way in: past the gates.

A pod is in at most one of three places: active (to be tried, in order), backoff (failed a moment ago), unschedulable
(fits nowhere). PreEnqueue plugins run before a pod moves towards being tried; a pod that one of them blocks goes to the
unschedulable pool, with the plugin's name.

A pod backs off for 1 s after its first failure, doubling up to 10 s:

    expiry = start of the second that holds  queued_at + min(max, initial * 2^(failures - 1))

The backoff ends with that second, so that pods of one second leave together, ordered as in the active queue. Mirrors
upstream's backoffQueue with SchedulerPopFromBackoffQ (KEP-5142).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from typing import Any, Final, TypeAlias

from tonnage.clock import Clock, exponential_s
from tonnage.keyed import KeyedHeap
from tonnage.objects.core_v1 import Pod
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.events import POP_FROM_BACKOFF
from tonnage.scheduling.framework import PreEnqueuePlugin
from tonnage.scheduling.queue import waiting_pods


class ActiveQueue(KeyedHeap[waiting_pods.QueuedPod]):
    """Pods to be tried now, in the order of the QueueSort plugin.

    PrioritySort puts a new pod behind all pods woken before it, however often these were refused. So after
    `retries_in_a_row` retries, a new pod of the same priority comes next; 0: only the plugin's order, like upstream.
    """

    def __init__(self, *, retries_in_a_row: int = 0) -> None:
        super().__init__()
        self._first_tries: KeyedHeap[waiting_pods.QueuedPod] = KeyedHeap()
        self._retries_in_a_row = retries_in_a_row
        self._retries = 0  # popped one after another while a new pod waited

    def put(self, name: str, order: Any, item: waiting_pods.QueuedPod) -> None:
        super().put(name, order, item)
        if self._retries_in_a_row and not item.attempts:
            self._first_tries.put(name, order, item)

    def remove(self, name: str) -> waiting_pods.QueuedPod | None:
        self._first_tries.remove(name)
        return super().remove(name)

    def pop(self) -> waiting_pods.QueuedPod | None:
        """Remove and return the next pod; None if there is none."""
        first, new = self.peek(), self._first_tries.peek()
        if first is None:
            return None
        if not first.attempts or new is None or new.info.priority != first.info.priority:
            self._retries = 0
        elif self._retries == self._retries_in_a_row:
            first, self._retries = new, 0
        else:
            self._retries += 1
        return self.remove(first.uid)


INITIAL_BACKOFF_S: Final = 1.0
MAX_BACKOFF_S: Final = 10.0
"""podInitialBackoffSeconds and podMaxBackoffSeconds of KubeSchedulerConfiguration."""

WINDOW_S: Final = 1.0


class BackoffQueue:
    """Pods that back off. A refused pod may leave early if no other pod is active; a pod that met an error waits to the
    end, to spare an API server in trouble."""

    def __init__(
        self, sort_key: waiting_pods.SortKey, *, initial_s: float = INITIAL_BACKOFF_S, max_s: float = MAX_BACKOFF_S
    ) -> None:
        self._sort_key = sort_key
        self._initial_s = initial_s
        self._max_s = max_s
        self._refused: KeyedHeap[waiting_pods.QueuedPod] = KeyedHeap()
        self._errors: KeyedHeap[waiting_pods.QueuedPod] = KeyedHeap()

    def until(self, queued: waiting_pods.QueuedPod) -> float:
        """The start of the second in which its backoff ends; minus infinity without a backoff."""
        failures = queued.consecutive_errors or queued.unschedulable_count
        if failures == 0 or self._max_s == 0:  # a maximum of 0 disables backoff
            return -math.inf
        return _window(queued.queued_at + exponential_s(self._initial_s, failures - 1, max_s=self._max_s))

    def is_backing_off(self, queued: waiting_pods.QueuedPod, now_s: float) -> bool:
        """True until its second is over."""
        return self.until(queued) >= _window(now_s)

    def add(self, queued: waiting_pods.QueuedPod) -> None:
        """Add a pod, or sort it again after an update."""
        order = (self.until(queued), self._sort_key(queued.info, queued.queued_at), queued.sequence)
        heap = self._errors if queued.consecutive_errors else self._refused
        heap.put(queued.uid, order, queued)

    def pop(self) -> waiting_pods.QueuedPod | None:
        """Remove and return the refused pod whose backoff ends first, before it ends."""
        return self._refused.pop()

    def pop_completed(self, now_s: float) -> list[waiting_pods.QueuedPod]:
        """Remove and return all pods whose backoff is over."""
        completed = []
        for heap in (self._refused, self._errors):
            while (head := heap.peek()) is not None and not self.is_backing_off(head, now_s):
                heap.pop()
                completed.append(head)
        return completed

    def next_completion_at(self) -> float | None:
        """When the first backoff is over; None without pods."""
        heads = [head for heap in (self._refused, self._errors) if (head := heap.peek()) is not None]
        return min((self.until(head) + WINDOW_S for head in heads), default=None)

    def get(self, uid: str) -> waiting_pods.QueuedPod | None:
        return self._refused.get(uid) or self._errors.get(uid)

    def remove(self, uid: str) -> waiting_pods.QueuedPod | None:
        return self._refused.remove(uid) or self._errors.remove(uid)

    def __len__(self) -> int:
        return len(self._refused) + len(self._errors)

    def __iter__(self) -> Iterator[waiting_pods.QueuedPod]:
        yield from self._refused
        yield from self._errors


def _window(instant: float) -> float:
    return math.floor(instant / WINDOW_S) * WINDOW_S


@dataclass(slots=True)
class Flight:
    """A popped pod, and the events since its pop: one of them may help the pod if it is refused."""

    info: PodInfo
    events: list[waiting_pods.RecordedEvent] = field(default_factory=list)
    is_gone: bool = False


class QueueName(StrEnum):
    """Where a pod waits; the values are the label `queue` of scheduler_pending_pods."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"


QueuedHook: TypeAlias = Callable[[waiting_pods.QueuedPod, QueueName, str], None]
"""(pod, where it was put, why), for scheduler_queue_incoming_pods_total."""


class Queues(ABC):
    """The waiting pods. Methods that put a pod somewhere return where."""

    def __init__(
        self,
        clock: Clock,
        profiles: Mapping[str, waiting_pods.QueueingRules],
        *,
        sort_key: waiting_pods.SortKey,
        initial_backoff_s: float,
        max_backoff_s: float,
        retries_in_a_row: int,
        on_plugin_error: waiting_pods.PluginErrorHook,
        rules: waiting_pods.WakingRules,
    ) -> None:
        self.active = ActiveQueue(retries_in_a_row=retries_in_a_row)
        self.backoff = BackoffQueue(sort_key, initial_s=initial_backoff_s, max_s=max_backoff_s)
        self.pool = waiting_pods.UnschedulablePool(self.order, rules, on_plugin_error, self.is_nominated)
        self._clock = clock
        self._gates = {name: tuple(rules.pre_enqueue) for name, rules in profiles.items()}
        self._sort_key = sort_key
        self._on_plugin_error = on_plugin_error

    @abstractmethod
    def is_nominated(self, pod: Pod) -> bool:
        """True if a node is nominated for the pod."""

    @abstractmethod
    def _on_queued(self, queued: waiting_pods.QueuedPod, queue: QueueName, why: str) -> None:
        """A pod was put somewhere."""

    def waiting(self, uid: str) -> waiting_pods.QueuedPod | None:
        """The pod, wherever it waits; None if it does not."""
        return self.active.get(uid) or self.backoff.get(uid) or self.pool.get(uid)

    def remove(self, uid: str) -> waiting_pods.QueuedPod | None:
        """Remove a pod from wherever it waits; None if it does not."""
        return self.active.remove(uid) or self.backoff.remove(uid) or self.pool.remove(uid)

    def pop_first(self) -> waiting_pods.QueuedPod | None:
        """Remove and return the first active pod; if there is none, the refused pod whose backoff ends first."""
        queued = self.active.pop()
        if queued is None and (queued := self.backoff.pop()) is not None:
            self._on_queued(queued, QueueName.ACTIVE, POP_FROM_BACKOFF)
        return queued

    def requeue(self, queued: waiting_pods.QueuedPod, how: waiting_pods.Requeue, why: str) -> QueueName:
        """Put a pod where an event, or the lack of one, sends it. It may be in the pool, or nowhere."""
        if how is waiting_pods.Requeue.NOT or not self._passes_gates(queued):
            return self._to_pool(queued, why)
        # Its backoff may have ended while it was in the pool.
        if how is waiting_pods.Requeue.AFTER_BACKOFF and self.backoff.is_backing_off(queued, self._clock.monotonic()):
            self.pool.remove(queued.uid)
            self.backoff.add(queued)
            self._on_queued(queued, QueueName.BACKOFF, why)
            return QueueName.BACKOFF
        return self.to_active(queued, why, has_passed_gates=True)

    def to_active(self, queued: waiting_pods.QueuedPod, why: str, *, has_passed_gates: bool = False) -> QueueName:
        """Make a pod active, unless a gate blocks it. It may be in the pool, or nowhere."""
        if not has_passed_gates and not self._passes_gates(queued):
            return self._to_pool(queued, why)
        if queued.initial_attempt_at is None:
            queued.initial_attempt_at = self._clock.monotonic()
        self.pool.remove(queued.uid)
        self.active.put(queued.uid, self.order(queued), queued)
        self._on_queued(queued, QueueName.ACTIVE, why)
        return QueueName.ACTIVE

    def reorder(self, queued: waiting_pods.QueuedPod) -> None:
        """Sort a changed pod of the active or backoff queue again."""
        if queued.uid in self.active:
            self.active.put(queued.uid, self.order(queued), queued)
        else:
            self.backoff.add(queued)

    def order(self, queued: waiting_pods.QueuedPod) -> Any:
        """The sort key of a pod: the smallest is next."""
        return self._sort_key(queued.info, queued.queued_at), queued.sequence

    def _to_pool(self, queued: waiting_pods.QueuedPod, why: str) -> QueueName:
        is_new = queued.uid not in self.pool
        self.pool.add(queued)
        if is_new:
            self._on_queued(queued, QueueName.UNSCHEDULABLE, why)
        return QueueName.GATED if queued.is_gated else QueueName.UNSCHEDULABLE

    def _passes_gates(self, queued: waiting_pods.QueuedPod) -> bool:
        """Run the PreEnqueue plugins, the one that blocked the pod last first: it is the most likely to block again."""
        gates, held_by = self._gates.get(queued.profile, ()), queued.gating_plugin
        for plugin in sorted(gates, key=lambda each: each.name != held_by) if held_by else gates:
            if not self._lets_in(plugin, queued):
                queued.gating_plugin = plugin.name
                queued.unschedulable_plugins |= {plugin.name}
                return False
        queued.gating_plugin = ""
        return True

    def _lets_in(self, plugin: PreEnqueuePlugin, queued: waiting_pods.QueuedPod) -> bool:
        try:
            return plugin.pre_enqueue(queued.info).is_success
        except Exception as exc:
            self._on_plugin_error(plugin.name, queued, exc)
            return False

    def refusals(self) -> Counter[tuple[str, str]]:
        """(plugin, profile) -> the number of waiting pods that it blocks, for scheduler_unschedulable_pods."""
        waiting = chain(self.active, self.backoff, self.pool)
        return Counter((plugin, queued.profile) for queued in waiting for plugin in queued.unschedulable_plugins)

    def pending_pods(self) -> dict[QueueName, int]:
        """The number of waiting pods by place, for scheduler_pending_pods. Pods in flight do not count, and gated pods
        not as unschedulable."""
        gated = len(self.pool.gated)
        return dict(zip(QueueName, (len(self.active), len(self.backoff), len(self.pool) - gated, gated), strict=True))

    def pods_in(self, queue: QueueName) -> list[waiting_pods.QueuedPod]:
        """The pods of one place, in its order."""
        match queue:
            case QueueName.ACTIVE:
                return list(self.active)
            case QueueName.BACKOFF:
                return list(self.backoff)
            case _:
                return [queued for queued in self.pool if queued.is_gated is (queue is QueueName.GATED)]
