"""DefaultPreemption: who may preempt, who has to go, which node is the cheapest, and what is said when none helps.

Nodes have 4 CPUs unless they say otherwise. The asking pod has priority 100.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from tonnage.objects.codec import convert
from tonnage.objects.meta import Object
from tonnage.objects.small_groups import PodDisruptionBudget
from tonnage.scheduling.cluster.cluster import Cluster, place
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.configuration import default_configuration
from tonnage.scheduling.configuration.plugin_args import DefaultPreemptionArgs
from tonnage.scheduling.decision.scheduling_cycle import Decider, Decision, Pipeline
from tonnage.scheduling.engine.profiles import assemble
from tonnage.scheduling.framework import (
    Code,
    Cycle,
    FilterPlugin,
    Handle,
    PostFilterResult,
    PreFilterPlugin,
    Status,
    unschedulable,
)
from tonnage.scheduling.per_node import NodeFilter, NodeView
from tonnage.scheduling.plugins.node_resources import NodeResourcesFit
from tonnage.scheduling.preemption.preemption import DefaultPreemption
from tonnage.scheduling.preemption.ranked_residents import DisruptionBudgets
from tonnage.testing.builders import cluster_of, info, node, pod
from tonnage.testing.storage_builders import (
    DRIVER,
    capacity,
    claim,
    csi_node,
    driver,
    pod_with,
    storage_class,
    volume,
)

Nominated = Iterable[tuple[str, PodInfo]]
PREEMPTED = {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def asking(cpu: str = "2", **options: Any) -> PodInfo:
    return info("asking", cpu=cpu, **{"priority": 100, **options})


def asked(cluster: Cluster, incoming: PodInfo, nominated: Nominated = ()) -> tuple[Decision, PostFilterResult]:
    """By the default profile."""
    made = assemble(default_configuration().profiles[0], random.Random(1))
    decision = made.decider.decide(cluster, incoming, nominated)
    assert decision.diagnosis is not None
    (plugin,) = made.post_filter
    return decision, plugin.post_filter(decision.cycle, decision.diagnosis)


def post_filtered(cluster: Cluster, incoming: PodInfo | None = None, nominated: Nominated = ()) -> PostFilterResult:
    return asked(cluster, incoming or asking(), nominated)[1]


def names(result: PostFilterResult) -> tuple[str, list[str]]:
    assert result.status.is_success, result.status.message
    return result.nominated_node, [each.pod.name for each in result.victims]


def started(minute: int) -> dict[str, str]:
    return {"startTime": f"2026-01-01T00:{minute:02}:00Z"}


def with_storage(cluster: Cluster, *objects: Object) -> Cluster:
    for each in objects:
        cluster.storage.put(each)
    return cluster


def budget(app: str, allowed: int = 0) -> PodDisruptionBudget:
    doc = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"budget-{app}", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed},
    }
    return convert(PodDisruptionBudget, doc)


# -- who may ----------------------------------------------------------------------------------------------------------


def test_a_pod_that_never_preempts_is_told_so_and_keeps_its_nomination():
    result = post_filtered(
        cluster_of(node("a"), pod("low", cpu="3", on="a")), asking(spec={"preemptionPolicy": "Never"})
    )
    assert result.status.code is Code.UNSCHEDULABLE
    assert result.status.message == "preemption: not eligible due to preemptionPolicy=Never."
    assert not result.nominated_node and not result.withdraws_nomination


def test_while_its_victims_are_on_their_way_out_a_pod_waits():
    dying = pod("dying", cpu="3", on="a", metadata=DELETED, status=PREEMPTED)
    cluster = cluster_of(node("a"), node("b"), dying, pod("low", cpu="3", on="b"))
    result = post_filtered(cluster, asking(status={"nominatedNodeName": "a"}))
    assert result.status.message == "preemption: not eligible due to a terminating pod on the nominated node."
    assert not result.withdraws_nomination


@pytest.mark.parametrize(
    "dying",
    [
        pod("deleted", cpu="3", on="a", metadata=DELETED),
        pod("evicted", cpu="3", on="a", metadata=DELETED, status={"conditions": [
            {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]}),
        pod("doubtful", cpu="3", on="a", metadata=DELETED, status={"conditions": [
            {"type": "DisruptionTarget", "status": "False", "reason": "PreemptionByScheduler"}]}),
        pod("told", cpu="3", on="a", status=PREEMPTED),
    ],
    ids=lambda each: each.name,
)  # fmt: skip
def test_pods_that_go_for_other_reasons_are_not_waited_for(dying: Any):
    cluster = cluster_of(node("a"), node("b"), dying, pod("low", cpu="3", on="b", priority=-1))
    assert names(post_filtered(cluster, asking(status={"nominatedNodeName": "a"}))) == ("b", ["low"])


def test_nobody_is_waited_for_on_a_node_that_has_become_impossible():
    dying = pod("dying", cpu="3", on="a", metadata=DELETED, status=PREEMPTED)
    cluster = cluster_of(node("a", unschedulable=True), node("b"), dying, pod("low", cpu="3", on="b"))
    assert names(post_filtered(cluster, asking(status={"nominatedNodeName": "a"}))) == ("b", ["low"])


# -- who has to go ----------------------------------------------------------------------------------------------------


def test_pods_of_equal_priority_are_no_victims():
    cluster = cluster_of(node("a"), node("b"), pod("equal", cpu="3", on="a", priority=100), pod("low", cpu="3", on="b"))
    assert names(post_filtered(cluster)) == ("b", ["low"])


def test_no_more_go_than_have_to():
    # 4 - 1 - 1 - 1 = 1 free; 2 asked. Without all three: 4. Back come high (3 left), mid (2 left), not low (1 < 2).
    cluster = cluster_of(
        node("a"),
        pod("low", cpu="1", on="a", priority=1),
        pod("mid", cpu="1", on="a", priority=2),
        pod("high", cpu="1", on="a", priority=3),
    )
    assert names(post_filtered(cluster)) == ("a", ["low"])


def test_of_equal_pods_the_one_that_started_last_goes_and_one_that_has_not_started_before_it():
    cluster = cluster_of(
        node("a"),
        pod("new", cpu="1", on="a", status=started(30)),
        pod("old", cpu="1", on="a", status=started(10)),
        pod("waiting", cpu="1", on="a"),
    )
    assert names(post_filtered(cluster)) == ("a", ["waiting"])
    assert names(post_filtered(cluster, asking("3"))) == ("a", ["new", "waiting"])


def test_when_a_pod_tells_that_it_started_the_next_preemption_knows():
    cluster = cluster_of(
        node("a"),
        pod("x", cpu="2", on="a", priority=5),
        pod("y", cpu="2", on="a", priority=5, status=started(10)),
        node("b"),
        pod("low", cpu="4", on="b"),
    )
    assert names(post_filtered(cluster)) == ("b", ["low"])
    place(cluster, pod("x", cpu="2", on="a", priority=5, status=started(5)))
    cluster.remove_node("b")
    # x is the older now, and comes back first.
    assert names(post_filtered(cluster)) == ("a", ["y"])


def test_a_pod_on_its_way_out_takes_room_until_it_is_gone():
    dying = pod("dying", cpu="3", on="a", metadata=DELETED, priority=1)
    assert names(post_filtered(cluster_of(node("a"), dying, pod("low", cpu="1", on="a")))) == ("a", ["dying"])


def test_room_is_left_for_pods_that_are_expected_there_and_are_not_lesser():
    cluster = cluster_of(node("a"), pod("x", cpu="2", on="a", priority=2), pod("y", cpu="2", on="a", priority=1))
    # 4 - 2 for the guest - 2 asked: nobody can stay.
    assert names(post_filtered(cluster, nominated=[("a", info("guest", cpu="2", priority=100))])) == ("a", ["x", "y"])
    assert names(post_filtered(cluster, nominated=[("a", info("guest", cpu="2", priority=99))])) == ("a", ["y"])


def test_a_guest_that_repels_the_pod_rules_its_node_out():
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    repelling = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    guest = info("guest", priority=100, spec=repelling)
    cluster = cluster_of(node("a"), pod("low", cpu="3", on="a"))
    result = post_filtered(cluster, asking(labels={"app": "web"}), [("a", guest)])
    assert result.status.message == (
        "preemption: 0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules."
    )


def test_pods_that_a_budget_protects_come_back_first_on_each_node_for_itself():
    """On b the protected pod is the second in order, on a the first: both nodes' answers stand side by side."""
    cluster = cluster_of(
        node("a"),
        pod("a-kept", cpu="2", on="a", labels={"app": "web"}, priority=2),
        pod("a-goes", cpu="2", on="a", priority=1),
        node("b"),
        pod("b-goes", cpu="2", on="b", priority=2),
        pod("b-kept", cpu="2", on="b", labels={"app": "web"}, priority=1),
    )
    cluster.index(DisruptionBudgets).put(budget("web"))
    assert names(post_filtered(cluster)) == ("a", ["a-goes"])
    cluster.remove_node("a")
    assert names(post_filtered(cluster)) == ("b", ["b-goes"])


def test_who_violates_a_budget_on_one_node_and_who_does_not_on_another_are_both_victims():
    cluster = cluster_of(
        node("a"),
        pod("a-web", cpu="4", on="a", labels={"app": "web"}, priority=1),
        node("b"),
        pod("b-bare", cpu="2", on="b", priority=9),
        pod("b-web", cpu="2", on="b", labels={"app": "web"}, priority=3),
    )
    cluster.index(DisruptionBudgets).put(budget("web"))
    # One violation on either; the dearest of a is 1, of b 9.
    result = post_filtered(cluster, asking("3"))
    assert (names(result), result.budget_violations) == (("a", ["a-web"]), 1)


def test_a_budget_is_violated_rather_than_the_pod_not_helped():
    cluster = cluster_of(node("a"), *(pod(f"web-{n}", cpu="2", on="a", labels={"app": "web"}) for n in range(2)))
    cluster.index(DisruptionBudgets).put(budget("web", allowed=1))
    # web-0 uses the budget up, web-1 violates it and comes back first; web-0 goes, and the budget is kept.
    result = post_filtered(cluster)
    assert (names(result), result.budget_violations) == (("a", ["web-0"]), 0)
    result = post_filtered(cluster, asking("3"))
    assert (names(result), result.budget_violations) == (("a", ["web-0", "web-1"]), 1)


def test_the_newest_state_of_a_victim_is_told_of():
    cluster = cluster_of(node("a"), pod("low", cpu="3", on="a"))
    post_filtered(cluster)
    place(cluster, pod("low", cpu="3", on="a", status={"phase": "Running", "podIP": "10.0.0.1"}))
    (victim,) = post_filtered(cluster).victims
    assert victim.pod.status.pod_ip == "10.0.0.1"


# -- which node -------------------------------------------------------------------------------------------------------


def test_fewer_violations_weigh_more_than_a_lesser_victim():
    cluster = cluster_of(
        node("a"),
        pod("web", cpu="3", on="a", labels={"app": "web"}, priority=1),
        node("b"),
        pod("bare", cpu="3", on="b", priority=2),
    )
    cluster.index(DisruptionBudgets).put(budget("web"))
    assert names(post_filtered(cluster)) == ("b", ["bare"])


def test_the_node_whose_dearest_victim_is_least_is_taken_even_if_more_go():
    # a: one of 2.  b: two of 1.
    cluster = cluster_of(
        node("a"),
        pod("a1", cpu="4", on="a", priority=2),
        node("b"),
        pod("b1", cpu="2", on="b", priority=1),
        pod("b2", cpu="2", on="b", priority=1),
    )
    assert names(post_filtered(cluster, asking("3"))) == ("b", ["b1", "b2"])


def test_then_the_smallest_sum_counted_from_the_lowest_priority_there_is():
    # As plain sums: a -1 - 10 = -11, b -1. Counted from -2^31: a two pods, b one pod.
    cluster = cluster_of(
        node("a"),
        pod("a1", cpu="2", on="a", priority=-1),
        pod("a2", cpu="2", on="a", priority=-10),
        node("b"),
        pod("b1", cpu="4", on="b", priority=-1),
    )
    assert names(post_filtered(cluster, asking("3"))) == ("b", ["b1"])


def test_then_the_latest_start_of_the_dearest_victims_and_then_the_first_row():
    cluster = cluster_of(
        node("a"),
        pod("a1", cpu="4", on="a", status=started(10)),
        node("b"),
        pod("b1", cpu="4", on="b", status=started(20)),
        node("c"),
        pod("c1", cpu="4", on="c", status=started(20)),
    )
    assert names(post_filtered(cluster)) == ("b", ["b1"])


def test_a_node_that_is_tried_is_compared_with_those_that_sums_decide():
    cluster = cluster_of(
        node("a"),
        pod("a1", cpu="4", on="a", priority=5),
        node("b"),
        pod("b1", cpu="1", on="b", priority=3, host_ports=[80]),
    )
    made = assemble(default_configuration().profiles[0], random.Random(1))
    for pipeline in (made.pipeline, replace(made.pipeline, ports=None)):
        # a by sums: one of 5. b has room, but its port is taken by one of 3; without `ports`, b is tried.
        place(cluster, pod("b1", cpu="1", on="b", priority=3, host_ports=[80]))
        assert names(post_filter_by(pipeline, cluster, asking(host_ports=[80]))) == ("b", ["b1"])
        place(cluster, pod("b1", cpu="1", on="b", priority=6, host_ports=[80]))
        assert names(post_filter_by(pipeline, cluster, asking(host_ports=[80]))) == ("a", ["a1"])


def test_a_pod_with_the_wanted_port_goes_and_others_as_far_as_they_have_to():
    cluster = cluster_of(
        node("a"),
        pod("a1", cpu="1", on="a", priority=9, host_ports=[80]),
        pod("a2", cpu="2", on="a", priority=1),
        pod("a3", cpu="1", on="a", priority=2, host_ports=[81]),
        node("b"),
        pod("b1", cpu="1", on="b", priority=100, host_ports=[80]),
    )
    # a: a1 has the port; without it and a2, which is the least, 3 of 4 CPUs are free. b: its pod is no lesser one.
    assert names(post_filtered(cluster, asking("3", host_ports=[80]))) == ("a", ["a1", "a2"])
    assert names(post_filtered(cluster, asking("1", host_ports=[80]))) == ("a", ["a1"])
    place(cluster, pod("a1", cpu="1", on="a", priority=100, host_ports=[80]))
    told = post_filtered(cluster, asking("3", host_ports=[80])).status.message
    assert told == (
        "preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, "
        "1 node(s) didn't have free ports for the requested pod ports."
    )


# -- volumes ----------------------------------------------------------------------------------------------------------


def bound(*claims: str, modes: tuple[str, ...] = ("ReadWriteOnce",)) -> list[Object]:
    found: list[Object] = [storage_class(), driver()]
    for each in claims:
        found += [volume(f"pv-{each}", claim=f"default/{each}", modes=modes)]
        found += [claim(each, volume=f"pv-{each}", modes=modes)]
    return found


def test_an_attach_slot_is_made_free():
    cluster = cluster_of(
        node("a"), pod_with("x", "cx", on="a", priority=2), pod_with("y", "cy", on="a", priority=1), pod("z", on="a")
    )
    with_storage(cluster, *bound("cx", "cy", "mine"), csi_node("a", {DRIVER: 2}))
    decision, result = asked(cluster, PodInfo(pod_with("asking", "mine", priority=100)))
    assert decision.diagnosis is not None
    assert decision.diagnosis.message() == "0/1 nodes are available: 1 node(s) exceed max volume count."
    # 2 used + 1 new > 2. z has no volume and comes back, x comes back (1 + 1), y does not (2 + 1).
    assert names(result) == ("a", ["y"])


def test_a_claim_for_one_pod_is_given_up_by_a_lesser_one_wherever_that_is():
    cluster = cluster_of(node("a"), node("b"), pod_with("holder", "only", on="a"), pod("other", on="b"))
    with_storage(cluster, *bound("only", modes=("ReadWriteOncePod",)))
    # On b nobody who goes has the claim: it stays taken.
    assert names(post_filtered(cluster, PodInfo(pod_with("asking", "only", priority=100)))) == ("a", ["holder"])
    result = post_filtered(cluster, PodInfo(pod_with("asking", "only", priority=0)))
    assert result.status.message == (
        "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."
    )


def test_a_disk_is_given_up_by_a_lesser_pod():
    disk = {"volumes": [{"name": "d", "awsElasticBlockStore": {"volumeID": "vol-1"}}]}
    cluster = cluster_of(node("a"), pod("holder", on="a", spec=disk), pod("other", on="a"))
    assert names(post_filtered(cluster, asking(spec=disk))) == ("a", ["holder"])


def test_a_pod_whose_volume_is_yet_to_be_made_preempts_where_there_is_storage():
    cluster = cluster_of(
        node("a"), pod("a1", cpu="4", on="a", priority=1), node("b"), pod("b1", cpu="4", on="b", priority=2)
    )
    with_storage(cluster, storage_class(), driver(), claim("data", "10Gi"))
    with_storage(cluster, capacity("fast", "a", "5Gi"), capacity("fast", "b", "20Gi"))
    # a is cheaper and has 5 Gi < 10 Gi: whoever goes, the volume does not fit there.
    incoming = PodInfo(pod_with("asking", "data", cpu="2", priority=100))
    assert names(post_filtered(cluster, incoming)) == ("b", ["b1"])
    cluster.remove_node("b")
    result = post_filtered(cluster, incoming)
    assert result.status.message == ("preemption: 0/1 nodes are available: 1 node(s) did not have enough free storage.")


# -- when nothing helps -----------------------------------------------------------------------------------------------


def test_every_node_is_accounted_for_when_nothing_helps():
    cluster = cluster_of(
        node("cordoned", unschedulable=True),
        node("small", cpu="1"),
        node("equal"),
        pod("equal", cpu="3", on="equal", priority=100),
        node("mixed", pods=2),
        pod("stays-1", cpu="3", on="mixed", priority=100),
        pod("stays-2", on="mixed", priority=100),
        node("mixed-2", pods=2),
        pod("stays-3", cpu="3", on="mixed-2", priority=100),
        pod("goes", on="mixed-2"),
    )
    # mixed-2: without goes there are 4 - 3 = 1 CPU, and a slot.
    result = post_filtered(cluster)
    assert result.status.message == (
        "preemption: 0/5 nodes are available: 1 Insufficient cpu, 2 No preemption victims found for incoming pod,"
        " 2 Preemption is not helpful for scheduling."
    )
    assert result.status.code is Code.UNSCHEDULABLE
    assert result.withdraws_nomination and not result.victims and not result.nominated_node


def test_a_pod_that_prefilter_refuses_for_good_is_helped_nowhere():
    cluster = cluster_of(node("a"), node("b"), pod("low", on="a"))
    decision, result = asked(cluster, PodInfo(pod_with("asking", "nowhere", priority=100)))
    assert decision.diagnosis is not None
    assert decision.diagnosis.message(result.status.message) == (
        '0/2 nodes are available: persistentvolumeclaim "nowhere" not found.'
        " preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    )


# -- plugins of others ------------------------------------------------------------------------------------------------


class Quorum(PreFilterPlugin, FilterPlugin):
    """Somebody's own: at most so many pods in the whole cluster; said in PreFilter, and preemption may help."""

    name = "Quorum"

    def pre_filter(self, cycle: Cycle) -> Status | None:
        return unschedulable("too many pods in all") if sum(1 for _ in cycle.cluster.pods()) > 2 else None

    def filter(self, cycle: Cycle, rows: Any) -> None:
        return None


class Liar(NodeFilter):
    """Somebody's own: promises to relent, and wants company."""

    name = "Liar"

    def passes_with_fewer_pods(self, cycle: Cycle) -> bool:
        return True

    def filter_node(self, cycle: Cycle, view: NodeView) -> Status | None:
        return None if view.node.name != "a" or view.pods else unschedulable("node(s) were lonely")


def post_filter_by(pipeline: Pipeline, cluster: Cluster, incoming: PodInfo, **args: int) -> PostFilterResult:
    rng = random.Random(1)
    decider = Decider(pipeline, rng)
    plugin = DefaultPreemption(DefaultPreemptionArgs(**args))
    plugin.connect(Handle(decider, rng))
    decision = decider.decide(cluster, incoming)
    assert decision.diagnosis is not None
    return plugin.post_filter(decision.cycle, decision.diagnosis)


def test_a_refusal_in_prefilter_that_preemption_may_help_is_asked_anew_on_every_node():
    cluster = cluster_of(
        node("a"), *(pod(f"a{n}", on="a", priority=n) for n in range(2)), node("b"), pod("b1", on="b", priority=5)
    )
    # Three pods are one too many.
    result = post_filter_by(Pipeline(pre_filter=(Quorum(),), filter=(Quorum(),)), cluster, asking())
    assert names(result) == ("a", ["a0"])


def test_what_sums_say_is_tried_before_it_is_believed():
    cluster = cluster_of(
        node("a"), pod("a1", cpu="4", on="a", priority=1), node("b"), pod("b1", cpu="4", on="b", priority=2)
    )
    # a is cheaper, and would be lonely.
    fit = NodeResourcesFit()
    result = post_filter_by(Pipeline(filter=(Liar(), fit), sums=fit), cluster, asking())
    assert names(result) == ("b", ["b1"])


def test_of_rows_that_must_be_tried_enough_are_looked_at_from_a_random_one_on():
    class Full(NodeFilter):
        name = "Full"
        asked = 0

        def filter_node(self, cycle: Cycle, view: NodeView) -> Status | None:
            Full.asked += 1
            return unschedulable("node(s) were full") if view.pods else None

    cluster = cluster_of(*(node(f"n{n}") for n in range(40)), *(pod(f"p{n}", on=f"n{n}") for n in range(40)))
    pipeline = Pipeline(filter=(Full(),))
    Full.asked = 0
    result = post_filter_by(
        pipeline, cluster, asking(), min_candidate_nodes_percentage=10, min_candidate_nodes_absolute=3
    )
    # 10 % of 40 are 4, more than 3. The search asks once about each of 40; then each candidate twice: without its pod,
    # and with it.
    assert Full.asked == 40 + 4 * 2
    assert result.status.is_success and result.nominated_node != "n0"
    Full.asked = 0
    post_filter_by(pipeline, cluster, asking(), min_candidate_nodes_percentage=0, min_candidate_nodes_absolute=100)
    assert Full.asked == 40 + 40 * 2


def test_the_search_goes_on_past_enough_until_one_violates_no_budget():
    cluster = cluster_of(
        *(node(f"n{n}") for n in range(6)),
        *(pod(f"p{n}", on=f"n{n}", host_ports=[80], labels={"app": "web"} if n else {}) for n in range(6)),
    )
    cluster.index(DisruptionBudgets).put(budget("web"))
    made = assemble(default_configuration().profiles[0], random.Random(1))
    args = {"min_candidate_nodes_percentage": 0, "min_candidate_nodes_absolute": 1}
    for pipeline in (made.pipeline, replace(made.pipeline, ports=None)):  # by sums, and by trying
        result = post_filter_by(pipeline, cluster, asking("1", host_ports=[80]), **args)
        assert (names(result), result.budget_violations) == (("n0", ["p0"]), 0)


# -- the plugin -------------------------------------------------------------------------------------------------------


def test_while_victims_are_being_deleted_the_pod_is_held_back():
    plugin = DefaultPreemption()
    waiting = asking()
    assert plugin.pre_enqueue(waiting).is_success
    plugin.preempting.add(waiting.uid)
    status = plugin.pre_enqueue(waiting)
    assert (status.code, status.message) == (
        Code.UNRESOLVABLE,
        "waiting for the preemption for this pod to be finished",
    )
    plugin.preempting.discard(waiting.uid)
    assert plugin.pre_enqueue(waiting).is_success


def test_a_pod_that_came_after_the_first_question_counts():
    cluster = cluster_of(node("a"), pod("low", cpu="3", on="a"))
    assert names(post_filtered(cluster)) == ("a", ["low"])
    place(cluster, pod("lower", cpu="1", on="a", priority=-1))
    # 4 - 2 = 2 to keep: low 3 goes, lower 1 stays.
    assert names(post_filtered(cluster)) == ("a", ["low"])


def test_a_plugin_without_a_decider_says_what_is_missing():
    cluster = cluster_of(node("a"), pod("low", cpu="3", on="a"))
    decision, _ = asked(cluster, asking())
    assert decision.diagnosis is not None
    with pytest.raises(RuntimeError, match="DefaultPreemption was asked before it was connected to a profile"):
        DefaultPreemption().post_filter(decision.cycle, decision.diagnosis)


def test_a_plugin_that_breaks_leaves_everybody_where_he_was():
    class Breaks(NodeFilter):
        name = "Breaks"

        def filter_node(self, cycle: Cycle, view: NodeView) -> Status | None:
            if len(view.pods) == 1:
                raise RuntimeError("broken")
            return unschedulable("node(s) were full")

    cluster = cluster_of(node("a"), *(pod(f"p{n}", cpu="1", on="a", priority=n) for n in range(3)))
    before = cluster.requested.tolist(), list(cluster.residents[0])
    # Two of three go, p2 comes back: one is there, and the plugin breaks.
    place(cluster, pod("p2", cpu="1", on="a", priority=200))
    with pytest.raises(RuntimeError, match="broken"):
        post_filter_by(Pipeline(filter=(Breaks(),)), cluster, asking())
    assert (cluster.requested.tolist(), sorted(cluster.residents[0])) == (before[0], sorted(before[1]))
