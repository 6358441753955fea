"""KEP-4876's updater: a real driver on a real socket, on virtual time. The first four are the KEP's own list."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from prometheus_client import CollectorRegistry

from support.node_context import node_context
from support.scripted_driver import ScriptedDriver
from support.virtual_clock import VirtualClock
from tonnage.errors import Conflict, Invalid, TonnageError
from tonnage.gates import Gates
from tonnage.node.context import NodeFaults
from tonnage.node.drivers import AttachLimitUpdater, Drivers, InstalledDriver
from tonnage.testing.storage_builders import DRIVER, driver


class Idleness(NodeFaults):
    """The node does nothing while `idle` says so."""

    idle = False

    def is_idle(self, node: str) -> bool:
        return self.idle


class AttachLimitsRig:
    """One node with one driver; `written` is every count that went into its CSINode."""

    def __init__(self, folder: Path, *, gate_on: bool = True) -> None:
        self.clock = VirtualClock()
        self.registry = CollectorRegistry()
        self.plugin = ScriptedDriver(f"unix://{folder}/csi.sock", node_id="node-1", name=DRIVER, max_volumes=8)
        self.faults = Idleness(None, clock=self.clock)
        self.context = node_context(
            "node-1",
            folder,
            self.plugin.address,
            clock=self.clock,
            registry=self.registry,
            faults=self.faults,
            gates=Gates().with_(MutableCSINodeAllocatableCount=gate_on),
        )
        self.known = self.context.csi_drivers
        self.written: list[int] = []
        self.refusals = 0
        self.refusal: TonnageError = Conflict("somebody was faster")
        self.drivers = Drivers(self.context, lambda name: self.updater.sync(name))
        self.updater = AttachLimitUpdater(self.context, self.drivers, self._write)
        self.known.on_change(lambda found: self.updater.sync(found.name))

    async def _write(self, found: InstalledDriver) -> bool:
        if self.refusals:
            self.refusals -= 1
            raise self.refusal
        self.written.append(found.info.max_volumes_per_node)
        return True

    def period(self, seconds: int | None) -> None:
        spec: dict[str, Any] = {} if seconds is None else {"nodeAllocatableUpdatePeriodSeconds": seconds}
        self.known.put(driver(**spec))

    async def advance(self, seconds: float) -> None:
        """Move time on, and let what woke ask its driver: real sockets need real turns of the loop."""
        await self.clock.run_for(seconds)
        before = -1
        while before != len(self.plugin.calls) or self.is_busy:
            before = len(self.plugin.calls)
            await asyncio.sleep(0.005)
        await self.clock.run_for(0)

    def remove_socket(self) -> None:
        Path(self.plugin.address.removeprefix("unix://")).unlink()

    @property
    def is_busy(self) -> bool:
        return any(lock.locked() for lock in self.updater._locks.values())

    def sample(self, name: str, trigger: str) -> float | None:
        return self.registry.get_sample_value(name, {"driver_name": DRIVER, "trigger": trigger})


def play(story: Callable[[AttachLimitsRig], Awaitable[None]], *, gate_on: bool = True) -> None:
    async def stage() -> None:
        folder = Path(tempfile.mkdtemp(prefix="t"))
        rig = AttachLimitsRig(folder, gate_on=gate_on)
        try:
            async with rig.plugin.served():
                await rig.drivers.poll()
                await story(rig)
        finally:
            await rig.updater.stop()
            await rig.drivers.close()
            shutil.rmtree(folder)

    asyncio.run(stage())


def test_when_the_period_is_modified_the_updater_is_reconfigured():
    async def story(rig: AttachLimitsRig) -> None:
        rig.period(60)
        await rig.advance(59.0)
        assert (rig.updater.running, rig.written) == ({DRIVER: 60}, [])
        await rig.advance(1.0)
        assert rig.written == [8]
        rig.period(10)
        rig.plugin.max_volumes = 5
        # The first tick of the new rhythm comes one period after the change: at 70 s, not at 120 s.
        await rig.advance(9.0)
        assert (rig.updater.running, rig.written) == ({DRIVER: 10}, [8])
        await rig.advance(1.0)
        await rig.advance(10.0)
        assert rig.written == [8, 5, 5]

    play(story)


def test_with_a_nil_period_the_updater_is_terminated():
    async def story(rig: AttachLimitsRig) -> None:
        rig.period(10)
        await rig.advance(10.0)
        rig.period(None)
        await rig.advance(100.0)
        assert (rig.updater.running, rig.written) == ({}, [8])
        rig.period(10)
        rig.period(0)
        assert rig.updater.running == {}

    play(story)


def test_when_the_driver_is_not_installed_the_updater_is_terminated():
    async def story(rig: AttachLimitsRig) -> None:
        rig.period(10)
        assert rig.updater.running == {DRIVER: 10}
        rig.remove_socket()
        await rig.drivers.poll()
        assert rig.updater.running == {} and rig.drivers.gone == {DRIVER}
        await rig.advance(100.0)
        assert rig.written == []

    play(story)


def test_when_the_driver_is_not_found_in_the_informer_the_updater_is_terminated():
    async def story(rig: AttachLimitsRig) -> None:
        rig.period(10)
        rig.known.remove(DRIVER)
        await rig.advance(100.0)
        assert (rig.updater.running, rig.written) == ({}, [])

    play(story)


def test_without_the_gate_there_are_no_updates():
    async def story(rig: AttachLimitsRig) -> None:
        rig.period(10)
        await rig.advance(100.0)
        assert (rig.updater.running, rig.written) == ({}, [])

    play(story, gate_on=False)


def test_a_csi_driver_that_changes_in_other_ways_does_not_disturb_the_rhythm():
    async def story(rig: AttachLimitsRig) -> None:
        rig.period(10)
        await rig.advance(6.0)
        rig.known.put(driver(nodeAllocatableUpdatePeriodSeconds=10, podInfoOnMount=True))
        await rig.advance(4.0)
        assert rig.written == [8]

    play(story)


def test_a_driver_that_does_not_answer_keeps_its_last_value_and_is_asked_again_in_time():
    async def story(rig: AttachLimitsRig) -> None:
        rig.period(10)
        rig.plugin.refuse("NodeGetInfo", grpc.StatusCode.INTERNAL, "not now")
        await rig.advance(10.0)
        assert rig.written == [] and rig.drivers.get(DRIVER).info.max_volumes_per_node == 8
        rig.plugin.allow("NodeGetInfo")
        rig.plugin.max_volumes = 3
        await rig.advance(10.0)
        assert rig.written == [3]
        # Two were tried, one failed.
        assert rig.sample("csi_node_updates_total", "periodic") == 2
        assert rig.sample("csi_node_update_errors_total", "periodic") == 1

    play(story)


def test_a_node_that_is_stopped_asks_nobody():
    async def story(rig: AttachLimitsRig) -> None:
        rig.period(10)
        rig.faults.idle = True
        await rig.advance(20.0)
        assert rig.written == []
        rig.faults.idle = False
        await rig.advance(10.0)
        assert rig.written == [8]

    play(story)


def test_an_attach_without_a_slot_updates_at_once_and_tries_again_after_a_pause_that_grows():
    async def story(rig: AttachLimitsRig) -> None:
        rig.period(600)
        rig.plugin.max_volumes = 2
        rig.refusals = 2
        asking = asyncio.create_task(rig.updater.update_now(DRIVER))
        await rig.advance(0.0)
        assert not asking.done()
        await rig.advance(0.15)  # the first pause is 0.1 to 0.15 s
        assert not asking.done()
        await rig.advance(0.19)  # the second 0.2 to 0.3 s
        assert not asking.done()
        await rig.advance(0.11)
        assert await asking and rig.written == [2]
        assert rig.sample("csi_node_update_errors_total", "exhausted") == 2

    play(story)


def test_an_update_that_fails_for_good_is_given_up():
    async def story(rig: AttachLimitsRig) -> None:
        rig.period(600)
        rig.plugin.refuse("NodeGetInfo", grpc.StatusCode.INTERNAL, "not now")
        asking = asyncio.create_task(rig.updater.update_now(DRIVER))
        for _ in range(6):
            await rig.advance(2.0)
        assert await asking is False
        assert rig.sample("csi_node_update_errors_total", "exhausted") == 5

    play(story)


def test_an_update_that_the_server_does_not_take_is_not_pressed_and_is_told_once(caplog: pytest.LogCaptureFixture):
    async def story(rig: AttachLimitsRig) -> None:
        rig.refusals, rig.refusal = 100, Invalid("spec.drivers: field is immutable")
        rig.period(10)
        assert await rig.updater.update_now(DRIVER) is False
        assert rig.sample("csi_node_update_errors_total", "exhausted") == 1
        for _ in range(3):
            await rig.advance(10.0)
        assert rig.sample("csi_node_update_errors_total", "periodic") == 3
        rig.refusal = Invalid("spec.drivers: something else")
        await rig.advance(10.0)

    play(story)
    told = [each for each in caplog.records if "could not be updated" in each.getMessage()]
    # Once for each of the two causes, though five updates failed.
    assert len(told) == 2


def test_many_who_notice_together_ask_the_driver_once():
    async def story(rig: AttachLimitsRig) -> None:
        rig.period(600)
        asked = len(rig.plugin.asked("NodeGetInfo"))
        await rig.clock.run_for(1.0)
        done = await asyncio.gather(*(rig.updater.update_now(DRIVER) for _ in range(10)))
        assert all(done) and len(rig.plugin.asked("NodeGetInfo")) == asked + 1
        await rig.clock.run_for(1.0)
        await rig.updater.update_now(DRIVER)
        assert len(rig.plugin.asked("NodeGetInfo")) == asked + 2

    play(story)


def test_a_limit_that_cannot_be_written_leaves_the_node_out_of_step_until_it_is():
    async def story(rig: AttachLimitsRig) -> None:
        def mismatched() -> float | None:
            return rig.registry.get_sample_value("tonnage_attach_limit_mismatch_nodes", {"driver_name": DRIVER})

        rig.refusals, rig.refusal = 100, Invalid("spec.drivers: field is immutable")
        rig.period(10)
        assert await rig.updater.update_now(DRIVER) is False
        assert mismatched() == 1.0
        rig.refusals = 0
        await rig.advance(10.0)
        assert mismatched() == 0.0

    play(story)
