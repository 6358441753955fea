"""Random kills of every program of a cluster under load; afterwards all is as if nothing had happened.

Every claim is bound once, every volume has one owner, no pool is overdrawn, nothing is left behind: the laws are in
`tonnage.testing.cluster_laws`, and the storm is in `fault_load`.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from fault_load import PROGRAMS, Faults, Keepsakes, Killer, Load

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
    loop = asyncio.get_running_loop()
    file = FaultFile(up.folder / "faults.json")
    load = Load(client, random.Random(f"load {seed}"), list(POOLS))
    killer = Killer(up, random.Random(f"kills {seed}"))
    faults = Faults(file, random.Random(f"faults {seed}"), list(POOLS))
    keepsakes, broken = Keepsakes(), set[str]()
    await load.open()
    await until_over(storm_s, load.work(), killer.work(), faults.work(), watch(up, client, keepsakes, broken))
    assert not broken
    file.clear()
    await load.end_of_storm()

    started_at = loop.time()
    assert await problems_at_rest(up, client, LAWS, rest_within_s, load.tidy) == []
    rested_at = loop.time()
    assert keepsakes.lost(await look(client, up.folder, POOLS)) == []
    await load.delete_everything()
    assert await problems_at_rest(up, client, EMPTY, rest_within_s) == []
    print(
        f"seed {seed}: killed {dict(killer.kills)}, played {dict(faults.played)}, asked {dict(load.done)}, "
        f"{len(keepsakes)} volumes kept their word; at rest after {rested_at - started_at:.1f} s, "
        f"empty after {loop.time() - rested_at:.1f} s"
    )
    for program in PROGRAMS:
        assert "Traceback" not in up.log(program)


async def until_over(storm_s: float, *works: Coroutine[Any, Any, None]) -> None:
    """Run these side by side for so long; one that fails ends the storm with its error."""
    tasks = [asyncio.create_task(work) for work in works]
    await asyncio.wait(tasks, timeout=storm_s, return_when=asyncio.FIRST_EXCEPTION)
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task


async def watch(up: Up, client: Client, keepsakes: Keepsakes, broken: set[str]) -> None:
    """Look again and again at what must never happen."""
    while True:
        with suppress(Disconnected):
            sight = await look(client, up.folder, POOLS)
            broken.update(problems_of(sight, SAFETY))
            keepsakes.leave(sight)
        await asyncio.sleep(0.5)


async def problems_at_rest(
    up: Up, client: Client, laws: Sequence[Law], within_s: float, meanwhile: Callable[[], Awaitable[None]] | None = None
) -> list[str]:
    """Nothing, or the problems that are still there at the end of our patience."""
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
