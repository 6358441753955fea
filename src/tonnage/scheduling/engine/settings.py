"""What may be chosen about an engine, and whom it tells what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tonnage.scheduling.decision.scheduling_cycle import Decider, Decision
from tonnage.scheduling.engine.event_handlers import Handler
from tonnage.scheduling.framework import PluginTimes
from tonnage.scheduling.queue.queueing_hints import PluginErrorHook
from tonnage.scheduling.queue.queues import INITIAL_BACKOFF_S, MAX_BACKOFF_S, QueuedHook
from tonnage.scheduling.queue.scheduling_queue import MAX_UNSCHEDULABLE_S


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What may be chosen about an engine besides its profiles."""

    initial_backoff_s: float = INITIAL_BACKOFF_S
    max_backoff_s: float = MAX_BACKOFF_S
    max_unschedulable_s: float = MAX_UNSCHEDULABLE_S
    """No pod waits longer than this for an event that may never come."""
    takes_any_pod: bool = False
    """Pods that ask for a scheduler that is not here are placed by the first profile."""
    implies_namespaces: bool = False
    """A namespace that has pods is there whether its object is or not: files seldom bring Namespaces along."""


@dataclass(frozen=True, slots=True)
class EngineHooks:
    """Whom an engine tells what. All are called on the spot, and must be quick."""

    on_queued: QueuedHook = lambda queued, queue, why: None
    on_plugin_error: PluginErrorHook = lambda plugin, queued, exc: None
    on_change: Handler = lambda old, new: None
    """A node or an object of storage changed; or a pod went, began to go, or got its node."""
    on_pod_gone: Callable[[str], None] = lambda uid: None
    plugin_times: Callable[[], PluginTimes | None] = lambda: None
    """Asked at the start of each attempt: who measures its plugins, if anybody does."""
    on_decision: Callable[[Decider, Decision], object] = lambda decider, decision: None
    """A decision was made, and nothing is reserved by it yet."""
