"""Calls to a driver: bounded in time, repeated by code, found again after a death, and every try counted."""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from csi_peers import Peer, short_folder

from support.virtual_clock import VirtualClock
from tonnage.clock import SystemClock
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.client import CHANGING_CALLS, CsiClient
from tonnage.csi.errors import Code, CsiError, is_in_doubt
from tonnage.csi.server import served
from tonnage.errors import TonnageError

INFO = "/csi.v1.Identity/GetPluginInfo"


class Calls(list[tuple[str, str]]):
    """What `on_call` was told, without the seconds; the drivers' names beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.drivers: list[str] = []

    def __call__(self, driver: str, method: str, code: str, seconds: float) -> None:
        assert seconds >= 0
        self.append((method, code))
        self.drivers.append(driver)


class Sleepless(VirtualClock):
    """Time passes while somebody sleeps, and at no other time."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.advance(seconds)


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_folder() as made:
        yield made


def client_of(folder: Path, **options: Any) -> CsiClient:
    options = {"clock": SystemClock(), "rng": random.Random(1), **options}
    return CsiClient(f"unix://{folder}/csi.sock", **options)


async def test_a_call_is_answered(folder: Path) -> None:
    calls = Calls()
    async with served(f"unix://{folder}/csi.sock", [Peer().register]), client_of(folder, on_call=calls) as driver:
        assert (await driver.plugin_info()).name == "peer"
    assert calls == [(INFO, "OK")]


async def test_calls_are_counted_for_the_driver_once_it_has_said_its_name(folder: Path) -> None:
    calls = Calls()
    async with served(f"unix://{folder}/csi.sock", [Peer().register]), client_of(folder, on_call=calls) as driver:
        await driver.plugin_info()
        await driver.plugin_info()
    assert calls.drivers == ["", "peer"]


async def test_a_driver_that_is_busy_or_away_is_asked_again(folder: Path) -> None:
    peer, calls = Peer(Code.UNAVAILABLE, Code.ABORTED), Calls()
    async with (
        served(f"unix://{folder}/csi.sock", [peer.register]),
        client_of(folder, on_call=calls, clock=Sleepless()) as driver,
    ):
        assert (await driver.plugin_info()).name == "peer"
    assert calls == [(INFO, "Unavailable"), (INFO, "Aborted"), (INFO, "OK")]


@pytest.mark.parametrize(
    "code",
    [code for code in Code if code not in (Code.OK, Code.UNAVAILABLE, Code.ABORTED)],
    ids=lambda code: str(code.name),
)
async def test_any_other_refusal_is_raised_at_once(folder: Path, code: Code) -> None:
    peer = Peer(code)
    async with served(f"unix://{folder}/csi.sock", [peer.register]), client_of(folder) as driver:
        with pytest.raises(CsiError) as raised:
            await driver.plugin_info()
    assert (raised.value.code, raised.value.told, peer.asked) == (code, "as told", 1)


async def test_pauses_double_up_to_two_seconds_and_end_before_the_time_limit(folder: Path) -> None:
    class Still(random.Random):
        """No jitter: the sums below are exact."""

        def random(self) -> float:
            return 0.0

    clock, peer = Sleepless(), Peer(*[Code.UNAVAILABLE] * 100)
    async with (
        served(f"unix://{folder}/csi.sock", [peer.register]),
        client_of(folder, clock=clock, rng=Still(), timeout_s=8.0) as driver,
    ):
        with pytest.raises(CsiError) as raised:
            await driver.plugin_info()
    # 0.1 + 0.2 + 0.4 + 0.8 + 1.6 + 2 + 2 = 7.1 s; another 2 s would end after the 8 s that the call has.
    assert clock.slept == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    assert (raised.value.code, peer.asked) == (Code.UNAVAILABLE, 8)


async def test_a_driver_that_does_not_answer_in_time_leaves_the_call_in_doubt(folder: Path) -> None:
    peer, calls = Peer(), Calls()
    peer.is_held = True
    async with (
        served(f"unix://{folder}/csi.sock", [peer.register]),
        client_of(folder, timeout_s=0.1, on_call=calls) as driver,
    ):
        with pytest.raises(CsiError) as raised:
            await driver.plugin_info()
        peer.go.set()
    assert raised.value.code is Code.DEADLINE_EXCEEDED and is_in_doubt(raised.value.code)
    assert calls == [(INFO, "DeadlineExceeded")]


async def test_nobody_listening_is_told_with_the_address(folder: Path) -> None:
    async with client_of(folder, timeout_s=0.05) as driver:
        with pytest.raises(CsiError) as raised:
            await driver.plugin_info()
    assert raised.value.code is Code.UNAVAILABLE
    assert raised.value.hint == f"does a CSI driver listen on unix://{folder}/csi.sock?"


async def test_a_call_waits_for_a_driver_that_comes_and_finds_the_next_one_when_it_is_gone(folder: Path) -> None:
    async with client_of(folder) as driver:
        waiting = asyncio.create_task(driver.plugin_info())
        await asyncio.sleep(0)
        async with served(f"unix://{folder}/csi.sock", [Peer(name="first").register]):
            assert (await waiting).name == "first"
        waiting = asyncio.create_task(driver.plugin_info())
        await asyncio.sleep(0)
        async with served(f"unix://{folder}/csi.sock", [Peer(name="second").register]):
            assert (await waiting).name == "second"


async def test_a_client_that_hangs_up_ends_its_calls_as_cancelled_and_not_the_tasks_that_made_them(
    folder: Path,
) -> None:
    peer, calls = Peer(), Calls()
    peer.is_held = True
    async with served(f"unix://{folder}/csi.sock", [peer.register]), client_of(folder, on_call=calls) as driver:
        call = asyncio.create_task(driver.plugin_info())
        await peer.is_asked.wait()
        await driver.close()
        with pytest.raises(CsiError, match="the connection was closed") as raised:
            await call
        peer.go.set()
        assert is_in_doubt(raised.value.code)
        assert calls == [(INFO, "Canceled")]
        peer.is_held = False
        assert (await driver.plugin_info()).name == "peer"  # a later call connects again


async def test_a_task_that_is_cancelled_stays_cancelled(folder: Path) -> None:
    peer, calls = Peer(), Calls()
    peer.is_held = True
    async with served(f"unix://{folder}/csi.sock", [peer.register]), client_of(folder, on_call=calls) as driver:
        call = asyncio.create_task(driver.plugin_info())
        await peer.is_asked.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        peer.go.set()
    assert calls == [(INFO, "Canceled")]


async def test_every_method_goes_where_its_name_says(folder: Path) -> None:
    """Asked with an empty request, a peer that knows none of them says Unimplemented, and each names its request."""
    calls = Calls()
    others = ("close", "plugin_info", "plugin_capabilities", "probe", "capacity_with_ids")
    async with served(f"unix://{folder}/csi.sock", [Peer().register]), client_of(folder, on_call=calls) as driver:
        for name, method in inspect.getmembers(driver, inspect.iscoroutinefunction):
            if name.startswith("_") or name in others:
                continue
            parameters = inspect.signature(method, eval_str=True).parameters.values()
            with pytest.raises(CsiError) as raised:
                await method(*(each.annotation() for each in parameters))
            assert raised.value.code is Code.UNIMPLEMENTED
            for each in parameters:
                assert raised.value.method.endswith("/" + each.annotation.__name__.removesuffix("Request"))
    # What our programs ask for. Controller: 15 methods but ValidateVolumeCapabilities, ListSnapshots and GetSnapshot;
    # Node: 8 but NodeGetVolumeStats.
    assert len({method for method, _ in calls}) == len(calls) == 12 + 7
    assert {code for _, code in calls} == {"Unimplemented"}


async def test_what_changes_something_asks_first_and_what_only_looks_does_not(folder: Path) -> None:
    asked: list[str] = []

    def refuse(path: str) -> None:
        asked.append(path)
        raise TonnageError("another leads")

    address = f"unix://{folder}/csi.sock"
    async with served(address, [Peer().register]), client_of(folder, before_change=refuse) as client:
        await client.plugin_info()
        for call, request in (
            (client.create_volume, csi.CreateVolumeRequest(name="v")),
            (client.delete_volume, csi.DeleteVolumeRequest(volume_id="v")),
            (client.controller_publish, csi.ControllerPublishVolumeRequest(volume_id="v")),
            (client.controller_unpublish, csi.ControllerUnpublishVolumeRequest(volume_id="v")),
            (client.controller_expand, csi.ControllerExpandVolumeRequest(volume_id="v")),
            (client.controller_modify, csi.ControllerModifyVolumeRequest(volume_id="v")),
            (client.create_snapshot, csi.CreateSnapshotRequest(name="s")),
            (client.delete_snapshot, csi.DeleteSnapshotRequest(snapshot_id="s")),
        ):
            with pytest.raises(TonnageError, match="another leads"):
                await call(request)  # type: ignore[arg-type]
    assert {path.rpartition("/")[2] for path in asked} == CHANGING_CALLS


async def test_each_try_asks_anew(folder: Path) -> None:
    tries = iter([None, TonnageError("another leads")])

    def guard(path: str) -> None:
        failure = next(tries)
        if failure is not None:
            raise failure

    async with client_of(folder, clock=Sleepless(), before_change=guard) as client:  # nobody listens: Unavailable
        with pytest.raises(TonnageError, match="another leads"):
            await client.create_volume(csi.CreateVolumeRequest(name="v"))
