"""Which nodes are meant: node selectors, what a pod requires and prefers of its node, and allowed topologies.

A `NodeSelector` holds if any of its terms holds, a term if all of its requirements do. The edges, as upstream draws
them (component-helpers, nodeaffinity):

- An absent selector asks for nothing. One without terms, or with empty terms only, matches no node.
- A term that makes no sense (an unknown operator, Gt with something that is no integer) matches no node; the others
  still may.
- `match_fields` knows `metadata.name` alone, with In or NotIn and one value.

`RequiredNodeAffinity` puts together the two ways in which a pod names its nodes. Everything here judges one node; it
is the slow, plain twin of what the scheduler does with columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tonnage.objects.meta import Record
from tonnage.objects.requirements import InvalidSelector, Requirement

NODE_NAME_FIELD = "metadata.name"


class NodeSelectorTerm(Record):
    """All requirements on labels and on fields must hold; a term without any holds nowhere."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()

    def matches(self, node_name: str, labels: Mapping[str, str]) -> bool:
        if not self.match_expressions and not self.match_fields:
            return False
        try:
            return all(each.holds(labels.get(each.key)) for each in self.match_expressions) and all(
                _field_holds(each, node_name) for each in self.match_fields
            )
        except InvalidSelector:
            return False


class NodeSelector(Record):
    """Any of the terms must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()

    def matches(self, node_name: str, labels: Mapping[str, str]) -> bool:
        return any(term.matches(node_name, labels) for term in self.node_selector_terms)


class PreferredSchedulingTerm(Record):
    """A node that matches is worth `weight`, 1 to 100."""

    weight: int
    preference: NodeSelectorTerm


class TopologySelectorLabelRequirement(Record):
    """The label must have one of these values."""

    key: str
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Record):
    """All requirements must hold; a term without any holds nowhere."""

    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        expressions = self.match_label_expressions
        return bool(expressions) and all(labels.get(each.key) in each.values for each in expressions)


@dataclass(frozen=True, slots=True)
class RequiredNodeAffinity:
    """What a pod demands of its node: every label of its `nodeSelector`, and its required affinity if it has one."""

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
    """Whether a StorageClass with these `allowedTopologies` may make volumes there; without terms it may anywhere."""
    return not terms or any(term.matches(labels) for term in terms)


def _field_holds(requirement: Requirement, node_name: str) -> bool:
    if requirement.operator not in ("In", "NotIn") or len(requirement.values) != 1:
        return False
    # A field that upstream does not know reads as empty there.
    return requirement.holds(node_name if requirement.key == NODE_NAME_FIELD else "")
