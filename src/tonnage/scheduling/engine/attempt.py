"""One attempt to place a pod: what came of it, its last extension points (Reserve, Permit, PostFilter), and what may be
chosen about the engine that makes attempts.

A plugin that raises, or answers with something else than it should, has refused: the status is BROKEN, and the log has
the traceback. No plugin keeps the others from giving back what they keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from tonnage import logs
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Object
from tonnage.scheduling.cluster.cluster import Cluster, place
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.decision.diagnosis import Diagnosis
from tonnage.scheduling.decision.explain import Explanation, PreemptionAnswer
from tonnage.scheduling.decision.scheduling_cycle import Decider, Decision
from tonnage.scheduling.engine.profiles import Assembled
from tonnage.scheduling.framework import (
    SUCCESS,
    Code,
    Cycle,
    Plugin,
    PluginTimes,
    PostFilterPlugin,
    PostFilterResult,
    Status,
    unschedulable,
)
from tonnage.scheduling.plugins.volume_binding import VolumeBinding
from tonnage.scheduling.queue.queued_pod import QueuedPod, uid_of
from tonnage.scheduling.queue.queueing_hints import PluginErrorHook
from tonnage.scheduling.queue.queues import INITIAL_BACKOFF_S, MAX_BACKOFF_S, QueuedHook
from tonnage.scheduling.queue.scheduling_queue import MAX_UNSCHEDULABLE_S

BROKEN = Status(Code.ERROR, ("a plugin failed; see the scheduler's log",))
"""What people are told when a plugin raises; the log has the rest."""

_log = logs.logger("tonnage.scheduler")


def broken(plugin: str, pod: PodInfo) -> Status:
    """Log what a plugin has just raised, with its traceback; what people are told of it."""
    _log.exception("A plugin failed", plugin=plugin, pod=pod.key)
    return BROKEN


class AttemptStage(Enum):
    """How far an attempt came before it was refused."""

    DECIDE = "PreFilter to Score"
    RESERVE = "Reserve"
    PERMIT = "Permit"
    PLACED = "reserved, assumed and permitted"


@dataclass(slots=True)
class Placement:
    """A pod on its way to a node: what it needs is reserved, and the cluster counts it there."""

    pod: PodInfo
    profile: Assembled
    cycle: Cycle
    node: str
    queued: QueuedPod | None = None
    """Set when the pod came from the queue."""


@dataclass(slots=True)
class Attempt:
    """One attempt. `placement` is set when the pod has a node; then somebody has to bind it, or withdraw it."""

    pod: PodInfo
    profile: Assembled
    stage: AttemptStage = AttemptStage.DECIDE
    decision: Decision | None = None
    """None when a plugin raised."""
    placement: Placement | None = None
    status: Status = SUCCESS
    """Why there is no placement. SUCCESS when the pod was placed, or when it fits nowhere: see `decision.diagnosis`."""
    waits: Mapping[str, float] = field(default_factory=dict)
    """Permit plugins that hold the placed pod back, with the seconds after which that counts as rejection."""
    explanation: Explanation | None = None
    exception: Exception | None = None
    decided_in_s: float = 0.0
    queued: QueuedPod | None = None
    """Set when the pod came from the queue."""


@dataclass(frozen=True, slots=True)
class PostFilterOutcome:
    """What PostFilter plugins found for a pod that fits nowhere, and which of them; None when nothing can help."""

    result: PostFilterResult
    plugin: PostFilterPlugin | None = None


def run_post_filter(profile: Assembled, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterOutcome:
    """Ask the PostFilter plugins of a profile. Does not raise."""
    if not profile.post_filter or not cycle.cluster.count:
        return PostFilterOutcome(PostFilterResult(unschedulable(), withdraws_nomination=True))
    reasons: list[str] = []
    withdraws = False
    for plugin in profile.post_filter:
        found = _asked(plugin, cycle, diagnosis)
        if found.status.is_success:
            return PostFilterOutcome(found, plugin)
        if found.status.code is not Code.UNSCHEDULABLE:
            return PostFilterOutcome(found)
        reasons += found.status.reasons
        withdraws = withdraws or found.withdraws_nomination
    return PostFilterOutcome(PostFilterResult(unschedulable(*reasons), withdraws_nomination=withdraws))


def preemption_answer(outcome: PostFilterOutcome) -> PreemptionAnswer | None:
    """For `explain`: who would have to go; None when nobody can make room, or nobody has to go for it."""
    found = outcome.result
    if not found.status.is_success or not found.victims:
        return None
    victims = tuple(each.key for each in found.victims)
    return PreemptionAnswer(found.nominated_node, victims, found.budget_violations)


def _asked(plugin: PostFilterPlugin, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
    try:
        found = plugin.post_filter(cycle, diagnosis)
        if not isinstance(found, PostFilterResult):
            raise TypeError(f"the answer is to be a PostFilterResult, not {found!r}")
        return found
    except Exception:  # this runs on the scheduling loop, which must not end because of a plugin
        broken(plugin.name, cycle.pod)
        return PostFilterResult(Status(Code.ERROR, (f"a plugin failed: {plugin.name}",)))


def reserve(attempt: Attempt, placement: Placement) -> Status:
    """Keep what the pod needs; on a refusal, which names its plugin, everything kept so far is given back."""
    cycle = placement.cycle
    for plugin in placement.profile.reserve:
        try:
            found = cycle.run("Reserve", plugin, plugin.reserve, cycle, placement.node)
            status = SUCCESS if found.is_success else plugin_status("Reserve", plugin.name, found)
        except Exception as exc:
            attempt.exception, status = exc, broken(plugin.name, placement.pod)
        if not status.is_success:
            unreserve(placement)
            note_failure(plugin, "Reserve")
            return status
    return SUCCESS


def unreserve(placement: Placement) -> None:
    """Give back what was kept for the pod, in reverse order. Does not raise."""
    for plugin in reversed(placement.profile.reserve):
        try:
            plugin.unreserve(placement.cycle, placement.node)
        except Exception:
            broken(plugin.name, placement.pod)


def permit(attempt: Attempt, placement: Placement) -> tuple[Status, dict[str, float]]:
    """Ask the Permit plugins: the first refusal; else the plugins that hold the pod back, with their seconds."""
    waits: dict[str, float] = {}
    for plugin in placement.profile.permit:
        try:
            found, seconds = plugin.permit(placement.cycle, placement.node)
            if found.code is Code.WAIT:
                waits[plugin.name] = float(seconds)
            elif not found.is_success:
                return Status(found.code, found.reasons, plugin.name), {}
        except Exception as exc:
            attempt.exception = exc
            return broken(plugin.name, placement.pod), {}
    return SUCCESS, waits


def note_failure(plugin: Plugin, point: str) -> None:
    """An attempt ended because a plugin failed at Reserve or PreBind: VolumeBinding's failures are counted."""
    if isinstance(plugin, VolumeBinding):
        plugin.failed(point)


def plugin_status(point: str, plugin: str, status: Status) -> Status:
    """A plugin's answer with its name; an error also says where it happened, a refusal speaks for itself."""
    if status.code is Code.ERROR:
        return Status(Code.ERROR, (f'running {point} plugin "{plugin}": {status.message}',), plugin)
    return Status(status.code, status.reasons, plugin)


CONFIRMED_WITHIN_S: Final = 5.0
"""How long after its binding a pod may go without being seen on its node before the API is asked about it. Watches show
it within milliseconds. kube-scheduler waits for ever, and the pod with it."""


@dataclass(slots=True)
class _Assumption:
    info: PodInfo
    node: str
    bound_by: Placement | None = None
    overdue_at: float | None = None


class AssumedPods:
    """The pods that are on their way, by uid."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._assumed: dict[str, _Assumption] = {}

    def __len__(self) -> int:
        return len(self._assumed)

    def __contains__(self, uid: str) -> bool:
        return uid in self._assumed

    def listed(self) -> Iterator[tuple[PodInfo, str]]:
        """Each assumed pod with its node, in the order of the decisions."""
        return ((each.info, each.node) for each in self._assumed.values())

    def assume(self, info: PodInfo, node: str) -> bool:
        """Count a pod on the node it was just sent to; False, with nothing changed, if it has a node already."""
        if self._cluster.node_of(info.uid) is not None:
            return False
        self._assumed[info.uid] = _Assumption(info, node)
        self._cluster.put_pod(info, node)
        return True

    def binding_finished(self, placement: Placement, now_s: float) -> None:
        """The API accepted the binding; from now on the confirmation may be overdue."""
        assumption = self._assumed.get(placement.pod.uid)
        if assumption is not None:
            assumption.bound_by = placement
            assumption.overdue_at = now_s + CONFIRMED_WITHIN_S

    def is_waited_for(self, placement: Placement) -> bool:
        """Whether the pod is assumed by this very placement, and its binding finished."""
        assumption = self._assumed.get(placement.pod.uid)
        return assumption is not None and assumption.bound_by is placement

    def ask_again(self, placement: Placement, now_s: float) -> None:
        """The API did not answer whether the pod is bound: it is overdue again after a while."""
        if self.is_waited_for(placement):
            self._assumed[placement.pod.uid].overdue_at = now_s + CONFIRMED_WITHIN_S

    def forget(self, uid: str) -> bool:
        """The binding failed: give the room back. False when the pod was not assumed (any more)."""
        if self._assumed.pop(uid, None) is None:
            return False
        self._cluster.remove_pod(uid)
        return True

    def confirm(self, pod: Pod) -> None:
        """The informer shows a bound pod, assumed or not."""
        self._assumed.pop(uid_of(pod), None)
        place(self._cluster, pod)

    def gone(self, uid: str) -> None:
        """The informer shows that a pod is deleted."""
        self._assumed.pop(uid, None)
        self._cluster.remove_pod(uid)

    def overdue(self, now_s: float) -> list[Placement]:
        """The bindings that were accepted and not confirmed in time; each is told once, until `ask_again`."""
        found: list[Placement] = []
        for each in self._assumed.values():
            if each.bound_by is not None and each.overdue_at is not None and each.overdue_at <= now_s:
                each.overdue_at = None
                found.append(each.bound_by)
        return found


Handler = Callable[[Object | None, Object | None], None]
"""Told what an object was and what it is; None for "not there"."""


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
