"""What storms over a cluster have in common: the cluster, the watch that is kept, and the rest afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final

from fault_weather import Keepsakes

from support.cluster_laws import SAFETY, Law, problems_of
from support.cluster_sight import look
from support.processes import Up
from tonnage.client.errors import Disconnected
from tonnage.client.http import Client

GI: Final = 1 << 30
POOLS: Final = {
    "node-1": (40 * GI, 40 * GI, 40 * GI),
    "node-2": (40 * GI, 40 * GI, 40 * GI),
    "node-3": (40 * GI, 40 * GI, 40 * GI),
    "node-4": (60 * GI, 20 * GI),
}
FLAGS: Final = (
    "--nodes", "4", "--pools", "3x40Gi", "--pools", "node-4=60Gi,20Gi", "--max-volumes", "32", "--classes", "2",
)  # fmt: skip


async def until_over(lasts_s: float, *works: Coroutine[Any, Any, None]) -> None:
    """Run these side by side for so long; one that fails ends the storm with its error."""
    tasks = [asyncio.create_task(work) for work in works]
    await asyncio.wait(tasks, timeout=lasts_s, return_when=asyncio.FIRST_EXCEPTION)
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
