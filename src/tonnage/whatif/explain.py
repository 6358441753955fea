"""`explain`: which node a pod goes to and why, or why none, decided by the scheduler's engine and kept nowhere.

    StatefulSet shop/db ──► db-0 is bound: told as such; db-1 is pending: decided; db-2 is missing: made, then decided

One pod is decided on as if it were new, also if it has a node. Pods of a whole queue are decided one after the other,
each after those before it are assumed; those of a workload one after the other too, each after those before it run
(`PlayedWorkloads` in `simulate/played_cluster.py`). A pod that fits nowhere and that preemption would make room for
is expected on that node from then on, so that the pods after it do not count on the same victims.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from tonnage.clock import Clock
from tonnage.errors import TonnageError, closest
from tonnage.keyed import grouped
from tonnage.objects.core_v1 import PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key, Object, changed, split_key
from tonnage.objects.requirements import Toleration
from tonnage.objects.storage_v1 import CSIStorageCapacity, StorageClass
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.configuration import Configuration
from tonnage.scheduling.configuration.profile import ResolvedProfile
from tonnage.scheduling.configuration.profile_plugins import ExtensionPoint
from tonnage.scheduling.decision.answers import Diagnosis
from tonnage.scheduling.decision.explain import Explanation
from tonnage.scheduling.volumes.capacity.pools import listed_pools
from tonnage.whatif.creation import ObjectsByKind
from tonnage.whatif.replay import Replay
from tonnage.whatif.scheduler_memory import SchedulerMemory
from tonnage.whatif.sources import ClusterState, Note, engine_over, unheard
from tonnage.whatif.workloads import Workload, is_workload

_GUESSES: Final = 3


def explain_pod(
    pod: Pod,
    objects: Iterable[Object],
    profile: ResolvedProfile,
    *,
    clock: Clock,
    memory: SchedulerMemory | None = None,
    note: Note = unheard,
) -> Explanation:
    """What the scheduler would decide about a pod, as if it were new, on a cluster of these objects.

    `memory` is what a live scheduler of that cluster knows besides; where it is configured otherwise, that is noted.
    """
    objects = list(objects)
    engine = engine_over(objects, [profile], clock=clock)
    if pod.spec.node_name:
        engine.delete(pod)
        pod = changed(pod, spec={"node_name": ""})
    if memory is not None:
        for sentence in memory.differences(engine):
            note(sentence)
        memory.laid_into(engine, objects, pod)
    return engine.explain(pod)


def decided_on(
    pod: Pod, state: ClusterState, configuration: Configuration, *, is_default: bool, note: Note = unheard
) -> tuple[Explanation, ResolvedProfile]:
    """A pod explained, with the profile that decided. Raises TonnageError when there is no profile for it."""
    profile = profile_for(pod, configuration, is_default=is_default, note=note)
    if remark := remark_on(pod, state.memory):
        note(remark)
    keys = PodInfo(pod).claim_keys
    claims = [each for each in state.by_kind.all(PersistentVolumeClaim) if each.key in keys]
    names = {each.class_name for each in claims if not each.spec.volume_name}
    for sentence in RoomRemarks(state.by_kind).about(names):
        note(sentence)
    found = explain_pod(pod, state.objects, profile, clock=state.clock, memory=state.memory, note=note)
    if is_default and not pod.spec.node_name:
        found.held_back = state.schedulers.nobody(pod.spec.scheduler_name) or found.held_back
    return found, profile


def score_weights(profile: ResolvedProfile) -> dict[str, int]:
    return {plugin.name: plugin.weight for plugin in profile.plugins_at(ExtensionPoint.SCORE)}


def remark_on(pod: Pod, memory: SchedulerMemory | None = None) -> str:
    """What a person should know about a pod that no scheduler would take up now; empty for one that waits."""
    if pod.spec.node_name:
        state = "has ended on" if pod.is_terminal else "is on"
        return f"{pod.key} {state} {pod.spec.node_name}; this is decided as if it were not there"
    if memory is not None and (sent_to := memory.node_of(pod)):
        return f"{pod.key} is on its way to {sent_to}; this is decided as if it were not"
    if pod.metadata.is_terminating:
        return f"{pod.key} is being deleted, so schedulers ignore it"
    return ""


def find_pod(state: ClusterState, key: Key) -> Pod:
    """A pod by its key. Raises TonnageError, with those that may have been meant."""
    pod = state.pods.get(key)
    if pod is not None:
        return pod
    workloads = [(type(each).__name__, each.key) for each in state.objects if not isinstance(each, Pod)]
    namesake = next((kind for kind, other in (*state.passed_over, *workloads) if other == key), "")
    message = f'there is no pod "{key}" among the {len(state.pods)} of {state.source}'
    if not state.pods:
        message = f"there are no pods in {state.source}"
    raise TonnageError(message, hint=_hint(key, namesake, state.pods))


def _hint(key: Key, namesake: str, known: Iterable[Key]) -> str | None:
    """Names that may have been meant: those that start so, those that look alike, and the same in other namespaces."""
    if namesake:
        return f"{key} is a {namesake}; name one of its pods"
    namespace, name = split_key(key)
    by_namespace = grouped(map(split_key, known))
    here = by_namespace.pop(namespace, [])
    close = [other for other in here if other.startswith(name)][:_GUESSES] or closest(name, here, most=_GUESSES)
    found = [f"{namespace}/{other}" for other in close]
    found += [f"{elsewhere}/{name}" for elsewhere, names in by_namespace.items() if name in names][:_GUESSES]
    return f"did you mean {' or '.join(found)}?" if found else None


def profile_for(pod: Pod, configuration: Configuration, *, is_default: bool, note: Note) -> ResolvedProfile:
    """The profile that the pod's schedulerName asks for.

    With the default configuration (`is_default`) any pod is decided on by the first profile, which is noted; with a
    file, a name that it does not have raises TonnageError.
    """
    wanted = pod.spec.scheduler_name
    profile = configuration.profile_named(wanted)
    if profile is not None:
        return profile
    if not is_default:
        names = ", ".join(resolved_profile.scheduler_name for resolved_profile in configuration.profiles)
        raise TonnageError(
            f"{pod.key} asks for schedulerName {wanted}, and {configuration.source} has no such profile",
            hint=f"its profiles are {names}",
        )
    note(asks_for_another(pod))
    return configuration.profiles[0]


def asks_for_another(pod: Pod) -> str:
    return f"{pod.key} asks for schedulerName {pod.spec.scheduler_name}; this is what the default plugins decide"


class RoomRemarks:
    """What is to be said of an answer about new claims of some classes, because of how their room is published."""

    def __init__(self, objects: ObjectsByKind) -> None:
        capacities = objects.all(CSIStorageCapacity)
        self._vague = frozenset(capacity.storage_class_name for capacity in capacities if not listed_pools(capacity))
        self._copies = {each.name: each.volume_copies for each in objects.all(StorageClass) if each.volume_copies > 1}

    def about(self, class_names: Collection[str]) -> Iterator[str]:
        vague = self._vague.intersection(class_names)
        if vague:
            yield (
                f"the free room of class {' and '.join(sorted(vague))} is reported as one number: if its driver has "
                "several pools on a node, volumes may fit worse than this answer says; `tonnage pools` can publish the "
                "pools"
            )
        for name in sorted(self._copies.keys() & class_names):
            yield f"a claim of class {name} takes room on {self._copies[name]} nodes: a replica of its volume on each"


class PodState(Enum):
    """What a pod is before it is decided on; only the first two are decided on at all."""

    NEW = "new"
    PENDING = "pending"
    BOUND = "bound"
    ASSUMED = "assumed"
    TERMINATING = "terminating"


def state_of(pod: Pod, memory: SchedulerMemory | None) -> tuple[PodState, str]:
    """What a pod that is there is, and the node that it is on or on its way to."""
    if pod.spec.node_name:
        return PodState.BOUND, pod.spec.node_name
    if memory is not None and (sent_to := memory.node_of(pod)):
        return PodState.ASSUMED, sent_to
    return (PodState.TERMINATING if pod.metadata.is_terminating else PodState.PENDING), ""


def undecided(pod: Key, node: str, message: str) -> dict[str, Any]:
    """The document of a pod that is not decided on."""
    told = {"pod": pod, "schedulable": bool(node), "node": node or None, "message": message}
    return {**told, "nodes": [], "volumes": {}}


@dataclass(frozen=True, slots=True)
class PodAnswer:
    """One pod of a workload: where it is, or what was decided about it."""

    key: Key
    workload: str
    """As it is asked for: `StatefulSet/shop/db`."""
    state: PodState
    node: str = ""
    explanation: Explanation | None = None
    """None for a pod that is not decided on."""

    @property
    def fits(self) -> bool:
        """It is on a node, or would go to one. A pod that is being deleted asks for none."""
        return self.state is PodState.TERMINATING or bool(self.node)

    @property
    def message(self) -> str:
        if self.explanation is not None:
            return str(self.explanation.document()["message"])
        told = {
            PodState.BOUND: f"is on {self.node}",
            PodState.ASSUMED: f"is on its way to {self.node}",
            PodState.TERMINATING: "is being deleted, so schedulers ignore it",
        }
        return told[self.state]

    def document(self) -> dict[str, Any]:
        explanation = self.explanation
        found = explanation.document() if explanation is not None else undecided(self.key, self.node, self.message)
        return {**found, "state": self.state.value, "workload": self.workload}


@dataclass(frozen=True, slots=True)
class WorkloadAnswer:
    """A workload's pods: those that are there, and those that it still asks for."""

    workload: Workload
    pods: Sequence[PodAnswer]

    @property
    def name(self) -> str:
        return workload_text(self.workload)


def workload_text(workload: Object) -> str:
    return f"{type(workload).__name__}/{workload.key}"


class DecisionSequence:
    """Decides on the pods of one cluster, one after the other. What a person should know is handed to `note`, once."""

    def __init__(
        self, state: ClusterState, configuration: Configuration, *, is_default: bool, note: Note = unheard
    ) -> None:
        self._state = state
        self._is_default = is_default
        self._names = {profile.scheduler_name for profile in configuration.profiles}
        self._note = note
        self._noted: set[str] = set()
        self.replay = Replay(
            state.objects,
            configuration.profiles,
            takes_any_pod=is_default,
            starts_at=state.clock.now(),
            memory=state.memory,
        )
        self.replay.engine.queue.wakes = False  # pods are taken by name: thousands would be moved at every change
        self._remarks = RoomRemarks(state.by_kind)
        for sentence in state.memory.differences(self.replay.engine) if state.memory is not None else ():
            self._say(sentence)

    def is_ours(self, pod: Pod) -> bool:
        """A profile would place the pod, by its name or because any pod is taken."""
        return self._is_default or pod.spec.scheduler_name in self._names

    def nobody_schedules(self, pod: Pod) -> str:
        """Why no scheduler that runs takes up a pod; empty when one does, or when that is not known. A configuration
        that was given is that of a scheduler."""
        return self._state.schedulers.nobody(pod.spec.scheduler_name) if self._is_default else ""

    def decide(self, pod: Pod) -> Explanation:
        """Decide on a pod that waits; one that nobody schedules takes no room. Raises ReplayError when no profile would
        place it."""
        if self._is_default and pod.spec.scheduler_name not in self._names:
            self._say(asks_for_another(pod), once_for=pod.spec.scheduler_name)
        if nobody := self.nobody_schedules(pod):
            explanation = self.replay.engine.explain(pod)
            explanation.held_back = nobody
            return explanation
        claims = map(self.replay.engine.cluster.storage.claims.get, PodInfo(pod).claim_keys)
        for sentence in self._remarks.about({claim.class_name for claim in claims if claim and not claim.is_bound}):
            self._say(sentence)
        explanation = self.replay.schedule(pod.key)
        if explanation.preemption is not None:
            self.replay.nominate(pod.key, explanation.preemption.node)
        return explanation

    def quickly_decide(self, pod: Pod) -> tuple[str, str, Diagnosis | None]:
        """The same without an account: (where it goes, why nowhere, and why there on each node)."""
        attempt = self.replay.attempt(pod.key)
        if attempt.placement is not None:
            return attempt.placement.node, "", None
        diagnosis = attempt.decision.diagnosis if attempt.decision is not None else None
        return "", diagnosis.message() if diagnosis is not None else attempt.status.message, diagnosis

    def explain_tolerant(self, pod: Pod) -> Explanation:
        """What would be decided if no node were cordoned or tainted. Nothing is kept."""
        return self.replay.engine.explain(changed(pod, spec={"tolerations": (Toleration(operator="Exists"),)}))

    def held_back(self, pod: Pod) -> str:
        """Why a pod is not tried at all; empty when it is."""
        if nobody := self.nobody_schedules(pod):
            return nobody
        profile = self.replay.engine.profile_of(pod)
        info = PodInfo(pod)
        asked = (plugin.pre_enqueue(info) for plugin in profile.rules.pre_enqueue) if profile is not None else ()
        return next((status.message for status in asked if not status.is_success), "")

    def _say(self, sentence: str, once_for: str = "") -> None:
        if (once_for or sentence) not in self._noted:
            self._noted.add(once_for or sentence)
            self._note(sentence)


def workloads_of_files(state: ClusterState) -> list[Workload]:
    """The workloads that stand in files, in their order, without those that another of the cluster has made."""
    known = {(type(each).__name__, each.key): each for each in (*state.objects, *state.workloads) if is_workload(each)}
    uids = {each.uid for each in known.values()}
    return [
        known[place]  # type: ignore[misc]  # is_workload says so
        for place in state.origins
        if place in known
        and not any(owner.controller and owner.uid in uids for owner in known[place].metadata.owner_references)
    ]
