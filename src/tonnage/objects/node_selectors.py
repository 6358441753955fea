"""Rules that match nodes: node selectors, a pod's required and preferred affinity, allowed topologies, taints.

A `NodeSelector` matches if any term matches, a term if all of its requirements hold. As upstream, an absent selector
requires nothing, a selector without terms matches no node, an invalid term matches no node, and `match_fields` knows
`metadata.name` alone. Taints keep pods off a node unless the pods tolerate them: mirrors Toleration.ToleratesTaint,
with `Lt` and `Gt` off.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from tonnage.objects.meta import Record, Time
from tonnage.objects.requirements import InvalidSelector, Requirement

NODE_NAME_FIELD = "metadata.name"


class NodeSelectorTerm(Record):
    """All requirements on labels and on fields must hold; a term without requirements matches no node."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()

    def matches(self, node_name: str, labels: Mapping[str, str]) -> bool:
        if not self.match_expressions and not self.match_fields:
            return False
        try:
            return all(
                requirement.holds(labels.get(requirement.key)) for requirement in self.match_expressions
            ) and all(_field_holds(requirement, node_name) for requirement in self.match_fields)
        except InvalidSelector:
            return False


class NodeSelector(Record):
    """Any of the terms must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()

    def matches(self, node_name: str, labels: Mapping[str, str]) -> bool:
        return any(term.matches(node_name, labels) for term in self.node_selector_terms)


class PreferredSchedulingTerm(Record):
    """A node that matches gets `weight`, 1 to 100."""

    weight: int
    preference: NodeSelectorTerm


class TopologySelectorLabelRequirement(Record):
    key: str
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Record):
    """All requirements must hold; a term without requirements matches no node."""

    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        expressions = self.match_label_expressions
        return bool(expressions) and all(labels.get(expression.key) in expression.values for expression in expressions)


@dataclass(frozen=True, slots=True)
class RequiredNodeAffinity:
    """A pod's requirements on its node: all labels of its `nodeSelector`, and its required affinity, if any."""

    labels: Mapping[str, str]
    affinity: NodeSelector | None

    def matches(self, node_name: str, labels: Mapping[str, str]) -> bool:
        if any(labels.get(key) != value for key, value in self.labels.items()):
            return False
        return self.affinity is None or self.affinity.matches(node_name, labels)


def preference(terms: Iterable[PreferredSchedulingTerm], node_name: str, labels: Mapping[str, str]) -> int:
    """The sum of the weights of the terms that this node matches."""
    return sum(term.weight for term in terms if term.preference.matches(node_name, labels))


def allows_topology(terms: tuple[TopologySelectorTerm, ...], labels: Mapping[str, str]) -> bool:
    """True if a StorageClass with these `allowedTopologies` may create volumes there; without terms, anywhere."""
    return not terms or any(term.matches(labels) for term in terms)


def _field_holds(requirement: Requirement, node_name: str) -> bool:
    if requirement.operator not in ("In", "NotIn") or len(requirement.values) != 1:
        return False
    # As upstream, an unknown field reads as empty.
    return requirement.holds(node_name if requirement.key == NODE_NAME_FIELD else "")


NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""Keys of the taints for a node's state. A person sets the last one, and vouches that the node is down."""
HARD_EFFECTS = frozenset((NO_SCHEDULE, NO_EXECUTE))
"""The effects that keep a new pod off a node."""


class Taint(Record):
    """A mark on a node that repels pods without a matching toleration."""

    key: str
    effect: str
    value: str = ""
    time_added: Time | None = None


class Toleration(Record):
    """The taints that a pod accepts: an empty `key` or `effect` means any.

    `toleration_seconds`: how long the pod stays after a NoExecute taint appears; absent is for ever, 0 or less no time.
    """

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "Equal" | "":
            return toleration.value == taint.value
        case "Exists":
            return True
        case _:
            return False


def find_untolerated(
    taints: Iterable[Taint], tolerations: Collection[Toleration], effects: Collection[str] = HARD_EFFECTS
) -> Taint | None:
    """The first taint with one of `effects` that the pod does not tolerate; None if it tolerates all."""
    for taint in taints:
        if taint.effect in effects and not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None
