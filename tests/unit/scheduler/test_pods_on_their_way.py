"""A pod whose claim has a selected-node is expected there, nominated or not, also by a scheduler that starts anew.

Its CPU, ports, capacity and slots are held against pods of its priority or lower, until it is bound, refused there, or
the claim says otherwise.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from scheduler_volume_rig import SchedulerRig

from tonnage.objects.core_v1 import Node, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Object
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class, volume

STORAGE = (storage_class(), driver())
SELECTED = "volume.kubernetes.io/selected-node"
TARGET = "tonnage.dev/rebuild-target"


def selected(name: str, node_name: str, **options: Any) -> PersistentVolumeClaim:
    return claim(name, selected_node=node_name, **options)


def holders(rig: SchedulerRig, node_name: str) -> list[str]:
    return [each.info.pod.name for each in rig.queue.nominator.on(node_name) if each.holds]


def select(rig: SchedulerRig, name: str, node_name: str | None) -> None:
    rig.change(PersistentVolumeClaim, f"default/{name}", {"metadata": {"annotations": {SELECTED: node_name}}})


def on_its_way(*more: Object, **options: Any) -> list[Object]:
    """A node with one CPU, a pod of one CPU whose volume is being made there, and a rival that came before it."""
    return [
        *STORAGE,
        node("a", cpu="1"),
        capacity("fast", "a", "100Gi"),
        pod("rival", cpu="1"),
        selected("data", "a"),
        pod_with("web", "data", cpu="1", **options),
        *more,
    ]


async def test_a_rival_does_not_get_the_room_of_a_pod_whose_claim_has_its_node():
    rig = SchedulerRig(*on_its_way())
    async with rig.running():
        await rig.settle(5.0)
        assert rig.bound == {} and rig.claim("data").selected_node == "a"
        rig.provision("data")
        await rig.settle(5.0)
        assert rig.bound == {"default/web": "a"}


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_an_informer_tells_first_the_room_is_held(seed):
    objects = on_its_way()
    random.Random(seed).shuffle(objects)
    rig = SchedulerRig(*objects)
    assert holders(rig, "a") == ["web"]


async def test_a_more_important_pod_does_not_mind():
    rig = SchedulerRig(*on_its_way(pod("boss", cpu="1", priority=10)))
    async with rig.running():
        await rig.settle(5.0)
        assert rig.bound == {"default/boss": "a"}


async def test_capacity_and_ports_are_held_too():
    rig = SchedulerRig(
        *STORAGE, node("a", cpu="10"), capacity("fast", "a", "100Gi"), selected("data", "a", size="80Gi")
    )
    rig.add(pod("porter", host_ports=[80]), claim("wide", size="80Gi"), pod_with("wide", "wide"))
    rig.add(pod_with("web", "data", host_ports=[80], spec={"schedulingGates": [{"name": "wait"}]}))
    async with rig.running():
        await rig.settle(2.0)
        assert rig.bound == {} and not rig.claim("wide").selected_node


async def test_a_claim_that_gets_its_node_later_and_loses_it_again_is_followed():
    rig = SchedulerRig(*STORAGE, node("a", cpu="1"), claim("data"), pod_with("web", "data", cpu="1"))
    assert holders(rig, "a") == []
    select(rig, "data", "a")
    assert holders(rig, "a") == ["web"]
    select(rig, "data", "b")
    assert holders(rig, "a") == [] and holders(rig, "b") == ["web"]
    select(rig, "data", None)
    assert holders(rig, "b") == []
    select(rig, "data", "a")
    rig.delete(PersistentVolumeClaim, "default/data")
    assert holders(rig, "a") == []


async def test_those_who_left_room_are_tried_when_the_claim_loses_its_node():
    gate = {"schedulingGates": [{"name": "wait"}]}
    rig = SchedulerRig(*on_its_way(spec=gate))
    async with rig.running():
        await rig.settle(5.0)
        assert rig.bound == {}
        select(rig, "data", None)
        await rig.settle()
        assert rig.bound == {"default/rival": "a"}


async def test_a_pod_that_is_gone_or_bound_holds_nothing_by_its_claim():
    rig = SchedulerRig(*on_its_way())
    rig.delete(Pod, "default/web")
    assert holders(rig, "a") == []
    select(rig, "data", "b")
    select(rig, "data", "a")
    assert holders(rig, "a") == []
    rig.add(pod_with("web", "data", cpu="1", metadata={"uid": "again"}))
    assert holders(rig, "a") == ["web"], "another pod of that claim does"


async def test_a_pod_that_was_refused_there_holds_nothing():
    rig = SchedulerRig(*on_its_way(node_selector={"zone": "elsewhere"}))
    async with rig.running():
        await rig.settle(2.0)
        assert rig.bound == {"default/rival": "a"} and holders(rig, "a") == []


async def test_claims_that_name_different_nodes_hold_nothing():
    rig = SchedulerRig(*STORAGE, node("a", cpu="1"), node("b", cpu="1"), selected("one", "a"), selected("two", "b"))
    rig.add(pod_with("web", "one", "two", cpu="1"))
    assert holders(rig, "a") == holders(rig, "b") == []


async def test_a_node_that_is_gone_is_held_for_nobody_and_held_when_it_is_back():
    rig = SchedulerRig(*on_its_way())
    gone = rig.objects[Node, "a"]
    rig.delete(Node, "a")
    async with rig.running():
        await rig.settle(2.0)
        rig.add(gone, pod("young", cpu="1"))
        await rig.settle(2.0)
        assert rig.bound == {} and rig.cluster.node_of(pod("web").metadata.uid) == "a"


async def test_what_a_claim_says_counts_before_a_nomination_elsewhere():
    """It cannot go to b while its volume is being made on a."""
    rig = SchedulerRig(
        *on_its_way(node("b", cpu="1"), capacity("fast", "b", "100Gi"), status={"nominatedNodeName": "b"})
    )
    assert holders(rig, "a") == ["web"] and holders(rig, "b") == []
    select(rig, "data", None)
    assert holders(rig, "b") == ["web"]


async def test_all_pods_that_share_the_claim_are_expected_where_it_is_made():
    rig = SchedulerRig(*STORAGE, node("a", cpu="2"), capacity("fast", "a", "100Gi"), selected("data", "a"))
    rig.add(pod_with("one", "data", cpu="1"), pod_with("two", "data", cpu="1"))
    assert holders(rig, "a") == ["one", "two"]


async def test_a_bound_claim_says_nothing_and_a_volume_that_is_being_rebuilt_does():
    bound = selected("data", "a", volume="pv")
    rig = SchedulerRig(
        *STORAGE, node("a", cpu="1"), volume("pv", claim="default/data"), bound, pod_with("web", "data", cpu="1")
    )
    assert holders(rig, "a") == []
    rig.change(PersistentVolumeClaim, "default/data", {"metadata": {"annotations": {TARGET: "a"}}})
    assert holders(rig, "a") == ["web"]


async def test_pods_of_another_scheduler_are_its_own_affair():
    rig = SchedulerRig(*on_its_way(spec={"schedulerName": "another"}))
    assert holders(rig, "a") == []


async def test_with_the_gate_off_claims_say_nothing():
    rig = SchedulerRig(*on_its_way(), is_shown=False)
    assert holders(rig, "a") == []


async def test_a_burst_that_is_cut_off_before_any_nomination_keeps_its_nodes():
    """Ten pods were told where they go by their claims alone, as schedulers before this one did; ten rivals came."""
    rig = SchedulerRig(*STORAGE)
    for number in range(10):
        name = f"db-{number}"
        rig.add(node(name, cpu="1"), capacity("fast", name, "100Gi"), selected(name, name))
    rig.add(*(pod(f"rival-{number}", cpu="1") for number in range(10)))
    rig.add(*(pod_with(f"db-{number}", f"db-{number}", cpu="1") for number in range(10)))
    async with rig.running():
        await rig.settle(5.0)
        for number in range(10):
            rig.provision(f"db-{number}")
        await rig.settle(5.0)
        assert rig.bound == {f"default/db-{number}": f"db-{number}" for number in range(10)}


async def test_of_two_pods_that_are_expected_on_a_node_the_one_whose_volume_is_made_there_goes_first():
    """The other was nominated there once, went elsewhere in the first scheduler's plans, and kept its nomination."""
    rig = SchedulerRig(
        *STORAGE, node("a", cpu="1"), capacity("fast", "a", "100Gi"), claim("other"), selected("data", "a")
    )
    rig.add(pod_with("other", "other", cpu="1", status={"nominatedNodeName": "a"}))
    rig.add(pod_with("web", "data", cpu="1", status={"nominatedNodeName": "a"}))
    async with rig.running():
        await rig.settle(2.0)
        assert rig.cluster.node_of(pod("web").metadata.uid) == "a" and not rig.claim("other").selected_node
