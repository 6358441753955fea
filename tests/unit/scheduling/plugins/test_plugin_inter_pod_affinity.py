"""InterPodAffinity: whom it keeps together and apart, what it likes, when it keeps quiet, and whom it wakes.

Sums against a real scheduler stand in tests/parity, random clusters in tests/properties.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tonnage.objects.core_v1 import Node, Pod
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.decision.scheduling_cycle import Decider, Pipeline
from tonnage.scheduling.events import QUEUE, ActionType, ClusterEvent, EventResource, Hint
from tonnage.scheduling.events import SKIP as QUEUE_SKIP
from tonnage.scheduling.framework import SKIP, Cycle, unresolvable
from tonnage.scheduling.plugins.inter_pod_affinity import InterPodAffinity, after_node_change, after_pod_change
from tonnage.testing.builders import cluster_of, info, node, pod

Doc = dict[str, Any]
LONELY = "node(s) didn't match pod affinity rules"
REPELLED = "node(s) didn't match pod anti-affinity rules"
REPELLING = "node(s) didn't satisfy existing pods anti-affinity rules"


def term(app: str = "web", key: str = "zone", **more: Any) -> Doc:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}


def near(*terms: Doc) -> Doc:
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def apart(*terms: Doc) -> Doc:
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def likes(weight: int, wanted: Doc) -> Doc:
    wish = {"weight": weight, "podAffinityTerm": wanted}
    return {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}}


def three_zones(*more: Node | Pod) -> Cluster:
    return cluster_of(*(node(name, labels={"zone": f"z-{name}"}) for name in "abc"), *more)


def verdicts(pod_info: PodInfo, cluster: Cluster) -> dict[str, str]:
    """Reasons of the refused nodes; those that preemption cannot help end in an exclamation mark."""
    plugin, cycle = InterPodAffinity(), Cycle(pod_info, cluster)
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


# -- filtering --------------------------------------------------------------------------------------------------------


def test_company_cannot_be_had_by_preemption_and_distance_can() -> None:
    cluster = three_zones(pod("p", on="a", labels={"app": "db"}), pod("q", on="b", labels={"app": "web"}))
    assert verdicts(info("x", spec=near(term("db"))), cluster) == {"b": f"{LONELY}!", "c": f"{LONELY}!"}
    assert verdicts(info("x", spec=apart(term("web"))), cluster) == {"b": REPELLED}


def test_residents_keep_off_whom_they_do_not_want() -> None:
    cluster = three_zones(pod("p", on="a", labels={"app": "db"}, spec=apart(term("web"))))
    assert verdicts(info("x", labels={"app": "web"}), cluster) == {"a": REPELLING}


def test_pods_that_concern_nobody_are_skipped() -> None:
    plugin = InterPodAffinity()
    cluster = three_zones(pod("p", on="a", spec={**apart(term("web"))}))
    assert plugin.pre_filter(Cycle(info("x", labels={"app": "db"}), cluster)) is SKIP
    assert plugin.pre_score(Cycle(info("x", labels={"app": "db"}), cluster)) is SKIP
    assert plugin.pre_filter(Cycle(info("x", labels={"app": "web"}, namespace="red"), cluster)) is SKIP


def test_a_pod_that_comes_or_goes_is_seen_at_once() -> None:
    cluster, asking = three_zones(), info("x", labels={"app": "web"}, spec=apart(term("web")))
    assert verdicts(asking, cluster) == {}
    cluster.put_pod(info("p", labels={"app": "web"}), "b")
    assert verdicts(asking, cluster) == {"b": REPELLED}
    cluster.put_node(node("b", labels={"zone": "z-c"}))  # the node moves to c's zone, and its pod with it
    assert verdicts(asking, cluster) == {"b": REPELLED, "c": REPELLED}
    cluster.remove_pod("default-p")
    assert verdicts(asking, cluster) == {}


def test_a_namespace_that_is_labelled_later_is_chosen_from_then_on() -> None:
    cluster = three_zones(pod("p", on="a", namespace="red", labels={"app": "web"}))
    chosen = term("web", namespaceSelector={"matchLabels": {"team": "x"}})
    cluster.namespaces["red"] = {}
    assert verdicts(info("x", spec=apart(chosen)), cluster) == {}
    cluster.namespaces["red"] = {"team": "x"}
    assert verdicts(info("x", spec=apart(chosen)), cluster) == {"a": REPELLED}


def test_a_nominated_pod_counts_for_its_node_and_leaves_no_trace() -> None:
    cluster, plugin = three_zones(), InterPodAffinity()
    decider = Decider(Pipeline(pre_filter=(plugin,), filter=(plugin,)), random.Random(1))
    guest = info("guest", spec=apart(term("web")))
    decision = decider.decide(cluster, info("x", labels={"app": "web"}), [("a", guest)], diagnose=True)
    assert decision.diagnosis is not None
    assert decision.diagnosis.counts() == {REPELLING: 1}
    assert plugin.pre_filter(Cycle(info("x", labels={"app": "web"}), cluster)) is SKIP


def test_terms_that_make_no_sense_refuse_the_pod_and_are_ignored_in_residents() -> None:
    nonsense: Doc = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Likes"}]}}
    cluster = three_zones(pod("p", on="a", spec=apart(nonsense, term("web"))))
    plugin = InterPodAffinity()
    assert plugin.pre_filter(Cycle(info("x", labels={"app": "web"}), cluster)) is SKIP
    assert plugin.pre_filter(Cycle(info("x", spec=apart(nonsense)), cluster)) == unresolvable(
        'parsing pod: requiredAntiAffinityTerms: "Likes" is not a valid label selector operator'
    )


# -- scoring ----------------------------------------------------------------------------------------------------------


def test_a_wish_nobody_can_meet_is_not_scored() -> None:
    cluster = three_zones(pod("p", on="a", labels={"app": "db"}))
    plugin = InterPodAffinity()
    assert plugin.pre_score(Cycle(info("x", spec=likes(10, term("web"))), cluster)) is SKIP
    assert plugin.pre_score(Cycle(info("x", spec=likes(10, term("db", key="rack"))), cluster)) is SKIP


def test_wishes_that_cancel_out_are_scored_all_the_same() -> None:
    plugin = InterPodAffinity()
    wish = {"weight": 5, "podAffinityTerm": term("db")}
    both = {
        "affinity": {
            side: {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}
            for side in ("podAffinity", "podAntiAffinity")
        }
    }
    cluster = three_zones(pod("p", on="a", labels={"app": "db"}))
    cycle = Cycle(info("x", spec=both), cluster)
    cycle.feasible = np.arange(3)
    assert plugin.pre_score(cycle) is None
    raw = plugin.score(cycle, cycle.feasible)
    assert (raw.tolist(), plugin.normalize(cycle, raw).tolist()) == ([0, 0, 0], [0, 0, 0])


# -- queueing hints ---------------------------------------------------------------------------------------------------

EVENT = ClusterEvent(EventResource.POD, ActionType.UPDATE)


def service(*values: str, key: str = "region") -> Doc:
    chosen = {"key": "service", "operator": "In", "values": list(values)}
    return {"topologyKey": key, "labelSelector": {"matchExpressions": [chosen]}}


def has(label: str) -> Doc:
    return {"topologyKey": "host", "labelSelector": {"matchExpressions": [{"key": label, "operator": "Exists"}]}}


def other(at: str = "n", nominated: str = "", spec: Doc | None = None, **labels: str) -> Pod:
    return pod("other", on=at, labels=labels, spec=spec, status={"nominatedNodeName": nominated})


NEAR = info("p", spec=near(service("scan", "v2")))
NEAR_BOTH = info("p", spec=near(has("aaa"), has("bbb")))
APART = info("p", spec=apart(service("scan", "v2")))
OFF: Doc = apart(service("scan", "v2"))
PODS_CHANGES: dict[str, tuple[PodInfo, Pod | None, Pod | None, Hint]] = {
    "company comes": (NEAR, None, other(service="scan"), QUEUE),
    "it has no node": (NEAR, None, other(at="", service="scan"), QUEUE_SKIP),
    "it is no company": (NEAR, None, other(aaa="a"), QUEUE_SKIP),
    "it becomes company": (NEAR, other(aaa="a"), other(service="scan"), QUEUE),
    "it was company already": (NEAR, other(service="v2"), other(service="scan"), QUEUE_SKIP),
    "it becomes company without a node": (NEAR, other(at="", a=""), other(at="", service="scan"), QUEUE_SKIP),
    "it is company no longer": (NEAR, other(service="scan"), other(aaa="a"), QUEUE_SKIP),
    "it never matched both terms": (NEAR_BOTH, other(aaa="a"), other(service="scan"), QUEUE_SKIP),
    "it matches both terms now": (NEAR_BOTH, other(aaa="a"), other(aaa="", bbb=""), QUEUE),
    "the pod itself is relabelled": (info("p"), pod("p", labels={"a": "1"}), pod("p", labels={"a": "2"}), QUEUE),
    "it is no longer disliked": (APART, other(service="scan"), other(service="aaa"), QUEUE),
    "it is disliked now": (APART, other(service="bbb"), other(service="scan"), QUEUE_SKIP),
    "somebody goes who was not disliked": (APART, other(aaa="a"), None, QUEUE_SKIP),
    "somebody disliked goes": (APART, other(service="scan"), None, QUEUE),
    "somebody goes who disliked the pod": (info("p", labels={"service": "scan"}), other(spec=OFF), None, QUEUE),
    "somebody goes who disliked others": (info("p", labels={"service": "foo"}), other(spec=OFF), None, QUEUE_SKIP),
    "a nominated one goes who was not disliked": (APART, other(at="", nominated="n", a=""), None, QUEUE_SKIP),
    "a nominated one goes who was": (APART, other(at="", nominated="n", service="scan"), None, QUEUE),
}


@pytest.mark.parametrize(("pod_info", "old", "new", "hint"), PODS_CHANGES.values(), ids=PODS_CHANGES.keys())
def test_changes_of_pods_wake_as_upstream_has_it(
    pod_info: PodInfo, old: Pod | None, new: Pod | None, hint: Hint
) -> None:
    assert after_pod_change(pod_info, EVENT, old, new) is hint


SERIES = info("p", labels={"service": "scan"}, spec=near(service("scan")))
TWO_DISLIKES = info("p", spec=apart(service("scan"), has("aaa")))
CHOOSING = info("p", spec=near(term("db", namespaceSelector={"matchLabels": {"team": "x"}})))
KINDER: dict[str, tuple[PodInfo, Pod | None, Pod | None]] = {
    "the last of a series goes, and the pod may be the first": (SERIES, other(service="scan"), None),
    "the last of a series is relabelled": (SERIES, other(service="scan"), other()),
    "one of two dislikes goes": (TWO_DISLIKES, other(service="scan"), None),
    "company comes in a namespace that may be chosen": (
        CHOOSING,
        None,
        pod("o", on="n", namespace="r", labels={"app": "db"}),
    ),
}


@pytest.mark.parametrize(("pod_info", "old", "new"), KINDER.values(), ids=KINDER.keys())
def test_pods_that_upstream_lets_sleep_are_woken(pod_info: PodInfo, old: Pod | None, new: Pod | None) -> None:
    assert after_pod_change(pod_info, EVENT, old, new) is QUEUE


def bare(**labels: str) -> Node:
    return node("n", labels=labels)


NEAR_ZONE, APART_ZONE = info("p", spec=near(term())), info("p", spec=apart(term()))
NODES_CHANGES: dict[str, tuple[PodInfo, Node | None, Node, Hint]] = {
    "a node with the key comes": (NEAR_ZONE, None, bare(zone="1"), QUEUE),
    "a node without it comes": (NEAR_ZONE, None, bare(rack="1"), QUEUE_SKIP),
    "another label changes": (NEAR_ZONE, bare(aaa="a"), bare(aaa="b"), QUEUE_SKIP),
    "another label comes": (NEAR_ZONE, bare(zone="1"), bare(zone="1", x="x"), QUEUE_SKIP),
    "it moves": (NEAR_ZONE, bare(zone="1"), bare(zone="2"), QUEUE),
    "it gets the key": (NEAR_ZONE, bare(aaa="a"), bare(zone="1"), QUEUE),
    "it loses the key": (NEAR_ZONE, bare(zone="1"), bare(), QUEUE_SKIP),
    "for distance every new node will do": (APART_ZONE, None, bare(zone="1"), QUEUE),
    "also one without the key": (APART_ZONE, None, bare(), QUEUE),
    "another label comes, for distance": (APART_ZONE, bare(zone="1"), bare(zone="1", x="x"), QUEUE_SKIP),
    "it moves, for distance": (APART_ZONE, bare(zone="1"), bare(zone="2"), QUEUE),
    "it gets the key, for distance": (APART_ZONE, bare(), bare(zone="1"), QUEUE_SKIP),
    "it loses the key, for distance": (APART_ZONE, bare(zone="1"), bare(), QUEUE),
}


@pytest.mark.parametrize(("pod_info", "old", "new", "hint"), NODES_CHANGES.values(), ids=NODES_CHANGES.keys())
def test_changes_of_nodes_wake_as_upstream_has_it(pod_info: PodInfo, old: Node | None, new: Node, hint: Hint) -> None:
    assert after_node_change(pod_info, EVENT, old, new) is hint


def test_a_pod_turned_away_for_the_sake_of_residents_is_woken_by_any_node() -> None:
    assert after_node_change(info("p"), EVENT, None, bare()) is QUEUE


def test_it_registers_for_the_events_upstream_registers_for() -> None:
    masks = [mask for mask, _ in InterPodAffinity().events()]
    assert masks == [
        ClusterEvent(EventResource.POD, ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.DELETE),
        ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL),
    ]
