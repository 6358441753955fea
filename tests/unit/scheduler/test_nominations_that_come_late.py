"""A nomination that is written when its pod was refused already is tried at once; refused, it holds nothing (KEP-5278).

The case: a pod cannot run on P, somebody nominates it to P, and an equal pod that fits P has to get it.
"""

from __future__ import annotations

from typing import Any

import pytest
from scheduler_volume_rig import SchedulerRig

from tonnage.objects.core_v1 import Node, Pod
from tonnage.scheduling.framework import Code, Cycle, PermitPlugin, Status
from tonnage.testing.builders import node, pod

GATED = {"schedulingGates": [{"name": "kueue.x-k8s.io/topology"}]}


def nominate(rig: SchedulerRig, name: str, node_name: str | None) -> None:
    rig.change(Pod, f"default/{name}", {"status": {"nominatedNodeName": node_name}})


def holders(rig: SchedulerRig, node_name: str) -> list[str]:
    return [each.info.pod.name for each in rig.queue.nominator.on(node_name) if each.holds]


WRONG: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("selector", {"labels": {"zone": "1"}}, {"node_selector": {"zone": "2"}}),
    ("taint", {"taints": ["dedicated=db:NoSchedule"]}, {}),
    ("too large", {}, {"cpu": "2"}),
]
WRONG_IDS = [name for name, _, _ in WRONG]


@pytest.mark.parametrize(("what", "of_node", "of_pod"), WRONG, ids=WRONG_IDS)
async def test_a_nomination_after_the_refusal_keeps_nobody_else_out(what, of_node, of_pod):
    tolerant = {"tolerations": [{"key": "dedicated", "operator": "Exists"}]} if what == "taint" else {}
    rig = SchedulerRig(node("p", cpu="1", **of_node), pod("wrong", **{"cpu": "1", **of_pod}))
    async with rig.running():
        await rig.settle(1.0)
        nominate(rig, "wrong", "p")
        rig.add(pod("right", cpu="1", spec=tolerant))
        await rig.settle(2.0)
        assert rig.bound == {"default/right": "p"} and holders(rig, "p") == []


async def test_a_nomination_after_the_refusal_is_tried_and_taken_where_it_fits():
    """It was refused for its backoff's time; the node came meanwhile, and no event told."""
    rig = SchedulerRig(node("a", cpu="1"), pod("web", cpu="2"))
    async with rig.running():
        await rig.settle()
        rig.cluster.put_node(node("p", cpu="2"))  # no event: nobody wakes the pod but its nomination
        nominate(rig, "web", "p")
        await rig.settle()
        assert rig.bound == {"default/web": "p"}


async def test_a_nomination_that_goes_and_comes_back_is_tried_each_time():
    rig = SchedulerRig(node("p", cpu="1"), node("q", cpu="1"), pod("wrong", cpu="2"))
    async with rig.running():
        for name in ("p", "q", "p", "q", "p"):
            nominate(rig, "wrong", name)
            await rig.settle()
            assert holders(rig, "p") == holders(rig, "q") == []
        rig.add(pod("one", cpu="1"), pod("two", cpu="1"))
        await rig.settle(1.0)
        assert len(rig.bound) == 2


async def test_a_nomination_in_the_middle_of_a_backoff_is_tried_at_once():
    rig = SchedulerRig(node("p", cpu="1"), node("q", cpu="1"), pod("wrong", cpu="2", node_selector={"zone": "2"}))
    async with rig.running():
        await rig.settle()
        rig.change(Node, "q", {"metadata": {"labels": {"zone": "2"}}})  # worth a try, after a backoff
        nominate(rig, "wrong", "p")
        await rig.settle()
        assert holders(rig, "p") == []


async def test_a_node_that_comes_after_the_nomination_and_refuses_it_is_not_held():
    rig = SchedulerRig(node("a", cpu="1"), pod("wrong", cpu="2", node_selector={"zone": "2"}))
    async with rig.running():
        await rig.settle()
        nominate(rig, "wrong", "p")
        await rig.settle(30.0)
        rig.add(node("p", cpu="1", labels={"for": "right"}))  # nothing that the pod was refused for
        rig.add(pod("right", cpu="1", node_selector={"for": "right"}))
        await rig.settle(2.0)
        assert rig.bound == {"default/right": "p"} and holders(rig, "p") == []


async def test_a_node_that_comes_after_the_nomination_and_takes_it_goes_to_the_nominated_pod():
    rig = SchedulerRig(node("a", cpu="1"), pod("web", cpu="2"))
    async with rig.running():
        await rig.settle()
        nominate(rig, "web", "p")
        rig.add(pod("rival", cpu="2"))
        await rig.settle(30.0)
        rig.add(node("p", cpu="2"))
        await rig.settle(2.0)
        assert rig.bound == {"default/web": "p"}


async def test_a_nomination_that_is_written_while_the_pod_waits_for_permission_is_tried_when_it_comes_back():
    class Strict(PermitPlugin):
        name = "Strict"

        def __init__(self, args: Any) -> None: ...

        def permit(self, cycle: Cycle, node_name: str) -> tuple[Status, float]:
            return (Status(Code.WAIT), 5.0) if cycle.pod.pod.name == "wrong" else (Status(), 0.0)

    zone = {"zone": "2"}
    rig = SchedulerRig(node("a", cpu="1", labels=zone), node("p", cpu="1"), plugins=[Strict])
    rig.add(pod("wrong", cpu="1", node_selector=zone))
    async with rig.running():
        await rig.settle(1.0)
        nominate(rig, "wrong", "p")
        await rig.settle(4.5)
        assert rig.bound == {} and holders(rig, "p") == []
        rig.add(pod("right", cpu="1"))
        await rig.settle(1.0)
        assert rig.bound == {"default/right": "p"}


# -- of gated pods ----------------------------------------------------------------------------------------------------

IMPOSSIBLE: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("selector", {"labels": {"zone": "1"}}, {"node_selector": {"zone": "2"}}),
    ("taint", {"taints": ["dedicated=db:NoSchedule"]}, {}),
    ("cordon", {"unschedulable": True}, {}),
    (
        "affinity",
        {},
        {
            "spec": {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["q"]}]}
                            ]
                        }
                    }
                }
            }
        },
    ),
]


@pytest.mark.parametrize(("what", "of_node", "of_pod"), IMPOSSIBLE, ids=[name for name, _, _ in IMPOSSIBLE])
@pytest.mark.parametrize("is_late", [False, True])
async def test_a_gated_pod_holds_nothing_where_it_may_never_run(what, of_node, of_pod, is_late):
    of_pod = {**of_pod, "spec": {**of_pod.get("spec", {}), **GATED}}
    rig = SchedulerRig(node("p", cpu="1", **of_node))
    rig.add(pod("gated", cpu="1", status={} if is_late else {"nominatedNodeName": "p"}, **of_pod))
    if is_late:
        nominate(rig, "gated", "p")
    assert holders(rig, "p") == [] and rig.pages.nominations()[0]["holds"] is False
    tolerant = {"tolerations": [{"operator": "Exists"}]}
    rig.add(pod("right", cpu="1", spec=tolerant))
    async with rig.running():
        await rig.settle(1.0)
        assert rig.bound == {"default/right": "p"}


@pytest.mark.parametrize("other", [{"taints": ["dedicated=db:NoSchedule"]}, {"unschedulable": True}])
async def test_a_gated_pod_holds_its_room_whatever_other_nodes_are_like(other: dict[str, Any]):
    rig = SchedulerRig(node("other", **other), node("p", cpu="1"))
    rig.add(pod("gated", cpu="1", status={"nominatedNodeName": "p"}, spec=GATED), pod("rival", cpu="1"))
    async with rig.running():
        await rig.settle(5.0)
        assert holders(rig, "p") == ["gated"] and rig.bound == {}


async def test_a_gated_pod_holds_again_when_its_node_or_its_selector_changes():
    rig = SchedulerRig(node("p", cpu="1", labels={"zone": "1"}))
    rig.add(pod("gated", cpu="1", status={"nominatedNodeName": "p"}, node_selector={"zone": "2"}, spec=GATED))
    assert holders(rig, "p") == []
    rig.change(Node, "p", {"metadata": {"labels": {"zone": "2"}}})
    assert holders(rig, "p") == ["gated"]
    rig.change(Node, "p", {"spec": {"unschedulable": True}})
    assert holders(rig, "p") == []
    rig.change(Node, "p", {"spec": {"unschedulable": False}})
    assert holders(rig, "p") == ["gated"]
    rig.change(Pod, "default/gated", {"spec": {"nodeSelector": {"zone": "2", "disk": "fast"}}})
    assert holders(rig, "p") == []


async def test_those_that_left_room_for_a_gated_pod_are_tried_when_it_may_not_run_there_any_more():
    rig = SchedulerRig(node("p", cpu="1"), pod("gated", cpu="1", status={"nominatedNodeName": "p"}, spec=GATED))
    rig.add(pod("right", cpu="1"))
    async with rig.running():
        await rig.settle(5.0)
        assert rig.bound == {}
        rig.change(Pod, "default/gated", {"spec": {"nodeSelector": {"zone": "2"}}})
        await rig.settle()
        assert rig.bound == {"default/right": "p"}


async def test_a_gated_pod_holds_its_room_on_a_full_node_and_on_one_that_comes():
    rig = SchedulerRig(node("full", cpu="1"), pod("there", cpu="1", on="full"))
    rig.add(pod("one", cpu="1", status={"nominatedNodeName": "full"}, spec=GATED))
    rig.add(pod("two", cpu="1", status={"nominatedNodeName": "late"}, spec=GATED))
    assert holders(rig, "full") == ["one"] and holders(rig, "late") == ["two"]
    rig.add(node("late", cpu="1"), pod("rival", cpu="1"))
    rig.delete(Pod, "default/there")
    async with rig.running():
        await rig.settle(5.0)
        assert rig.bound == {}
