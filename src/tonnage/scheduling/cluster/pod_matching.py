"""Which pods a selector matches, as a value: comparable, hashable, and indexed.

`PodMatcher` is the common part of spread constraints and affinity terms: namespaces and label requirements.
`MatcherIndex` finds matchers that may match a pod: each is indexed under a label that it requires. `Namespaces` keeps
which namespaces a namespace selector selects. `Workloads` knows the Services and controllers that select pods, for the
default spreading rules.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Generic, TypeVar

from tonnage.keyed import Shelf
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Key, split_key
from tonnage.objects.requirements import FEW, LabelMatcher, Requirement
from tonnage.objects.selectors import LabelSelector

T = TypeVar("T", bound=Hashable)
Labels = Mapping[str, str]

_ANY_NAMESPACE: Final = ""
_NO_LABEL: Final = ("", "")
_MAX_ANCHORS: Final = 64
"""The limit of labels and namespaces that a matcher is indexed under; beyond, it is a candidate for more pods."""


class Requirements(tuple[Requirement, ...]):
    """Requirements in one order, possibly thousands: hashing and matching are cached."""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return super().__hash__()

    @cached_property
    def matcher(self) -> LabelMatcher:
        return LabelMatcher(self)


def requirements_of(selector: LabelSelector) -> Requirements:
    """A selector's requirements. Raises InvalidSelector if one of them is invalid."""
    requirements = Requirements(selector.requirements())
    for requirement in requirements:
        requirement.holds(None)
    return requirements


def hold(requirements: Requirements, labels: Labels) -> bool:
    """True if all requirements hold; True without any."""
    if len(requirements) > FEW:
        return requirements.matcher.matches(labels)
    return all(requirement.holds(labels.get(requirement.key)) for requirement in requirements)


@dataclass(frozen=True, slots=True)
class PodMatcher:
    """Pods whose labels meet all requirements, in `namespaces` and in namespaces whose labels meet
    `namespace_requirements`: None adds no namespace, an empty tuple every one."""

    namespaces: frozenset[str]
    requirements: Requirements
    namespace_requirements: Requirements | None = None

    def matches(self, namespace: str, labels: Labels, namespace_labels: Labels) -> bool:
        if namespace not in self.namespaces:
            chosen = self.namespace_requirements
            if chosen is None or not hold(chosen, namespace_labels):
                return False
        return hold(self.requirements, labels)

    def may_match(self, namespace: str, labels: Labels) -> bool:
        """Like `matches`, without the namespace's labels: a namespace that might be selected counts as selected."""
        return (namespace in self.namespaces or self.namespace_requirements is not None) and hold(
            self.requirements, labels
        )

    def settled(self, known: Namespaces) -> PodMatcher:
        """The matcher with the namespaces that its selector selects now; unchanged if it selects all."""
        chosen = self.namespace_requirements
        if not chosen:
            return self
        found = known.chosen_by(chosen)
        return PodMatcher(self.namespaces | found if self.namespaces else found, self.requirements)

    def anchors(self) -> Iterator[tuple[str, tuple[str, str]]]:
        """(namespace, label) pairs to index the matcher under: every pod that it matches has at least one of them."""
        insists = (requirement for requirement in self.requirements if requirement.operator == "In")
        narrowest = min(insists, key=lambda each: len(each.values), default=None)
        is_anywhere = self.namespace_requirements is not None or len(self.namespaces) > _MAX_ANCHORS
        namespaces = (_ANY_NAMESPACE,) if is_anywhere else self.namespaces
        for namespace in namespaces:
            if narrowest is None or len(namespaces) * len(narrowest.values) > _MAX_ANCHORS:
                yield namespace, _NO_LABEL
            else:
                for value in dict.fromkeys(narrowest.values):
                    yield namespace, (narrowest.key, value)


NOBODY: Final = PodMatcher(frozenset(), Requirements())
"""The meaning of a missing selector."""


class MatcherIndex(Generic[T]):
    """Values indexed under a matcher each; a value is in it once."""

    def __init__(self) -> None:
        self._by_anchor: Shelf[tuple[str, tuple[str, str]], T, None] = Shelf()

    def add(self, matcher: PodMatcher, thing: T) -> None:
        for anchor in matcher.anchors():
            self._by_anchor.put(anchor, thing, None)

    def remove(self, matcher: PodMatcher, thing: T) -> None:
        for anchor in matcher.anchors():
            self._by_anchor.take(anchor, thing)

    def candidates(self, namespace: str, labels: Labels) -> Iterator[T]:
        """The values whose matcher may match a pod with these labels, once each. Ask the matcher to be sure."""
        for space in dict.fromkeys((namespace, _ANY_NAMESPACE)):
            for label in (_NO_LABEL, *labels.items()):
                yield from self._by_anchor.at((space, label))


MAX_ANSWERS = 256
"""The number of selectors whose answers are kept."""


class Namespaces(UserDict[str, Labels]):
    """Labels by namespace."""

    def __init__(self) -> None:
        super().__init__()
        self._chosen: dict[Requirements, frozenset[str]] = {}

    def __setitem__(self, name: str, labels: Labels) -> None:
        super().__setitem__(name, labels)
        self._chosen.clear()

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self._chosen.clear()

    def chosen_by(self, requirements: Requirements) -> frozenset[str]:
        """The namespaces whose labels meet all requirements."""
        found = self._chosen.get(requirements)
        if found is None:
            if len(self._chosen) >= MAX_ANSWERS:
                self._chosen.clear()
            found = frozenset(name for name, labels in self.items() if hold(requirements, labels))
            self._chosen[requirements] = found
        return found


_OWNERS = frozenset({("v1", "ReplicationController"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet")})
_SERVICE: Final = "Service"


class Workloads:
    """Services, and the ReplicationControllers, ReplicaSets and StatefulSets that own pods. Mirrors DefaultSelector."""

    def __init__(self) -> None:
        self._selectors: Shelf[tuple[str, str], str, LabelSelector] = Shelf()
        """By kind and namespace, and by name. Workloads without a selector are left out."""
        self.tick = 0
        """Increases when an answer of `selector_for` may change."""

    @property
    def is_empty(self) -> bool:
        """True if no Service or controller selects pods."""
        return not len(self._selectors)

    def put(self, kind: str, key: Key, selector: LabelSelector | Labels | None) -> None:
        """A Service or controller has this selector; None: none, or it is gone. The selector of a Service or
        ReplicationController is a plain map."""
        namespace, name = split_key(key)
        if selector is None:
            self._selectors.take((kind, namespace), name)
        else:
            read = selector if isinstance(selector, LabelSelector) else LabelSelector(match_labels=selector)
            self._selectors.put((kind, namespace), name, read)
        self.tick += 1

    def selector_for(self, pod: Pod) -> LabelSelector | None:
        """The selector of the pods to spread this pod among; None if there is none. It combines the selectors of its
        Services and its owner; if they contradict each other, it selects no pod."""
        labels: dict[str, str] = {}
        for selector in self._selectors[_SERVICE, pod.metadata.namespace]:
            if selector.match_labels and selector.match_labels.items() <= pod.metadata.labels.items():
                labels |= selector.match_labels
        expressions: tuple[Requirement, ...] = ()
        owner = pod.metadata.controller
        if owner is not None and (owner.api_version, owner.kind) in _OWNERS:
            found = self._selectors.at((owner.kind, pod.metadata.namespace)).get(owner.name)
            if found is not None and owner.kind == "ReplicationController":
                labels |= found.match_labels
            elif found is not None:
                as_well = {key: value for key, value in found.match_labels.items() if labels.get(key, value) != value}
                labels = {**found.match_labels, **labels}
                expressions = (
                    *found.match_expressions,
                    *(Requirement(key=key, operator="In", values=(value,)) for key, value in as_well.items()),
                )
        if not labels and not expressions:
            return None
        return LabelSelector(match_labels=labels, match_expressions=expressions)
