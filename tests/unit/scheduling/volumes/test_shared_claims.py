"""Pods that share a ReadWriteOnce claim stay together (DESIGN 4.5): bound, assumed or expected, with the gate alone."""

from __future__ import annotations

from typing import Any

import pytest
from volume_rig import ELSEWHERE, FULL, VolumeRig

from tonnage.objects.core_v1 import Node, Pod
from tonnage.objects.core_v1.persistent_volume import REBUILD_TARGET
from tonnage.objects.meta import Object
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.events import ASSIGNED_POD_ADD, ASSIGNED_POD_DELETE, ASSIGNED_POD_UPDATE, QUEUE, SKIP
from tonnage.scheduling.queue.queues import QueueName
from tonnage.scheduling.volumes.hints import after_sharer_changes
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import attachment, capacity, claim, driver, pod_with, volume

APART = "node(s) didn't have the pod(s) that share a ReadWriteOnce PersistentVolumeClaim"
TERMINATING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def shared(modes: tuple[str, ...] = ("ReadWriteOnce",), **options: Any) -> tuple[Object, ...]:
    """A bound claim whose volume can be reached from everywhere, unless told otherwise."""
    return (
        claim("data", "20Gi", volume="pv-data", selected_node="a", modes=modes),
        volume("pv-data", "20Gi", claim="default/data", modes=modes, **options),
    )


def rig_with(*objects: Object, **settings: Any) -> VolumeRig:
    rig = VolumeRig(*map(node, "abc"), *(capacity("fast", name, "100Gi") for name in "abc"), **settings)
    rig.put(driver(rebuilding=True), *objects)
    return rig


def on(node_name: str, name: str = "first", **options: Any) -> Pod:
    return pod_with(name, "data", on=node_name, **options)


SECOND = pod_with("second", "data")


def test_a_pod_goes_where_a_pod_of_the_same_claim_is():
    rig = rig_with(*shared(), on("b"))
    assert rig.nodes(SECOND) == ["b"]
    assert rig.reasons(SECOND) == {"a": (APART,), "c": (APART,)}


def test_a_pod_that_is_assumed_counts_as_one_that_is_there():
    rig = rig_with(*shared())
    first = rig.place(pod_with("first", "data"))
    assert rig.nodes(SECOND) == [first]


@pytest.mark.parametrize("mode", ["ReadWriteMany", "ReadOnlyMany"])
def test_a_claim_that_many_nodes_may_have_keeps_nobody_together(mode: str):
    assert rig_with(*shared((mode,)), on("b")).nodes(SECOND) == ["a", "b", "c"]
    assert rig_with(*shared(("ReadWriteOnce", mode)), on("b")).nodes(SECOND) == ["a", "b", "c"]


def test_a_volume_that_offers_more_than_was_asked_for_keeps_nobody_together():
    rig = rig_with(*shared(), on("b"))
    rig.put(volume("pv-data", "20Gi", claim="default/data", modes=("ReadWriteOnce", "ReadWriteMany")))
    assert rig.nodes(SECOND) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(driver(rebuilding=False), id="a driver that does not rebuild"),
        pytest.param(driver(rebuilding=False, attachRequired=False), id="one without attachments, as NFS has"),
        pytest.param(driver(rebuilding=False, capacity=False), id="one that publishes no capacity"),
    ],
)
def test_pods_of_a_volume_that_is_never_rebuilt_run_apart_as_upstream_has_it(other: Object):
    rig = rig_with(*shared(), other, on("b"))
    assert rig.nodes(SECOND) == ["a", "b", "c"]
    # Nor are they held by a node that is gone.
    rig.put(on("d", name="third"), attachment("va", "pv-data", "d"))
    assert rig.nodes(SECOND) == ["a", "b", "c"]


def test_pods_of_a_volume_that_several_nodes_reach_run_apart_until_its_home_is_out_of_use():
    """Its affinity is set, so that its place is not open; with a home out of use it is about to be."""
    rig = rig_with(*shared(on=["a", "b"]), on("b"))
    assert rig.nodes(SECOND) == ["a", "b"]
    rig.put(node("a", unschedulable=True), on("c", name="third"))
    assert rig.nodes(SECOND) == ["b"]


def test_without_the_gate_nothing_keeps_them_together():
    rig = rig_with(*shared(), on("b"), gates={"CSIStorageCapacityV2": False})
    assert rig.nodes(SECOND) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(on("b", metadata=TERMINATING), id="is being deleted"),
        pytest.param(on("b", status={"phase": "Succeeded"}), id="has ended"),
        pytest.param(on("gone"), id="on a node that is gone"),
        pytest.param(pod_with("first", "other", on="b"), id="of another claim"),
        pytest.param(on("b", namespace="elsewhere"), id="of a claim of that name in another namespace"),
        pytest.param(on("b", name="second"), id="the pod itself"),
    ],
)
def test_who_does_not_live_with_the_claim_holds_nobody(other: Pod):
    assert rig_with(*shared(), other).nodes(SECOND) == ["a", "b", "c"]


def test_a_pod_that_cannot_have_the_volume_where_it_is_holds_nobody():
    """It was sent to b while the volume was free to move; the volume went home to a instead."""
    rig = rig_with(*shared(on="a"), on("b"))
    assert rig.nodes(SECOND) == ["a"] and rig.reasons(SECOND)["b"] == (ELSEWHERE,)


# -- on a node that is gone -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "modes", [("ReadWriteOnce",), ("ReadWriteOncePod",)], ids=["ReadWriteOnce", "ReadWriteOncePod"]
)
def test_others_wait_for_a_pod_that_has_the_volume_attached_on_a_node_that_is_gone(modes: tuple[str, ...]):
    """Nobody is given the volume before that pod is deleted, and its node may be back first."""
    rig = rig_with(*shared(modes), on("d"), attachment("va", "pv-data", "d"))
    assert rig.reasons(SECOND) == {"a": (APART,), "b": (APART,), "c": (APART,)}
    (told,) = {each["miss"] for node in rig.engine.explain(SECOND).document()["volumes"].values() for each in node}
    assert told == "a pod that shares the claim has it attached on d, which is gone"


def test_a_node_that_went_and_is_back_takes_the_second_pod_too():
    rig = rig_with(*shared(), node("d"), on("d"), attachment("va", "pv-data", "d"))
    rig.engine.delete(rig.objects[Node, "d"])
    assert rig.nodes(SECOND) == []
    rig.put(node("d"))
    assert rig.nodes(SECOND) == ["d"]


@pytest.mark.parametrize(
    "others",
    [
        pytest.param([on("d", metadata=TERMINATING), attachment("va", "pv-data", "d")], id="it is being deleted"),
        pytest.param([attachment("va", "pv-data", "d")], id="it is deleted, its attachment is not yet"),
        pytest.param([on("d"), attachment("va", "pv-other", "d")], id="another volume is attached there"),
        pytest.param([on("d", name="second"), attachment("va", "pv-data", "d")], id="it is the pod itself"),
    ],
)
def test_what_is_left_on_a_node_that_is_gone_and_has_not_the_volume_holds_nobody(others: list[Object]):
    assert rig_with(*shared(), *others).nodes(SECOND) == ["a", "b", "c"]


def test_a_claim_that_many_nodes_may_have_is_not_held_by_a_node_that_is_gone():
    rig = rig_with(*shared(("ReadWriteMany",)), on("d"), attachment("va", "pv-data", "d"))
    assert rig.nodes(SECOND) == ["a", "b", "c"]


def test_a_pod_that_waits_for_one_on_a_node_that_is_gone_is_tried_again_when_that_is_deleted():
    first = on("d")
    rig = rig_with(*shared(), first, attachment("va", "pv-data", "d"), SECOND)
    queued = rig.engine.pop()
    assert queued is not None
    attempt = rig.engine.attempt(queued)
    assert attempt.placement is None and attempt.decision is not None and attempt.decision.diagnosis is not None
    rig.engine.requeue(queued, SECOND, plugins=attempt.decision.diagnosis.rejecting_plugins())
    rig.engine.delete(first)
    assert rig.engine.queue.pods_in(QueueName.UNSCHEDULABLE) == []


# -- on several nodes -------------------------------------------------------------------------------------------------


def test_with_pods_on_two_nodes_either_will_do_and_with_two_claims_both_have_to_be_there():
    rig = rig_with(*shared(), on("b"), on("c", name="third"))
    assert rig.nodes(SECOND) == ["b", "c"]
    rig.put(claim("logs", volume="pv-logs"), volume("pv-logs", claim="default/logs"))
    both = pod_with("second", "data", "logs")
    rig.put(pod_with("fourth", "logs", on="c"))
    assert rig.nodes(both) == ["c"]
    rig.put(pod_with("fifth", "logs", on="a"))
    rig.engine.delete(rig.objects[Pod, "default/fourth"])
    assert rig.reasons(both) == {"a": (APART,), "b": (APART,), "c": (APART,)}


# -- expected ---------------------------------------------------------------------------------------------------------


def nominated(name: str, node_name: str, **options: Any) -> Pod:
    return pod_with(name, "data", status={"nominatedNodeName": node_name}, **options)


def feasible(rig: VolumeRig, pod: Pod) -> list[str]:
    """The nodes that a pod fits on, with those who are nominated in mind."""
    answer = rig.engine.explain(pod)
    return sorted(each.name for each in answer.nodes if each.feasible)


def test_a_pod_goes_where_a_pod_of_the_same_claim_is_expected():
    rig = rig_with(*shared(), nominated("first", "b"))
    assert feasible(rig, SECOND) == ["b"]


def test_two_that_are_expected_on_two_nodes_do_not_wait_for_each_other():
    first, second = nominated("first", "b"), nominated("second", "c")
    rig = rig_with(*shared(), first, second)
    assert feasible(rig, first) == ["a", "b", "c"]
    assert feasible(rig, second) == ["b"]


def test_a_pod_of_higher_priority_does_not_follow_one_of_lower():
    rig = rig_with(*shared(), nominated("first", "b"))
    assert feasible(rig, pod_with("second", "data", priority=10)) == ["a", "b", "c"]


@pytest.mark.parametrize("selected", ["", "gone"], ids=["to be made", "to be rebuilt"])
def test_what_two_pods_share_takes_room_once_also_while_one_is_only_expected(selected: str):
    rig = rig_with(*(capacity("fast", name, free) for name, free in (("a", "1Gi"), ("b", "20Gi"), ("c", "1Gi"))))
    rig.use(reservation="Object")
    rig.put(nominated("first", "b"))
    if selected:
        rig.put(volume("pv-data", "20Gi", claim="default/data"))
        rig.put(claim("data", "20Gi", volume="pv-data", selected_node=selected))
    else:
        rig.put(claim("data", "20Gi"))
    assert feasible(rig, SECOND) == ["b"]


# -- with a volume on its way -----------------------------------------------------------------------------------------


def test_after_a_drain_both_end_up_on_one_node_and_the_room_is_taken_once():
    rig = VolumeRig(node("a", unschedulable=True), node("b"), node("c"), driver(rebuilding=True), reservation="Ledger")
    rig.put(*shared(), capacity("fast", "b", "20Gi"), capacity("fast", "c", "20Gi"))
    where = rig.place(pod_with("first", "data"))
    assert where in ("b", "c")
    assert rig.place(SECOND) == where
    assert rig.planned(pod_with("third", "data"), where) == {"data": "bound pv-data"}


def test_the_second_joins_the_first_where_its_rebuild_was_refused_once_there_is_room():
    rig = rig_with(*shared(), on("b"), capacity("fast", "b", "5Gi"), capacity("fast", "c", "100Gi"))
    marked = {"annotations": {REBUILD_TARGET: "b"}}
    rig.put(claim("data", "20Gi", volume="pv-data", selected_node="b", metadata=marked))
    rig.put(attachment("va", "pv-data", "b", error="no pool has room"))
    assert rig.reasons(SECOND) == {"a": (APART,), "b": (FULL,), "c": (APART,)}
    rig.put(capacity("fast", "b", "20Gi"))
    assert rig.nodes(SECOND) == ["b"]


# -- waking -----------------------------------------------------------------------------------------------------------


def test_what_wakes_a_pod_that_was_kept_from_other_nodes():
    me, first, other = PodInfo(SECOND), on("b"), pod_with("other", "logs", on="b")
    going = on("b", metadata=TERMINATING)
    assert after_sharer_changes(me, ASSIGNED_POD_ADD, None, first) is QUEUE
    assert after_sharer_changes(me, ASSIGNED_POD_UPDATE, first, going) is QUEUE
    assert after_sharer_changes(me, ASSIGNED_POD_DELETE, going, None) is QUEUE
    assert after_sharer_changes(me, ASSIGNED_POD_UPDATE, first, first) is SKIP
    assert after_sharer_changes(me, ASSIGNED_POD_DELETE, other, None) is SKIP
    assert after_sharer_changes(me, ASSIGNED_POD_DELETE, on("b", namespace="elsewhere"), None) is SKIP


def test_a_pod_is_tried_again_when_the_other_leaves():
    rig = rig_with(*shared(), on("a"), node("a", unschedulable=True))
    rig.put(SECOND)
    queued = rig.engine.pop()
    assert queued is not None
    attempt = rig.engine.attempt(queued)
    assert attempt.placement is None and attempt.decision is not None and attempt.decision.diagnosis is not None
    rig.engine.requeue(queued, SECOND, plugins=attempt.decision.diagnosis.rejecting_plugins())
    assert [each.uid for each in rig.engine.queue.pods_in(QueueName.UNSCHEDULABLE)] == [PodInfo(SECOND).uid]
    rig.put(on("a", metadata=TERMINATING))
    assert rig.engine.queue.pods_in(QueueName.UNSCHEDULABLE) == []
