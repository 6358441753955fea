"""Nominations that may follow: whose, when they are written at the latest, and that none is written too late."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from scheduler_volume_rig import Rig

from tonnage.clock import VirtualClock
from tonnage.errors import Conflict
from tonnage.objects.core_v1 import Pod
from tonnage.scheduler.following_nominations import (
    BURST_S,
    BURST_STEPS,
    PATIENCE_S,
    WRITERS,
    Burst,
    FollowingNominations,
)
from tonnage.scheduler.loop import SchedulingLoop
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.framework import SUCCESS, Api, Cycle, PreBindPlugin, Status
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class, volume

MANY = 24
"""More pods than are tried between two turns of the event loop: the first bindings begin while others wait."""
NAMES = [f"db-{number:02}" for number in range(MANY)]


def burst(*, is_shown: bool = True, slots: int = 256, **status: Any) -> Rig:
    """As many nodes as pods, and each pod has a claim that is provisioned where it goes."""
    rig = Rig(storage_class(), driver(), is_shown=is_shown, slots=slots)
    for name in NAMES:
        rig.add(node(name), capacity("fast", name, "100Gi"), claim(name))
    rig.add(*(pod_with(name, name, status=status) for name in NAMES))
    return rig


def nominated_to(rig: Rig, name: str) -> str:
    found = rig.pod(f"default/{name}")
    return found.status.nominated_node_name if found is not None else "gone"


def place_of(rig: Rig, verb: str, name: str) -> int:
    return rig.calls.index((verb, f"default/{name}"))


# -- in the scheduler -------------------------------------------------------------------------------------------------


async def test_in_a_burst_claims_are_written_first_and_every_pod_is_nominated_once():
    rig = burst()
    async with rig.running():
        await rig.settle()
        selected = [rig.claim(name).selected_node for name in NAMES]
        assert not any(nominated_to(rig, name) for name in NAMES[1:]), "the burst may go on"
        await rig.settle(2 * BURST_S)
        assert all(selected) and [nominated_to(rig, name) for name in NAMES] == selected
    assert sorted(rig.calls) == sorted((verb, f"default/{n}") for verb in ("patch", "patch status") for n in NAMES)
    first = NAMES[0]
    assert place_of(rig, "patch", first) < place_of(rig, "patch status", first), "it followed"


async def test_pods_that_come_one_after_the_other_are_a_burst_too():
    """Each is tried as soon as it comes, and none waits: their claims are written first all the same."""
    rig = Rig(storage_class(), driver())
    for name in NAMES:
        rig.add(node(name), capacity("fast", name, "100Gi"), claim(name))
    async with rig.running():
        for name in NAMES:
            rig.add(pod_with(name, name))
            await rig.settle(BURST_S / BURST_STEPS / 2)
            rig.provision(name)
        await rig.settle(10.0)
    nominated = [key.partition("/")[2] for verb, key in rig.calls if verb == "patch status"]
    assert nominated and nominated == NAMES[: len(nominated)] and len(nominated) < BURST_STEPS, "before it was one"
    for name in nominated:
        assert place_of(rig, "patch status", name) < place_of(rig, "patch", name)
    assert [key for verb, key in rig.calls if verb == "bind"] == [f"default/{name}" for name in NAMES]


async def test_a_pod_that_comes_alone_is_nominated_before_anything_is_waited_for():
    rig = burst()
    async with rig.running():
        await rig.settle(10.0)
        rig.add(node("alone"), capacity("fast", "alone", "100Gi"), claim("alone"), pod_with("alone", "alone"))
        await rig.settle()
    assert place_of(rig, "patch status", "alone") < place_of(rig, "patch", "alone")


@pytest.mark.parametrize(
    "status",
    [
        {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
        {"nominatedNodeName": "gone"},
    ],
    ids=["told that it fits nowhere", "proposed elsewhere"],
)
async def test_whoever_was_told_otherwise_hears_of_it_before_anything_is_waited_for(status):
    rig = burst(**status)
    async with rig.running():
        await rig.settle()
    for name in NAMES:
        assert place_of(rig, "patch status", name) < place_of(rig, "patch", name)


async def test_what_does_not_say_itself_where_a_pod_goes_waits_for_the_nomination():
    prepared: list[str] = []

    class Other(PreBindPlugin):
        name = "Other"

        def __init__(self, args: Any) -> None: ...

        async def pre_bind(self, cycle: Cycle, node_name: str, api: Api) -> Status:
            prepared.append(nominated_to(rig, cycle.pod.pod.name))
            return SUCCESS

    rig = Rig(node("a", cpu="100"), *(pod(name) for name in NAMES), plugins=[Other])
    async with rig.running():
        await rig.settle()
    assert prepared == ["a"] * MANY


async def test_a_pod_whose_volume_comes_before_its_turn_is_bound_without_a_nomination():
    rig = burst()
    first = NAMES[0]

    def provision() -> None:  # before the last pod's claim is written, when the first one's is
        rig.provision(first)

    rig.at_call["patch", f"default/{NAMES[-1]}"] = provision
    async with rig.running():
        await rig.settle()
        assert rig.bound == {f"default/{first}": rig.claim(first).selected_node}
    nominated = [key for verb, key in rig.calls if verb == "patch status"]
    assert nominated.count(f"default/{first}") <= 1
    if f"default/{first}" in nominated:
        assert place_of(rig, "patch status", first) < place_of(rig, "bind", first)


async def test_a_loop_that_is_never_idle_nominates_every_pod_all_the_same():
    rig = burst(slots=4)
    rig.hold = asyncio.Event()
    rig.add(*(pod(f"hangs-{number}") for number in range(5)))  # four bindings hang, and the fifth pod waits for a slot
    async with rig.running():
        await rig.settle()
        assert rig.loop.is_busy and not nominated_to(rig, NAMES[0])
        await rig.settle(PATIENCE_S + 1.0)
        assert rig.loop.is_busy
        assert [nominated_to(rig, name) for name in NAMES] == [rig.claim(name).selected_node for name in NAMES]
        rig.hold.set()


async def test_what_is_written_to_a_volume_first_waits_for_the_nomination():
    local = storage_class("local", provisioner="kubernetes.io/no-provisioner")
    rig = Rig(storage_class(), driver(), local)
    for name in NAMES:
        rig.add(node(name), capacity("fast", name, "100Gi"), claim(name), claim(f"{name}-disk", class_name="local"))
        rig.add(volume(f"disk-{name}", on=name, class_name="local"))
    rig.add(*(pod_with(name, name, f"{name}-disk") for name in NAMES))
    async with rig.running():
        await rig.settle()
    for name in NAMES:
        given = rig.calls.index(("patch", f"disk-{rig.claim(name).selected_node}"))
        assert place_of(rig, "patch status", name) < given < place_of(rig, "patch", name)


async def test_a_binding_that_fails_takes_its_nomination_with_it():
    """The claim's write is refused before the nomination's turn; the pod goes on to where it is sent next."""
    rig = burst()
    rig.refuse = [Conflict("somebody was faster") for _ in range(MANY // 2)]
    async with rig.running():
        await rig.settle()
        await rig.settle(60.0)
        assert [nominated_to(rig, name) for name in NAMES] == [rig.claim(name).selected_node for name in NAMES]


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_happens_to_pods_nobody_reads_where_one_does_not_go(seed, monkeypatch):
    """Claims that are refused, volumes that come, pods that are deleted and made again, beside others or alone."""
    rng = random.Random(seed)
    is_busy = True
    monkeypatch.setattr(
        SchedulingLoop, "is_busy", property(lambda loop: is_busy, lambda loop, value: None), raising=False
    )
    rig = burst()

    def check() -> None:
        for each in list(rig.objects.values()):
            if isinstance(each, Pod) and each.status.nominated_node_name:
                assert not each.spec.node_name, "nominated after it was bound"
                placed = rig.cluster.node_of(each.metadata.uid)
                assert placed in (None, each.status.nominated_node_name), "nominated where it does not go"

    async with rig.running():
        for step in range(60):
            name = rng.choice(NAMES)
            is_there, wanted = rig.pod(f"default/{name}") is not None, rig.claim(name)
            match rng.randrange(4):
                case 0:
                    rig.refuse.append(Conflict("somebody was faster"))
                case 1 if is_there and wanted.selected_node and not wanted.spec.volume_name:
                    rig.provision(name)
                case 2 if is_there:
                    rig.delete(Pod, f"default/{name}")
                    rig.bound.pop(f"default/{name}", None)
                    rig.add(pod_with(name, name, metadata={"uid": f"{name}-{step}"}))
                case _:
                    is_busy = not is_busy
            for _ in range(rng.randrange(4)):
                await asyncio.sleep(0)
                check()
            await rig.settle(rng.choice([0.0, 0.5, 3.0]))
            check()
        await rig.settle(PATIENCE_S + 1.0)
        waiting = [name for name in NAMES if not rig.claim(name).spec.volume_name]
        assert [nominated_to(rig, name) for name in waiting] == [rig.claim(name).selected_node for name in waiting]


async def test_with_the_gate_off_nothing_follows():
    rig = burst(is_shown=False)
    async with rig.running():
        await rig.settle()
    assert {verb for verb, _ in rig.calls} == {"patch"}


# -- by itself --------------------------------------------------------------------------------------------------------


class Told:
    """Who was told, and writes that take until they are let go."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.pods: list[str] = []
        self.is_busy = True
        self.go = asyncio.Event()
        self.go.set()
        self.following = FollowingNominations(self.write, self.clock, is_busy=lambda: self.is_busy)

    async def write(self, pod: PodInfo, node_name: str) -> None:
        self.pods.append(pod.pod.name)
        await self.go.wait()

    def note(self, *names: str) -> list[PodInfo]:
        pods = [PodInfo(pod(name)) for name in names]
        for each in pods:
            self.following.note(each, "a")
        return pods


async def test_it_waits_while_others_are_tried_and_no_longer_than_its_patience():
    told = Told()
    told.note("one")
    await told.clock.run_for(PATIENCE_S - 1.0)
    told.note("two")
    told.following.wake()
    await told.following.settle()
    assert told.pods == []
    await told.clock.run_for(1.0)
    told.following.wake()
    await told.following.settle()
    assert told.pods == ["one"], "the other has not waited long enough"
    told.is_busy = False
    told.following.wake()
    await told.following.settle()
    assert told.pods == ["one", "two"]


async def test_the_end_of_a_burst_is_looked_for():
    told = Told()
    told.note("one", "two")
    await told.clock.run_for(2 * BURST_S)
    assert told.pods == []
    told.is_busy = False
    await told.clock.run_for(BURST_S)
    assert told.pods == ["one", "two"]


async def test_a_burst_is_many_steps_within_a_moment():
    clock = VirtualClock()
    burst = Burst(clock)
    for _ in range(BURST_STEPS - 1):
        burst.step()
        assert not burst.is_on, "few"
    await clock.run_for(BURST_S)
    burst.step()
    assert not burst.is_on, "long after the others"
    for _ in range(BURST_STEPS - 1):
        await clock.run_for(BURST_S / BURST_STEPS)
        burst.step()
    assert burst.is_on
    await clock.run_for(BURST_S / BURST_STEPS)
    assert not burst.is_on, "one alone would have been no burst"


async def test_whoever_comes_while_some_are_overdue_writes_one_of_them():
    told = Told()
    (early,) = told.note("early")
    await told.clock.run_for(BURST_S / 2)
    told.note("one", "two")
    await told.following.over(early.uid)
    await told.clock.run_for(PATIENCE_S)  # no look comes at that very moment
    told.note("three")
    await told.following.write_overdue()
    assert told.pods == ["one"]
    await told.following.write_overdue()
    await told.following.write_overdue()
    assert told.pods == ["one", "two"], "the third has not waited yet"


async def test_few_are_written_at_a_time():
    told = Told()
    told.is_busy = False
    told.go.clear()
    names = [f"p{number}" for number in range(3 * WRITERS)]
    told.note(*names)
    told.following.wake()
    await told.clock.run_for(0.0)
    assert told.pods == names[:WRITERS]
    told.go.set()
    await told.following.settle()
    assert told.pods == names


async def test_a_write_that_hangs_keeps_no_other_waiting():
    told = Told()
    told.is_busy = False
    told.go.clear()
    told.note("hangs")
    told.following.wake()
    await told.clock.run_for(0.0)
    told.note("next")
    told.following.wake()
    await told.clock.run_for(0.0)
    assert told.pods == ["hangs", "next"]
    told.go.set()
    await told.following.settle()


async def test_what_is_over_is_not_written_and_what_is_being_written_is_waited_for():
    told = Told()
    told.is_busy = False
    told.go.clear()
    one, two = told.note("one", "two")
    await told.following.over(two.uid)
    told.following.wake()
    await told.clock.run_for(0.0)
    over = asyncio.create_task(told.following.over(one.uid))
    await told.clock.run_for(0.0)
    assert told.pods == ["one"] and not over.done()
    told.go.set()
    await over
    assert told.pods == ["one"]


@pytest.mark.parametrize("how", ["close", "stop"])
async def test_the_end_forgets_what_was_not_written(how):
    told = Told()
    told.note("one")
    if how == "stop":
        told.is_busy = False
        told.go.clear()
        told.note("two")
        told.following.wake()
        await told.clock.run_for(0.0)
        await told.following.stop()
    told.following.close()
    told.is_busy = False
    told.following.wake()
    await told.following.settle()
    assert told.pods == (["one", "two"] if how == "stop" else [])


async def test_a_write_that_fails_by_a_fault_of_ours_keeps_no_binding_waiting():
    told = Told()
    told.is_busy = False

    async def broken(pod: PodInfo, node_name: str) -> None:
        raise RuntimeError("ours")

    told.following = FollowingNominations(broken, told.clock, is_busy=lambda: False)
    (one,) = told.note("one")
    told.following.wake()
    await told.following.over(one.uid)
    await told.following.settle()
