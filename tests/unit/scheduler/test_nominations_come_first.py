"""A nomination is written, and answered, before anything else is done for the pod: in bursts, and when it fails."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from scheduler_volume_rig import SchedulerRig

from tonnage.client.errors import Disconnected
from tonnage.client.leadership import NotLeading
from tonnage.errors import (
    Conflict,
    Forbidden,
    InternalError,
    Invalid,
    NotFound,
    ServiceUnavailable,
    Timeout,
    TonnageError,
    TooManyRequests,
)
from tonnage.objects.core_v1 import PersistentVolumeClaim, Pod
from tonnage.scheduler.nominations import TRIES
from tonnage.scheduling.framework import SUCCESS, Api, Cycle, PreBindPlugin, Status
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class, volume

MANY = 24
"""More pods than are tried between two turns of the event loop: the first bindings begin while others wait."""
NAMES = [f"db-{number:02}" for number in range(MANY)]


def burst(*names: str, is_shown: bool = True, slots: int = 256) -> SchedulerRig:
    """As many nodes as pods, and each pod has a claim that is provisioned where it goes."""
    rig = SchedulerRig(storage_class(), driver(), is_shown=is_shown, slots=slots)
    for name in names:
        rig.add(node(name), capacity("fast", name, "100Gi"), claim(name))
    rig.add(*(pod_with(name, name) for name in names))
    return rig


def nominated_to(rig: SchedulerRig, name: str) -> str:
    found = rig.pod(f"default/{name}")
    return found.status.nominated_node_name if found is not None else "gone"


def place_of(rig: SchedulerRig, verb: str, name: str) -> int:
    return rig.calls.index((verb, f"default/{name}"))


# -- in a burst -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slots", [4, 256])
async def test_in_a_burst_every_pod_is_nominated_before_its_claim_is_written(slots):
    rig = burst(*NAMES, slots=slots)
    written_too_early: list[str] = []

    def look(name: str) -> None:
        if not nominated_to(rig, name):
            written_too_early.append(name)

    for name in NAMES:
        rig.at_call["patch", f"default/{name}"] = partial(look, name)
    async with rig.running():
        await rig.settle()
        assert [nominated_to(rig, name) for name in NAMES] == [rig.claim(name).selected_node for name in NAMES]
    assert not written_too_early
    assert sorted(rig.calls) == sorted((verb, f"default/{n}") for verb in ("patch", "patch status") for n in NAMES)


async def test_pods_whose_volumes_come_quickly_are_nominated_all_the_same():
    rig = burst(*NAMES)

    def provision_soon(name: str) -> None:  # when the claim is written
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.call_soon, rig.provision, name)

    for name in NAMES:
        rig.at_call["patch", f"default/{name}"] = partial(provision_soon, name)
    async with rig.running():
        await rig.settle(1.0)
    assert len(rig.bound) == MANY
    for name in NAMES:
        order = [place_of(rig, verb, name) for verb in ("patch status", "patch", "bind")]
        assert order == sorted(order)


async def test_a_volume_that_is_given_to_a_pod_is_written_after_the_nomination():
    local = storage_class("local", provisioner="kubernetes.io/no-provisioner")
    rig = SchedulerRig(local)
    for name in NAMES:
        rig.add(node(name), claim(name, class_name="local"), volume(f"disk-{name}", on=name, class_name="local"))
    rig.add(*(pod_with(name, name) for name in NAMES))
    async with rig.running():
        await rig.settle()
    for name in NAMES:
        nominated = place_of(rig, "patch status", name)
        (given,) = [key for key, patch in rig.writes if patch["spec"]["claimRef"]["name"] == name]
        assert nominated < rig.calls.index(("patch", given))


async def test_whatever_a_plugin_prepares_comes_after_the_nomination():
    prepared: list[str] = []

    class Other(PreBindPlugin):
        name = "Other"

        def __init__(self, args: Any) -> None: ...

        async def pre_bind(self, cycle: Cycle, node_name: str, api: Api) -> Status:
            prepared.append(nominated_to(rig, cycle.pod.pod.name))
            return SUCCESS

    rig = SchedulerRig(node("a", cpu="100"), *(pod(name) for name in NAMES), plugins=[Other])
    async with rig.running():
        await rig.settle()
    assert prepared == ["a"] * MANY


async def test_with_the_gate_off_nobody_is_nominated():
    rig = burst(*NAMES, is_shown=False)
    async with rig.running():
        await rig.settle()
    assert {verb for verb, _ in rig.calls} == {"patch"}


# -- when the write fails ---------------------------------------------------------------------------------------------

LATER: tuple[TonnageError, ...] = (
    InternalError("etcd has no leader"),
    ServiceUnavailable("not now"),
    TooManyRequests("too many"),
    Timeout("too slow"),
    Conflict("somebody was faster"),
    Disconnected("PATCH", "/api/v1", "connection reset", in_doubt=True),
)
FOR_GOOD: tuple[TonnageError, ...] = (
    Forbidden('pods "db" is forbidden'),
    Invalid("a webhook minds"),
    NotFound("no such subresource"),
    NotLeading("a write", "kube-system/s", None, 10.0),
)


@pytest.mark.parametrize("failure", LATER, ids=lambda each: type(each).__name__)
async def test_a_write_that_may_go_well_later_is_tried_again_and_the_claim_waits(failure):
    rig = burst("db")
    rig.refuse_status = [failure] * (TRIES - 1)
    async with rig.running():
        await rig.settle()
        assert not rig.claim("db").selected_node
        await rig.settle(10.0)
        assert nominated_to(rig, "db") == rig.claim("db").selected_node == "db"
    assert [verb for verb, _ in rig.calls] == ["patch status"] * TRIES + ["patch"]


@pytest.mark.parametrize("failure", FOR_GOOD, ids=lambda each: type(each).__name__)
async def test_a_server_that_refuses_nominations_for_good_keeps_no_pod_from_running(failure):
    rig = burst("db")
    rig.refuse_status = [failure] * 100
    async with rig.running():
        await rig.settle()
        assert rig.claim("db").selected_node == "db"
        rig.provision("db")
        await rig.settle(60.0)
        assert rig.bound == {"default/db": "db"}
    assert [verb for verb, _ in rig.calls] == ["patch status", "patch", "bind"]


async def test_a_nomination_that_fails_for_long_is_repeated_while_the_volume_is_made():
    rig = burst("db")
    rig.refuse_status = [ServiceUnavailable("not now")] * (TRIES + 3)
    async with rig.running():
        await rig.settle(10.0)
        assert rig.claim("db").selected_node == "db" and not nominated_to(rig, "db"), "the claim was not kept waiting"
        await rig.settle(120.0)
        assert nominated_to(rig, "db") == "db"
        rig.provision("db")
        await rig.settle()
        assert rig.bound == {"default/db": "db"}
    assert [verb for verb, _ in rig.calls].count("patch status") == TRIES + 4, "and no more"


@pytest.mark.parametrize("end", ["bound", "deleted", "failed", "stopped"])
async def test_repeating_ends_with_the_binding(end, caplog):
    rig = burst("db")
    rig.refuse_status = [ServiceUnavailable("not now")] * 1000

    def tries() -> int:
        return sum(each.getMessage() == "Cannot write a nomination" for each in caplog.records)

    async with rig.running():
        await rig.settle(10.0)
        if end == "bound":
            rig.provision("db")
        elif end == "deleted":
            rig.delete(Pod, "default/db")
        elif end == "failed":
            rig.delete(PersistentVolumeClaim, "default/db")
        if end != "stopped":
            await rig.settle()
            before = tries()
            await rig.settle(300.0)
            assert tries() == before >= TRIES
    before = tries()
    await rig.settle(300.0)
    assert tries() == before


async def test_a_nomination_under_way_arrives_before_the_binding():
    """The volume comes while a repeated nomination is being written: the binding waits for its answer."""
    rig = burst("db")
    rig.refuse_status = [ServiceUnavailable("not now")] * TRIES

    async with rig.running():
        await rig.settle(9.5)
        assert rig.claim("db").selected_node == "db"
        rig.at_call["patch status", "default/db"] = lambda: rig.provision("db")
        await rig.settle(60.0)
        assert rig.bound == {"default/db": "db"}
        found = rig.pod("default/db")
        assert found is not None and not found.status.nominated_node_name, "nothing came after the binding"
    assert [verb for verb, _ in rig.calls][-2:] == ["patch status", "bind"]


async def test_pods_that_wait_for_their_nomination_lend_their_slots_out():
    rig = burst("db", "other", slots=1)
    rig.delete(Pod, "default/other")
    rig.refuse_status = [ServiceUnavailable("not now")] * TRIES
    async with rig.running():
        await rig.settle()
        rig.add(pod("web"))
        await rig.settle(0.1)
        assert set(rig.bound) == {"default/web"} and not rig.claim("db").selected_node


async def test_a_scheduler_that_is_stopped_does_not_wait_for_the_next_try():
    rig = burst("db")
    rig.refuse_status = [ServiceUnavailable("not now")] * TRIES
    async with rig.running() as running:
        await rig.settle()
        running.cancel()
        await rig.settle()
        assert running.done()
    assert not rig.claim("db").selected_node and "db" not in rig.bound
