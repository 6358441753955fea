"""Daemon pods: what they are made of, which node one is meant for, and which nodes may have one.

A daemon pod is scheduled like any other; that it lands on its node is said by a required node affinity for that name.
It tolerates what befalls a node (not ready, unreachable, under pressure, cordoned): it serves the node and shares its
fate. Mirrors daemonset_util.go and nodeShouldRunDaemonPod.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tonnage.behaviour.workloads.templates import REVISION_HASH, pod_from_template
from tonnage.objects import codec
from tonnage.objects.apps_v1 import DaemonSet
from tonnage.objects.core_v1 import Node, Pod
from tonnage.objects.document import Doc
from tonnage.objects.node_selectors import (
    NO_EXECUTE,
    NO_SCHEDULE,
    NODE_NAME_FIELD,
    UNSCHEDULABLE,
    RequiredNodeAffinity,
    Toleration,
    find_untolerated,
)

TEMPLATE_GENERATION: Final = "pod-template-generation"
"""The label of pods that an API long gone told apart by it; still written, as upstream does."""
_TEMPLATE_GENERATION_OF_SET: Final = "deprecated.daemonset.template.generation"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_TOLERATED: Final = (
    ("node.kubernetes.io/not-ready", NO_EXECUTE),
    ("node.kubernetes.io/unreachable", NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", NO_SCHEDULE),
    (UNSCHEDULABLE, NO_SCHEDULE),
)
_TOLERATED_WITH_HOST_NETWORK: Final = ("node.kubernetes.io/network-unavailable", NO_SCHEDULE)


def daemon_pod(owner: DaemonSet, node_name: str, hash_: str) -> Doc:
    """The pod of this set for one node, at the revision that `hash_` names; who makes it still names it."""
    doc = pod_from_template(owner.spec.template, owner)
    labels = doc["metadata"].setdefault("labels", {})
    generation = template_generation(owner)
    if generation:
        labels[TEMPLATE_GENERATION] = generation
    labels[REVISION_HASH] = hash_
    spec = doc["spec"]
    spec["tolerations"] = tolerations(spec)
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    # The template's own affinity has been judged already, and holds for this node.
    here = {"key": NODE_NAME_FIELD, "operator": "In", "values": [node_name]}
    affinity[_REQUIRED] = {"nodeSelectorTerms": [{"matchFields": [here]}]}
    return doc


def tolerations(spec: Mapping[str, Any]) -> list[Doc]:
    """The template's tolerations and those of every daemon pod; one that is there already, with a time, loses it."""
    wanted = [*_TOLERATED, *([_TOLERATED_WITH_HOST_NETWORK] if spec.get("hostNetwork") else [])]
    added: list[Doc] = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in wanted]
    own = [dict(each) for each in spec.get("tolerations", ())]
    return [*(each for each in own if _without_time(each) not in added), *added]


def _without_time(toleration: Mapping[str, Any]) -> Doc:
    return {field: value for field, value in toleration.items() if field != "tolerationSeconds"}


def template_generation(owner: DaemonSet) -> str:
    """The number that the server counts the set's templates by; empty where there is none."""
    text = owner.metadata.annotations.get(_TEMPLATE_GENERATION_OF_SET, "")
    return text if text.isdecimal() else ""


def target_node(pod: Pod) -> str:
    """The node of a daemon pod: the one that it is on, or the one that its affinity names; empty when neither is so."""
    if pod.spec.node_name:
        return pod.spec.node_name
    required = pod.spec.affinity.node_affinity.required
    for term in required.node_selector_terms if required is not None else ():
        for each in term.match_fields:
            if (each.key, each.operator) == (NODE_NAME_FIELD, "In") and len(each.values) == 1:
                return each.values[0]
    return ""


def is_updated(owner: DaemonSet, pod: Pod, hashes: Collection[str]) -> bool:
    """Whether a pod is of the set's present template. `hashes`: of the revisions that keep it, mostly one."""
    generation = template_generation(owner)
    is_generation = bool(generation) and pod.metadata.labels.get(TEMPLATE_GENERATION) == generation
    return is_generation or pod.metadata.labels.get(REVISION_HASH) in hashes


@dataclass(frozen=True, slots=True)
class NodeEligibility:
    """Which nodes a set's pods may be on, read off its template once."""

    node_name: str
    affinity: RequiredNodeAffinity
    tolerations: tuple[Toleration, ...]

    @classmethod
    def of(cls, owner: DaemonSet) -> NodeEligibility:
        spec = dict(owner.spec.template.get("spec", {}))
        template = codec.convert(Pod, {"metadata": {}, "spec": {**spec, "tolerations": tolerations(spec)}})
        return cls(template.spec.node_name, template.required_node_affinity(), template.spec.tolerations)

    def should_run(self, node: Node) -> bool:
        """A node without a pod of the set gets one."""
        return self._is_wanted(node) and find_untolerated(node.spec.taints, self.tolerations) is None

    def should_continue_running(self, node: Node) -> bool:
        """A pod that is there may stay: only taints that evict turn it out."""
        return self._is_wanted(node) and find_untolerated(node.spec.taints, self.tolerations, (NO_EXECUTE,)) is None

    def _is_wanted(self, node: Node) -> bool:
        if self.node_name and self.node_name != node.name:
            return False
        return self.affinity.matches(node.name, node.metadata.labels)
