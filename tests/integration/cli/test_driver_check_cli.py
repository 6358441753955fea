"""`tonnage driver-check` as a program: exit codes, JSON, and Ctrl-C in the middle."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.driver_builders import driver_at
from tonnage.clock import SystemClock
from tonnage.csi import csi_pb2 as csi
from tonnage.driver.controller_service import ControllerService
from tonnage.driver.driver import Driver
from tonnage.driver.serving import serve


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="t") as name:
        yield Path(name)


def driver_in(folder: Path) -> Driver:
    return driver_at(folder / "state", "64Mi,32Mi", max_volumes={"node-1": 2}, clock=SystemClock())


def names_in(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


async def asked(folder: Path, *flags: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tonnage", "driver-check", "--csi-address", f"unix://{folder}/csi.sock"),
        *("--size", "1Mi", "--work-dir", str(folder), "--settle-time", "0s", *flags),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def test_a_driver_that_keeps_to_it_exits_0_and_a_broken_one_4_with_what_to_do(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = driver_in(folder)
    async with serve(driver, endpoint=f"unix://{folder}/csi.sock"):
        process = await asked(folder, "-o", "json")
        out, err = await process.communicate()
        assert (process.returncode, err) == (0, b"")
        document = json.loads(out)
        assert (document["driver"], document["failed"], document["leftBehind"]) == ("pools.tonnage.dev", 0, [])
        assert {each["outcome"] for each in document["checks"]} == {"passed", "skipped"}

        whole = ControllerService.GetCapacity

        async def wrong(self: Any, request: csi.GetCapacityRequest, context: object) -> csi.GetCapacityResponse:
            answer = await whole(self, request, context)
            answer.available_capacity += bool(answer.available_capacities)
            return answer

        monkeypatch.setattr(ControllerService, "GetCapacity", wrong)
    async with serve(driver, endpoint=f"unix://{folder}/csi.sock"):
        process = await asked(folder)
        out, _ = await process.communicate()
    assert process.returncode == 4
    lines = out.decode()
    assert "capacity-sum" in lines and "→ set available_capacity to the sum of the pools" in lines
    assert not driver.allocations.volumes
    assert names_in(folder) <= {"state", "csi.sock"}, "its own folder is gone as well"


async def test_ctrl_c_leaves_nothing_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver, reached, ended = driver_in(folder), asyncio.Event(), asyncio.Event()
    whole, asked_for = ControllerService.CreateVolume, []

    async def hangs(self: Any, request: csi.CreateVolumeRequest, context: object) -> csi.CreateVolumeResponse:
        answer = await whole(self, request, context)
        asked_for.append(request.name)
        if len(asked_for) == 1:  # it is made, and nobody is told
            reached.set()
            await ended.wait()
        return answer

    monkeypatch.setattr(ControllerService, "CreateVolume", hangs)
    async with serve(driver, endpoint=f"unix://{folder}/csi.sock"):
        process = await asked(folder, "--timeout", "120s", "-o", "json")
        await asyncio.wait_for(reached.wait(), 120)
        process.send_signal(signal.SIGINT)
        out, _ = await process.communicate()
        ended.set()
        assert process.returncode == 130
        assert asked_for[0] == asked_for[1], "asked for again by its name, so that it can be deleted"
        assert not driver.allocations.volumes
    assert json.loads(out)["leftBehind"] == []
