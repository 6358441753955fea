"""Random kills of every program of a cluster under load; afterwards all is as if nothing had happened.

Every claim is bound once, every volume has one owner, no pool is overdrawn, nothing is left behind: the laws are in
`tonnage.testing.cluster_laws`, and the storm is in `fault_load`.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from fault_load import Faults, Killer, Load

from tonnage.client import kubeconfig
from tonnage.client.errors import Disconnected
from tonnage.client.http import Client
from tonnage.faults import FaultFile
from tonnage.testing.cluster_laws import EMPTY, LAWS, SAFETY, Law, problems_of
from tonnage.testing.cluster_sight import look
from tonnage.testing.processes import Up, start_up

GI = 1 << 30
POOLS = {
    "node-1": (20 * GI, 20 * GI, 20 * GI),
    "node-2": (20 * GI, 20 * GI, 20 * GI),
    "node-3": (20 * GI, 20 * GI, 20 * GI),
    "node-4": (30 * GI, 10 * GI),
}
FLAGS = ("--nodes", "4", "--pools", "3x20Gi", "--pools", "node-4=30Gi,10Gi", "--max-volumes", "24")


async def test_a_short_storm_leaves_nothing_behind():
    await storm(seed=1, storm_s=12.0, rest_within_s=60.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
async def test_a_minute_of_kills_under_load_leaves_nothing_behind(seed: int):
    await storm(seed=seed, storm_s=60.0, rest_within_s=120.0)


async def storm(*, seed: int, storm_s: float, rest_within_s: float) -> None:
    with tempfile.TemporaryDirectory(prefix="t") as name:
        folder = Path(name) / "c"
        up = await asyncio.to_thread(start_up, folder, *FLAGS)
        try:
            async with Client.connect(kubeconfig.load(up.kubeconfig)) as client:
                await play(up, client, seed=seed, storm_s=storm_s, rest_within_s=rest_within_s)
        finally:
            await asyncio.to_thread(up.stop)


async def play(up: Up, client: Client, *, seed: int, storm_s: float, rest_within_s: float) -> None:
    """The storm, the rest after it, and the end of everything; each with its laws."""
    load = Load(client, random.Random(f"load {seed}"), list(POOLS))
    killer = Killer(up, random.Random(f"kills {seed}"))
    faults = Faults(FaultFile(up.folder / "faults.json"), random.Random(f"faults {seed}"), list(POOLS))
    broken: set[str] = set()
    await load.open()
    tasks = [
        asyncio.create_task(work) for work in (load.work(), killer.work(), faults.work(), watch(up, client, broken))
    ]
    await asyncio.wait(tasks, timeout=storm_s, return_when=asyncio.FIRST_EXCEPTION)
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task
    assert not broken
    FaultFile(up.folder / "faults.json").clear()
    await load.end_of_storm()
    loop = asyncio.get_running_loop()
    started_at = loop.time()
    problems = await at_rest(up, client, LAWS, rest_within_s, load.tidy)
    print(
        f"seed {seed}: {dict(killer.kills)} {dict(faults.played)} {dict(load.done)} rest after {loop.time() - started_at:.1f} s"
    )
    print(*problems, sep="\n")
    assert problems == []
    started_at = loop.time()
    await load.delete_everything()
    problems = await at_rest(up, client, EMPTY, rest_within_s)
    print(f"seed {seed}: empty after {loop.time() - started_at:.1f} s")
    print(*problems, sep="\n")
    assert problems == []


async def watch(up: Up, client: Client, broken: set[str]) -> None:
    """Look again and again at what must never happen."""
    while True:
        with suppress(Disconnected):
            broken.update(problems_of(await look(client, up.folder, POOLS), SAFETY))
        await asyncio.sleep(0.5)


async def at_rest(
    up: Up, client: Client, laws: Sequence[Law], within_s: float, meanwhile: Callable[[], Awaitable[None]] | None = None
) -> list[str]:
    """No problems, or those that are still there at the end of our patience."""
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + within_s
    while True:
        if meanwhile is not None:
            await meanwhile()
        try:
            problems = problems_of(await look(client, up.folder, POOLS), laws)
        except Disconnected as exc:
            problems = [exc.message]
        if not problems or loop.time() > give_up_at:
            return problems
        await asyncio.sleep(0.5)
