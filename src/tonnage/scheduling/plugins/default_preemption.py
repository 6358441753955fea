"""DefaultPreemption: if a pod fits nowhere, find a node where it would fit without some pods of lower priority.

`scheduling/preemption/preemption.py` is the search. PreEnqueue blocks the pod while its victims are being deleted;
otherwise it would look for another node with other victims. The engine is told when that begins and ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tonnage.objects.core_v1 import Pod
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.plugin_args import DefaultPreemptionArgs
from tonnage.scheduling.decision.diagnosis import Diagnosis
from tonnage.scheduling.events import SKIP as NO_HELP
from tonnage.scheduling.events import ActionType, ClusterEvent, EventResource, Hint
from tonnage.scheduling.framework import (
    SUCCESS,
    Cycle,
    EventHint,
    Handle,
    PluginCounter,
    PostFilterPlugin,
    PostFilterResult,
    PreEnqueuePlugin,
    Status,
    unresolvable,
)
from tonnage.scheduling.preemption.disruption_budgets import DisruptionBudgets
from tonnage.scheduling.preemption.preemption import Preemption
from tonnage.scheduling.preemption.ranked_residents import RankedResidents

IN_PROGRESS = "waiting for the preemption for this pod to be finished"


class DefaultPreemption(PostFilterPlugin, PreEnqueuePlugin):
    name = "DefaultPreemption"

    def __init__(self, args: DefaultPreemptionArgs | None = None) -> None:
        self._args = args or DefaultPreemptionArgs()
        self._search: Preemption | None = None
        self.preempting: set[str] = set()
        """The uids of pods whose victims are being deleted; the engine adds and removes them."""
        self.attempts_total = 0

    def connect(self, handle: Handle) -> None:
        self._search = Preemption(handle.decider, self._args, handle.rng)

    def indexes(self) -> Iterable[type]:
        return (RankedResidents, DisruptionBudgets)

    def counters(self) -> Iterable[PluginCounter]:
        told = "Attempts to make room by preempting pods of lower priority."
        yield PluginCounter("scheduler_preemption_attempts", told, self.attempts_total)

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        if self._search is None:
            raise RuntimeError(f"{self.name} was asked before it was connected to a profile")
        self.attempts_total += 1
        return self._search.attempt(cycle, diagnosis)

    def pre_enqueue(self, pod: PodInfo) -> Status:
        return unresolvable(IN_PROGRESS) if pod.uid in self.preempting else SUCCESS

    def events(self) -> Iterable[EventHint]:
        """Deleted victims may let the pod past PreEnqueue; the plugins that refused it decide whether to try it."""
        return ((ClusterEvent(EventResource.POD, ActionType.DELETE), _leave_it_to_others),)


def _leave_it_to_others(pod: PodInfo, event: ClusterEvent, old: Pod | None, new: Any) -> Hint:
    return NO_HELP
