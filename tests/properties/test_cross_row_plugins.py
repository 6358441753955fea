"""PodTopologySpread and InterPodAffinity equal their slow twins on every cluster, however it came to be.

The twins ask one node and one pod at a time, in the order of upstream's functions, and keep nothing between decisions.
The plugins count incrementally and judge all rows at once. A story is a list of steps that change a cluster, with
questions in between: nodes come, change labels and go, pods come, are replaced, terminate and go, namespaces are
labelled; verdicts, reasons and scores have to be the twins', integer by integer.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage.objects.core_v1 import Node, Pod, PodAffinityTerm, TopologySpreadConstraint
from tonnage.objects.node_selectors import required_node_affinity
from tonnage.objects.selectors import LabelSelector, selects
from tonnage.objects.taints import find_untolerated
from tonnage.scheduling import residents
from tonnage.scheduling.cluster import Cluster, place
from tonnage.scheduling.framework import SKIP, Code, Cycle, FilterPlugin, PreFilterPlugin, PreScorePlugin, ScorePlugin
from tonnage.scheduling.plugin_args import InterPodAffinityArgs, PodTopologySpreadArgs
from tonnage.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from tonnage.scheduling.plugins.pod_topology_spread import PodTopologySpread
from tonnage.scheduling.pod_info import PodInfo
from tonnage.testing.builders import node, pod

Doc = dict[str, Any]
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
PASSES = ("passes", "")
Verdict = tuple[str, str]


# -- the world, plainly -----------------------------------------------------------------------------------------------


@dataclass
class World:
    """The same cluster twice: as columns with observers, and as two dictionaries."""

    cluster: Cluster = field(default_factory=Cluster)
    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)

    def put_node(self, made: Node) -> None:
        self.nodes[made.name] = made
        self.cluster.put_node(made)

    def drop_node(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.cluster.remove_node(name)

    def put_pod(self, made: Pod) -> None:
        self.pods[made.uid] = made
        place(self.cluster, made)

    def drop_pod(self, uid: str) -> None:
        self.pods.pop(uid, None)
        self.cluster.remove_pod(uid)

    def there(self) -> list[tuple[Node, list[Pod]]]:
        """Every node with its pods; a pod whose node is not there is invisible."""
        return [(each, [p for p in self.pods.values() if p.spec.node_name == each.name]) for each in self.nodes.values()]


# -- PodTopologySpread, one node at a time ----------------------------------------------------------------------------


@dataclass
class SpreadTwin:
    """filtering.go and scoring.go of podtopologyspread, with maps for maps."""

    world: World
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
        asked = required_node_affinity(asking)
        if constraint.node_affinity_policy == "Honor" and not asked.matches(at.name, at.metadata.labels):
            return False
        untolerated = find_untolerated(at.spec.taints, asking.spec.tolerations)
        return constraint.node_taints_policy != "Honor" or untolerated is None

    def verdicts(self, asking: Pod) -> dict[str, Verdict] | None:
        hard = self.constraints(asking, "DoNotSchedule")
        if not hard:
            return None
        domains: list[Counter[str]] = [Counter() for _ in hard]
        for at, pods in self.world.there():
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

    def scores(self, asking: Pod, feasible: Sequence[str]) -> tuple[list[int], list[int]] | None:
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
        for at, pods in self.world.there():
            if require_all and not all(c.topology_key in at.metadata.labels for c, _ in soft):
                continue
            for i, (c, selector) in enumerate(soft):
                value = at.metadata.labels.get(c.topology_key, "")
                if self.counts_here(c, asking, at) and value in domains[i]:
                    domains[i][value] += self.count(pods, selector, asking.namespace)
        raw = []
        pods_of = {at.name: pods for at, pods in self.world.there()}
        for name in feasible:
            score = 0.0
            for i, (c, selector) in enumerate(soft):
                value = self.world.nodes[name].metadata.labels.get(c.topology_key)
                if name in ignored or value is None:
                    continue
                if c.topology_key == HOSTNAME:
                    counted, domain_count = self.count(pods_of[name], selector, asking.namespace), len(feasible) - len(ignored)
                else:
                    counted, domain_count = domains[i][value], len(domains[i])
                score += counted * math.log(domain_count + 2) + (c.max_skew - 1)
            raw.append(int(math.floor(score + 0.5)))
        considered = [s for s, name in zip(raw, feasible, strict=True) if name not in ignored]
        least, most = min(considered, default=0), max(considered, default=0)
        final = [
            0 if name in ignored else 100 if most == 0 else 100 * (most + least - s) // most
            for s, name in zip(raw, feasible, strict=True)
        ]
        return raw, final


# -- InterPodAffinity, one pod at a time ------------------------------------------------------------------------------


@dataclass
class AffinityTwin:
    """filtering.go and scoring.go of interpodaffinity; a namespaceSelector means the namespaces it selects."""

    world: World
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
        for at, pods in self.world.there():
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
            elif any(avoided[t.topology_key, labels.get(t.topology_key, "")] for t in apart if t.topology_key in labels):
                found[name] = "unschedulable", "node(s) didn't match pod anti-affinity rules"
            elif any(avoiding[pair] for pair in labels.items()):
                found[name] = "unschedulable", "node(s) didn't satisfy existing pods anti-affinity rules"
            else:
                found[name] = PASSES
        return found

    def scores(self, asking: Pod, feasible: Sequence[str]) -> tuple[list[int], list[int]] | None:
        own = asking.spec.affinity
        has_own = own.pod_affinity.preferred or own.pod_anti_affinity.preferred
        if self.args.ignore_preferred_terms_of_existing_pods and not has_own:
            return None
        worth: dict[str, Counter[str]] = {}

        def add(term: PodAffinityTerm, weight: int, labels: Mapping[str, str]) -> None:
            if term.topology_key in labels:
                worth.setdefault(term.topology_key, Counter())[labels[term.topology_key]] += weight

        for at, pods in self.world.there():
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
        final = [int(100.0 * ((s - least) / (most - least))) if most > least else 0 for s in raw]
        return raw, final


# -- asking the plugins -----------------------------------------------------------------------------------------------


class CrossRow(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """What both plugins are, for the type checker."""


def verdicts_of(plugin: Any, asking: Pod, world: World) -> dict[str, Verdict] | None:
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


def _verdict_at(judgement: Any, k: int) -> Verdict:
    if judgement is None or not judgement.bits[k]:
        return PASSES
    final = judgement.unresolvable
    told = [reason for i, reason in enumerate(judgement.reasons) if judgement.bits[k] >> i & 1]
    assert len(told) == 1
    is_final = bool(final if isinstance(final, bool) else final[k])
    return "unresolvable" if is_final else "unschedulable", told[0]


def scores_of(
    plugin: Any, asking: Pod, world: World, feasible: Sequence[str]
) -> tuple[list[int], list[int]] | None:
    """(raw, normalised), or None when PreScore skips."""
    cycle = Cycle(PodInfo(asking), world.cluster)
    cycle.feasible = np.array([world.cluster.row_of[name] for name in feasible], dtype=np.intp)
    answer = plugin.pre_score(cycle)
    if answer is not None:
        assert answer.code is Code.SKIP
        return None
    raw = plugin.score(cycle, cycle.feasible)
    assert raw.dtype == np.int64
    return raw.tolist(), plugin.normalize(cycle, raw).tolist()


# -- stories ----------------------------------------------------------------------------------------------------------

KEYS = ("zone", "rack", HOSTNAME, ZONE)
NAMESPACES = ("default", "red", "blue")
NODE_NAMES = ("n1", "n2", "n3", "n4", "n5", "n6")
PODS = tuple(f"p{i}" for i in range(12))

few = st.sampled_from
pod_labels = st.fixed_dictionaries(
    {}, optional={"app": few(("web", "db")), "tier": few(("front", "back")), "hash": few(("1", "2"))}
)
node_labels = st.fixed_dictionaries(
    {},
    optional={
        "zone": few(("a", "b", "")),
        "rack": few(("r1", "r2")),
        ZONE: few(("a", "b", "")),
        "disk": few(("ssd", "hdd")),
    },
)
requirements = st.one_of(
    st.fixed_dictionaries(
        {
            "key": few(("app", "tier", "hash")),
            "operator": few(("In", "NotIn")),
            "values": st.lists(few(("web", "db", "front", "1")), min_size=1, max_size=2),
        }
    ),
    st.fixed_dictionaries({"key": few(("app", "tier")), "operator": few(("Exists", "DoesNotExist"))}),
)
selectors = st.one_of(
    st.none(),
    st.just({}),
    pod_labels.map(lambda labels: {"matchLabels": labels}),
    st.lists(requirements, min_size=1, max_size=2).map(lambda found: {"matchExpressions": found}),
)
namespace_selectors = st.one_of(
    st.none(),
    st.just({}),
    st.just({"matchLabels": {"team": "x"}}),
    st.just({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["x"]}]}),
    st.just({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}),
)


def without_none(doc: Doc) -> Doc:
    return {key: value for key, value in doc.items() if value is not None}


terms = st.fixed_dictionaries(
    {
        "topologyKey": few(KEYS),
        "labelSelector": selectors,
        "namespaces": st.lists(few(NAMESPACES), max_size=2),
        "namespaceSelector": namespace_selectors,
    }
).map(without_none)
wishes = st.fixed_dictionaries({"weight": st.integers(1, 100), "podAffinityTerm": terms})
affinities = st.fixed_dictionaries(
    {},
    optional={
        "requiredDuringSchedulingIgnoredDuringExecution": st.lists(terms, max_size=2),
        "preferredDuringSchedulingIgnoredDuringExecution": st.lists(wishes, max_size=2),
    },
)
pod_terms = st.one_of(
    st.just({}), st.fixed_dictionaries({}, optional={"podAffinity": affinities, "podAntiAffinity": affinities})
)
node_terms = st.one_of(
    st.just({}),
    st.just({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
    ]}}}),
)  # fmt: skip
spreads = st.fixed_dictionaries(
    {
        "maxSkew": st.integers(1, 3),
        "topologyKey": few(KEYS),
        "whenUnsatisfiable": few(("DoNotSchedule", "ScheduleAnyway")),
        "labelSelector": selectors,
        "matchLabelKeys": few((None, ["hash"], ["hash", "missing"])),
        "minDomains": few((None, None, 2, 3)),
        "nodeAffinityPolicy": few((None, "Honor", "Ignore")),
        "nodeTaintsPolicy": few((None, "Honor", "Ignore")),
    }
).map(without_none)
tolerations = few(([], [{"key": "dedicated", "operator": "Exists"}]))


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    name = draw(few(NODE_NAMES))
    # Hostnames may be shared or, with an unknown taint, not matter: a label is only a label.
    host = {HOSTNAME: draw(few((name, name, "shared")))}
    return node(name, labels={**draw(node_labels), **host}, taints=draw(few(((), (), ("dedicated=db:NoSchedule",)))))


@st.composite
def unlabelled_nodes(draw: st.DrawFn) -> Node:
    made = node(draw(few(NODE_NAMES)))
    return type(made)(metadata=type(made.metadata)(name=made.name, uid=made.uid), spec=made.spec, status=made.status)


@st.composite
def pods(draw: st.DrawFn, *, placed: bool) -> Pod:
    terminating = placed and draw(few((False, False, False, True)))
    return pod(
        draw(few(PODS)) if placed else "asking",
        namespace=draw(few(NAMESPACES)),
        labels=draw(pod_labels),
        on=draw(few(NODE_NAMES)) if placed else "",
        node_selector={} if placed else draw(few(({}, {}, {"disk": "ssd"}))),
        tolerations=draw(tolerations),
        metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"} if terminating else None,
        spec={
            "affinity": {**draw(pod_terms), **({} if placed else draw(node_terms))},
            "topologySpreadConstraints": [] if placed else draw(st.lists(spreads, max_size=3)),
        },
    )


changes = st.one_of(
    nodes().map(lambda made: ("node", made)),
    unlabelled_nodes().map(lambda made: ("node", made)),
    pods(placed=True).map(lambda made: ("pod", made)),
    pods(placed=True).map(lambda made: ("pod", made)),
    few(NODE_NAMES).map(lambda name: ("no node", name)),
    few(PODS).flatmap(lambda name: few(NAMESPACES).map(lambda space: ("no pod", f"{space}-{name}"))),
    st.tuples(few(NAMESPACES), few(({}, {"team": "x"}, {"team": "y"}))).map(lambda pair: ("namespace", pair)),
)
questions = pods(placed=False).map(lambda made: ("ask", made))
stories = st.tuples(
    st.lists(nodes().map(lambda made: ("node", made)), min_size=2, max_size=6),
    st.lists(pods(placed=True).map(lambda made: ("pod", made)), max_size=8),
    st.lists(st.one_of(changes, questions), max_size=12),
    st.lists(questions, min_size=1, max_size=2),
).map(lambda parts: [step for part in parts for step in part])


def take(step: tuple[str, Any], world: World) -> None:
    match step:
        case ("node", made):
            world.put_node(made)
        case ("pod", made):
            world.put_pod(made)
        case ("no node", name):
            world.drop_node(name)
        case ("no pod", uid):
            world.drop_pod(uid)
        case ("namespace", (name, labels)):
            world.cluster.namespaces[name] = labels


def some_of(world: World, choice: int) -> list[str]:
    """A subset of the nodes, for Score is asked about feasible ones; never none."""
    names = sorted(world.nodes)
    chosen = [name for i, name in enumerate(names) if choice >> i & 1]
    return chosen or names


# -- the properties ---------------------------------------------------------------------------------------------------

LISTED = (
    TopologySpreadConstraint(max_skew=1, topology_key="zone", when_unsatisfiable="DoNotSchedule"),
    TopologySpreadConstraint(max_skew=2, topology_key="rack", when_unsatisfiable="ScheduleAnyway"),
)


@pytest.mark.parametrize("defaulting", ["System", "List"])
@given(story=stories, choice=st.integers(0, 63), max_tallies=few((1, 2, 512)))
@settings(max_examples=150, deadline=None)
def test_spreading_equals_its_scalar_twin(
    defaulting: str, story: list[tuple[str, Any]], choice: int, max_tallies: int
) -> None:
    world = World()
    world.cluster.workloads.put_service("default", "web", {"app": "web"})
    world.cluster.workloads.put_service("default", "front", {"tier": "front"})
    is_system = defaulting == "System"
    plugin = PodTopologySpread(
        None if is_system else PodTopologySpreadArgs(default_constraints=LISTED, defaulting_type="List")
    )
    system = (
        TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable="ScheduleAnyway"),
        TopologySpreadConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable="ScheduleAnyway"),
    )
    twin = SpreadTwin(world, system if is_system else LISTED, is_system)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(residents, "MAX_TALLIES", max_tallies)  # a forgotten selector is counted anew
        for step in story:
            take(step, world)
            if step[0] == "ask" and world.nodes:
                asking = step[1]
                assert verdicts_of(plugin, asking, world) == twin.verdicts(asking)
                feasible = some_of(world, choice)
                assert scores_of(plugin, asking, world, feasible) == twin.scores(asking, feasible)


@given(
    story=stories,
    choice=st.integers(0, 63),
    hard_weight=few((0, 1, 40)),
    ignores=st.booleans(),
    max_tallies=few((1, 2, 512)),
)
@settings(max_examples=250, deadline=None)
def test_pod_affinity_equals_its_scalar_twin(
    story: list[tuple[str, Any]], choice: int, hard_weight: int, ignores: bool, max_tallies: int
) -> None:
    world = World()
    args = InterPodAffinityArgs(hard_pod_affinity_weight=hard_weight, ignore_preferred_terms_of_existing_pods=ignores)
    plugin, twin = InterPodAffinity(args), AffinityTwin(world, args)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(residents, "MAX_TALLIES", max_tallies)
        for step in story:
            take(step, world)
            if step[0] == "ask" and world.nodes:
                asking = step[1]
                expected = twin.verdicts(asking)
                found = verdicts_of(plugin, asking, world)
                # Skipping means that every node passes.
                assert (found if found is not None else dict.fromkeys(world.nodes, PASSES)) == expected
                feasible = some_of(world, choice)
                assert scores_of(plugin, asking, world, feasible) == twin.scores(asking, feasible)
