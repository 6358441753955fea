"""A cluster that runs for long, under load, with faults and restarts: what it uses levels off.

    make soak MINUTES=60                prints the figures of the run
    make soak MINUTES=60 RESTARTS=0     and nobody is killed

In the first half programs are killed now and then; in the second they must last, so that what grows with a program's
age is seen. Without restarts they last from the first minute to the last. All the while people work on the cluster and
faults come and go. At the end it comes to rest by the same laws as after a storm.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import tempfile
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from fault_load import Load
from fault_weather import PROGRAMS, Faults, Keepsakes, Killer
from levels import LONG_S, MI, Meter, rising
from storm import FLAGS, POOLS, problems_at_rest, until_over, watch

from support.cluster_laws import EMPTY, LAWS
from support.processes import Up, start_up
from tonnage.client.config import kubeconfig
from tonnage.client.http import Client
from tonnage.faults import FaultFile

MINUTES = float(os.environ.get("SOAK_MINUTES", "1"))
SEED = int(os.environ.get("SOAK_SEED", "1"))
RESTARTS_OF_EACH = int(os.environ.get("SOAK_RESTARTS", "2"))
KEPT = os.environ.get("SOAK_LOGS", "")
"""A folder for a copy of the logs, to look at afterwards."""
PICTURE = os.environ.get("SOAK_PICTURE", "")
"""A file for a picture of the programs' memory."""
LOOKS = 240
PACE_S = 2.0
"""Slow enough for a busy machine: the work of a minute is the same from the first to the last, and so a rise that comes
with time is not taken for one that comes with more work."""
BOUNDS = ("--event-ttl", "10m", "--max-log-size", "1Mi")
"""What is kept for a time is kept for less of it, so that an hour is long enough to see it level off."""
REST_WITHIN_S = 420.0
"""More than the longest pause after failures, which is --retry-interval-max of the provisioner: five minutes."""


def test_a_quantity_that_grows_with_time_is_found_and_one_that_levels_off_is_not():
    grows = [(float(at), float(at * MI)) for at in range(100)]
    level = [(float(at), float(min(at, 20) * MI)) for at in range(100)]
    found = rising({("memory", "scheduler"): grows, ("memory", "node"): level}, 100.0)
    assert found == ["memory of scheduler rose from 74.0 MB to 99.0 MB"]


def test_a_slow_rise_is_found_in_a_long_run_and_peaks_alone_are_not():
    """Both lines have a peak of 180 MB in every quarter, so the most of each quarter is the same."""
    peaks = {100, 300, 500, 700}
    rises = [(at * 5.0, (180 if at in peaks else 150 + at * 0.025) * MI) for at in range(800)]
    level = [(at * 5.0, (180.0 if at in peaks else 150.0) * MI) for at in range(800)]
    found = rising({("memory", "apiserver"): rises, ("memory", "node"): level}, 4000.0)
    assert LONG_S < 4000.0
    assert found == ["memory of apiserver rose by 10.0 MB through the second half"]


@pytest.mark.slow
async def test_what_a_cluster_uses_levels_off():
    lasts_s = MINUTES * 60
    with tempfile.TemporaryDirectory(prefix="t") as name:
        up = await asyncio.to_thread(start_up, Path(name) / "c", *FLAGS, *BOUNDS)
        meter = Meter(up.folder, PROGRAMS)
        try:
            async with Client.connect(kubeconfig.load(up.kubeconfig)) as client:
                restarts = await soak(up, client, meter, lasts_s)
        finally:
            print(meter.table(lasts_s))
            if KEPT:
                await asyncio.to_thread(shutil.copytree, up.folder / "logs", Path(KEPT), dirs_exist_ok=True)
            await asyncio.to_thread(up.stop)
            if PICTURE:
                meter.draw(Path(PICTURE))
    print(f"{MINUTES:g} minutes, seed {SEED}, {restarts} restarts")
    assert rising(meter.samples, lasts_s) == []


async def soak(up: Up, client: Client, meter: Meter, lasts_s: float) -> int:
    """Everything at once for so long, then the rest; how many programs were killed or stopped."""
    file = FaultFile(up.folder / "faults.json")
    load = Load(client, random.Random(f"load {SEED}"), list(POOLS), PACE_S)
    pause_s = lasts_s / 2 / len(PROGRAMS) / max(RESTARTS_OF_EACH, 1)
    killer = Killer(up, random.Random(f"kills {SEED}"), (pause_s / 2, pause_s))
    faults = Faults(file, random.Random(f"faults {SEED}"), list(POOLS))
    keepsakes, broken = Keepsakes(), set[str]()
    await load.open()
    people = asyncio.create_task(load.work())
    try:
        await until_over(
            lasts_s,
            for_so_long(lasts_s / 2 if RESTARTS_OF_EACH else 0.0, killer.work()),
            faults.work(),
            watch(up, client, keepsakes, broken),
            measured(meter, load, lasts_s / LOOKS),
        )
    finally:
        load.is_over = True
        file.clear()
        await people
    assert not broken
    await load.end_of_storm()
    assert await problems_at_rest(up, client, LAWS, REST_WITHIN_S, load.tidy) == []
    await load.delete_everything()
    assert await problems_at_rest(up, client, EMPTY, REST_WITHIN_S) == []
    print(f"asked for: {dict(load.done)}; faults: {dict(faults.played)}; {len(keepsakes)} volumes kept their word")
    return killer.kills.total() + killer.hangs.total()


async def for_so_long(lasts_s: float, work: Coroutine[Any, Any, None]) -> None:
    """Do this for a part of the time, and nothing afterwards."""
    with suppress(TimeoutError):
        async with asyncio.timeout(lasts_s):
            await work
    await asyncio.Event().wait()


async def measured(meter: Meter, load: Load, every_s: float) -> None:
    loop = asyncio.get_running_loop()
    began_at = loop.time()
    while True:
        at_s = loop.time() - began_at
        await asyncio.to_thread(meter.look, at_s)
        meter.acts.append((at_s, load.acts))
        await asyncio.sleep(every_s)
