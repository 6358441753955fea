"""PodTopologySpread and InterPodAffinity equal their slow twins on every cluster, however it came to be.

The twins ask one node and one pod at a time, in the order of upstream's functions, and keep nothing between decisions.
The plugins count incrementally and judge all rows at once. Between two questions a cluster changes: nodes come, change
labels and go, pods come, are replaced, terminate and go, namespaces are labelled. Verdicts, reasons and scores have to
be the twins', integer by integer.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from support.mirrored_cluster import MirroredCluster
from tonnage.objects.core_v1 import Node, Pod, PodAffinityTerm, TopologySpreadConstraint
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.requirements import find_untolerated
from tonnage.objects.selectors import LabelSelector, selects
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.plugin_args import InterPodAffinityArgs, PodTopologySpreadArgs
from tonnage.scheduling.framework import SKIP, Code, Cycle, Judgement
from tonnage.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from tonnage.scheduling.plugins.pod_topology_spread import PodTopologySpread
from tonnage.scheduling.spread import residents
from tonnage.testing.builders import node, pod

Doc = dict[str, Any]
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
PASSES = ("passes", "")
Verdict = tuple[str, str]


# -- the world, plainly -----------------------------------------------------------------------------------------------


def nodes_with_pods(world: MirroredCluster) -> list[tuple[Node, list[Pod]]]:
    """Every node with its pods; a pod whose node is not there is invisible."""
    pods = world.pods.values()
    return [(each, [p for p in pods if p.spec.node_name == each.name]) for each in world.nodes.values()]


# -- PodTopologySpread, one node at a time ----------------------------------------------------------------------------


@dataclass
class SpreadTwin:
    """filtering.go and scoring.go of podtopologyspread, with maps for maps."""

    world: MirroredCluster
    defaults: Sequence[TopologySpreadConstraint]
    is_system: bool

    def constraints(self, asking: Pod, action: str) -> list[tuple[TopologySpreadConstraint, LabelSelector | None]]:
        own = asking.spec.topology_spread_constraints
        if own:
            return [(c, self._merged(c, asking)) for c in own if c.when_unsatisfiable == action]
        selector = self.world.cluster.workloads.selector_for(asking)
        return [(c, selector) for c in self.defaults if c.when_unsatisfiable == action] if selector is not None else []

    @staticmethod
    def _merged(constraint: TopologySpreadConstraint, asking: Pod) -> LabelSelector | None:
        selector = constraint.label_selector
        own = {k: asking.metadata.labels[k] for k in constraint.match_label_keys if k in asking.metadata.labels}
        if selector is None or not own:
            return selector
        parsed = LabelSelector.parse(",".join(f"{key}={value}" for key, value in own.items()))
        expressions = (*selector.match_expressions, *parsed.requirements())
        return LabelSelector(match_labels=selector.match_labels, match_expressions=expressions)

    @staticmethod
    def count(pods: Sequence[Pod], selector: LabelSelector | None, namespace: str) -> int:
        if selector is not None and selector.is_empty:
            return 0
        return sum(
            p.metadata.deletion_timestamp is None and p.namespace == namespace and selects(selector, p.metadata.labels)
            for p in pods
        )

    @staticmethod
    def counts_here(constraint: TopologySpreadConstraint, asking: Pod, at: Node) -> bool:
        asked = asking.required_node_affinity()
        if constraint.node_affinity_policy == "Honor" and not asked.matches(at.name, at.metadata.labels):
            return False
        untolerated = find_untolerated(at.spec.taints, asking.spec.tolerations)
        return constraint.node_taints_policy != "Honor" or untolerated is None

    def verdicts(self, asking: Pod) -> dict[str, Verdict] | None:
        hard = self.constraints(asking, "DoNotSchedule")
        if not hard:
            return None
        domains: list[Counter[str]] = [Counter() for _ in hard]
        for at, pods in nodes_with_pods(self.world):
            if not all(c.topology_key in at.metadata.labels for c, _ in hard):
                continue
            for i, (c, selector) in enumerate(hard):
                if self.counts_here(c, asking, at):
                    domains[i][at.metadata.labels[c.topology_key]] += self.count(pods, selector, asking.namespace)
        return {name: self._verdict(asking, at, hard, domains) for name, at in self.world.nodes.items()}

    @staticmethod
    def _verdict(
        asking: Pod,
        at: Node,
        hard: Sequence[tuple[TopologySpreadConstraint, LabelSelector | None]],
        domains: Sequence[Counter[str]],
    ) -> Verdict:
        for (c, selector), counted in zip(hard, domains, strict=True):
            value = at.metadata.labels.get(c.topology_key)
            if value is None:
                told = "node(s) didn't match pod topology spread constraints (missing required label)"
                return "unresolvable", told
            fewest = 0 if len(counted) < c.min_domains else min(counted.values())
            itself = 1 if selects(selector, asking.metadata.labels) else 0
            if counted.get(value, 0) + itself - fewest > c.max_skew:
                return "unschedulable", "node(s) didn't match pod topology spread constraints"
        return PASSES

    def scores(self, asking: Pod, feasible: Sequence[str]) -> list[int] | None:
        soft = self.constraints(asking, "ScheduleAnyway")
        if not soft:
            return None
        require_all = bool(asking.spec.topology_spread_constraints) or not self.is_system
        ignored = {
            name
            for name in feasible
            if require_all and not all(c.topology_key in self.world.nodes[name].metadata.labels for c, _ in soft)
        }
        domains: list[dict[str, int]] = [{} for _ in soft]
        for name in feasible:
            for i, (c, _) in enumerate(soft):
                if name not in ignored and c.topology_key != HOSTNAME:
                    domains[i][self.world.nodes[name].metadata.labels.get(c.topology_key, "")] = 0
        for at, pods in nodes_with_pods(self.world):
            if require_all and not all(c.topology_key in at.metadata.labels for c, _ in soft):
                continue
            for i, (c, selector) in enumerate(soft):
                value = at.metadata.labels.get(c.topology_key, "")
                if self.counts_here(c, asking, at) and value in domains[i]:
                    domains[i][value] += self.count(pods, selector, asking.namespace)
        raw = []
        pods_of = {at.name: pods for at, pods in nodes_with_pods(self.world)}
        for name in feasible:
            score = 0.0
            for i, (c, selector) in enumerate(soft):
                label = self.world.nodes[name].metadata.labels.get(c.topology_key)
                if name in ignored or label is None:
                    continue
                if c.topology_key == HOSTNAME:
                    counted = self.count(pods_of[name], selector, asking.namespace)
                    domain_count = len(feasible) - len(ignored)
                else:
                    counted, domain_count = domains[i][label], len(domains[i])
                score += counted * math.log(domain_count + 2) + (c.max_skew - 1)
            raw.append(math.floor(score + 0.5))
        considered = [s for s, name in zip(raw, feasible, strict=True) if name not in ignored]
        least, most = min(considered, default=0), max(considered, default=0)
        return [
            0 if name in ignored else 100 if most == 0 else 100 * (most + least - s) // most
            for s, name in zip(raw, feasible, strict=True)
        ]


# -- InterPodAffinity, one pod at a time ------------------------------------------------------------------------------


@dataclass
class AffinityTwin:
    """filtering.go and scoring.go of interpodaffinity; a namespaceSelector means the namespaces it selects."""

    world: MirroredCluster
    args: InterPodAffinityArgs

    def incoming(self, term: PodAffinityTerm, carrier: Pod, other: Pod) -> bool:
        """Does a term of the incoming pod mean this pod?"""
        labels = self.world.cluster.namespaces.get(other.namespace)
        chosen = term.namespace_selector
        selected = chosen is not None and (chosen.is_empty or (labels is not None and chosen.matches(labels)))
        return self._matches(term, carrier, other, selected)

    def existing(self, term: PodAffinityTerm, carrier: Pod, other: Pod) -> bool:
        """Does a term of a resident mean the incoming pod?"""
        return self._matches(
            term,
            carrier,
            other,
            selects(term.namespace_selector, self.world.cluster.namespaces.get(other.namespace, {})),
        )

    @staticmethod
    def _matches(term: PodAffinityTerm, carrier: Pod, other: Pod, selected: bool) -> bool:
        own = not term.namespaces and term.namespace_selector is None
        named = other.namespace == carrier.namespace if own else other.namespace in term.namespaces
        return (named or selected) and selects(term.label_selector, other.metadata.labels)

    def verdicts(self, asking: Pod) -> dict[str, Verdict]:
        near, apart = asking.spec.affinity.pod_affinity.required, asking.spec.affinity.pod_anti_affinity.required
        company: Counter[tuple[str, str]] = Counter()
        avoided: Counter[tuple[str, str]] = Counter()
        avoiding: Counter[tuple[str, str]] = Counter()
        for at, pods in nodes_with_pods(self.world):
            labels = at.metadata.labels
            for there in pods:
                if near and all(self.incoming(t, asking, there) for t in near):
                    company.update((t.topology_key, labels[t.topology_key]) for t in near if t.topology_key in labels)
                for t in apart:
                    if t.topology_key in labels and self.incoming(t, asking, there):
                        avoided[t.topology_key, labels[t.topology_key]] += 1
                for t in there.spec.affinity.pod_anti_affinity.required:
                    if t.topology_key in labels and self.existing(t, there, asking):
                        avoiding[t.topology_key, labels[t.topology_key]] += 1
        is_first = not company and all(self.incoming(t, asking, asking) for t in near)
        found = {}
        for name, at in self.world.nodes.items():
            labels = at.metadata.labels
            has_keys = all(t.topology_key in labels for t in near)
            if not has_keys or not (is_first or all(company[t.topology_key, labels[t.topology_key]] for t in near)):
                found[name] = "unresolvable", "node(s) didn't match pod affinity rules"
            elif any(
                avoided[t.topology_key, labels.get(t.topology_key, "")] for t in apart if t.topology_key in labels
            ):
                found[name] = "unschedulable", "node(s) didn't match pod anti-affinity rules"
            elif any(avoiding[pair] for pair in labels.items()):
                found[name] = "unschedulable", "node(s) didn't satisfy existing pods anti-affinity rules"
            else:
                found[name] = PASSES
        return found

    def scores(self, asking: Pod, feasible: Sequence[str]) -> list[int] | None:
        own = asking.spec.affinity
        has_own = own.pod_affinity.preferred or own.pod_anti_affinity.preferred
        if self.args.ignore_preferred_terms_of_existing_pods and not has_own:
            return None
        worth: dict[str, Counter[str]] = {}

        def add(term: PodAffinityTerm, weight: int, labels: Mapping[str, str]) -> None:
            if term.topology_key in labels:
                worth.setdefault(term.topology_key, Counter())[labels[term.topology_key]] += weight

        for at, pods in nodes_with_pods(self.world):
            labels = at.metadata.labels
            for there in pods:
                for sign, wishes in ((1, own.pod_affinity.preferred), (-1, own.pod_anti_affinity.preferred)):
                    for wish in wishes:
                        if self.incoming(wish.pod_affinity_term, asking, there):
                            add(wish.pod_affinity_term, sign * wish.weight, labels)
                theirs = there.spec.affinity
                if self.args.hard_pod_affinity_weight:
                    for term in theirs.pod_affinity.required:
                        if self.existing(term, there, asking):
                            add(term, self.args.hard_pod_affinity_weight, labels)
                for sign, wishes in ((1, theirs.pod_affinity.preferred), (-1, theirs.pod_anti_affinity.preferred)):
                    for wish in wishes:
                        if self.existing(wish.pod_affinity_term, there, asking):
                            add(wish.pod_affinity_term, sign * wish.weight, labels)
        if not worth:
            return None
        raw = []
        for name in feasible:
            labels = self.world.nodes[name].metadata.labels
            raw.append(sum(values[labels[key]] for key, values in worth.items() if key in labels))
        least, most = min(raw), max(raw)
        return [int(100.0 * ((s - least) / (most - least))) if most > least else 0 for s in raw]


# -- asking the plugins -----------------------------------------------------------------------------------------------


CrossRow = PodTopologySpread | InterPodAffinity


def verdicts_of(plugin: CrossRow, asking: Pod, world: MirroredCluster) -> dict[str, Verdict] | None:
    """None when PreFilter skips."""
    cycle = Cycle(PodInfo(asking), world.cluster)
    answer = plugin.pre_filter(cycle)
    if answer is SKIP:
        return None
    assert answer is None
    whole = plugin.filter(cycle, world.cluster.all_rows)
    found = {}
    for name in world.nodes:
        row = world.cluster.row_of[name]
        alone = plugin.filter(cycle, np.array([row], dtype=np.intp))
        found[name] = _verdict_at(whole, row)
        assert _verdict_at(alone, 0) == found[name]  # a row alone is judged as it is among all
    return found


def _verdict_at(judgement: Judgement | None, k: int) -> Verdict:
    if judgement is None or not judgement.bits[k]:
        return PASSES
    final = judgement.unresolvable
    told = [reason for i, reason in enumerate(judgement.reasons) if judgement.bits[k] >> i & 1]
    assert len(told) == 1
    is_final = bool(final if isinstance(final, bool) else final[k])
    return "unresolvable" if is_final else "unschedulable", told[0]


def scores_of(plugin: CrossRow, asking: Pod, world: MirroredCluster, feasible: Sequence[str]) -> list[int] | None:
    """The normalised scores, or None when PreScore skips."""
    cycle = Cycle(PodInfo(asking), world.cluster)
    cycle.feasible = np.array([world.cluster.row_of[name] for name in feasible], dtype=np.intp)
    answer = plugin.pre_score(cycle)
    if answer is not None:
        assert answer.code is Code.SKIP
        return None
    scores = plugin.normalize(cycle, plugin.score(cycle, cycle.feasible))
    assert scores.dtype == np.int64
    return [int(score) for score in scores]


# -- stories ----------------------------------------------------------------------------------------------------------

KEYS = ("zone", "zone", "rack", HOSTNAME, ZONE)
NAMESPACES = ("default", "default", "red", "blue")
NODE_NAMES = ("n1", "n2", "n3", "n4", "n5", "n6", "n7")
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


class Storyteller:
    """Makes things up, from a seed, densely enough that most of them matter to one another.

    Strategies of small parts would shrink better, but mostly make up pods that have nothing to do with each other.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def some(self, most: int, make: Callable[[], Doc]) -> list[Doc]:
        return [make() for _ in range(self.rng.randint(0, most))]

    def labels(self, **choices: tuple[str, ...]) -> dict[str, str]:
        return {key: self.rng.choice(values) for key, values in choices.items() if self.chance(0.8)}

    def pod_labels(self) -> dict[str, str]:
        return self.labels(app=("web", "web", "db"), tier=("front", "back"), hash=("1", "2"))

    def selector(self) -> Doc | None:
        kind = self.rng.random()
        if kind < 0.5:
            return {"matchLabels": {"app": self.rng.choice(("web", "db"))}}
        if kind < 0.7:
            return {"matchLabels": self.labels(app=("web",), tier=("front", "back"), hash=("1", "2"))}
        if kind < 0.9:
            key = self.rng.choice(("app", "tier"))
            operator = self.rng.choice(("In", "NotIn", "Exists", "DoesNotExist"))
            values = self.rng.choices(("web", "db", "front"), k=2) if operator in ("In", "NotIn") else []
            return {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}
        return self.rng.choice(({}, None))

    def namespace_selector(self) -> Doc | None:
        return self.rng.choice(
            (
                None,
                None,
                None,
                {},
                {"matchLabels": {"team": "x"}},
                {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["x"]}]},
                {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
            )
        )

    def term(self) -> Doc:
        found = {
            "topologyKey": self.rng.choice(KEYS),
            "labelSelector": self.selector(),
            "namespaceSelector": self.namespace_selector(),
            "namespaces": [self.rng.choice(NAMESPACES)] if self.chance(0.2) else [],
        }
        return {key: value for key, value in found.items() if value is not None}

    def wish(self) -> Doc:
        return {"weight": self.rng.randint(1, 100), "podAffinityTerm": self.term()}

    def affinity(self, share: float) -> Doc:
        """Terms of all four kinds, each kind with this chance."""
        return {
            side: {
                REQUIRED: self.some(2, self.term) if self.chance(share) else [],
                PREFERRED: self.some(2, self.wish) if self.chance(share) else [],
            }
            for side in ("podAffinity", "podAntiAffinity")
        }

    def node_affinity(self) -> Doc:
        by_label = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
        by_name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
        return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [by_label, by_name]}}} if self.chance(0.2) else {}

    def spread(self) -> Doc:
        found = {
            "maxSkew": self.rng.randint(1, 2),
            "topologyKey": self.rng.choice(KEYS),
            "whenUnsatisfiable": self.rng.choice(("DoNotSchedule", "ScheduleAnyway")),
            "labelSelector": self.selector(),
            "matchLabelKeys": self.rng.choice((None, None, ["hash"], ["hash", "missing"])),
            "minDomains": self.rng.choice((None, None, 2, 3)),
            "nodeAffinityPolicy": self.rng.choice((None, "Honor", "Ignore")),
            "nodeTaintsPolicy": self.rng.choice((None, "Honor", "Ignore")),
        }
        return {key: value for key, value in found.items() if value is not None}

    def node(self, name: str) -> Node:
        labels = self.labels(zone=("a", "b", "c"), rack=("r1", "r2"), disk=("ssd", "hdd"))
        if self.chance(0.7):
            labels[ZONE] = self.rng.choice(("a", "b", ""))
        labels[HOSTNAME] = self.rng.choice((name, name, "shared"))
        made = node(name, labels=labels, taints=["dedicated=db:NoSchedule"] if self.chance(0.3) else [])
        if self.chance(0.1):  # the builder always labels a hostname
            return Node(metadata=ObjectMeta(name=name, uid=made.uid), spec=made.spec, status=made.status)
        return made

    def resident(self) -> Pod:
        return pod(
            f"p{self.rng.randint(1, 14)}",
            namespace=self.rng.choice(NAMESPACES),
            labels=self.pod_labels(),
            on=self.rng.choice(NODE_NAMES),
            metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"} if self.chance(0.15) else None,
            spec={"affinity": self.affinity(0.15)},
        )

    def newcomer(self) -> Pod:
        return pod(
            "newcomer",
            namespace=self.rng.choice(NAMESPACES),
            labels=self.pod_labels(),
            node_selector={"disk": "ssd"} if self.chance(0.2) else {},
            tolerations=[{"key": "dedicated", "operator": "Exists"}] if self.chance(0.5) else [],
            spec={
                "affinity": {**self.affinity(0.4), **self.node_affinity()},
                "topologySpreadConstraints": self.some(3, self.spread),
            },
        )

    def change(self, world: MirroredCluster) -> None:
        """Something happens to the cluster."""
        match self.rng.choice(("pod", "pod", "pod", "no pod", "node", "no node", "namespace")):
            case "pod":
                world.put(self.resident())
            case "no pod":
                world.remove(Pod, self.rng.choice([*world.pods, "nobody"]))
            case "node":
                world.put(self.node(self.rng.choice(NODE_NAMES)))
            case "no node":
                world.remove(Node, self.rng.choice(NODE_NAMES))
            case "namespace":
                labels: tuple[dict[str, str], ...] = ({}, {"team": "x"}, {"team": "y"})
                world.cluster.namespaces[self.rng.choice(NAMESPACES)] = self.rng.choice(labels)

    def questions(self, world: MirroredCluster) -> Iterator[tuple[Pod, list[str]]]:
        """(a pod, the nodes that are feasible): one after the other, while the cluster changes."""
        for name in NODE_NAMES[: self.rng.randint(3, 7)]:
            world.put(self.node(name))
        for _ in range(self.rng.randint(0, 18)):
            world.put(self.resident())
        for _ in range(6):
            for _ in range(self.rng.randint(1, 4)):
                self.change(world)
            if world.nodes:
                feasible = [name for name in world.nodes if self.chance(0.7)]
                yield self.newcomer(), feasible or list(world.nodes)


# -- the properties ---------------------------------------------------------------------------------------------------

SYSTEM = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable="ScheduleAnyway"),
    TopologySpreadConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable="ScheduleAnyway"),
)
LISTED = (
    TopologySpreadConstraint(max_skew=1, topology_key="zone", when_unsatisfiable="DoNotSchedule"),
    TopologySpreadConstraint(max_skew=2, topology_key="rack", when_unsatisfiable="ScheduleAnyway"),
)
seeds = st.integers(0, 2**32)
memories = st.sampled_from((1, 2, residents.MAX_TALLIES))
"""How many selectors stay counted: with few, they are forgotten and counted anew all the time."""


@pytest.mark.parametrize("defaulting", ["System", "List"])
@given(seed=seeds, max_tallies=memories)
@settings(max_examples=tries(120), deadline=None)
def test_spreading_equals_its_scalar_twin(defaulting: str, seed: int, max_tallies: int) -> None:
    world = MirroredCluster()
    world.cluster.workloads.put("Service", "default/web", {"app": "web"})
    world.cluster.workloads.put("Service", "default/front", {"tier": "front"})
    is_system = defaulting == "System"
    args = None if is_system else PodTopologySpreadArgs(default_constraints=LISTED, defaulting_type="List")
    plugin, twin = PodTopologySpread(args), SpreadTwin(world, SYSTEM if is_system else LISTED, is_system)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(residents, "MAX_TALLIES", max_tallies)
        for asking, feasible in Storyteller(seed).questions(world):
            assert verdicts_of(plugin, asking, world) == twin.verdicts(asking)
            assert scores_of(plugin, asking, world, feasible) == twin.scores(asking, feasible)


@given(seed=seeds, max_tallies=memories, hard_weight=st.sampled_from((0, 1, 40)), ignores=st.booleans())
@settings(max_examples=tries(240), deadline=None)
def test_pod_affinity_equals_its_scalar_twin(seed: int, max_tallies: int, hard_weight: int, ignores: bool) -> None:
    world = MirroredCluster()
    args = InterPodAffinityArgs(hard_pod_affinity_weight=hard_weight, ignore_preferred_terms_of_existing_pods=ignores)
    plugin, twin = InterPodAffinity(args), AffinityTwin(world, args)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(residents, "MAX_TALLIES", max_tallies)
        for asking, feasible in Storyteller(seed).questions(world):
            found, everybody_passes = verdicts_of(plugin, asking, world), dict.fromkeys(world.nodes, PASSES)
            assert (everybody_passes if found is None else found) == twin.verdicts(asking)
            assert scores_of(plugin, asking, world, feasible) == twin.scores(asking, feasible)
