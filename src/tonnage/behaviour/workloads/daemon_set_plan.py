"""DaemonSet, the decision: which nodes get a pod, which pods go, and the status.

    manage          a node that should have a pod and has none gets one; ended, surplus and misplaced pods go
    rolling_update  when there is nothing to manage: pods of older templates go, as many at a time as may be
                    unavailable; with maxSurge, new pods come first and old ones go when these are available

A node has one pod of a set, counting a terminating one; only with maxSurge it may have an old one and a new one.
Mirrors podsShouldBeOnNode, rollingUpdate and updateDaemonSetStatus of pkg/controller/daemon.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from tonnage.behaviour.workloads.pod_states import is_available, is_ready, scaled_value
from tonnage.behaviour.workloads.templates import REVISION_HASH, by_age, pod_from_template
from tonnage.keyed import grouped
from tonnage.objects import codec, requirements
from tonnage.objects.apps_v1 import DaemonSet, DaemonSetStatus
from tonnage.objects.core_v1 import Node, Pod
from tonnage.objects.document import Doc

TEMPLATE_GENERATION: Final = "pod-template-generation"
"""A label of pods for an API that is long gone; still written, as upstream does."""
_TEMPLATE_GENERATION_OF_SET: Final = "deprecated.daemonset.template.generation"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_TOLERATED: Final = (
    ("node.kubernetes.io/not-ready", requirements.NO_EXECUTE),
    ("node.kubernetes.io/unreachable", requirements.NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", requirements.NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", requirements.NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", requirements.NO_SCHEDULE),
    (requirements.UNSCHEDULABLE, requirements.NO_SCHEDULE),
)
_TOLERATED_WITH_HOST_NETWORK: Final = ("node.kubernetes.io/network-unavailable", requirements.NO_SCHEDULE)


def daemon_pod(owner: DaemonSet, node_name: str, hash_: str) -> Doc:
    """The pod of this set for one node, at the revision that `hash_` names; its creator gives it a name."""
    doc = pod_from_template(owner.spec.template, owner)
    labels = doc["metadata"].setdefault("labels", {})
    generation = template_generation(owner)
    if generation:
        labels[TEMPLATE_GENERATION] = generation
    labels[REVISION_HASH] = hash_
    spec = doc["spec"]
    spec["tolerations"] = tolerations(spec)
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    # The template's own affinity has been checked already, and holds for this node.
    here = {"key": requirements.NODE_NAME_FIELD, "operator": "In", "values": [node_name]}
    affinity[_REQUIRED] = {"nodeSelectorTerms": [{"matchFields": [here]}]}
    return doc


def tolerations(spec: Mapping[str, Any]) -> list[Doc]:
    """The template's tolerations and those of every daemon pod; an equal toleration with a time is replaced."""
    wanted = [*_TOLERATED, *([_TOLERATED_WITH_HOST_NETWORK] if spec.get("hostNetwork") else [])]
    added: list[Doc] = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in wanted]
    own = [dict(each) for each in spec.get("tolerations", ())]
    timeless = [{field: value for field, value in each.items() if field != "tolerationSeconds"} for each in own]
    return [*(each for each, plain in zip(own, timeless, strict=True) if plain not in added), *added]


def template_generation(owner: DaemonSet) -> str:
    """The server's count of the set's templates; empty if there is none."""
    text = owner.metadata.annotations.get(_TEMPLATE_GENERATION_OF_SET, "")
    return text if text.isdecimal() else ""


def target_node(pod: Pod) -> str:
    """The node that a daemon pod is on, or that its affinity names; empty if neither."""
    if pod.spec.node_name:
        return pod.spec.node_name
    required = pod.spec.affinity.node_affinity.required
    for term in required.node_selector_terms if required is not None else ():
        for requirement in term.match_fields:
            if (requirement.key, requirement.operator) == (requirements.NODE_NAME_FIELD, "In") and len(
                requirement.values
            ) == 1:
                return requirement.values[0]
    return ""


def is_updated(owner: DaemonSet, pod: Pod, hashes: Collection[str]) -> bool:
    """True if a pod has the set's present template. `hashes`: of the revisions with that template, mostly one."""
    generation = template_generation(owner)
    is_generation = bool(generation) and pod.metadata.labels.get(TEMPLATE_GENERATION) == generation
    return is_generation or pod.metadata.labels.get(REVISION_HASH) in hashes


@dataclass(frozen=True, slots=True)
class NodeEligibility:
    """Which nodes a set's pods may be on, read from its template once."""

    node_name: str
    affinity: requirements.RequiredNodeAffinity
    tolerations: tuple[requirements.Toleration, ...]

    @classmethod
    def of(cls, owner: DaemonSet) -> NodeEligibility:
        spec = dict(owner.spec.template.get("spec", {}))
        template = codec.convert(Pod, {"metadata": {}, "spec": {**spec, "tolerations": tolerations(spec)}})
        return cls(template.spec.node_name, template.required_node_affinity(), template.spec.tolerations)

    def should_run(self, node: Node) -> bool:
        """True if a node without a pod of the set gets one."""
        return self._is_wanted(node) and requirements.find_untolerated(node.spec.taints, self.tolerations) is None

    def should_continue_running(self, node: Node) -> bool:
        """True if a pod may stay: only NoExecute taints evict it."""
        return (
            self._is_wanted(node)
            and requirements.find_untolerated(node.spec.taints, self.tolerations, (requirements.NO_EXECUTE,)) is None
        )

    def _is_wanted(self, node: Node) -> bool:
        if self.node_name and self.node_name != node.name:
            return False
        return self.affinity.matches(node.name, node.metadata.labels)


BURST_REPLICAS: Final = 250
"""Pods of one set created, and pods deleted, in one round."""


@dataclass(frozen=True, slots=True)
class ObservedDaemons:
    """The input of a plan: the set, the nodes, and the set's pods by the node they are meant for."""

    owner: DaemonSet
    nodes: Mapping[str, Node]
    pods: Mapping[str, Sequence[Pod]]
    hashes: Collection[str]
    """Hashes of the revisions with the set's present template."""
    now: datetime
    eligibility: NodeEligibility

    @classmethod
    def of(
        cls, owner: DaemonSet, nodes: Iterable[Node], pods: Iterable[Pod], hashes: Collection[str], now: datetime
    ) -> ObservedDaemons:
        """Leaves out pods that have ended and are being deleted, and pods meant for no node."""
        present = (pod for pod in pods if not (pod.is_terminal and pod.metadata.is_terminating))
        ordered = sorted(present, key=lambda pod: (not pod.spec.node_name, *by_age(pod)))
        by_node = grouped((name, pod) for pod in ordered if (name := target_node(pod)))
        by_name = {node.name: node for node in sorted(nodes, key=lambda each: each.name)}
        return cls(owner, by_name, by_node, hashes, now, NodeEligibility.of(owner))

    def is_available(self, pod: Pod) -> bool:
        return is_available(pod, self.owner.spec.min_ready_seconds, self.now)

    def is_updated(self, pod: Pod) -> bool:
        return is_updated(self.owner, pod, self.hashes)

    def should_run(self, node_name: str) -> bool:
        node = self.nodes.get(node_name)
        return node is not None and self.eligibility.should_run(node)

    @property
    def desired(self) -> list[str]:
        return [name for name in self.nodes if self.should_run(name)]


@dataclass(frozen=True, slots=True)
class DaemonPlan:
    create: tuple[str, ...] = ()
    delete: tuple[Pod, ...] = ()
    ended: tuple[Pod, ...] = ()
    """Failed or succeeded pods, also to be deleted, so that another can come; failed ones at growing intervals."""

    def __bool__(self) -> bool:
        return bool(self.create or self.delete or self.ended)


# -- every node has its pod -------------------------------------------------------------------------------------------


def manage(observed: ObservedDaemons) -> DaemonPlan:
    """One pod on every node that should have one, and none elsewhere."""
    create: list[str] = []
    delete: list[Pod] = []
    ended: list[Pod] = []
    for name, node in observed.nodes.items():
        pods = observed.pods.get(name, ())
        staying = [pod for pod in pods if not pod.metadata.is_terminating]
        if not observed.eligibility.should_continue_running(node):
            delete += staying
            continue
        should_run = observed.eligibility.should_run(node)
        running = [pod for pod in staying if not pod.is_terminal]
        ended += [pod for pod in staying if pod.is_terminal]
        # With surge, a terminating pod does not delay its successor.
        if should_run and not (running if _allows_surge(observed.owner) else pods):
            create.append(name)
        delete += _surplus(observed, running)
    # A pod that waits for a deleted node will never be scheduled.
    delete += [
        pod
        for name in sorted(observed.pods.keys() - observed.nodes.keys())
        for pod in observed.pods[name]
        if not pod.spec.node_name and not pod.metadata.is_terminating
    ]
    return DaemonPlan(tuple(create[:BURST_REPLICAS]), tuple(delete[:BURST_REPLICAS]), tuple(ended))


def _surplus(observed: ObservedDaemons, running: Sequence[Pod]) -> list[Pod]:
    """The pods of one node beyond the oldest; with surge, an old one stays beside a new one until that is available."""
    if not _allows_surge(observed.owner):
        return list(running[1:])
    new, old = _new_and_old(observed, running)
    surplus = [*new[1:], *old[1:]]
    if new and old and (not is_ready(old[0]) or observed.is_available(new[0])):
        surplus.append(old[0])
    return surplus


# -- a new template ---------------------------------------------------------------------------------------------------


def rolling_update(observed: ObservedDaemons) -> DaemonPlan:
    """The next steps to the set's present template; none for OnDelete, where people delete the old pods."""
    owner = observed.owner
    if owner.spec.update_strategy.type != "RollingUpdate":
        return DaemonPlan()
    desired = observed.desired
    surge, unavailable = allowances(owner, len(desired))
    pods = {name: observed.pods.get(name, ()) for name in sorted({*observed.pods, *desired})}
    if surge == 0:
        return _replace(observed, pods, unavailable)
    return _surge(observed, pods, surge, len(desired))


def allowances(owner: DaemonSet, desired: int) -> tuple[int, int]:
    """(nodes that may have two pods, nodes that may have none available); one of them is at least 1."""
    strategy = owner.spec.update_strategy.rolling_update
    surge = scaled_value(strategy.max_surge, desired, round_up=True)
    unavailable = scaled_value(strategy.max_unavailable, desired, round_up=True)
    return surge, 1 if desired and not surge and not unavailable else unavailable


def _replace(observed: ObservedDaemons, pods: Mapping[str, Sequence[Pod]], max_unavailable: int) -> DaemonPlan:
    """Delete old pods: all unavailable ones, and of the others as many as may be missing."""
    unavailable = 0
    replaced: list[Pod] = []
    candidates: list[Pod] = []
    for found in pods.values():
        new, old = _new_and_old(observed, found)
        if len(new) + len(old) != 1:
            unavailable += 1  # none, or more than one: `manage` corrects it
        elif new:
            unavailable += not observed.is_available(new[0])
        elif not observed.is_available(old[0]):
            replaced.append(old[0])
            unavailable += 1
        else:
            candidates.append(old[0])
    left = max(0, max_unavailable - unavailable)
    return DaemonPlan(delete=tuple([*replaced, *candidates[:left]][:BURST_REPLICAS]))


def _surge(observed: ObservedDaemons, pods: Mapping[str, Sequence[Pod]], max_surge: int, desired: int) -> DaemonPlan:
    """Create new pods beside old ones, on `max_surge` nodes at a time; at once where no old one is available."""
    surging, available = 0, 0
    create: list[str] = []
    candidates: list[str] = []
    delete: list[Pod] = []
    misplaced: list[Pod] = []
    for name, found in pods.items():
        new, old = _new_and_old(observed, found)
        if len(new) > 1 or len(old) > 1:
            surging += 1
            continue
        available += any(observed.is_available(pod) for pod in (old or new))
        if not old:
            continue
        if new:
            if observed.is_available(new[0]):
                delete.append(old[0])
            else:
                surging += 1
        elif not observed.should_run(name):
            (misplaced if observed.is_available(old[0]) else delete).append(old[0])
        elif observed.is_available(old[0]):
            candidates.append(name)
        else:
            create.append(name)
    # Misplaced pods go only when enough others are available.
    delete += misplaced[: max(0, available - desired)]
    create += candidates[: max(0, max_surge - surging)]
    return DaemonPlan(create=tuple(create[:BURST_REPLICAS]), delete=tuple(delete[:BURST_REPLICAS]))


def _new_and_old(observed: ObservedDaemons, pods: Iterable[Pod]) -> tuple[list[Pod], list[Pod]]:
    """The pods of one node that are not terminating: (present template, older ones)."""
    new: list[Pod] = []
    old: list[Pod] = []
    for pod in pods:
        if not pod.metadata.is_terminating:
            (new if observed.is_updated(pod) else old).append(pod)
    return new, old


# -- status -----------------------------------------------------------------------------------------------------------


def status_of(observed: ObservedDaemons, collision_count: int) -> DaemonSetStatus:
    """The status from the pods that exist; conditions are others'."""
    owner = observed.owner
    desired = observed.desired
    first = [observed.pods[name][0] for name in desired if observed.pods.get(name)]
    ready = [pod for pod in first if is_ready(pod)]
    available = sum(observed.is_available(pod) for pod in ready)
    misscheduled = sum(bool(observed.pods.get(name)) for name in observed.nodes.keys() - set(desired))
    return DaemonSetStatus(
        desired_number_scheduled=len(desired),
        current_number_scheduled=len(first),
        number_misscheduled=misscheduled,
        number_ready=len(ready),
        number_available=available,
        number_unavailable=len(desired) - available,
        updated_number_scheduled=sum(observed.is_updated(pod) for pod in first),
        observed_generation=owner.metadata.generation,
        collision_count=collision_count or owner.status.collision_count,
        conditions=owner.status.conditions,
    )


def _allows_surge(owner: DaemonSet) -> bool:
    strategy = owner.spec.update_strategy
    return strategy.type == "RollingUpdate" and scaled_value(strategy.rolling_update.max_surge, 1, round_up=True) > 0
