"""All checks of one driver, in order; then everything they made is undone, whatever happens, Ctrl-C included."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Final

from tonnage.clock import Clock
from tonnage.csi.client import CsiClient
from tonnage.csi.driver_capabilities import (
    ControllerCapabilities,
    get_controller_capabilities,
    get_node_capabilities,
    get_plugin_capabilities,
)
from tonnage.csi.errors import Code, CsiError
from tonnage.driver_check.checks import check_capacity, check_limits, check_rebuilding, check_volumes
from tonnage.driver_check.contracts import CallRefused, NodeInfo
from tonnage.driver_check.conversation import CheckedNode, Conversation, tried
from tonnage.driver_check.measuring import measure
from tonnage.driver_check.results import CATALOGUE, PASSED, Results, failed
from tonnage.driver_check.settings import CheckSettings

_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?")
PARTS: Final = {
    "capacity": check_capacity,
    "volumes": check_volumes,
    "limits": check_limits,
    "rebuilding": check_rebuilding,
}


async def examine(
    address: str,
    node_addresses: Sequence[str],
    settings: CheckSettings,
    results: Results,
    *,
    clock: Clock,
    rng: random.Random,
    timeout_s: float,
    say: Callable[[str], None] = lambda _what: None,
) -> None:
    """Fill in `results`. Raises CsiError if the driver is away; what was made is undone before."""
    async with AsyncExitStack() as opened:

        async def connected(to: str) -> CsiClient:
            return await opened.enter_async_context(CsiClient(to, clock=clock, rng=rng, timeout_s=timeout_s))

        controller = await connected(address)
        await _identity(controller, results)
        plugin = await get_plugin_capabilities(controller)
        can = await get_controller_capabilities(controller) if plugin.controller_service else ControllerCapabilities()
        nodes = await _nodes([controller, *[await connected(each) for each in node_addresses]], results)
        talk = Conversation(controller, nodes, settings, plugin=plugin, can=can, clock=clock)
        try:
            for name, check in PARTS.items():
                say(f"checking {name}")
                await check(talk, results)
            if settings.measures:
                say("measuring how pools are picked and sizes rounded")
                await measure(talk, results)
        finally:
            say("undoing what was made")
            results.left_behind = await talk.undo_all()
            left = "; ".join(results.left_behind)
            results.tell("cleaned-up", failed(f"left behind: {left}") if left else PASSED)
        results.skip(CATALOGUE, "it was not reached")


async def _identity(driver: CsiClient, results: Results) -> None:
    """The first call. Raises CsiError if the driver is not there."""
    info = await driver.plugin_info()
    results.driver, results.version = info.name, info.vendor_version
    problem = ""
    if not _NAME.fullmatch(info.name):
        problem = f'Kubernetes does not accept the name "{info.name}"'
    elif not info.vendor_version:
        problem = "GetPluginInfo has no vendor_version"
    else:
        ready = await tried(driver.probe())
        if isinstance(ready, CallRefused):
            problem = f"Probe was refused: {ready}"
        elif ready.HasField("ready") and not ready.ready.value:
            problem = "Probe says that the driver is not ready"
    results.tell("identity", failed(problem) if problem else PASSED)


async def _nodes(clients: Sequence[CsiClient], results: Results) -> list[CheckedNode]:
    """The nodes that answer on these sockets; the first socket need not have a Node service."""
    found: dict[str, CheckedNode] = {}
    for place, client in enumerate(clients):
        answer = await tried(client.node_info())
        if isinstance(answer, CallRefused):
            if answer.code is not Code.UNIMPLEMENTED or place:
                results.tell("limit-sane", failed(f"NodeGetInfo at {client.address} was refused: {answer}"))
            continue
        info = NodeInfo.of(answer)
        try:
            can = await get_node_capabilities(client)
        except CsiError as exc:
            results.tell("limit-sane", failed(f"NodeGetCapabilities of {info.node_id} was refused: {exc.rpc_error}"))
            continue
        found.setdefault(info.node_id, CheckedNode(client, info, can))
    return list(found.values())
