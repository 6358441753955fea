"""Drivers that a node had before it was restarted: they have a while to come back before they are taken for gone."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.eventually import eventually_async
from support.node_context import node_context
from support.scripted_driver import ScriptedDriver
from support.virtual_clock import VirtualClock
from tonnage.node.drivers import Drivers

NAME = "csi.example"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A unix socket needs a short path."""
    with tempfile.TemporaryDirectory(prefix="t") as made:
        yield Path(made)


class Restarted:
    """A node's drivers after a restart: the record of one driver is there, its socket is not."""

    def __init__(self, folder: Path, *addresses: str) -> None:
        self.address = f"unix://{folder}/csi.sock"
        registry = folder / "node/plugins_registry"
        registry.mkdir(parents=True, mode=0o700)
        registry.joinpath(f"{NAME}.json").write_text(json.dumps({"driverName": NAME, "address": self.address}))
        registry.joinpath(f"{NAME}.json").chmod(0o600)
        self.clock = VirtualClock()
        self.changed: list[str] = []
        self.drivers = Drivers(
            node_context("node", folder, *addresses or (self.address,), clock=self.clock, csi_timeout_s=5.0),
            self.changed.append,
        )
        self.drivers.recover()

    async def poll_after(self, seconds: float) -> set[str]:
        """Who is gone at the poll that comes after these seconds."""
        self.clock.advance(seconds)
        await self.drivers.poll()
        return self.drivers.gone


async def test_a_driver_that_is_not_back_yet_is_not_gone_until_the_grace_of_the_start_is_over(folder: Path) -> None:
    node = Restarted(folder)
    assert node.drivers.gone == set()
    assert await node.poll_after(0.0) == set()
    assert await node.poll_after(29.5) == set() and node.changed == []
    assert await node.poll_after(0.5) == {NAME}  # 29.5 s + 0.5 s
    assert node.changed == [NAME], "its entry is taken out without waiting for another event"
    node.drivers.unregistered(NAME)
    assert await node.poll_after(60.0) == set()
    assert not (folder / "node/plugins_registry" / f"{NAME}.json").exists()


async def test_a_driver_that_comes_back_within_the_grace_was_never_gone(folder: Path) -> None:
    node = Restarted(folder)
    assert await node.poll_after(10.0) == set()
    async with ScriptedDriver(node.address, node_id="n", name=NAME).served():
        assert await node.poll_after(10.0) == set()
        assert node.drivers.is_installed(NAME)
        assert await node.poll_after(60.0) == set()
    assert await node.poll_after(0.5) == {NAME}, "a socket that goes while we look is a driver that goes"
    await node.drivers.close()


async def test_a_driver_at_another_address_than_before_is_waited_for_too(folder: Path) -> None:
    other = f"unix://{folder}/other.sock"
    node = Restarted(folder, other)
    assert await node.poll_after(0.0) == set()
    async with ScriptedDriver(other, node_id="n", name=NAME).served():
        assert await node.poll_after(31.0) == set() and node.drivers.is_installed(NAME)
    await node.drivers.close()


async def test_a_driver_whose_socket_was_left_behind_is_waited_for_as_long_as_it_takes(folder: Path) -> None:
    node = Restarted(folder)
    (folder / "csi.sock").touch()
    node.clock.advance(31.0)
    polling = asyncio.create_task(node.drivers.poll())
    while not polling.done():  # nobody answers there: the poll gives up after a while
        await node.clock.run_for(1.0)
    assert node.drivers.gone == set()
    await node.drivers.close()


@pytest.mark.parametrize("name", ["", "../../../escaped", "a/b", "a" * 64, "a..b", "\x00"])
async def test_a_driver_whose_name_is_none_is_not_installed_and_names_no_file(folder: Path, name: str) -> None:
    node = Restarted(folder)
    async with ScriptedDriver(node.address, node_id="n", name=name).served():
        await node.drivers.poll()
        assert node.drivers.installed() == ()
    assert await asyncio.to_thread(lambda: [each.name for each in folder.rglob("*.json")]) == [f"{NAME}.json"]
    await node.drivers.close()


async def test_a_driver_that_does_not_answer_keeps_no_other_waiting(folder: Path) -> None:
    other, answers = f"unix://{folder}/other.sock", asyncio.Event()
    node = Restarted(folder, f"unix://{folder}/csi.sock", other)
    silent = ScriptedDriver(node.address, node_id="n", name="silent.example")

    async def wait(_: str) -> None:
        await answers.wait()

    silent.before_call = wait
    async with silent.served(), ScriptedDriver(other, node_id="n", name=NAME).served():
        polling = asyncio.create_task(node.drivers.poll())
        await eventually_async(lambda: node.drivers.is_installed(NAME))
        assert not polling.done() and not node.drivers.is_installed("silent.example")
        answers.set()
        await polling
        assert node.drivers.is_installed("silent.example")
    await node.drivers.close()
