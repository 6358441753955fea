"""Room held by nominations (KEP-5278): it is held while the nomination can still come true, and in a circle by nobody.

The field in the API is never cleared; what is held in memory is what these are about.
"""

from __future__ import annotations

from typing import Any

import pytest
from scheduler_volume_rig import SchedulerRig

from tonnage.errors import Conflict
from tonnage.objects.core_v1 import Node, Pod
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class

STORAGE = (storage_class(), driver())
GATED = {"schedulingGates": [{"name": "kueue.x-k8s.io/topology"}]}


def nominated(name: str, node_name: str, **options: Any) -> Pod:
    return pod(name, status={"nominatedNodeName": node_name}, **options)


def holders(rig: SchedulerRig, node_name: str) -> list[str]:
    return [each.info.pod.name for each in rig.queue.nominator.on(node_name) if each.holds]


# -- nobody waits in a circle -----------------------------------------------------------------------------------------


async def test_of_ten_pods_nominated_to_a_node_of_nine_cpus_nine_are_bound():
    rig = SchedulerRig(node("a", cpu="9"), *(nominated(f"web-{i}", "a", cpu="1") for i in range(10)))
    async with rig.running():
        await rig.settle(30.0)
        assert sorted(rig.bound) == [f"default/web-{i}" for i in range(9)], "the first nine; the last gives way"
        left = rig.pod("default/web-9")
        assert left is not None and left.status.nominated_node_name == "a", "it is never cleared"
        assert holders(rig, "a") == []


async def test_of_four_pods_on_a_node_of_which_a_higher_one_took_a_part_three_are_bound():
    rig = SchedulerRig(node("a", cpu="4"), pod("high", cpu="1", priority=10, on="a"))
    rig.add(*(nominated(f"web-{i}", "a", cpu="1") for i in range(4)))
    async with rig.running():
        await rig.settle(30.0)
        assert sorted(rig.bound) == [f"default/web-{i}" for i in range(3)]


async def test_pods_that_hold_what_the_other_needs_are_not_stuck():
    # Each is nominated to a node that its selector refuses, and fits on the other's alone.
    rig = SchedulerRig(node("a", cpu="1", labels={"zone": "1"}), node("b", cpu="1", labels={"zone": "2"}))
    rig.add(nominated("left", "a", cpu="1", node_selector={"zone": "2"}))
    rig.add(nominated("right", "b", cpu="1", node_selector={"zone": "1"}))
    async with rig.running():
        await rig.settle(30.0)
        assert rig.bound == {"default/left": "b", "default/right": "a"}


async def test_a_pod_nominated_later_gives_way_though_it_is_tried_first():
    rig = SchedulerRig(node("a", cpu="1"))
    rig.add(nominated("early", "a", cpu="1", spec=GATED), nominated("late", "a", cpu="1"))
    async with rig.running():
        await rig.settle(2.0)
        assert rig.bound == {} and holders(rig, "a") == ["early"]
        rig.change(Pod, "default/early", {"spec": {"schedulingGates": []}})
        await rig.settle(2.0)
        assert rig.bound == {"default/early": "a"}


async def test_what_is_written_about_a_pod_does_not_cost_it_its_place_among_equals():
    rig = SchedulerRig(node("a", cpu="1"))
    rig.add(nominated("early", "a", cpu="1", spec=GATED), nominated("late", "a", cpu="1", spec=GATED))
    rig.change(Pod, "default/early", {"metadata": {"labels": {"seen": "yes"}}})
    rig.change(Pod, "default/late", {"spec": {"schedulingGates": []}})
    async with rig.running():
        await rig.settle(2.0)
        assert rig.bound == {}


# -- refused there: nothing is held -----------------------------------------------------------------------------------


async def test_a_pod_refused_for_capacity_on_its_nominated_node_does_not_starve_an_equal():
    rig = SchedulerRig(*STORAGE, node("a", cpu="4"), capacity("fast", "a", "10Gi"), claim("data", "60Gi"))
    rig.add(pod_with("big", "data", cpu="4", status={"nominatedNodeName": "a"}), pod("web", cpu="4"))
    async with rig.running():
        await rig.settle(30.0)
        assert rig.bound == {"default/web": "a"}


async def test_a_pod_that_was_turned_away_before_the_holder_was_tried_is_tried_again():
    rig = SchedulerRig(node("a", cpu="4"), pod("resident", cpu="1", on="a"))
    rig.add(pod("web", cpu="3"), nominated("big", "a", cpu="4"))
    async with rig.running():
        await rig.settle(30.0)
        assert rig.bound == {"default/web": "a"}


async def test_a_released_holder_holds_again_once_its_node_can_take_it():
    rig = SchedulerRig(node("a", cpu="4", taints=["node.kubernetes.io/not-ready:NoSchedule"]))
    rig.add(*(pod(f"older-{i}", cpu="4") for i in range(3)), nominated("web", "a", cpu="4"))
    async with rig.running():
        await rig.settle(12.0)
        assert holders(rig, "a") == []
        rig.change(Node, "a", {"spec": {"taints": []}})
        assert holders(rig, "a") == ["web"]
        await rig.settle(12.0)
        assert rig.bound == {"default/web": "a"}


async def test_events_that_do_not_make_it_fit_do_not_make_it_hold():
    rig = SchedulerRig(node("a", cpu="4"), node("b", cpu="1"), pod("resident", cpu="1", on="a"))
    rig.add(nominated("big", "a", cpu="4", spec={"nodeName": ""}))
    async with rig.running():
        await rig.settle(12.0)
        for i in range(30):
            rig.add(pod(f"passing-{i}", cpu="1", on="b"))
            await rig.settle(1.0)
            rig.delete(Pod, f"default/passing-{i}")
            assert holders(rig, "a") == []
        rig.add(pod("web", cpu="3"))
        await rig.settle(1.0)
        assert rig.bound == {"default/web": "a"}


async def test_a_released_holder_that_is_nominated_elsewhere_holds_there():
    rig = SchedulerRig(node("a", cpu="1"), nominated("big", "a", cpu="2", spec=GATED))
    rig.change(Pod, "default/big", {"spec": {"schedulingGates": []}})
    async with rig.running():
        await rig.settle(12.0)
        assert holders(rig, "a") == []
        rig.change(Pod, "default/big", {"status": {"nominatedNodeName": "b"}})
        assert holders(rig, "b") == ["big"]


async def test_a_node_that_does_not_exist_is_held_until_it_was_tried():
    rig = SchedulerRig(node("full", cpu="1"), pod("resident", cpu="1", on="full"), nominated("web", "new", cpu="1"))
    async with rig.running():
        await rig.settle(12.0)
        assert holders(rig, "new") == ["web"], "it was not refused there: it was not there"


# -- something is on its way out --------------------------------------------------------------------------------------


async def test_a_pod_whose_victims_are_going_holds_on():
    rig = SchedulerRig(node("a", cpu="2"), pod("low", cpu="1", on="a"), pod("other", cpu="1", on="a"), is_graceful=True)
    rig.add(pod("web", cpu="1", priority=5))
    async with rig.running():
        await rig.settle()
        rig.queue.activate([pod("web")])
        await rig.settle(12.0)
        assert holders(rig, "a") == ["web"]
        rig.add(pod("equal", cpu="1", priority=5, spec={"preemptionPolicy": "Never"}))
        gone = next(name for name in ("low", "other") if rig.objects[Pod, f"default/{name}"].metadata.is_terminating)
        rig.delete(Pod, f"default/{gone}")
        await rig.settle(12.0)
        assert rig.bound == {"default/web": "a"}


async def test_going_pods_that_would_not_help_are_no_reason_to_hold():
    rig = SchedulerRig(node("a", cpu="4"), pod("stays", cpu="2", on="a"), pod("goes", cpu="1", on="a"))
    rig.change(Pod, "default/goes", {"metadata": {"deletionTimestamp": "2000-01-01T00:00:00Z"}})
    # 4 - 2 = 2 < 3 even when the one that goes is gone; web needs the 1 that is free now.
    rig.add(nominated("big", "a", cpu="3"), pod("web", cpu="1"))
    async with rig.running():
        await rig.settle(12.0)
        assert rig.bound == {"default/web": "a"}


# -- failed after the decision ----------------------------------------------------------------------------------------


async def test_a_pod_whose_binding_failed_once_keeps_its_room_and_from_the_second_time_on_it_does_not():
    rig = SchedulerRig(node("a", cpu="1"), nominated("web", "a", cpu="1"))
    rig.refuse += [Conflict("somebody was faster"), Conflict("and again")]
    async with rig.running():
        await rig.settle()
        assert rig.bound == {} and holders(rig, "a") == ["web"], "it may be a hiccup, and it is tried again soon"
        await rig.settle(2.0)
        assert rig.bound == {} and holders(rig, "a") == []
        await rig.settle(5.0)
        assert rig.bound == {"default/web": "a"}


async def test_a_pod_that_fails_on_its_node_for_ever_does_not_starve_an_equal():
    storage = (*STORAGE, capacity("fast", "a", "100Gi"), claim("data", "60Gi"))
    rig = SchedulerRig(*storage, node("a", cpu="1"), pod_with("liar", "data", cpu="1"), timeout_s=3)
    async with rig.running():
        await rig.settle(1.0)
        rig.add(pod("web", cpu="1"))
        await rig.settle(30.0)  # no volume is ever made: the wait ends after 3 s, again and again
        assert rig.bound == {"default/web": "a"}


# -- restarts and the gate --------------------------------------------------------------------------------------------


async def test_after_a_restart_the_first_try_decides():
    objects = [node("a", cpu="4"), pod("resident", cpu="1", on="a"), nominated("big", "a", cpu="4")]
    condition = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}]
    objects[2] = nominated("big", "a", cpu="4", priority=0)
    rig = SchedulerRig(*objects, pod("web", cpu="3", status={"conditions": condition}))
    assert holders(rig, "a") == ["big"]
    async with rig.running():
        await rig.settle(12.0)
        assert rig.bound == {"default/web": "a"} and holders(rig, "a") == []


@pytest.mark.parametrize("never", [True, False])
async def test_with_the_gate_off_nominations_hold_as_upstream_has_them(never):
    policy = {"preemptionPolicy": "Never"} if never else {}
    rig = SchedulerRig(
        node("a", cpu="4"),
        pod("resident", cpu="1", on="a"),
        nominated("big", "a", cpu="4", spec=policy),
        is_shown=False,
    )
    rig.add(pod("web", cpu="3"))
    async with rig.running():
        await rig.settle(12.0)
        # Upstream leaves the nomination of a pod that may not preempt, and takes back that of one that could not.
        assert rig.bound == ({} if never else {"default/web": "a"})


async def test_capacity_that_comes_back_lets_the_nominated_pod_in_first():
    rig = SchedulerRig(*STORAGE, node("a"), capacity("fast", "a", "10Gi"), claim("one", "60Gi"), claim("two", "60Gi"))
    rig.add(pod_with("other", "two"), pod_with("job", "one", status={"nominatedNodeName": "a"}))
    async with rig.running():
        await rig.settle(12.0)
        assert holders(rig, "a") == []
        key = next(key for cls, key in rig.objects if cls is CSIStorageCapacity)
        rig.change(CSIStorageCapacity, key, {"capacity": "100Gi"})
        await rig.settle(2.0)
        assert (rig.claim("one").selected_node, rig.claim("two").selected_node) == ("a", "")
