"""Where pods wait, and the one way in: past the gates.

Three places: active (to be tried, in order), backoff (failed a moment ago), unschedulable (nothing fits). A pod is in
one of them at most. Whoever moves a pod towards being tried asks the PreEnqueue plugins first; a pod that one of them
holds back goes to the unschedulable pool with that plugin's name on it, and is asked about again only for events that
this plugin cares for. A pod that backs off has been past the gates, and is not asked again on its way out.

Why a pod moves is `scheduling_queue.py`'s affair; this file keeps it in one place, and the counts right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, TypeAlias

from tonnage.clock import Clock
from tonnage.objects.core_v1 import Pod
from tonnage.scheduling.events import POP_FROM_BACKOFF
from tonnage.scheduling.framework import PreEnqueuePlugin
from tonnage.scheduling.queue.active_queue import ActiveQueue
from tonnage.scheduling.queue.backoff_queue import BackoffQueue
from tonnage.scheduling.queue.equivalence_classes import SignHook
from tonnage.scheduling.queue.needs import NeedsHook
from tonnage.scheduling.queue.queued_pod import QueuedPod, SortKey
from tonnage.scheduling.queue.queueing_hints import PluginErrorHook, QueueingRules, Requeue
from tonnage.scheduling.queue.unschedulable_pods import UnschedulablePool


class QueueName(StrEnum):
    """Where a pod waits; the values are the label `queue` of scheduler_pending_pods."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"


QueuedHook: TypeAlias = Callable[[QueuedPod, QueueName, str], None]
"""(pod, where it was put, why): what scheduler_queue_incoming_pods_total counts."""


class Queues:
    """The waiting pods. A method that puts a pod somewhere says where it landed."""

    def __init__(
        self,
        clock: Clock,
        profiles: Mapping[str, QueueingRules],
        backoff: BackoffQueue,
        *,
        sort_key: SortKey,
        on_queued: QueuedHook,
        on_plugin_error: PluginErrorHook,
        sign: SignHook = lambda profile, pod, plugins: None,
        is_nominated: Callable[[Pod], bool] = lambda pod: False,
        needs: NeedsHook = lambda profile, plugin, pod, plugins: None,
        retries_in_a_row: int = 0,
    ) -> None:
        self.active = ActiveQueue(retries_in_a_row=retries_in_a_row)
        self.backoff = backoff
        self.pool = UnschedulablePool(self.order, sign, on_plugin_error, is_nominated, needs)
        self.refusals: Counter[tuple[str, str]] = Counter()
        """(plugin, profile) -> how many waiting pods it stands in the way of."""
        self._clock = clock
        self._gates = {name: tuple(rules.pre_enqueue) for name, rules in profiles.items()}
        self._sort_key = sort_key
        self._on_queued = on_queued
        self._on_plugin_error = on_plugin_error

    def get(self, uid: str) -> QueuedPod | None:
        return self.active.get(uid) or self.backoff.get(uid) or self.pool.get(uid)

    def remove(self, uid: str) -> QueuedPod | None:
        """Take a pod out, wherever it is; None when it is nowhere."""
        queued = self.active.remove(uid) or self.backoff.remove(uid) or self.pool.remove(uid)
        if queued is not None:
            self._count_refusals(queued, -1)
        return queued

    def pop(self) -> QueuedPod | None:
        """Take out the first active pod; with none left, the refused pod whose backoff ends first."""
        queued = self.active.pop()
        if queued is None and (queued := self.backoff.pop()) is not None:
            self._on_queued(queued, QueueName.ACTIVE, POP_FROM_BACKOFF)
        if queued is not None:
            self._count_refusals(queued, -1)
        return queued

    def take_back(self, queued: QueuedPod, how: Requeue, why: str) -> QueueName:
        """Put a pod in that was popped and refused, and count who refused it."""
        self._count_refusals(queued, +1)
        return self.requeue(queued, how, why)

    def requeue(self, queued: QueuedPod, how: Requeue, why: str) -> QueueName:
        """Put a pod where an event, or the lack of one, sends it. It may be in the pool, or nowhere."""
        if how is Requeue.NOT:
            return self._to_pool(queued, why)
        # Its backoff may have ended while it was in the pool.
        if how is Requeue.AFTER_BACKOFF and self.backoff.is_backing_off(queued, self._clock.monotonic()):
            return self._to_backoff(queued, why)
        return self.to_active(queued, why)

    def to_active(self, queued: QueuedPod, why: str, *, has_passed_gates: bool = False) -> QueueName:
        """Let a pod be tried, unless a gate holds it. It may be in the pool, or nowhere."""
        if not has_passed_gates and not self._passes_gates(queued):
            return self._to_pool(queued, why)
        if queued.initial_attempt_at is None:
            queued.initial_attempt_at = self._clock.monotonic()
        self.pool.remove(queued.uid)
        self._put_active(queued)
        self._on_queued(queued, QueueName.ACTIVE, why)
        return QueueName.ACTIVE

    def reorder(self, queued: QueuedPod) -> None:
        """The pod in the active or backoff queue has changed: put it where it belongs now."""
        if queued.uid in self.active:
            self._put_active(queued)
        else:
            self.backoff.add(queued)

    def order(self, queued: QueuedPod) -> Any:
        """Whose turn it is: the smallest first."""
        return self._sort_key(queued.info, queued.queued_at), queued.sequence

    def refuse(self, queued: QueuedPod, plugins: frozenset[str]) -> None:
        """A pod in the pool would be refused by these plugins now, as one like it was: file it so."""
        self._count_refusals(queued, -1)
        queued.unschedulable_plugins = plugins
        self._count_refusals(queued, +1)
        self.pool.add(queued)

    def _put_active(self, queued: QueuedPod) -> None:
        self.active.put(queued, self.order(queued))

    def _to_backoff(self, queued: QueuedPod, why: str) -> QueueName:
        if not self._passes_gates(queued):
            return self._to_pool(queued, why)
        self.pool.remove(queued.uid)
        self.backoff.add(queued)
        self._on_queued(queued, QueueName.BACKOFF, why)
        return QueueName.BACKOFF

    def _to_pool(self, queued: QueuedPod, why: str) -> QueueName:
        is_new = queued.uid not in self.pool
        self.pool.add(queued)
        if is_new:
            self._on_queued(queued, QueueName.UNSCHEDULABLE, why)
        return QueueName.GATED if queued.is_gated else QueueName.UNSCHEDULABLE

    def _passes_gates(self, queued: QueuedPod) -> bool:
        """Ask the PreEnqueue plugins, the one that holds the pod first: it is the likeliest to go on doing so."""
        gates, held_by = self._gates.get(queued.profile, ()), queued.gating_plugin
        for plugin in sorted(gates, key=lambda each: each.name != held_by) if held_by else gates:
            if not self._lets_in(plugin, queued):
                queued.gating_plugin = plugin.name
                if plugin.name not in queued.rejectors:
                    queued.unschedulable_plugins |= {plugin.name}
                    self.refusals[plugin.name, queued.profile] += 1
                return False
        queued.gating_plugin = ""
        return True

    def _lets_in(self, plugin: PreEnqueuePlugin, queued: QueuedPod) -> bool:
        try:
            return plugin.pre_enqueue(queued.info).is_success
        except Exception as exc:
            self._on_plugin_error(plugin.name, queued, exc)
            return False

    def _count_refusals(self, queued: QueuedPod, by: int) -> None:
        for plugin in queued.rejectors:
            self.refusals[plugin, queued.profile] += by
            if not self.refusals[plugin, queued.profile]:
                del self.refusals[plugin, queued.profile]

    def counts(self) -> dict[QueueName, int]:
        """How many pods are where; gated ones are not counted among the unschedulable."""
        gated = self.pool.gated_count
        return {
            QueueName.ACTIVE: len(self.active),
            QueueName.BACKOFF: len(self.backoff),
            QueueName.UNSCHEDULABLE: len(self.pool) - gated,
            QueueName.GATED: gated,
        }

    def pods_in(self, queue: QueueName) -> Iterator[QueuedPod]:
        """The pods of one place, in its order."""
        match queue:
            case QueueName.ACTIVE:
                return iter(self.active)
            case QueueName.BACKOFF:
                return iter(self.backoff)
            case _:
                return (queued for queued in self.pool if queued.is_gated is (queue is QueueName.GATED))
