"""Random kills of every program of a cluster under load; afterwards all is as if nothing had happened.

Every claim is bound once, every volume has one owner, no pool is overdrawn, nothing is left behind: the laws are in
`support.cluster_laws`, the people who ask for things in `fault_load`, the storm in `fault_weather`.
"""

from __future__ import annotations

import asyncio
import random
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from fault_load import Load
from fault_weather import PROGRAMS, Faults, Keepsakes, Killer
from storm import FLAGS, POOLS, problems_at_rest, until_over, watch

from support.cluster_laws import EMPTY, LAWS
from support.cluster_sight import look
from support.processes import Up, start_up
from tonnage.client.config import kubeconfig
from tonnage.client.http import Client
from tonnage.faults import FaultFile


@dataclass(frozen=True)
class Storm:
    """How long it lasts, how often somebody is killed, and how long the cluster may take to come to rest."""

    seed: int
    lasts_s: float
    pause_s: tuple[float, float] = (1.0, 3.0)
    rest_within_s: float = 120.0
    ends_with_a_kill_of_all: bool = False


async def test_a_short_storm_leaves_nothing_behind():
    await weather(Storm(seed=1, lasts_s=12.0, pause_s=(0.5, 1.5)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
async def test_a_minute_of_kills_under_load_leaves_nothing_behind(seed: int):
    await weather(Storm(seed=seed, lasts_s=60.0))


@pytest.mark.slow
async def test_a_cluster_that_is_killed_whole_and_started_again_leaves_nothing_behind():
    await weather(Storm(seed=4, lasts_s=20.0, ends_with_a_kill_of_all=True))


async def weather(storm: Storm) -> None:
    """One storm over a cluster of its own; what happened is printed."""
    with tempfile.TemporaryDirectory(prefix="t") as name:
        up = await asyncio.to_thread(start_up, Path(name) / "c", *FLAGS)
        try:
            async with Client.connect(kubeconfig.load(up.kubeconfig)) as client:
                await play(up, client, storm)
        finally:
            await asyncio.to_thread(up.stop)


async def play(up: Up, client: Client, storm: Storm) -> None:
    """The storm, the rest after it, and the end of everything; each with its laws."""
    loop = asyncio.get_running_loop()
    file = FaultFile(up.folder / "faults.json")
    load = Load(client, random.Random(f"load {storm.seed}"), list(POOLS))
    killer = Killer(up, random.Random(f"kills {storm.seed}"), storm.pause_s)
    faults = Faults(file, random.Random(f"faults {storm.seed}"), list(POOLS))
    keepsakes, broken = Keepsakes(), set[str]()
    await load.open()
    people = asyncio.create_task(load.work())
    await until_over(storm.lasts_s, killer.work(), faults.work(), watch(up, client, keepsakes, broken))
    assert not broken
    assert set(killer.kills) | set(killer.hangs) == set(PROGRAMS)
    file.clear()
    if storm.ends_with_a_kill_of_all:
        await asyncio.to_thread(kill_and_start_again, up)
    load.is_over = True
    await people
    await load.end_of_storm()

    started_at = loop.time()
    # A pod that was taken away because it had ended is not there for a moment, and every law holds without it.
    at_rest = (*LAWS, load.missing)
    assert await problems_at_rest(up, client, at_rest, storm.rest_within_s, load.tidy) == []
    rested_at = loop.time()
    assert keepsakes.lost(await look(client, up.folder, POOLS)) == []
    await load.delete_everything()
    assert await problems_at_rest(up, client, EMPTY, storm.rest_within_s) == []
    print(
        f"seed {storm.seed}: killed {dict(killer.kills)}, stopped {dict(killer.hangs)}, played {dict(faults.played)}, "
        f"asked {dict(load.done)}, {len(keepsakes)} volumes kept their word; "
        f"at rest after {rested_at - started_at:.1f} s, empty after {loop.time() - rested_at:.1f} s"
    )
    for program in PROGRAMS:
        before, found, after = up.log(program).partition("Traceback")
        assert not found, f"{program}: {before[-300:]}{found}{after[:3000]}"


def kill_and_start_again(up: Up) -> None:
    """The supervisor dies as well, and with it all that it started; the next one finds the port and the folder."""
    assert up.stop(signal.SIGKILL) == -signal.SIGKILL
    up.process = start_up(up.folder, "--secure-port", up.url.rpartition(":")[2]).process
