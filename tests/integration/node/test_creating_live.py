"""A pod is said to be created when its volumes take their time, and not when it runs soon: then one write says both."""

from __future__ import annotations

import asyncio
import gc
from functools import partial
from typing import Any

import pytest
from node_stage import NodeStage, node_stage

from support.eventually import eventually_async
from support.scripted_driver import ScriptedDriver
from tonnage.client.http import Client
from tonnage.client.informers import Informers
from tonnage.csi.errors import Code
from tonnage.errors import TonnageError
from tonnage.node.mounts import pod_volumes
from tonnage.node.pods import worker
from tonnage.objects.core_v1 import Node, Pod


async def test_a_pod_that_runs_soon_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_CREATING_S", 3600.0)
    async with node_stage() as stage:
        await _ready_driver(stage)
        await stage.volume("data")
        await stage.attach("data")
        informers, seen = Informers(stage.client), list[Pod]()
        informers.of(Pod).on_change(seen.append)
        async with informers:
            await informers.wait_synced()
            await stage.pod("db", "data")
            await eventually_async(lambda: _is(seen and seen[-1].status.phase == "Running"))
        assert not any(_waits_for(each) for each in seen)
        # It came before it ran, and says so.
        status = seen[-1].status
        started = status.container_statuses[0].state.running
        assert status.start_time is not None and started is not None and started.started_at is not None
        assert status.start_time <= started.started_at


async def test_a_pod_that_waits_for_its_attachment_is_said_to_be_created() -> None:
    async with node_stage() as stage:
        await _ready_driver(stage)
        await stage.volume("data")
        await stage.pod("db", "data")
        await eventually_async(lambda: _is_creating(stage, "db"))
        await stage.attach("data")
        await stage.becomes("db", "Running")


async def test_a_pod_whose_driver_hangs_is_said_to_be_created_meanwhile() -> None:
    async with node_stage() as stage:
        driver = await _ready_driver(stage)
        gate = asyncio.Event()

        async def hang(method: str) -> None:
            if method == "NodeStageVolume":
                await gate.wait()

        driver.before_call = hang
        await stage.volume("data")
        await stage.attach("data")
        await stage.pod("db", "data")
        await eventually_async(lambda: _is_creating(stage, "db"))
        gate.set()
        await stage.becomes("db", "Running")


async def test_while_others_are_written_of_it_is_said_later_and_not_never(monkeypatch: pytest.MonkeyPatch) -> None:
    is_busy = True
    monkeypatch.setattr(Client, "is_writing", property(lambda _: is_busy))
    monkeypatch.setattr(worker, "_CREATING_S", 0.05)
    monkeypatch.setattr(worker, "_CREATING_IN_A_BURST_S", 3600.0)
    async with node_stage() as stage:
        driver = await _ready_driver(stage)
        gates = {"soon": asyncio.Event(), "late": asyncio.Event()}
        hanging: set[str] = set()

        async def hang(method: str) -> None:
            if method == "NodeStageVolume":
                name = driver.asked(method)[-1].volume_id.removeprefix("handle-")
                hanging.add(name)
                await gates[name].wait()

        driver.before_call = hang
        informers, seen = Informers(stage.client), list[Pod]()
        informers.of(Pod).on_change(seen.append)
        async with informers:
            await informers.wait_synced()
            for name in gates:
                await stage.volume(name)
                await stage.attach(name)
                await stage.pod(f"on-{name}", name)
                await eventually_async(partial(_is_among, name, hanging))
            gates["soon"].set()
            await stage.becomes("on-soon", "Running")
            assert not any(_waits_for(each) for each in seen)
            is_busy = False
            await eventually_async(lambda: _is_creating(stage, "on-late"))
            gates["late"].set()
            await stage.becomes("on-late", "Running")


async def test_a_burst_that_does_not_end_is_no_reason_to_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Client, "is_writing", property(lambda _: True))
    monkeypatch.setattr(worker, "_CREATING_S", 0.05)
    monkeypatch.setattr(worker, "_CREATING_IN_A_BURST_S", 0.1)
    async with node_stage() as stage:
        await _ready_driver(stage)
        await stage.volume("data")
        await stage.pod("db", "data")
        await eventually_async(lambda: _is_creating(stage, "db"))


async def test_a_pod_that_waits_is_said_to_be_created_when_no_others_are_written_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing happens to it meanwhile: that it waits is all there is to say."""
    is_busy = True
    monkeypatch.setattr(Client, "is_writing", property(lambda _: is_busy))
    monkeypatch.setattr(worker, "_CREATING_S", 0.05)
    monkeypatch.setattr(worker, "_CREATING_IN_A_BURST_S", 3600.0)
    monkeypatch.setattr(pod_volumes, "_LOOK_AGAIN_S", 3600.0)
    async with node_stage() as stage:
        await _ready_driver(stage)
        await stage.volume("data")
        await stage.pod("db", "data")
        await eventually_async(lambda: _is_reported_in_use(stage))
        is_busy = False
        await eventually_async(lambda: _is_creating(stage, "db"))


async def _is_reported_in_use(stage: NodeStage) -> bool:
    """True once the node's first look at a pod's volumes has been written."""
    return bool((await stage.client.get(Node, "node-1")).status.volumes_in_use)


async def _ready_driver(stage: NodeStage) -> ScriptedDriver:
    driver = await stage.driver()
    await stage.csi_driver()
    await stage.start()
    return driver


def _waits_for(pod: Pod) -> str:
    states = [each.state.waiting for each in pod.status.container_statuses]
    return next((each.reason for each in states if each is not None), "")


async def _is_creating(stage: NodeStage, name: str) -> bool:
    return _waits_for(await stage.client.get(Pod, f"default/{name}")) == "ContainerCreating"


async def _is_among(name: str, names: set[str]) -> bool:
    return name in names


async def _is(holds: object) -> bool:
    return bool(holds)


async def test_a_write_that_fails_beside_a_mount_that_fails_is_not_left_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The failure of the mount is what is told; that of the write must not come to light as a task nobody looked at."""
    monkeypatch.setattr(worker, "_CREATING_S", 0.05)
    unseen: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: unseen.append(told))
    async with node_stage() as stage:
        driver = await _ready_driver(stage)
        failed, patch = asyncio.Event(), stage.client.patch

        async def refuse(cls: type, key: str, change: dict[str, object], **options: Any) -> Any:
            if cls is Pod and not failed.is_set():
                failed.set()
                raise TonnageError("nobody is there")
            return await patch(cls, key, change, **options)

        async def fail(method: str) -> None:
            if method == "NodeStageVolume":
                await failed.wait()
                is_first = len(driver.asked(method)) == 1
                driver.refuse(method, Code.INTERNAL, "not today") if is_first else driver.allow(method)

        driver.before_call = fail
        monkeypatch.setattr(stage.client, "patch", refuse)
        await stage.volume("data")
        await stage.attach("data")
        await stage.pod("db", "data")
        await stage.becomes("db", "Running")  # at the next try
    gc.collect()
    assert failed.is_set() and unseen == []


@pytest.mark.parametrize("how", ["ended", "deleted"])
async def test_a_pod_that_goes_while_its_volumes_are_mounted_is_never_said_to_run(how: str) -> None:
    async with node_stage() as stage:
        driver = await _ready_driver(stage)
        reached, gate = asyncio.Event(), asyncio.Event()

        async def hang(method: str) -> None:
            if method == "NodePublishVolume":
                reached.set()
                await gate.wait()

        driver.before_call = hang
        await stage.volume("data")
        await stage.attach("data")
        informers, seen = Informers(stage.client), list[Pod]()
        informers.of(Pod).on_change(seen.append)
        async with informers:
            await informers.wait_synced()
            await stage.pod("db", "data")
            await asyncio.wait_for(reached.wait(), 60)
            if how == "ended":
                failed = {"status": {"phase": "Failed", "reason": "Evicted"}}
                await stage.client.patch(Pod, "default/db", failed, subresource="status")
            else:
                await stage.client.delete(Pod, "default/db")
            pods_here = stage.program.informers.of(Pod, field_selector="spec.nodeName!=")
            await eventually_async(lambda: _is(_goes(pods_here.get("default/db"))))
            gate.set()
            await eventually_async(lambda: _is(driver.asked("NodeUnpublishVolume")))
        assert [each.status.phase for each in seen if each.status.phase == "Running"] == []


def _goes(pod: Pod | None) -> bool:
    return pod is None or pod.is_terminal or pod.metadata.is_terminating
