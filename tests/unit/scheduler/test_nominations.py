"""status.nominatedNodeName by the scheduler (KEP-5278): when it is written, overwritten, kept, cleared; no oftener.

Scenarios are those of the KEP's test plan and of upstream's integration tests nominated_node_name and preemption/
nominatednodename. Where those clear a nomination with the gate on, the KEP's word counts: it stays.
"""

from __future__ import annotations

from typing import Any

import pytest
from scheduler_volume_rig import SchedulerRig

from tonnage.objects.core_v1 import Node, Pod
from tonnage.scheduling.framework import SKIP, SUCCESS, Api, Code, Cycle, PermitPlugin, PreBindPlugin, Status
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class, volume

STORAGE = (storage_class(), driver())


def nominated(name: str, node_name: str, **options: Any) -> Pod:
    return pod(name, status={"nominatedNodeName": node_name}, **options)


def nominated_to(rig: SchedulerRig, name: str) -> str:
    found = rig.pod(f"default/{name}")
    assert found is not None
    return found.status.nominated_node_name


class Patient(PermitPlugin):
    """Holds pods labelled `hold` and lets all others go."""

    name = "Patient"

    def __init__(self, args: Any) -> None: ...

    def permit(self, cycle: Cycle, node_name: str) -> tuple[Status, float]:
        return (Status(Code.WAIT), 600.0) if "hold" in cycle.pod.labels else (Status(), 0.0)


class Busy(PreBindPlugin):
    """Has something to do for pods labelled `busy`, and fails the first time for those labelled `unlucky`."""

    name = "Busy"

    def __init__(self, args: Any) -> None:
        self._failed: set[str] = set()

    def pre_bind_pre_flight(self, cycle: Cycle, node_name: str) -> Status:
        return SUCCESS if "busy" in cycle.pod.labels else SKIP

    async def pre_bind(self, cycle: Cycle, node_name: str, api: Api) -> Status:
        if "unlucky" in cycle.pod.labels and cycle.pod.uid not in self._failed:
            self._failed.add(cycle.pod.uid)
            return Status(Code.ERROR, ("the disk is on fire",))
        return await api.settled(lambda: None, 60.0) if "forever" in cycle.pod.labels else SUCCESS


PLUGINS = [Patient, Busy]

# -- written before something is waited for ---------------------------------------------------------------------------


async def test_a_pod_that_is_bound_at_once_costs_one_call():
    rig = SchedulerRig(node("a"), pod("web"), plugins=PLUGINS)
    async with rig.running():
        await rig.settle()
    assert rig.calls == [("bind", "default/web")]


async def test_a_pod_whose_claims_are_bound_costs_one_call():
    bound = claim("data", "20Gi", volume="pv-1"), volume("pv-1", "20Gi", on="a", claim="default/data")
    rig = SchedulerRig(*STORAGE, node("a"), *bound, pod_with("web", "data"))
    async with rig.running():
        await rig.settle()
    assert rig.calls == [("bind", "default/web")]


@pytest.mark.parametrize("is_shown", [True, False])
async def test_a_pod_that_waits_for_its_volumes_shows_where_it_goes(is_shown):
    rig = SchedulerRig(
        *STORAGE, node("a"), capacity("fast", "a", "100Gi"), claim("data"), pod_with("web", "data"), is_shown=is_shown
    )
    async with rig.running():
        await rig.settle()
        assert nominated_to(rig, "web") == ("a" if is_shown else "")
        found = rig.pod("default/web")
        assert found is not None and found.condition("PodScheduled") is None, "nothing failed"
        rig.provision("data")
        await rig.settle()
        assert rig.bound == {"default/web": "a"} and nominated_to(rig, "web") == ""
    shown = [("patch status", "default/web")] if is_shown else []
    assert rig.calls == [*shown, ("patch", "default/data"), ("bind", "default/web")]


@pytest.mark.parametrize("is_shown", [True, False])
async def test_a_pod_that_a_permit_plugin_holds_shows_where_it_goes(is_shown):
    rig = SchedulerRig(node("a"), pod("web", labels={"hold": ""}), plugins=PLUGINS, is_shown=is_shown)
    async with rig.running():
        await rig.settle()
        assert nominated_to(rig, "web") == ("a" if is_shown else "") and rig.bound == {}
        held = rig.waiting.get("default-web")
        assert held is not None
        held.allow("Patient")
        await rig.settle()
        assert rig.bound == {"default/web": "a"} and nominated_to(rig, "web") == ""
    assert rig.calls == [("patch status", "default/web")] * is_shown + [("bind", "default/web")]


async def test_a_pod_deleted_while_a_permit_plugin_holds_it_leaves_nothing_behind():
    rig = SchedulerRig(node("a"), pod("web", cpu="1", labels={"hold": ""}), plugins=PLUGINS)
    async with rig.running():
        await rig.settle()
        rig.delete(Pod, "default/web")
        await rig.settle()
        assert len(rig.waiting) == 0 and rig.slots.resting == 0 and rig.cluster.requested.sum() == 0


async def test_a_pod_that_is_held_and_prepared_shows_it_once():
    rig = SchedulerRig(node("a"), pod("web", labels={"hold": "", "busy": ""}), plugins=PLUGINS)
    # It is let go while the nomination is being written.
    rig.at_call["patch status", "default/web"] = lambda: rig.waiting.get("default-web").allow("Patient")
    async with rig.running():
        await rig.settle()
    assert rig.calls == [("patch status", "default/web"), ("bind", "default/web")] and len(rig.waiting) == 0


async def test_a_nomination_that_says_so_already_is_not_written_again():
    rig = SchedulerRig(node("a"), node("b"), nominated("web", "b", labels={"busy": ""}), plugins=PLUGINS)
    async with rig.running():
        await rig.settle()
    assert rig.calls == [("bind", "default/web")] and rig.bound == {"default/web": "b"}


async def test_a_plugin_that_breaks_in_pre_flight_leaves_nobody_waiting():
    class Broken(PreBindPlugin):
        name = "Broken"

        def __init__(self, args: Any) -> None: ...

        def pre_bind_pre_flight(self, cycle: Cycle, node_name: str) -> Status:
            return Status(Code.UNSCHEDULABLE, ("no",))

        async def pre_bind(self, cycle: Cycle, node_name: str, api: Api) -> Status:
            return SUCCESS

    rig = SchedulerRig(node("a"), pod("web", labels={"hold": ""}), plugins=[Patient, Broken])
    async with rig.running():
        await rig.settle()
        assert rig.conditions == [("default/web", "SchedulerError", 'running PreBindPreFlight "Broken": no')]
        assert len(rig.waiting) == 0 and rig.slots.taken == 0 and nominated_to(rig, "web") == ""


async def test_another_node_than_the_proposed_one_is_written_over_it():
    rig = SchedulerRig(
        node("a", cpu="1"), node("b"), nominated("web", "a", cpu="2", labels={"busy": "", "forever": ""})
    )
    rig = SchedulerRig(*rig.objects.values(), plugins=PLUGINS)
    async with rig.running():
        await rig.settle()
        assert nominated_to(rig, "web") == "b"


async def test_pods_that_left_room_where_it_does_not_go_are_tried_at_once():
    rig = SchedulerRig(
        node("a", cpu="1", labels={"zone": "1"}),
        node("b", cpu="4", labels={"zone": "2"}),
        nominated("wanderer", "a", cpu="1", priority=5, spec={"schedulingGates": [{"name": "wait"}]}),
        pod("local", cpu="1", priority=5, node_selector={"zone": "1"}),
    )
    async with rig.running():
        await rig.settle()
        assert rig.bound == {}, "the room is kept for the wanderer"
        rig.change(Pod, "default/wanderer", {"spec": {"nodeSelector": {"zone": "2"}, "schedulingGates": []}})
        await rig.settle()
        assert rig.bound == {"default/wanderer": "b", "default/local": "a"}


# -- after a failure --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_shown", [True, False])
async def test_upstream_4_a_preemption_overwrites_a_proposal(is_shown):
    rig = SchedulerRig(node("a", cpu="1"), node("b", cpu="1"), is_shown=is_shown, is_graceful=True)
    rig.add(*(pod(name, cpu="500m", on="a", priority=1) for name in ("one", "two")))
    rig.add(pod("three", cpu="1", on="b", priority=1))
    rig.add(nominated("web", "a", cpu="1", priority=10))
    async with rig.running():
        await rig.settle()
        # Two victims on a, one on b.
        assert nominated_to(rig, "web") == "b" and ("delete", "default/three") in rig.calls
        rig.delete(Pod, "default/three")
        await rig.settle(3.0)
        assert rig.bound == {"default/web": "b"}


@pytest.mark.parametrize("is_shown", [True, False])
async def test_upstream_5_a_proposal_that_never_fits_is_kept_or_cleared(is_shown):
    rig = SchedulerRig(node("a", cpu="1"), nominated("large", "a", cpu="2"), is_shown=is_shown)
    async with rig.running():
        await rig.settle()
        assert nominated_to(rig, "large") == ("a" if is_shown else "")
        rig.add(pod("small", cpu="1"))
        await rig.settle(2.0)
        assert rig.bound == {"default/small": "a"}


@pytest.mark.parametrize("is_shown", [True, False])
async def test_upstream_6_a_higher_pod_does_not_mind_a_lower_ones_nomination(is_shown):
    rig = SchedulerRig(node("a", cpu="1"), is_shown=is_shown)
    rig.add(nominated("low", "a", cpu="1", priority=1), pod("high", cpu="1", priority=10))
    async with rig.running():
        await rig.settle(2.0)
        assert rig.bound == {"default/high": "a"}
        assert nominated_to(rig, "low") == ("a" if is_shown else "")


async def test_upstream_7_a_proposal_with_room_is_taken():
    rig = SchedulerRig(*(node(name) for name in "abcdef"), nominated("web", "e"))
    async with rig.running():
        await rig.settle()
    assert rig.bound == {"default/web": "e"} and nominated_to(rig, "web") == ""


@pytest.mark.parametrize("is_shown", [True, False])
async def test_upstream_9_a_higher_pod_takes_the_room_that_was_made(is_shown):
    rig = SchedulerRig(node("a", cpu="1"), pod("low", cpu="1", on="a"), is_shown=is_shown, is_graceful=True)
    rig.add(pod("medium", cpu="1", priority=5))
    async with rig.running():
        await rig.settle()
        assert nominated_to(rig, "medium") == "a"
        rig.add(pod("high", cpu="1", priority=10))
        rig.delete(Pod, "default/low")
        await rig.settle(5.0)
        assert rig.bound == {"default/high": "a"} and nominated_to(rig, "medium") == ("a" if is_shown else "")


@pytest.mark.parametrize("is_shown", [True, False])
@pytest.mark.parametrize("left", [[], [node("tainted", taints=["dedicated=db:NoSchedule"])]])
async def test_upstream_10_the_nominated_node_is_deleted(is_shown, left):
    rig = SchedulerRig(node("a", cpu="1"), *left, pod("low", cpu="1", on="a"), is_shown=is_shown, is_graceful=True)
    rig.add(pod("medium", cpu="1", priority=5))
    async with rig.running():
        await rig.settle()
        assert nominated_to(rig, "medium") == "a"
        rig.delete(Pod, "default/low")
        rig.delete(Node, "a")
        rig.queue.activate([pod("medium")])
        await rig.settle(5.0)
        told = "no nodes available to schedule pods"
        if left:
            told = "0/1 nodes are available: 1 node(s) had untolerated taint(s). "
            told += "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
        assert rig.conditions[-1] == ("default/medium", "Unschedulable", told)
        # Where there is no node, room is not even looked for.
        assert rig.metric("scheduler_preemption_attempts_total") == 1.0 + len(left)
        assert nominated_to(rig, "medium") == ("a" if is_shown else "")


@pytest.mark.parametrize("is_shown", [True, False])
async def test_upstream_11_a_nominated_pod_fails_in_pre_bind(is_shown):
    rig = SchedulerRig(node("a", cpu="1"), pod("low", cpu="1", on="a"), is_shown=is_shown, plugins=PLUGINS)
    rig.add(pod("medium", cpu="1", priority=5, labels={"busy": "", "unlucky": ""}))
    async with rig.running():
        await rig.settle()
        assert rig.conditions[-1] == (
            "default/medium",
            "SchedulerError",
            'running PreBind plugin "Busy": the disk is on fire',
        )
        assert nominated_to(rig, "medium") == ("a" if is_shown else "")
        await rig.settle(5.0)
        assert rig.bound == {"default/medium": "a"}


async def test_upstream_12_a_nominated_node_that_fails_is_no_obstacle():
    rig = SchedulerRig(node("a", cpu="1", unschedulable=True), node("b", cpu="1"), nominated("web", "a", cpu="1"))
    async with rig.running():
        await rig.settle()
    assert rig.bound == {"default/web": "b"} and rig.calls == [("bind", "default/web")]


async def test_what_is_left_alone_with_the_gate_off():
    rig = SchedulerRig(node("a", cpu="1"), is_shown=False)
    rig.add(nominated("web", "gone", cpu="2", spec={"preemptionPolicy": "Never"}))
    async with rig.running():
        await rig.settle()
        never = "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never."
        assert rig.conditions == [("default/web", "Unschedulable", never)]
        assert nominated_to(rig, "web") == "gone" and rig.queue.nominator.node_of(pod("web")) == "gone"


@pytest.mark.parametrize("is_shown", [True, False])
async def test_a_pod_that_permit_lets_wait_in_vain_keeps_its_nomination_or_loses_it(is_shown):
    rig = SchedulerRig(node("a"), pod("web", labels={"hold": ""}), plugins=PLUGINS, is_shown=is_shown)
    async with rig.running():
        await rig.settle(601.0)
        told = "rejected due to timeout after waiting 600s at plugin Patient"
        assert rig.conditions == [("default/web", "Unschedulable", told)]
        assert nominated_to(rig, "web") == ("a" if is_shown else "")
        # Memory says the same as the API.
        assert rig.queue.nominator.node_of(pod("web")) == ("a" if is_shown else "")
    calls = [("patch status", "default/web")] * (1 + is_shown)
    assert rig.calls == calls, "where it goes, if that is shown; then that it failed, and no more"
