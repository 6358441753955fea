"""Which plugins registered for which events, and whether an event is worth another attempt.

`HintTable` finds the plugins for an event; `worth` asks only the hints of plugins that block the pod. Mirrors
PriorityQueue.isPodWorthRequeuing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final, TypeAlias

from tonnage.objects.core_v1 import Pod
from tonnage.scheduling.events import QUEUE, ActionType, ClusterEvent, EventResource, HintFn, is_for_mounted_claims
from tonnage.scheduling.framework import EventHint, PreEnqueuePlugin
from tonnage.scheduling.queue.queued_pod import QueuedPod

PreCheck: TypeAlias = Callable[[Pod], bool]
"""Which waiting pods an event may concern."""

PluginErrorHook: TypeAlias = Callable[[str, QueuedPod, Exception], None]
"""(plugin, pod, exception): a plugin failed. The pod is not affected; the error should be reported."""


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """An event that came while pods were in flight. `only`: the uid of the pod it is for, if it is for one."""

    event: ClusterEvent
    old: Any
    new: Any
    pre_check: PreCheck | None = None
    only: str = ""


class Requeue(Enum):
    """What an event does for a waiting pod."""

    NOT = auto()
    AFTER_BACKOFF = auto()
    AT_ONCE = auto()


@dataclass(frozen=True, slots=True)
class QueueingRules:
    """The queueing rules of one profile: its PreEnqueue plugins, and by plugin the events that may change its answer.

    Without a hint, every event of a mask is worth an attempt. Pods refused by a plugin that is not in `hints` wait for
    the periodic flush.
    """

    pre_enqueue: Sequence[PreEnqueuePlugin] = ()
    hints: Mapping[str, Sequence[EventHint]] = field(default_factory=dict)


_NOBODY: Final[frozenset[str]] = frozenset()

Caring: TypeAlias = Mapping[str, Sequence[HintFn | None]]
"""Plugins that registered for an event, with their hints."""


class HintTable:
    """The hints of one profile, by event."""

    def __init__(self, rules: QueueingRules, on_plugin_error: PluginErrorHook) -> None:
        self._rules = rules
        self._on_plugin_error = on_plugin_error
        self._caring: dict[tuple[EventResource, ActionType, bool], Caring] = {}

    def caring(self, event: ClusterEvent, *, for_any: bool = False) -> Caring:
        """The plugins that registered for the event, with their hints. `for_any`: without the hints that are only for
        pods which mount a claim of the event."""
        key = (event.resource, event.action, for_any)
        if key not in self._caring:
            hints = {
                plugin: [
                    hint
                    for mask, hint in registered
                    if mask.covers(event) and not (for_any and hint is not None and is_for_mounted_claims(hint))
                ]
                for plugin, registered in self._rules.hints.items()
            }
            self._caring[key] = {plugin: found for plugin, found in hints.items() if found}
        return self._caring[key]

    def worth(self, queued: QueuedPod, event: ClusterEvent, old: Any, new: Any) -> Requeue:
        """Whether the event is worth another attempt. A pod that met an error always is, and a wildcard asks no plugin.
        Without backoff if a plugin that says so was only waiting for somebody to act."""
        if event.is_wildcard:
            return Requeue.AFTER_BACKOFF
        return self.answer(queued, self.caring(event), event, old, new)[0]

    def worth_since(self, queued: QueuedPod, events: Iterable[RecordedEvent]) -> Requeue:
        """Whether any of the events that came during a refused attempt is worth another one."""
        best = Requeue.NOT
        for seen in events:
            if seen.pre_check is not None and not seen.pre_check(queued.pod):
                continue
            how = self.worth(queued, seen.event, seen.old, seen.new)
            if how is Requeue.AT_ONCE or (how is Requeue.AFTER_BACKOFF and not queued.pending_plugins):
                return how
            best = Requeue.AFTER_BACKOFF if how is Requeue.AFTER_BACKOFF else best
        return best

    def answer(
        self, queued: QueuedPod, caring: Caring, event: ClusterEvent, old: Any, new: Any
    ) -> tuple[Requeue, frozenset[str]]:
        """Whether the event is worth another attempt, and which of these plugins say so."""
        refused_by, pending = queued.unschedulable_plugins, queued.pending_plugins
        if not refused_by and not pending:
            return Requeue.AFTER_BACKOFF, _NOBODY
        saying: list[str] = []
        for plugin, hints in caring.items():
            if plugin not in refused_by and plugin not in pending:
                continue
            try:
                if not any(hint is None or hint(queued.info, event, old, new) is QUEUE for hint in hints):
                    continue
            except Exception as exc:
                # One attempt too many is better than a pod that is never tried again.
                self._on_plugin_error(plugin, queued, exc)
            if plugin in pending:
                return Requeue.AT_ONCE, frozenset((plugin,))
            saying.append(plugin)
        return (Requeue.AFTER_BACKOFF, frozenset(saying)) if saying else (Requeue.NOT, _NOBODY)
