"""Resident pods by row: how many a selector matches, and the affinity terms that they carry; and a pod's own terms.

A selector gets a tally when it is first asked about; from then on every pod that comes or goes is counted in the
tallies that match it, so that a decision reads an array. Pods with equal namespace and labels are one group, for which
a selector is evaluated once. `cluster.index(Residents)` starts counting at the first question.

`RowCounts` keeps counts by row, packed side by side:

    rows    [ 4, 17, 2 ]        three rows have any
    counts  [ 1,  3, 1 ]        row 17 has three

Terms have upstream's defaults: without namespaces and namespaceSelector, a term means the pod's own namespace; without
a label selector it means no pod. Equal terms are one, with a count by row, and are indexed by label.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from tonnage.keyed import Shelf
from tonnage.objects.core_v1 import Pod, PodAffinityTerm
from tonnage.objects.requirements import InvalidSelector
from tonnage.scheduling.cluster.cluster import Cluster, Observer
from tonnage.scheduling.cluster.columns import Ids, Ints, Mask, grown
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.cluster.pod_matching import NOBODY, Labels, MatcherIndex, PodMatcher, requirements_of

RowNumbers = npt.NDArray[np.intp]
Floats = npt.NDArray[np.float64]

_FIRST_CAPACITY = 4


class RowCounts:
    """Counts by row. `add` costs the same however many rows there are."""

    __slots__ = ("_counts", "_place", "_rows")

    def __init__(self) -> None:
        self._place: dict[int, int] = {}  # row -> its position in the arrays
        self._rows: RowNumbers = np.zeros(_FIRST_CAPACITY, dtype=np.intp)
        self._counts: Ints = np.zeros(_FIRST_CAPACITY, dtype=np.int64)

    @classmethod
    def sum_of(cls, parts: Sequence[RowCounts]) -> Self:
        """A new table with the sums of all parts."""
        made = cls()
        if not parts:
            return made
        by_row = np.bincount(
            np.concatenate([part.rows for part in parts]), weights=np.concatenate([part.counts for part in parts])
        )
        made._rows = np.flatnonzero(by_row)
        made._counts = by_row[made._rows].astype(np.int64)
        made._place = {row: place for place, row in enumerate(made._rows.tolist())}
        return made

    @property
    def rows(self) -> RowNumbers:
        """The rows with a count, without duplicates, in no order. A view: valid until the next `add`."""
        return self._rows[: len(self._place)]

    @property
    def counts(self) -> Ints:
        """The count of each of `rows`; never 0."""
        return self._counts[: len(self._place)]

    def by_value(self, ids: Ids, values: int, keep: Mask | None = None) -> Floats:
        """The counts summed by label value. `ids`: the value's id on each row; `values`: the number of ids; `keep`: a
        mask over `rows` that count."""
        counts = self.counts if keep is None else self.counts * keep
        found: Floats = np.bincount(ids[self.rows], weights=counts, minlength=values).astype(np.float64, copy=False)
        return found

    def __len__(self) -> int:
        """The number of rows with a count."""
        return len(self._place)

    def add(self, row: int, count: int) -> None:
        """Add to the count of a row; `count` may be negative."""
        place = self._place.get(row)
        if place is None:
            place = self._place[row] = len(self._place)
            if place >= len(self._rows):
                capacity = max(2 * place, _FIRST_CAPACITY)
                self._rows, self._counts = grown(self._rows, capacity), grown(self._counts, capacity)
            self._rows[place], self._counts[place] = row, count
            return
        left = int(self._counts[place]) + count
        if left:
            self._counts[place] = left
            return
        # The last entry moves into the gap, so that the arrays stay packed.
        del self._place[row]
        last = len(self._place)
        if place != last:
            self._rows[place], self._counts[place] = self._rows[last], self._counts[last]
            self._place[int(self._rows[place])] = place


MAX_TALLIES = 2048
"""The limit of tallies. A tally costs as much as its pods, and a forgotten one is quickly counted again."""

_NO_LABELS: Labels = {}


@dataclass(slots=True, eq=False)
class _Lookalikes:
    """Pods that no selector can tell apart, by row, and the tallies that count them."""

    namespace: str
    labels: Labels
    is_terminating: bool
    where: RowCounts = field(default_factory=RowCounts)
    tallies: dict[_Tally, None] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Tally:
    """The pods that all of `matchers` match, by row; terminating pods only if asked for."""

    matchers: tuple[PodMatcher, ...]
    counts_terminating: bool
    where: RowCounts = field(default_factory=RowCounts)
    groups: dict[_Lookalikes, None] = field(default_factory=dict)

    def means(self, group: _Lookalikes) -> bool:
        if group.is_terminating and not self.counts_terminating:
            return False
        # The matchers of a tally are settled: they need no namespace labels.
        return all(matcher.matches(group.namespace, group.labels, _NO_LABELS) for matcher in self.matchers)


class Residents(Observer):
    """The counts of a cluster. Get it with `cluster.index(Residents)`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._is_counting = False
        self._groups: dict[tuple[str, frozenset[tuple[str, str]], bool], _Lookalikes] = {}
        self._labelled: Shelf[tuple[str, str, str], _Lookalikes, None] = Shelf()
        self._tallies: OrderedDict[tuple[tuple[PodMatcher, ...], bool], _Tally] = OrderedDict()
        self._index: MatcherIndex[_Tally] = MatcherIndex()

    def counted(self, matchers: tuple[PodMatcher, ...], *, terminating: bool) -> RowCounts:
        """The number of pods by row that all matchers match; terminating pods count if `terminating`. The matchers must
        be settled. The result is valid until pods come or go; do not change it."""
        if not self._is_counting:
            self._is_counting = True
            self._cluster.observe(self)
        key = (matchers, terminating)
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = self._counted_now(matchers, terminating)
            if len(self._tallies) > MAX_TALLIES:
                self._forget(next(iter(self._tallies.values())))
        else:
            self._tallies.move_to_end(key)
        return tally.where

    # -- observing ----------------------------------------------------------------------------------------------------

    def resident_added(self, info: PodInfo, row: int) -> None:
        key = (info.namespace, frozenset(info.labels.items()), info.is_terminating)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = self._new_group(info)
        group.where.add(row, 1)
        for tally in group.tallies:
            tally.where.add(row, 1)

    def resident_removed(self, info: PodInfo, row: int) -> None:
        key = (info.namespace, frozenset(info.labels.items()), info.is_terminating)
        group = self._groups[key]
        group.where.add(row, -1)
        for tally in group.tallies:
            tally.where.add(row, -1)
        if not group.where:
            del self._groups[key]
            self._drop_group(group)

    # -- groups and tallies -------------------------------------------------------------------------------------------

    def _new_group(self, info: PodInfo) -> _Lookalikes:
        group = _Lookalikes(info.namespace, info.labels, info.is_terminating)
        for key, value in group.labels.items():
            self._labelled.put((group.namespace, key, value), group, None)
        for tally in self._index.candidates(group.namespace, group.labels):
            if tally.means(group):
                _link(tally, group)
        return group

    def _drop_group(self, group: _Lookalikes) -> None:
        for tally in group.tallies:
            del tally.groups[group]
            if not tally.groups:
                self._forget(tally)
        for key, value in group.labels.items():
            self._labelled.take((group.namespace, key, value), group)

    def _counted_now(self, matchers: tuple[PodMatcher, ...], terminating: bool) -> _Tally:
        tally = _Tally(matchers, terminating)
        for group in self._may_mean(matchers[0]):
            if tally.means(group):
                _link(tally, group)
        tally.where = RowCounts.sum_of([group.where for group in tally.groups])
        self._index.add(matchers[0], tally)
        return tally

    def _may_mean(self, matcher: PodMatcher) -> list[_Lookalikes]:
        """The groups that a matcher may match: those with a label it requires, else all."""
        found: list[_Lookalikes] = []
        for namespace, (key, value) in matcher.anchors():
            if not namespace or not key:
                return list(self._groups.values())
            found.extend(self._labelled.at((namespace, key, value)))
        return found

    def _forget(self, tally: _Tally) -> None:
        del self._tallies[tally.matchers, tally.counts_terminating]
        self._index.remove(tally.matchers[0], tally)
        for group in tally.groups:
            del group.tallies[tally]


def _link(tally: _Tally, group: _Lookalikes) -> None:
    tally.groups[group] = None
    group.tallies[tally] = None


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
    terms = _read.get(info)
    if terms is None:
        terms = _read[info] = terms_of(info.pod)
    return terms


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
            *read("preferredAffinityTerms", ((term.pod_affinity_term, term.weight) for term in near.preferred)),
            *read("preferredAntiAffinityTerms", ((term.pod_affinity_term, -term.weight) for term in apart.preferred)),
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
        self.carried: dict[Term, CarriedTerm] = {}
        self._index: MatcherIndex[CarriedTerm] = MatcherIndex()

    def add(self, terms: Iterable[Term], row: int, count: int) -> None:
        for term in terms:
            carried = self.carried.get(term)
            if carried is None:
                carried = self.carried[term] = CarriedTerm(term)
                self._index.add(term.matcher, carried)
            carried.where.add(row, count)
            if not carried.where:
                del self.carried[term]
                self._index.remove(term.matcher, carried)

    def concerning(self, info: PodInfo, namespace_labels: Labels) -> Sequence[CarriedTerm]:
        """The terms that match this pod."""
        if not self.carried:
            return ()
        return [
            carried
            for carried in self._index.candidates(info.namespace, info.labels)
            if carried.term.matches(info, namespace_labels)
        ]


class CarriedTerms(Observer):
    """The terms of a cluster's resident pods, counted. Get it with `cluster.index(CarriedTerms)`."""

    def __init__(self, cluster: Cluster) -> None:
        self.near = TermRegister()
        self.apart = TermRegister()
        self.preferred = TermRegister()
        """The preferences of both kinds."""
        cluster.observe(self)

    @property
    def is_empty(self) -> bool:
        """True if no resident carries a term."""
        return not (self.near.carried or self.apart.carried or self.preferred.carried)

    # -- observing ----------------------------------------------------------------------------------------------------

    def resident_added(self, info: PodInfo, row: int) -> None:
        self._count(info, row, 1)

    def resident_removed(self, info: PodInfo, row: int) -> None:
        self._count(info, row, -1)

    def _count(self, info: PodInfo, row: int, count: int) -> None:
        terms = terms_of(info.pod)
        if terms is NO_TERMS:
            return
        self.near.add(terms.near, row, count)
        self.apart.add(terms.apart, row, count)
        self.preferred.add(terms.preferred, row, count)
