"""InterPodAffinity: pods that must or should be near other pods or away from them, and residents with such terms.

A term is about topologies: the nodes that share a value of its key. Every rule becomes a table by label value, and is
looked up for all nodes at once.

Filter, in upstream's order; the first rule that fails is the node's reason:

1. Required affinity: in every term's topology there is a pod that matches *all* terms, wherever that pod is. The
   first pod of a series may go anywhere: if no pod matches, and it matches itself. A node needs all the keys.
2. Required anti-affinity: no pod of the node's topology matches.
3. Required anti-affinity of residents: none of them matches this pod.

Score: the sum of the weights of fulfilled preferences, the pod's own and those of residents, negative for
anti-affinity; a resident's required affinity counts `hardPodAffinityWeight`. Unlike upstream, a namespaceSelector of
only NotIn and DoesNotExist means the namespaces it selects.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from tonnage.objects.core_v1 import Node, Pod
from tonnage.scheduling import framework
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import Ints, Mask, Rows, row_count
from tonnage.scheduling.cluster.pod_info import PodInfo, fingerprint
from tonnage.scheduling.cluster.pod_matching import Labels
from tonnage.scheduling.configuration.plugin_args import InterPodAffinityArgs
from tonnage.scheduling.events import QUEUE, ActionType, ClusterEvent, EventResource, Hint
from tonnage.scheduling.events import SKIP as QUEUE_SKIP
from tonnage.scheduling.spread import residents
from tonnage.scheduling.spread.constraints import Topology

_NO_LABELS: Final[Labels] = {}
_NEAR, _APART, _RESIDENTS = 1, 2, 4  # bits of a judgement, in the order of `reasons`

_Rules = dict[int, dict[str, Mask]]
"""The tables of Filter: by bit and topology key, by label value, where the pod may (_NEAR) or must not go."""


class InterPodAffinity(
    framework.PreFilterPlugin, framework.FilterPlugin, framework.PreScorePlugin, framework.ScorePlugin
):
    name = "InterPodAffinity"
    normalizes = True
    reasons = (
        "node(s) didn't match pod affinity rules",
        "node(s) didn't match pod anti-affinity rules",
        "node(s) didn't satisfy existing pods anti-affinity rules",
    )

    def __init__(self, args: InterPodAffinityArgs | None = None) -> None:
        self._args = args or InterPodAffinityArgs()

    def sign(self, pod: PodInfo, cluster: Cluster) -> Hashable:
        """Its terms, and what the terms of other pods can match."""
        affinity = pod.pod.spec.affinity
        terms = (
            (fingerprint(affinity.pod_affinity), fingerprint(affinity.pod_anti_affinity))
            if residents.terms_in(pod.pod)
            else ()
        )
        return pod.namespace, tuple(sorted(pod.labels.items())), terms

    def needs(self, pod: PodInfo, cluster: Cluster) -> Mapping[Hashable, int] | None:
        """A pod with a label that one of its affinity terms requires; None if it also has anti-affinity terms."""
        if not 0 < residents.terms_in(pod.pod) <= residents.MAX_TERMS:
            return None
        terms = residents.terms_asked(pod)
        if terms.errors or terms.apart:
            return None
        for term in terms.near:
            for requirement in term.matcher.requirements:
                if requirement.operator == "In" and len(requirement.values) <= residents.MAX_TERMS:
                    return {(requirement.key, value): 1 for value in requirement.values}
        return None

    def offer(self, cluster: Cluster, event: ClusterEvent, old: Any, new: Any) -> Mapping[Hashable, int] | None:
        """The labels of a pod that came, changed or went; None if it had anti-affinity: its going may help any pod."""
        pods = [each for each in (old, new) if each is not None]
        if not all(isinstance(pod, Pod) for pod in pods) or any(residents.terms_of(pod).apart for pod in pods):
            return None
        return {label: 1 for pod in pods for label in pod.metadata.labels.items()}

    # -- filtering ----------------------------------------------------------------------------------------------------

    def pre_filter(self, cycle: framework.Cycle) -> framework.Status | None:
        cluster, pod = cycle.cluster, cycle.pod
        if (count := residents.terms_in(pod.pod)) > residents.MAX_TERMS:
            return framework.unresolvable(
                f"the pod has {count} inter-pod affinity terms, of at most {residents.MAX_TERMS} that are judged"
            )
        terms = cycle.state[_TERMS] = residents.terms_asked(pod) if count else residents.NO_TERMS
        if terms is residents.NO_TERMS and cluster.index(residents.CarriedTerms).is_empty:
            return framework.SKIP  # most pods, in most clusters
        if terms.errors:
            return framework.unresolvable(f"parsing pod: {_joined(terms.errors)}")
        repelling = cluster.index(residents.CarriedTerms).apart.concerning(pod, _namespace_labels(cycle))
        if not (terms.near or terms.apart or repelling):
            return framework.SKIP
        # In reverse order: the last one that refuses a row is the one that comes first upstream.
        rules: _Rules = {_RESIDENTS: {}, _APART: {}, _NEAR: {}}
        if terms.near:
            self._allow_company(cycle, _settled(terms.near, cluster), rules[_NEAR])
        for term in _settled(terms.apart, cluster):
            _mark(rules[_APART], cluster, term.topology_key, _meant(cluster, (term,)).rows)
        for carried in repelling:
            _mark(rules[_RESIDENTS], cluster, carried.term.topology_key, carried.where.rows)
        cycle.state[self.name] = rules
        return None

    def _allow_company(self, cycle: framework.Cycle, terms: Sequence[residents.Term], near: dict[str, Mask]) -> None:
        """Enter the topologies where the pod finds what it requires; all of them for the first pod of a series."""
        cluster = cycle.cluster
        company = _meant(cluster, terms).rows
        for term in terms:
            _mark(near, cluster, term.topology_key, company)
        if any(allowed.any() for allowed in near.values()):
            return
        namespace_labels = _namespace_labels(cycle)
        if all(term.matches(cycle.pod, namespace_labels) for term in terms):
            for allowed in near.values():
                allowed[1:] = True

    def filter(self, cycle: framework.Cycle, rows: Rows) -> framework.Judgement | None:
        rules: _Rules = cycle.state[self.name]
        bits = np.zeros(row_count(rows), dtype=np.int64)
        for bit, tables in rules.items():
            for key, marked in tables.items():
                is_marked = marked[Topology.of(cycle.cluster, key).ids[rows]]
                bits[~is_marked if bit == _NEAR else is_marked] = bit
        return framework.Judgement(bits, self.reasons, bits == _NEAR) if bits.any() else None

    def passes_with_fewer_pods(self, cycle: framework.Cycle) -> bool:
        """True unless the pod has required affinity: the pods it needs may not go."""
        rules: _Rules = cycle.state[self.name]
        return not rules[_NEAR]

    # -- scoring ------------------------------------------------------------------------------------------------------

    def pre_score(self, cycle: framework.Cycle) -> framework.Status | None:
        cluster, pod = cycle.cluster, cycle.pod
        terms: residents.Terms | None = cycle.state.get(_TERMS)
        own = (terms if terms is not None else residents.terms_asked(pod)).preferred
        if not own and self._args.ignore_preferred_terms_of_existing_pods:
            return framework.SKIP
        carried = cluster.index(residents.CarriedTerms)
        if not own and carried.is_empty:
            return framework.SKIP
        namespace_labels = _namespace_labels(cycle)
        worth: dict[str, residents.Floats] = {}
        for term in _settled(own, cluster):
            _weigh(worth, cluster, term.topology_key, _meant(cluster, (term,)), term.weight)
        for theirs in carried.preferred.concerning(pod, namespace_labels):
            _weigh(worth, cluster, theirs.term.topology_key, theirs.where, theirs.term.weight)
        if self._args.hard_pod_affinity_weight:
            for theirs in carried.near.concerning(pod, namespace_labels):
                _weigh(worth, cluster, theirs.term.topology_key, theirs.where, self._args.hard_pod_affinity_weight)
        if not worth:
            return framework.SKIP
        cycle.state[_WORTH] = worth
        return None

    def score(self, cycle: framework.Cycle, rows: Rows) -> Ints:
        total = np.zeros(row_count(rows))
        for key, by_value in cycle.state[_WORTH].items():
            total += by_value[Topology.of(cycle.cluster, key).ids[rows]]
        return total.astype(np.int64)

    def normalize(self, cycle: framework.Cycle, scores: Ints) -> Ints:
        """100 * ((score - least) / (most - least)) in floating point, truncated to an integer; 0 if all are equal."""
        least, most = int(scores.min()), int(scores.max())
        if least == most:
            return np.zeros_like(scores)
        scaled: Ints = (float(framework.MAX_SCORE) * ((scores - least) / (most - least))).astype(np.int64)
        return scaled

    def indexes(self) -> Iterable[type]:
        return (residents.Residents, residents.CarriedTerms)

    def events(self) -> Iterable[framework.EventHint]:
        pods = ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.DELETE
        nodes = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        return (
            (ClusterEvent(EventResource.POD, pods), after_pod_change),
            (ClusterEvent(EventResource.NODE, nodes), after_node_change),
        )


_TERMS: Final = f"{InterPodAffinity.name}/terms"
_WORTH: Final = f"{InterPodAffinity.name}/worth"


# -- tables by label value --------------------------------------------------------------------------------------------


def _mark(marks: dict[str, Mask], cluster: Cluster, key: str, rows: residents.RowNumbers) -> None:
    """Mark the values that a key's label has on these rows; a node without the label is never marked."""
    topology = Topology.of(cluster, key)
    marked = marks.setdefault(key, np.zeros(topology.size, dtype=np.bool_))
    marked[topology.ids[rows]] = True
    marked[0] = False


def _weigh(
    worth: dict[str, residents.Floats], cluster: Cluster, key: str, where: residents.RowCounts, weight: int
) -> None:
    """Add `weight` for every pod counted in `where` to the value of its node's label."""
    topology = Topology.of(cluster, key)
    if not topology.ids[where.rows].any():
        return  # no node has the label: upstream makes no entry, and may then skip scoring
    added = where.by_value(topology.ids, topology.size) * weight
    added[0] = 0.0
    known = worth.get(key)
    worth[key] = added if known is None else known + added


# -- terms ------------------------------------------------------------------------------------------------------------


def _namespace_labels(cycle: framework.Cycle) -> Labels:
    return cycle.cluster.namespaces.get(cycle.pod.namespace, _NO_LABELS)


def _settled(terms: Iterable[residents.Term], cluster: Cluster) -> list[residents.Term]:
    """The incoming pod's terms with the namespaces that they currently select."""
    return [term._replace(matcher=term.matcher.settled(cluster.namespaces)) for term in terms]


def _meant(cluster: Cluster, terms: Sequence[residents.Term]) -> residents.RowCounts:
    """The residents that match all of these terms. Terminating pods count here, unlike in PodTopologySpread."""
    return cluster.index(residents.Residents).counted(tuple(term.matcher for term in terms), terminating=True)


def _joined(errors: Sequence[str]) -> str:
    return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"


# -- queueing hints ---------------------------------------------------------------------------------------------------


def after_pod_change(waiting: PodInfo, event: ClusterEvent, old: Pod | None, new: Pod | None) -> Hint:
    """Whether a pod that came, changed its labels or went may help a refused pod.

    Wakes more pods than upstream: if one of several anti-affinity terms matched the pod that went, if a
    namespaceSelector may select the other pod's namespace, and if the last matching pod has gone.
    """
    if old is not None and new is not None and PodInfo(new).uid == waiting.uid:
        return QUEUE
    if not all(pod.spec.node_name or pod.status.nominated_node_name for pod in (old, new) if pod is not None):
        return QUEUE_SKIP
    if residents.terms_in(waiting.pod) > residents.MAX_TERMS:
        return QUEUE_SKIP  # no other pod can change that
    terms = residents.terms_asked(waiting)
    is_company, was_company = _may_match_all(terms.near, new), _may_match_all(terms.near, old)
    if is_company and not was_company:
        return QUEUE
    if was_company and not is_company and _may_match_all(terms.near, waiting.pod):
        return QUEUE
    if any(_may_match(term, old) and not _may_match(term, new) for term in terms.apart):
        return QUEUE
    if new is None and old is not None and any(_may_match(term, waiting.pod) for term in residents.terms_of(old).apart):
        return QUEUE
    return QUEUE if terms.errors else QUEUE_SKIP


def after_node_change(waiting: PodInfo, event: ClusterEvent, old: Node | None, new: Node) -> Hint:
    """Whether a node that came or changed its labels may take a refused pod. A pod without required terms was refused
    for those of residents, so every node may help. (Upstream does not wake it.)"""
    if residents.terms_in(waiting.pod) > residents.MAX_TERMS:
        return QUEUE_SKIP
    terms = residents.terms_asked(waiting)
    if not terms.near and not terms.apart:
        return QUEUE
    before, after = old.metadata.labels if old is not None else _NO_LABELS, new.metadata.labels
    for term in terms.near:
        if after.get(term.topology_key) not in (None, before.get(term.topology_key)):
            return QUEUE
    for term in terms.apart:
        if old is None or before.get(term.topology_key) not in (None, after.get(term.topology_key)):
            return QUEUE
    return QUEUE_SKIP


def _may_match(term: residents.Term, pod: Pod | None) -> bool:
    return pod is not None and term.matcher.may_match(pod.metadata.namespace, pod.metadata.labels)


def _may_match_all(terms: Sequence[residents.Term], pod: Pod | None) -> bool:
    return bool(terms) and all(_may_match(term, pod) for term in terms)
