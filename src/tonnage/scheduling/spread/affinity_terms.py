"""The affinity terms of pods: read from a pod, and counted for resident pods.

Upstream's defaults: without namespaces and namespaceSelector, a term means the pod's own namespace; without a label
selector it means no pod. Equal terms are one, with a count by row, and are indexed by label.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from tonnage.objects.core_v1 import Pod, PodAffinityTerm
from tonnage.objects.requirements import InvalidSelector
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.cluster.pod_matching import NOBODY, Labels, MatcherIndex, PodMatcher, requirements_of
from tonnage.scheduling.cluster.residents import RowCounts

MAX_TERMS: Final = 512
"""The limit of affinity terms or spread constraints of a pod. Each may be matched against every pod on the scheduling
loop: 5,000 terms against 1,000 unlike pods take 20 s, and a lease lasts 15. Upstream has no such limit."""


class Term(NamedTuple):
    """Pods that `matcher` matches, on the nodes that share a value of `topology_key`. `weight`: of a preference,
    negative for anti-affinity; 0 for a required term."""

    topology_key: str
    matcher: PodMatcher
    weight: int = 0

    def matches(self, info: PodInfo, namespace_labels: Labels) -> bool:
        return self.matcher.matches(info.namespace, info.labels, namespace_labels)


@dataclass(frozen=True, slots=True)
class Terms:
    """All affinity terms of a pod."""

    near: tuple[Term, ...] = ()
    """Required affinity: one pod must match all of them."""
    apart: tuple[Term, ...] = ()
    """Required anti-affinity."""
    preferred: tuple[Term, ...] = ()
    """Preferences of both kinds."""
    errors: tuple[str, ...] = ()
    """Terms that could not be read; their list is then empty."""


NO_TERMS: Final = Terms()
_read: Final[WeakKeyDictionary[PodInfo, Terms]] = WeakKeyDictionary()


def terms_in(pod: Pod) -> int:
    """The number of a pod's terms, without reading them."""
    near, apart = pod.spec.affinity.pod_affinity, pod.spec.affinity.pod_anti_affinity
    return len(near.required) + len(near.preferred) + len(apart.required) + len(apart.preferred)


def terms_asked(info: PodInfo) -> Terms:
    """The terms of a waiting pod, cached: every event in the cluster may ask for them."""
    if not terms_in(info.pod):
        return NO_TERMS
    found = _read.get(info)
    if found is None:
        found = _read[info] = terms_of(info.pod)
    return found


def terms_of(pod: Pod) -> Terms:
    """Read a pod's terms. Mirrors framework.PodInfo.Update."""
    if not terms_in(pod):
        return NO_TERMS
    near, apart = pod.spec.affinity.pod_affinity, pod.spec.affinity.pod_anti_affinity
    errors: list[str] = []

    def read(name: str, terms: Iterable[tuple[PodAffinityTerm, int]]) -> tuple[Term, ...]:
        try:
            return tuple(Term(term.topology_key, _matcher(pod, term), weight) for term, weight in terms)
        except InvalidSelector as exc:
            errors.append(f"{name}: {exc.message}")
            return ()

    return Terms(
        near=read("requiredAffinityTerms", ((term, 0) for term in near.required)),
        apart=read("requiredAntiAffinityTerms", ((term, 0) for term in apart.required)),
        preferred=(
            *read("preferredAffinityTerms", ((each.pod_affinity_term, each.weight) for each in near.preferred)),
            *read("preferredAntiAffinityTerms", ((each.pod_affinity_term, -each.weight) for each in apart.preferred)),
        ),
        errors=tuple(errors),
    )


def _matcher(pod: Pod, term: PodAffinityTerm) -> PodMatcher:
    if term.label_selector is None:
        return NOBODY
    chosen = term.namespace_selector
    own = (pod.metadata.namespace,) if not term.namespaces and chosen is None else term.namespaces
    return PodMatcher(
        frozenset(own),
        requirements_of(term.label_selector),
        None if chosen is None else requirements_of(chosen),
    )


@dataclass(eq=False, slots=True)
class CarriedTerm:
    """A term, and the rows of the pods that carry it."""

    term: Term
    where: RowCounts = field(default_factory=RowCounts)


class TermRegister:
    """The terms of one kind that residents carry, without duplicates."""

    def __init__(self) -> None:
        self._carried: dict[Term, CarriedTerm] = {}
        self._index: MatcherIndex[CarriedTerm] = MatcherIndex()

    def add(self, terms: Iterable[Term], row: int, count: int) -> None:
        for term in terms:
            carried = self._carried.get(term)
            if carried is None:
                carried = self._carried[term] = CarriedTerm(term)
                self._index.add(term.matcher, carried)
            carried.where.add(row, count)
            if not carried.where:
                del self._carried[term]
                self._index.remove(term.matcher, carried)

    def concerning(self, info: PodInfo, namespace_labels: Labels) -> Sequence[CarriedTerm]:
        """The terms that match this pod."""
        if not self._carried:
            return ()
        return [
            carried
            for carried in self._index.candidates(info.namespace, info.labels)
            if carried.term.matches(info, namespace_labels)
        ]


class CarriedTerms:
    """The terms of a cluster's resident pods, counted. Get it with `cluster.index(CarriedTerms)`."""

    def __init__(self, cluster: Cluster) -> None:
        self._terms: dict[str, Terms] = {}  # by uid, of the pods that have any
        self.near = TermRegister()
        self.apart = TermRegister()
        self.preferred = TermRegister()
        """The preferences of both kinds."""
        cluster.observe(self)

    @property
    def is_empty(self) -> bool:
        """True if no resident carries a term."""
        return not self._terms

    # -- observing ----------------------------------------------------------------------------------------------------

    def resident_added(self, info: PodInfo, row: int) -> None:
        terms = terms_of(info.pod)
        if terms is not NO_TERMS:
            self._terms[info.uid] = terms
            self._count(terms, row, 1)

    def resident_removed(self, info: PodInfo, row: int) -> None:
        terms = self._terms.pop(info.uid, None)
        if terms is not None:
            self._count(terms, row, -1)

    def grown(self, capacity: int) -> None:
        """Nothing here is as long as the table of nodes."""

    def _count(self, terms: Terms, row: int, count: int) -> None:
        self.near.add(terms.near, row, count)
        self.apart.add(terms.apart, row, count)
        self.preferred.add(terms.preferred, row, count)
