"""Which nodes get a daemon pod, which pods go, how an update proceeds, and what the status says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from support.workload_builders import LABELS, NOW, a_pod, daemon_set
from tonnage.behaviour.workloads.daemon_set_plan import (
    DaemonPlan,
    ObservedDaemons,
    allowances,
    daemon_pod,
    is_updated,
    manage,
    rolling_update,
    status_of,
    target_node,
    tolerations,
)
from tonnage.objects.apps_v1 import DaemonSet
from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import Node, Pod
from tonnage.testing.builders import node

NEW, OLD = "new", "old"
THREE = (node("a"), node("b"), node("c"))


def daemon(on: str, revision: str = NEW, name: str = "", **options: Any) -> Pod:
    """A daemon pod on a node, ready unless told otherwise."""
    labels = {**LABELS, "controller-revision-hash": revision}
    return a_pod(name or f"{on}-{revision}", on=on, labels=labels, **{"ready": True, **options})


def observed(owner: DaemonSet, nodes: Iterable[Node], *pods: Pod) -> ObservedDaemons:
    return ObservedDaemons.of(owner, nodes, pods, {NEW}, NOW)


def names(pods: Iterable[Pod]) -> list[str]:
    return [pod.name for pod in pods]


# -- pods -------------------------------------------------------------------------------------------------------------


def test_a_daemon_pod_asks_for_its_node_by_name_and_keeps_its_other_affinities() -> None:
    preferred = [{"weight": 1, "preference": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}]
    owner = daemon_set(
        pod_spec={"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}},
        metadata={"annotations": {"deprecated.daemonset.template.generation": "3"}},
    )
    doc = daemon_pod(owner, "b", NEW)
    affinity = doc["spec"]["affinity"]["nodeAffinity"]
    assert affinity["requiredDuringSchedulingIgnoredDuringExecution"] == {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}]
    }
    assert affinity["preferredDuringSchedulingIgnoredDuringExecution"] == preferred
    assert doc["metadata"]["labels"] == {**LABELS, "controller-revision-hash": NEW, "pod-template-generation": "3"}
    doc["metadata"]["name"] = "x"
    assert target_node(convert(Pod, doc)) == "b"
    assert list(owner.spec.template["spec"]["affinity"]["nodeAffinity"]) == [
        "preferredDuringSchedulingIgnoredDuringExecution"  # the template is not touched
    ]


def test_daemon_pods_tolerate_what_befalls_a_node() -> None:
    keys = [(each["key"].removeprefix("node.kubernetes.io/"), each["effect"]) for each in tolerations({})]
    assert keys == [
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    ]
    assert tolerations({"hostNetwork": True})[-1]["key"] == "node.kubernetes.io/network-unavailable"


def test_a_toleration_of_the_template_stays_and_one_with_a_time_loses_it() -> None:
    own = {"key": "gpu", "operator": "Exists"}
    endless = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    timed = {**endless, "tolerationSeconds": 60}
    found = tolerations({"tolerations": [own, timed]})
    assert found[0] == own
    assert [each for each in found if each["key"] == timed["key"]] == [endless]


def test_a_pod_is_of_the_present_template_by_hash_or_by_the_generation_of_old() -> None:
    owner = daemon_set(metadata={"annotations": {"deprecated.daemonset.template.generation": "2"}})
    assert is_updated(owner, daemon("a"), {NEW})
    assert not is_updated(owner, daemon("a", OLD), {NEW})
    by_number = a_pod("x", on="a", labels={**LABELS, "pod-template-generation": "2"})
    assert is_updated(owner, by_number, {NEW})


# -- every node has its pod -------------------------------------------------------------------------------------------


def test_each_node_without_a_pod_gets_one() -> None:
    assert manage(observed(daemon_set(), THREE, daemon("b"))).create == ("a", "c")


def test_a_pod_that_waits_for_its_node_counts_there() -> None:
    doc = daemon_pod(daemon_set(), "a", NEW)
    doc["metadata"]["name"] = "waiting"
    assert manage(observed(daemon_set(), [node("a")], convert(Pod, doc))) == DaemonPlan()


def test_node_selector_affinity_and_taints_say_which_nodes() -> None:
    nodes = (node("a", labels={"disk": "ssd"}), node("b"), node("c", labels={"disk": "ssd"}, taints=["k=v:NoSchedule"]))
    owner = daemon_set(pod_spec={"nodeSelector": {"disk": "ssd"}})
    assert manage(observed(owner, nodes)).create == ("a",)
    # On `c` it would not be made, but may stay; on `b` it may not.
    assert names(manage(observed(owner, nodes, daemon("a"), daemon("b"), daemon("c"))).delete) == ["b-new"]


def test_a_taint_that_evicts_turns_a_daemon_out() -> None:
    nodes = [node("a", taints=["k=v:NoExecute"])]
    assert names(manage(observed(daemon_set(), nodes, daemon("a"))).delete) == ["a-new"]


def test_a_cordoned_or_lost_node_keeps_and_gets_its_daemon() -> None:
    taints = ["node.kubernetes.io/unschedulable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"]
    assert manage(observed(daemon_set(), [node("a", taints=taints)])).create == ("a",)


def test_a_set_that_names_a_node_runs_there_alone() -> None:
    assert manage(observed(daemon_set(pod_spec={"nodeName": "b"}), THREE)).create == ("b",)


def test_what_has_ended_goes_first_and_is_made_again_when_it_is_gone() -> None:
    failed = daemon("a", ready=False, phase="Failed")
    plan = manage(observed(daemon_set(), [node("a")], failed))
    assert (plan.create, names(plan.ended)) == ((), ["a-new"])


def test_a_pod_on_its_way_out_is_waited_for() -> None:
    assert manage(observed(daemon_set(), [node("a")], daemon("a", going=True))) == DaemonPlan()


def test_one_that_has_ended_and_is_on_its_way_out_is_not() -> None:
    gone = daemon("a", phase="Succeeded", ready=False, going=True)
    assert manage(observed(daemon_set(), [node("a")], gone)).create == ("a",)


def test_of_two_on_a_node_the_younger_goes() -> None:
    pods = (daemon("a", name="young", age_s=5), daemon("a", name="elder", age_s=50))
    assert names(manage(observed(daemon_set(), [node("a")], *pods)).delete) == ["young"]


def test_a_pod_that_waits_for_a_node_which_is_gone_is_deleted_and_one_that_ran_there_is_left_to_others() -> None:
    doc = daemon_pod(daemon_set(), "gone", NEW)
    doc["metadata"]["name"] = "waiting"
    plan = manage(observed(daemon_set(), [], convert(Pod, doc), daemon("gone", name="ran")))
    assert names(plan.delete) == ["waiting"]


# -- a new template ---------------------------------------------------------------------------------------------------


def test_as_many_old_pods_go_as_may_be_unavailable() -> None:
    old = [daemon(each.name, OLD) for each in THREE]
    assert names(rolling_update(observed(daemon_set(unavailable=2), THREE, *old)).delete) == ["a-old", "b-old"]
    # One of three is new and not ready: 1 unavailable, 2 - 1 = 1 more may go.
    unready = (daemon("a", ready=False), *old[1:])
    assert names(rolling_update(observed(daemon_set(unavailable=2), THREE, *unready)).delete) == ["b-old"]


def test_a_node_without_a_pod_counts_as_unavailable() -> None:
    assert rolling_update(observed(daemon_set(), THREE, daemon("b", OLD), daemon("c", OLD))) == DaemonPlan()


def test_an_old_pod_that_is_not_well_goes_at_once_and_counts() -> None:
    pods = (daemon("a", OLD, ready=False), daemon("b", OLD), daemon("c", OLD))
    assert names(rolling_update(observed(daemon_set(), THREE, *pods)).delete) == ["a-old"]


def test_on_delete_leaves_old_pods_to_people() -> None:
    assert rolling_update(observed(daemon_set(on_delete=True), THREE, daemon("a", OLD))) == DaemonPlan()


def test_percentages_are_rounded_up_and_neither_at_all_means_one() -> None:
    assert allowances(daemon_set(unavailable="30%"), 10) == (0, 3)
    assert allowances(daemon_set(unavailable="30%"), 4) == (0, 2)  # 1.2
    assert allowances(daemon_set(unavailable=0, surge="10%"), 3) == (1, 0)
    assert allowances(daemon_set(unavailable=0), 3) == (0, 1)


def test_with_surge_the_new_come_first_and_the_old_go_when_those_are_available() -> None:
    owner = daemon_set(unavailable=0, surge=1)
    old = [daemon(each.name, OLD) for each in THREE]
    assert rolling_update(observed(owner, THREE, *old)) == DaemonPlan(create=("a",))
    coming = (*old, daemon("a", ready=False))
    assert manage(observed(owner, THREE, *coming)) == DaemonPlan()
    assert rolling_update(observed(owner, THREE, *coming)) == DaemonPlan()
    assert names(manage(observed(owner, THREE, *old, daemon("a"))).delete) == ["a-old"]


def test_with_surge_a_node_whose_old_pod_is_not_well_does_not_wait() -> None:
    owner = daemon_set(unavailable=0, surge=1)
    pods = (daemon("a", OLD, ready=False), daemon("b", OLD), daemon("c", OLD))
    assert rolling_update(observed(owner, THREE, *pods)).create == ("a", "b")


# -- status -----------------------------------------------------------------------------------------------------------


def test_the_status_counts_nodes_and_keeps_the_conditions_of_others() -> None:
    told = [{"type": "Told", "status": "True"}]
    owner = daemon_set(status={"conditions": told, "collisionCount": 2}, metadata={"generation": 4})
    nodes = (*THREE, node("d", taints=["k=v:NoSchedule"]))
    pods = (daemon("a"), daemon("b", OLD, ready=False), daemon("d"))
    status = status_of(observed(owner, nodes, *pods), 0)
    assert (status.desired_number_scheduled, status.current_number_scheduled) == (3, 2)
    assert (status.number_ready, status.number_available, status.number_unavailable) == (1, 1, 2)
    assert (status.updated_number_scheduled, status.number_misscheduled) == (1, 1)
    assert (status.observed_generation, status.collision_count) == (4, 2)
    assert [each.type for each in status.conditions] == ["Told"]
