"""What tests of nodes ask and how they are played."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from node_stage import DRIVER, NodeStage, node_stage

from tonnage.gates import Gates


def play(
    story: Callable[[NodeStage], Awaitable[None]],
    *names: str,
    gates: Gates | None = None,
    server_gates: Gates | None = None,
) -> None:
    async def stage_it() -> None:
        async with node_stage(*names, gates=gates, server_gates=server_gates) as stage:
            await story(stage)

    asyncio.run(stage_it())


async def answer(value: object) -> object:
    return value


async def has_count(stage: NodeStage, count: int | None, *, name: str = DRIVER) -> bool:
    return await stage.count(name=name) == count


async def has_in_use(stage: NodeStage, names: list[str]) -> bool:
    return await stage.in_use() == names


async def was_told(stage: NodeStage, pod: str, reason: str, note: str) -> bool:
    return any((each[1], each[2]) == (reason, note) for each in await stage.events(pod))
