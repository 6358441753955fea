"""PodTopologySpread: what it refuses, what it costs, when it keeps quiet, and what wakes the pods it turned away.

Sums against a real scheduler stand in tests/parity, random clusters in tests/properties.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tonnage.objects.core_v1 import Node, Pod, TopologySpreadConstraint
from tonnage.objects.selectors import LabelSelector
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.plugin_args import PodTopologySpreadArgs
from tonnage.scheduling.decision.scheduling_cycle import Decider, Pipeline
from tonnage.scheduling.events import QUEUE, ActionType, ClusterEvent, EventResource, Hint
from tonnage.scheduling.events import SKIP as QUEUE_SKIP
from tonnage.scheduling.framework import SKIP, Code, Cycle, Status
from tonnage.scheduling.plugins.pod_topology_spread import PodTopologySpread
from tonnage.scheduling.spread.constraints import SpreadRules
from tonnage.testing.builders import cluster_of, info, node, pod

Doc = dict[str, Any]
WEB: Doc = {"matchLabels": {"app": "web"}}
CROWDED = "node(s) didn't match pod topology spread constraints"
UNLABELLED = "node(s) didn't match pod topology spread constraints (missing required label)"
ZONES = PodTopologySpreadArgs(
    defaulting_type="List",
    default_constraints=(
        TopologySpreadConstraint(max_skew=1, topology_key="zone", when_unsatisfiable="DoNotSchedule"),
    ),
)


def spread(key: str = "zone", when: str = "DoNotSchedule", selector: Doc | None = WEB, **more: Any) -> Doc:
    found = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, **more}
    return found if selector is None else {**found, "labelSelector": selector}


def asking(*constraints: Doc, labels: dict[str, str] | None = None, **options: Any) -> PodInfo:
    spec = {"topologySpreadConstraints": list(constraints)}
    return info("asking", labels={"app": "web"} if labels is None else labels, spec=spec, **options)


def verdicts(plugin: PodTopologySpread, pod_info: PodInfo, cluster: Cluster) -> dict[str, str]:
    """Reasons of the refused nodes; those that preemption cannot help end in an exclamation mark."""
    cycle = Cycle(pod_info, cluster)
    assert plugin.pre_filter(cycle) is None
    judgement = plugin.filter(cycle, cluster.all_rows)
    if judgement is None:
        return {}
    final = np.broadcast_to(judgement.unresolvable, judgement.bits.shape)
    return {
        cluster.name(row): judgement.reasons[int(bits).bit_length() - 1] + ("!" if final[row] else "")
        for row, bits in enumerate(judgement.bits.tolist())
        if bits
    }


def two_zones(*more: Node | Pod) -> Cluster:
    return cluster_of(node("a", labels={"zone": "z1"}), node("b", labels={"zone": "z2"}), node("c"), *more)


# -- filtering --------------------------------------------------------------------------------------------------------


def test_a_crowded_zone_may_be_helped_by_preemption_and_a_missing_label_may_not() -> None:
    cluster = two_zones(pod("p", on="a", labels={"app": "web"}))
    # z1: 1 + 1 - 0 = 2 > 1.  z2: 0 + 1 - 0 = 1.
    assert verdicts(PodTopologySpread(), asking(spread()), cluster) == {"a": CROWDED, "c": f"{UNLABELLED}!"}


def test_a_key_that_no_node_ever_had_refuses_all_of_them() -> None:
    found = verdicts(PodTopologySpread(), asking(spread(key="planet")), two_zones())
    assert found == dict.fromkeys(("a", "b", "c"), f"{UNLABELLED}!")


def test_when_everybody_passes_there_is_no_judgement() -> None:
    cluster = cluster_of(node("a", labels={"zone": "z1"}))
    cycle = Cycle(asking(spread()), cluster)
    plugin = PodTopologySpread()
    assert plugin.pre_filter(cycle) is None
    assert plugin.filter(cycle, cluster.all_rows) is None


def test_pods_with_nothing_to_judge_are_skipped() -> None:
    plugin, cluster = PodTopologySpread(), two_zones()
    assert plugin.pre_filter(Cycle(info("plain"), cluster)) is SKIP
    assert plugin.pre_filter(Cycle(asking(spread(when="ScheduleAnyway")), cluster)) is SKIP
    assert plugin.pre_score(Cycle(info("plain"), cluster)) is SKIP
    assert plugin.pre_score(Cycle(asking(spread()), cluster)) is SKIP


def test_a_constraint_of_its_own_shields_a_pod_from_the_defaults() -> None:
    cluster = two_zones(pod("p", on="a", labels={"app": "web"}))
    cluster.workloads.put("Service", "default/web", {"app": "web"})
    plugin = PodTopologySpread(ZONES)
    assert verdicts(plugin, asking(), cluster) == {"a": CROWDED, "c": f"{UNLABELLED}!"}
    assert plugin.pre_filter(Cycle(asking(spread(when="ScheduleAnyway")), cluster)) is SKIP


def test_defaults_follow_the_workloads_as_they_come_and_go() -> None:
    cluster = two_zones(pod("p", on="a", labels={"app": "web"}))
    plugin = PodTopologySpread(ZONES)
    assert plugin.pre_filter(Cycle(asking(), cluster)) is SKIP
    cluster.workloads.put("Service", "default/web", {"app": "web"})
    assert verdicts(plugin, asking(), cluster)["a"] == CROWDED
    cluster.workloads.put("Service", "default/web", {"app": "db"})
    assert plugin.pre_filter(Cycle(asking(), cluster)) is SKIP
    # Another cluster whose workloads changed as often is another cluster.
    other = two_zones(pod("p", on="a", labels={"app": "web"}))
    other.workloads.put("Service", "default/x", {"app": "x"})
    other.workloads.put("Service", "default/web", {"app": "web"})
    assert verdicts(plugin, asking(), other)["a"] == CROWDED


def test_an_owner_selects_for_the_defaults() -> None:
    cluster = two_zones(pod("p", on="a", labels={"app": "web"}))
    cluster.workloads.put("StatefulSet", "default/web", LabelSelector.parse("app in (web)"))
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "1", "controller": True}
    owned = asking(metadata={"ownerReferences": [owner]})
    assert verdicts(PodTopologySpread(ZONES), owned, cluster)["a"] == CROWDED


def test_a_selector_that_makes_no_sense_is_an_error_of_the_attempt() -> None:
    nonsense = {"matchExpressions": [{"key": "app", "operator": "Likes", "values": ["web"]}]}
    answer = PodTopologySpread().pre_filter(Cycle(asking(spread(selector=nonsense)), two_zones()))
    assert answer == Status(Code.ERROR, ('get constraints from pod: "Likes" is not a valid label selector operator',))


def test_a_nominated_pod_is_counted_in_for_its_node_and_then_forgotten() -> None:
    cluster = cluster_of(
        node("a", labels={"zone": "z1"}), node("b", labels={"zone": "z1"}), node("c", labels={"zone": "z2"})
    )
    plugin = PodTopologySpread()
    decider = Decider(Pipeline(pre_filter=(plugin,), filter=(plugin,)), random.Random(1))
    guest = info("guest", labels={"app": "web"})
    # With the guest on a, z1 has 1 and z2 none: 1 + 1 - 0 = 2 > 1, for a alone.
    decision = decider.decide(cluster, asking(spread()), [("a", guest)], diagnose=True)
    assert decision.diagnosis is not None
    assert decision.diagnosis.counts() == {CROWDED: 1}
    assert decider.decide(cluster, asking(spread())).feasible == 3


# -- scoring ----------------------------------------------------------------------------------------------------------


def scores(plugin: PodTopologySpread, pod_info: PodInfo, cluster: Cluster) -> tuple[list[int], list[int]]:
    cycle = Cycle(pod_info, cluster)
    cycle.feasible = np.arange(cluster.size)
    assert plugin.pre_score(cycle) is None
    raw = plugin.score(cycle, cycle.feasible)
    return raw.tolist(), plugin.normalize(cycle, raw).tolist()


def test_scores_are_rounded_half_away_from_zero_before_they_are_turned_round() -> None:
    cluster = two_zones(pod("p", on="a", labels={"app": "web"}), pod("q", on="a", labels={"app": "web"}))
    # z1: 2 * ln 4 = 2.77 -> 3.  z2: 0.  c has no zone.  100 * (3 + 0 - s) // 3.
    assert scores(PodTopologySpread(), asking(spread(when="ScheduleAnyway")), cluster) == ([3, 0, 0], [0, 100, 0])


def test_nodes_that_all_lack_a_key_score_0() -> None:
    soft = asking(spread(key="planet", when="ScheduleAnyway"))
    assert scores(PodTopologySpread(), soft, two_zones()) == ([0, 0, 0], [0, 0, 0])


def test_the_system_defaults_want_a_workload_that_selects_the_pod() -> None:
    cluster = two_zones()
    assert PodTopologySpread().pre_score(Cycle(asking(), cluster)) is SKIP
    cluster.workloads.put("Service", "default/web", {"app": "web"})
    # Nobody is there: hosts cost skew 3 - 1 = 2; no node has a zone of the well-known key. All alike: 100 * 2 // 2.
    assert scores(PodTopologySpread(), asking(), cluster) == ([2, 2, 2], [100, 100, 100])


# -- queueing hints ---------------------------------------------------------------------------------------------------

FOO: Doc = {"matchExpressions": [{"key": "foo", "operator": "Exists"}]}
BAR: Doc = {"matchExpressions": [{"key": "bar", "operator": "Exists"}]}
EVENT = ClusterEvent(EventResource.POD, ActionType.UPDATE)


def waiting(*constraints: Doc, **options: Any) -> PodInfo:
    return info("p", labels={"foo": ""}, spec={"topologySpreadConstraints": list(constraints)}, **options)


def other(at: str = "n", nominated: str = "", namespace: str = "default", **labels: str) -> Pod:
    return pod("p2", on=at, namespace=namespace, labels=labels, status={"nominatedNodeName": nominated})


ZONE_FOO = waiting(spread(selector=FOO))
BOTH = waiting(spread(selector=FOO), spread(key="node", selector=BAR))


PODS_CHANGES: dict[str, tuple[PodInfo, Pod | None, Pod | None, Hint]] = {
    "a pod comes that matches": (ZONE_FOO, None, other(foo=""), QUEUE),
    "it has no node": (ZONE_FOO, None, other(at="", foo=""), QUEUE_SKIP),
    "it is of another namespace": (ZONE_FOO, None, other(namespace="x", foo=""), QUEUE_SKIP),
    "it does not match": (ZONE_FOO, None, other(bar=""), QUEUE_SKIP),
    "a pod without a node changes": (ZONE_FOO, other(at="", bar=""), other(at="", foo=""), QUEUE_SKIP),
    "a pod goes that matched": (ZONE_FOO, other(foo=""), None, QUEUE),
    "a nominated one goes that matched": (ZONE_FOO, other(at="", nominated="n", foo=""), None, QUEUE),
    "a nominated one goes that did not": (ZONE_FOO, other(at="", nominated="n", bar=""), None, QUEUE_SKIP),
    "one without a node goes": (ZONE_FOO, other(at="", foo=""), None, QUEUE_SKIP),
    "one goes that did not match": (ZONE_FOO, other(bar=""), None, QUEUE_SKIP),
    "another label changes": (ZONE_FOO, other(foo="", bar="1"), other(foo="", bar="2"), QUEUE_SKIP),
    "it matches now": (ZONE_FOO, other(), other(foo=""), QUEUE),
    "it no longer matches": (ZONE_FOO, other(foo=""), other(), QUEUE),
    "it matches as before": (ZONE_FOO, other(foo="1"), other(foo="2"), QUEUE_SKIP),
    "it matches a second constraint now": (BOTH, other(foo=""), other(foo="", bar=""), QUEUE),
    "it matches neither more nor less": (BOTH, other(foo=""), other(foo="", baz=""), QUEUE_SKIP),
    "the pod itself gets a matching label": (BOTH, pod("p"), pod("p", labels={"foo": ""}), QUEUE),
    "the pod itself gets another label": (BOTH, pod("p"), pod("p", labels={"x": ""}), QUEUE_SKIP),
}


@pytest.mark.parametrize(("pod_info", "old", "new", "hint"), PODS_CHANGES.values(), ids=PODS_CHANGES.keys())
def test_changes_of_pods_wake_as_upstream_has_it(
    pod_info: PodInfo, old: Pod | None, new: Pod | None, hint: Hint
) -> None:
    assert PodTopologySpread().after_pod_change(pod_info, EVENT, old, new) is hint


@pytest.mark.parametrize(("policy", "hint"), [("Honor", QUEUE), ("Ignore", QUEUE_SKIP)])
def test_a_new_toleration_wakes_a_pod_whose_constraint_honors_taints(policy: str, hint: Hint) -> None:
    held = waiting(spread(selector=FOO, nodeTaintsPolicy=policy))
    old, new = pod("p", labels={"foo": ""}), pod("p", labels={"foo": ""}, tolerations=[{"operator": "Exists"}])
    assert PodTopologySpread().after_pod_change(held, EVENT, old, new) is hint


def test_under_hard_defaults_every_change_of_the_namespace_wakes() -> None:
    plugin, held = PodTopologySpread(ZONES), info("p", labels={"foo": ""})
    assert plugin.after_pod_change(held, EVENT, None, other(bar="")) is QUEUE
    assert plugin.after_pod_change(held, EVENT, other(bar=""), other(bar="")) is QUEUE_SKIP
    assert plugin.after_pod_change(held, EVENT, None, other(namespace="x")) is QUEUE_SKIP


def bare(taints: tuple[str, ...] = (), **labels: str) -> Node:
    return node("n", labels=labels, taints=taints)


ZONE_NODE = waiting(spread(selector=FOO), spread(key="node", selector=FOO))


NODES_CHANGES: dict[str, tuple[PodInfo, Node | None, Node | None, Hint]] = {
    "it moves to another zone": (ZONE_FOO, bare(zone="1"), bare(zone="2"), QUEUE),
    "another label changes": (ZONE_FOO, bare(foo="1"), bare(foo="2"), QUEUE_SKIP),
    "another label goes": (ZONE_NODE, bare(zone="1", node="1", foo=""), bare(zone="1", node="1"), QUEUE_SKIP),
    "a node without the key comes": (ZONE_FOO, None, bare(foo="1"), QUEUE_SKIP),
    "a node with the key comes": (ZONE_FOO, None, bare(zone="1"), QUEUE),
    "a node without the key goes": (ZONE_FOO, bare(foo="1"), None, QUEUE_SKIP),
    "a node with the key goes": (ZONE_FOO, bare(zone="1"), None, QUEUE),
    "one with only one of the keys comes": (ZONE_NODE, None, bare(zone="1"), QUEUE_SKIP),
    "one with all keys comes": (ZONE_NODE, None, bare(zone="1", node="1"), QUEUE),
    "one with only one of the keys stays so": (ZONE_NODE, bare(zone="1"), bare(zone="1"), QUEUE_SKIP),
    "one of its domains changes": (ZONE_NODE, bare(zone="1", node="1"), bare(zone="1", node="2"), QUEUE),
    "it gets the missing key": (ZONE_NODE, bare(zone="1"), bare(zone="1", node="2"), QUEUE),
    "its taints change": (ZONE_FOO, bare(("a:NoSchedule",), zone="1"), bare(("b:NoSchedule",), zone="1"), QUEUE),
    "taints of one without the key": (ZONE_FOO, bare(("a:NoSchedule",)), bare(("b:NoSchedule",)), QUEUE_SKIP),
}


@pytest.mark.parametrize(("pod_info", "old", "new", "hint"), NODES_CHANGES.values(), ids=NODES_CHANGES.keys())
def test_changes_of_nodes_wake_as_upstream_has_it(
    pod_info: PodInfo, old: Node | None, new: Node | None, hint: Hint
) -> None:
    assert PodTopologySpread().after_node_change(pod_info, EVENT, old, new) is hint


@pytest.mark.parametrize(("policy", "hint"), [("Honor", QUEUE), ("Ignore", QUEUE_SKIP)])
def test_a_node_that_stops_being_asked_for_leaves_its_domain(policy: str, hint: Hint) -> None:
    held = waiting(spread(selector=FOO, nodeAffinityPolicy=policy), node_selector={"disk": "ssd"})
    old, new = bare(zone="1", disk="ssd"), bare(zone="1", disk="hdd")
    assert PodTopologySpread().after_node_change(held, EVENT, old, new) is hint


def test_it_registers_for_the_events_upstream_registers_for() -> None:
    masks = [mask for mask, _ in PodTopologySpread().events()]
    assert masks == [
        ClusterEvent(
            EventResource.POD,
            ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_TOLERATION | ActionType.DELETE,
        ),
        ClusterEvent(
            EventResource.NODE,
            ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT,
        ),
    ]


def test_pods_that_the_same_selects_are_held_to_the_same_whatever_labels_they_have_besides() -> None:
    rules = SpreadRules(None)
    cluster = cluster_of(node("a", labels={"zone": "a"}))
    cluster.workloads.put("Service", "default/web", {"app": "web"})
    first, second = (
        rules.constraints(info(f"web-{number}", labels={"app": "web", "index": str(number)}), cluster.workloads)
        for number in range(2)
    )
    assert first.soft and second == first
    cluster.workloads.put("Service", "default/web", {"app": "web", "index": "1"})
    assert rules.constraints(info("web-1", labels={"app": "web", "index": "1"}), cluster.workloads).soft != first.soft


def test_keys_that_no_node_has_cost_nobody_anything() -> None:
    plugin, cluster = PodTopologySpread(), cluster_of(node("a"), node("b"))
    cycle = Cycle(asking(spread("rack", "ScheduleAnyway")), cluster)
    cycle.passing = np.ones(2, dtype=np.bool_)
    assert plugin.pre_score(cycle) is None
    scores = plugin.score(cycle, cluster.all_rows)
    assert scores.tolist() == [0, 0]
    assert plugin.normalize(cycle, scores).tolist() == [0, 0]  # both lack the key that the pod names itself
