"""`driver-check --measure` on real sockets: what our driver is told to do is what is measured of it."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest

from support.driver_builders import driver_at
from tonnage.clock import SystemClock
from tonnage.csi import csi_pb2 as csi
from tonnage.csi import csi_pb2_grpc as rpc
from tonnage.csi.server import served
from tonnage.driver.controller_service import ControllerService
from tonnage.driver.node_service import NodeService
from tonnage.driver.serving import CallInterceptor, IdentityService
from tonnage.driver_check.checks import examine
from tonnage.driver_check.results import Results
from tonnage.driver_check.settings import CheckSettings


@pytest.fixture
def socket_dir() -> Iterator[Path]:
    """Near the root: a socket's path has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="t") as name:
        yield Path(name)


GI = 1 << 30
MI = 1 << 20


class RoundsUp(ControllerService):
    """Above 1Gi to whole Gi, else to whole Mi, as OpenEBS does."""

    async def CreateVolume(self, request: csi.CreateVolumeRequest, context: Any) -> csi.CreateVolumeResponse:
        asked = request.capacity_range.required_bytes
        step = GI if asked > GI else MI
        request.capacity_range.required_bytes = -(-asked // step) * step
        return await super().CreateVolume(request, context)


class WantsMore(RoundsUp):
    """And only into a pool that has more free than the volume takes, as OpenEBS ZFS does."""

    async def CreateVolume(self, request: csi.CreateVolumeRequest, context: Any) -> csi.CreateVolumeResponse:
        free = (await self.GetCapacity(csi.GetCapacityRequest(), context)).available_capacities
        asked = request.capacity_range.required_bytes
        step = GI if asked > GI else MI
        if -(-asked // step) * step >= max(free):
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "no pool has more")
        return await super().CreateVolume(request, context)


class RefusesSmall(RoundsUp):
    """What is below its minimum is refused, and not rounded."""

    async def CreateVolume(self, request: csi.CreateVolumeRequest, context: Any) -> csi.CreateVolumeResponse:
        if request.capacity_range.required_bytes < MI:
            await context.abort(grpc.StatusCode.OUT_OF_RANGE, "the least volume has 1Mi")
        return await super().CreateVolume(request, context)


async def measured(
    folder: Path, pools: str, controls: type[ControllerService] = ControllerService, fills: bool = True, **options: Any
) -> dict[str, tuple[str, str]]:
    """Values and texts by annotation, of a driver with these pools on one node."""
    driver = driver_at(folder / "state", pools, clock=SystemClock(), **options)
    address = f"unix://{folder}/csi.sock"
    services = [
        partial(rpc.add_IdentityServicer_to_server, IdentityService(driver)),
        partial(rpc.add_ControllerServicer_to_server, controls(driver, driver.nodes)),
        partial(rpc.add_NodeServicer_to_server, NodeService(driver, "node-1")),
    ]
    settings = CheckSettings(
        prefix="driver-check-0123", work_dir=folder, size_bytes=GI, settle_s=0.0, fills=fills, measures=True
    )
    results = Results()
    async with served(address, services, interceptors=[CallInterceptor(driver, "node-1")]):
        await examine(address, (), settings, results, clock=SystemClock(), rng=random.Random(1), timeout_s=60.0)
    assert results.left_behind == [] and not driver.allocations.volumes
    return {each.annotation: (each.value, each.told) for each in results.measured}


@pytest.mark.parametrize("policy", ["most-free", "best-fit", "first-fit"])
async def test_how_a_driver_picks_pools_is_measured(socket_dir: Path, policy: str) -> None:
    value, told = (await measured(socket_dir, "60Gi,100Gi,80Gi", policy=policy))["tonnage.dev/pool-policy"]
    assert value == policy, told


async def test_a_driver_that_picks_at_random_is_unknown(socket_dir: Path) -> None:
    value, told = (await measured(socket_dir, "4x100Gi", policy="random"))["tonnage.dev/pool-policy"]
    assert value == "unknown" and "no policy explains" in told


async def test_without_leave_to_fill_what_small_volumes_do_not_show_is_not_claimed(socket_dir: Path) -> None:
    value, told = (await measured(socket_dir, "100Gi,20Gi", fills=False, policy="most-free"))["tonnage.dev/pool-policy"]
    assert value == "" and told.startswith("most-free or first-fit") and "--fill" in told


async def test_it_ends_when_a_round_of_volumes_shows_nothing_new(socket_dir: Path) -> None:
    _, told = (await measured(socket_dir, "100Gi,60Gi", fills=False, policy="best-fit"))["tonnage.dev/pool-policy"]
    assert "best-fit or first-fit, after 64 volumes" in told  # two rounds of --most-volumes


@pytest.mark.parametrize(
    ("pools", "options", "why"),
    [("100Gi", {}, "one pool"), ("2x100Gi", {"report_pools": False}, "available_capacities is empty")],
)
async def test_a_choice_that_cannot_be_seen_is_not_measured(
    socket_dir: Path, pools: str, options: dict[str, Any], why: str
) -> None:
    value, told = (await measured(socket_dir, pools, **options))["tonnage.dev/pool-policy"]
    assert value == "" and why in told


async def test_how_a_driver_rounds_is_measured(socket_dir: Path) -> None:
    value, _told = (await measured(socket_dir, "2x100Gi", RoundsUp))["tonnage.dev/size-rules"]
    assert value == "step=1Mi,step=1Gi,above=1Gi"


async def test_our_own_driver_takes_whole_pages(socket_dir: Path) -> None:
    value, told = (await measured(socket_dir, "2x100Gi"))["tonnage.dev/size-rules"]
    assert value == "step=4Ki" and "64Mi took 64Mi" in told


@pytest.mark.parametrize("pools", ["16Gi", "10200Mi", "10200Mi,6200Mi"])
async def test_a_driver_that_wants_more_than_it_takes_is_seen_whatever_its_pools_have(
    socket_dir: Path, pools: str
) -> None:
    """10200Mi: 9Gi are made, and 984Mi take exactly what is left."""
    value, told = (await measured(socket_dir, pools, WantsMore))["tonnage.dev/size-rules"]
    assert value == "step=1Mi,step=1Gi,above=1Gi,strict", told


@pytest.mark.parametrize(("pools", "is_tried"), [("6Gi", False), ("2x3Gi", True)])
async def test_without_leave_to_fill_only_small_pools_are_filled(socket_dir: Path, pools: str, is_tried: bool) -> None:
    settings: dict[str, Any] = {"fills": False}
    value, told = (await measured(socket_dir, pools, WantsMore, **settings))["tonnage.dev/size-rules"]
    assert ("was not tried: --fill" in told) != is_tried
    assert value.endswith("strict") == is_tried


async def test_a_driver_that_refuses_small_volumes_is_measured_by_larger_ones(socket_dir: Path) -> None:
    value, told = (await measured(socket_dir, "2x100Gi", RefusesSmall))["tonnage.dev/size-rules"]
    assert value == "step=1Mi,step=1Gi,above=1Gi"
    assert told.startswith("1 was refused, 64Mi took 64Mi")
