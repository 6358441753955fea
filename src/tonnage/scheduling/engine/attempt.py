"""One attempt to place a pod: its outcome, its extension points from PostFilter on, and assumed pods.

A plugin that raises or returns a wrong type has refused: the status is BROKEN, and the log has the traceback. A failing
plugin never stops the other plugins from unreserving. The plugins' part of a binding (PreBindPreFlight, PreBind, Bind
and PostBind, with errors in upstream's words) runs as a task on a real API, or on the virtual time of a simulation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from tonnage import logs
from tonnage.errors import TonnageError
from tonnage.objects import core_v1, meta
from tonnage.scheduling.cluster.cluster import Cluster, place
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.decision.answers import Diagnosis
from tonnage.scheduling.decision.explain import Explanation, PreemptionAnswer
from tonnage.scheduling.decision.scheduling_cycle import Decider, Decision, plugin_status
from tonnage.scheduling.engine.profiles import Assembled
from tonnage.scheduling.framework import (
    SUCCESS,
    Api,
    Code,
    Cycle,
    Plugin,
    PluginTimes,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    Status,
    unschedulable,
)
from tonnage.scheduling.plugins.volume_binding import VolumeBinding
from tonnage.scheduling.queue import queues, scheduling_queue, waiting_pods

BROKEN = Status(Code.ERROR, ("a plugin failed; see the scheduler's log",))
"""The public text if a plugin raises; the log has the details."""

_log = logs.logger("tonnage.scheduler")


def broken(plugin: str, pod: PodInfo) -> Status:
    """Log the current exception of a plugin with its traceback. Returns `BROKEN`."""
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
    """A pod on its way to a node: its needs are reserved, and the cluster counts it there."""

    pod: PodInfo
    profile: Assembled
    cycle: Cycle
    node: str
    queued: waiting_pods.QueuedPod | None = None
    """Set if the pod came from the queue."""


@dataclass(slots=True)
class Attempt:
    """One attempt. If `placement` is set, the caller must bind the pod or withdraw it."""

    pod: PodInfo
    profile: Assembled
    stage: AttemptStage = AttemptStage.DECIDE
    decision: Decision | None = None
    """None if a plugin raised."""
    placement: Placement | None = None
    status: Status = SUCCESS
    """Why there is no placement. SUCCESS if the pod was placed, or fits nowhere: see `decision.diagnosis`."""
    waits: Mapping[str, float] = field(default_factory=dict)
    """Permit plugins that make the placed pod wait, with the seconds until the wait counts as a rejection."""
    explanation: Explanation | None = None
    exception: Exception | None = None
    decided_in_s: float = 0.0
    queued: waiting_pods.QueuedPod | None = None
    """Set if the pod came from the queue."""


@dataclass(frozen=True, slots=True)
class PostFilterOutcome:
    """The result of PostFilter for a pod that fits nowhere, and the plugin behind it; None if no plugin can help."""

    result: PostFilterResult
    plugin: PostFilterPlugin | None = None


def run_post_filter(profile: Assembled, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterOutcome:
    """Run the PostFilter plugins of a profile. Never raises."""
    if not profile.post_filter or not cycle.cluster.count:
        return PostFilterOutcome(PostFilterResult(unschedulable(), withdraws_nomination=True))
    reasons: list[str] = []
    withdraws = False
    for plugin in profile.post_filter:
        result = _asked(plugin, cycle, diagnosis)
        if result.status.is_success:
            return PostFilterOutcome(result, plugin)
        if result.status.code is not Code.UNSCHEDULABLE:
            return PostFilterOutcome(result)
        reasons += result.status.reasons
        withdraws = withdraws or result.withdraws_nomination
    return PostFilterOutcome(PostFilterResult(unschedulable(*reasons), withdraws_nomination=withdraws))


def preemption_answer(outcome: PostFilterOutcome) -> PreemptionAnswer | None:
    """The victims that `explain` shows; None if preemption does not help or needs no victims."""
    result = outcome.result
    if not result.status.is_success or not result.victims:
        return None
    victims = tuple(pod.key for pod in result.victims)
    return PreemptionAnswer(result.nominated_node, victims, result.budget_violations)


def _asked(plugin: PostFilterPlugin, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
    try:
        result = plugin.post_filter(cycle, diagnosis)
        if not isinstance(result, PostFilterResult):
            raise TypeError(f"the answer must be a PostFilterResult, not {result!r}")
        return result
    except Exception:  # the scheduling loop must survive a failing plugin
        broken(plugin.name, cycle.pod)
        return PostFilterResult(Status(Code.ERROR, (f"a plugin failed: {plugin.name}",)))


def reserve(attempt: Attempt, placement: Placement) -> Status:
    """Run the Reserve plugins. On a refusal, which names its plugin, everything reserved so far is unreserved."""
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
    """Run Unreserve in reverse order. Never raises."""
    for plugin in reversed(placement.profile.reserve):
        try:
            plugin.unreserve(placement.cycle, placement.node)
        except Exception:
            broken(plugin.name, placement.pod)


def permit(attempt: Attempt, placement: Placement) -> tuple[Status, dict[str, float]]:
    """Run the Permit plugins. Returns the first refusal, or the plugins that make the pod wait, with their seconds."""
    waits: dict[str, float] = {}
    for plugin in placement.profile.permit:
        try:
            status, seconds = plugin.permit(placement.cycle, placement.node)
            if status.code is Code.WAIT:
                waits[plugin.name] = float(seconds)
            elif not status.is_success:
                return Status(status.code, status.reasons, plugin.name), {}
        except Exception as exc:
            attempt.exception = exc
            return broken(plugin.name, placement.pod), {}
    return SUCCESS, waits


def note_failure(plugin: Plugin, point: str) -> None:
    """Count an attempt that ended because VolumeBinding failed at Reserve or PreBind."""
    if isinstance(plugin, VolumeBinding):
        plugin.failed(point)


CONFIRMED_WITHIN_S: Final = 5.0
"""If the watch does not show a bound pod on its node after this time, the API is asked. Watches take milliseconds.
kube-scheduler waits for ever, and the pod with it."""


@dataclass(slots=True)
class _Assumption:
    info: PodInfo
    node: str
    bound_by: Placement | None = None
    overdue_at: float | None = None


class AssumedPods:
    """The assumed pods, by uid."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._assumed: dict[str, _Assumption] = {}

    def __len__(self) -> int:
        return len(self._assumed)

    def __contains__(self, uid: str) -> bool:
        return uid in self._assumed

    def listed(self) -> Iterator[tuple[PodInfo, str]]:
        """The assumed pods with their nodes, in the order of the decisions."""
        return ((assumption.info, assumption.node) for assumption in self._assumed.values())

    def assume(self, info: PodInfo, node: str) -> bool:
        """Count a pod on its chosen node. Returns False and changes nothing if it has a node already."""
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
        """True if this placement assumed the pod and its binding finished."""
        assumption = self._assumed.get(placement.pod.uid)
        return assumption is not None and assumption.bound_by is placement

    def ask_again(self, placement: Placement, now_s: float) -> None:
        """The API did not answer whether the pod is bound: ask again after a while."""
        if self.is_waited_for(placement):
            self._assumed[placement.pod.uid].overdue_at = now_s + CONFIRMED_WITHIN_S

    def forget(self, uid: str) -> bool:
        """The binding failed: stop counting the pod. Returns False if it was not assumed (any more)."""
        if self._assumed.pop(uid, None) is None:
            return False
        self._cluster.remove_pod(uid)
        return True

    def confirm(self, pod: core_v1.Pod) -> None:
        """The informer shows a bound pod, assumed or not."""
        self._assumed.pop(waiting_pods.uid_of(pod), None)
        place(self._cluster, pod)

    def gone(self, uid: str) -> None:
        """The informer shows that the pod is deleted."""
        self._assumed.pop(uid, None)
        self._cluster.remove_pod(uid)

    def overdue(self, now_s: float) -> list[Placement]:
        """Accepted bindings that were not confirmed in time; each is returned once, until `ask_again`."""
        found: list[Placement] = []
        for assumption in self._assumed.values():
            if assumption.bound_by is not None and assumption.overdue_at is not None and assumption.overdue_at <= now_s:
                assumption.overdue_at = None
                found.append(assumption.bound_by)
        return found


Handler = Callable[[meta.Object | None, meta.Object | None], None]
"""Called with the old and the new object; None: it does not exist."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """The settings of an engine besides its profiles."""

    initial_backoff_s: float = queues.INITIAL_BACKOFF_S
    max_backoff_s: float = queues.MAX_BACKOFF_S
    max_unschedulable_s: float = scheduling_queue.MAX_UNSCHEDULABLE_S
    """The longest time a pod waits for an event that may never come."""
    takes_any_pod: bool = False
    """The first profile places pods that ask for an unknown scheduler."""
    implies_namespaces: bool = False
    """A namespace with pods exists even without its object: files seldom contain Namespaces."""


@dataclass(frozen=True, slots=True)
class EngineHooks:
    """Callbacks of an engine. All are called synchronously and must be quick."""

    on_queued: queues.QueuedHook = lambda queued, queue, why: None
    on_plugin_error: waiting_pods.PluginErrorHook = lambda plugin, queued, exc: None
    on_change: Handler = lambda old, new: None
    """A node or storage object changed, or a pod went, began terminating, or got its node."""
    on_pod_gone: Callable[[str], None] = lambda uid: None
    plugin_times: Callable[[], PluginTimes | None] = lambda: None
    """Called at the start of each attempt: what measures its plugins, or None."""
    on_decision: Callable[[Decider, Decision], object] = lambda decider, decision: None
    """A decision was made; nothing is reserved yet."""


OVER: Final = Status(Code.ERROR, ("the pod does not wait for a node any more",))
"""The result of a binding whose pod was deleted meanwhile, or bound by another scheduler."""

Timed = Callable[[str, Awaitable[Status]], Awaitable[Status]]
"""Awaits the answer of the plugin of this name, and may measure it."""


class PodIsOver(TonnageError):
    """Nothing is written for a pod that is gone, terminating, or has its node. Its attempt ends silently."""

    def __init__(self, pod: PodInfo) -> None:
        self.pod = pod
        super().__init__(f"pod {pod.key} does not wait for a node any more")


def pre_bind_pre_flight(placement: Placement) -> Status | tuple[PreBindPlugin, ...]:
    """Ask all PreBind plugins whether they have work. Returns those that do, or the failure of one."""
    due: list[PreBindPlugin] = []
    for plugin in placement.profile.pre_bind:
        try:
            flight = plugin.pre_bind_pre_flight(placement.cycle, placement.node)
            is_ready = flight.is_success
        except Exception:
            flight, is_ready = broken(plugin.name, placement.pod), False
        if not is_ready:
            return Status(Code.ERROR, (f'running PreBindPreFlight "{plugin.name}": {flight.message}',), plugin.name)
        if flight.code is not Code.SKIP:
            due.append(plugin)
    return tuple(due)


async def run_pre_bind(
    placement: Placement, due: Sequence[PreBindPlugin], api: Api, timed: Timed = lambda name, work: work
) -> Status:
    """Run these PreBind plugins, one after another."""
    for plugin in due:
        status = await timed(plugin.name, _answer(plugin.pre_bind, placement, plugin.name, api))
        if not status.is_success:
            if status is OVER:
                return OVER
            note_failure(plugin, "PreBind")
            return plugin_status("PreBind", plugin.name, status)
    return Status()


async def run_bind(placement: Placement, api: Api) -> Status:
    """Bind the pod by the first Bind plugin that takes it, and run PostBind, whose failures cannot change that."""
    for binder in placement.profile.bind:
        status = await _answer(binder.bind, placement, binder.name, api)
        if status.code is Code.SKIP:
            continue
        for plugin in placement.profile.post_bind if status.is_success else ():
            try:
                plugin.post_bind(placement.cycle, placement.node)
            except Exception:
                broken(plugin.name, placement.pod)
        return OVER if status is OVER else plugin_status("Bind", binder.name, status)
    return Status(Code.ERROR, ("no Bind plugin took the pod; enable DefaultBinder in the profile",))


async def _answer(
    ask: Callable[[Cycle, str, Api], Awaitable[Status]], placement: Placement, plugin: str, api: Api
) -> Status:
    """The status that a plugin's method returns; BROKEN if it raises or returns something else."""
    try:
        status = await ask(placement.cycle, placement.node, api)
        if not isinstance(status, Status):
            raise TypeError(f"the answer must be a Status, not {status!r}")
        return status
    except PodIsOver:
        return OVER
    except TonnageError as exc:
        return Status(Code.ERROR, (exc.message,))
    except Exception:
        return broken(plugin, placement.pod)
