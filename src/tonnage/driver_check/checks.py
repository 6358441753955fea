"""All checks of one driver, in order: which calls they make; then everything they made is undone, Ctrl-C included.

`contracts` judges the answers.
"""

from __future__ import annotations

import random
import re
import secrets
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Final

from tonnage.clock import Clock
from tonnage.csi import driver_capabilities, errors
from tonnage.csi.client import CsiClient
from tonnage.driver_check import contracts, measuring
from tonnage.driver_check.contracts import CallRefused, Capacity, CheckedVolume, NodeInfo, amount, segments_told
from tonnage.driver_check.conversation import NOT_CLAIMED, CheckedNode, Conversation, tried
from tonnage.driver_check.results import CATALOGUE, PASSED, CheckOutcome, CheckVerdict, Results, failed, skipped
from tonnage.driver_check.settings import CheckSettings

STANDING = (
    "capacity-answers",
    "capacity-pools",
    "capacity-sum",
    "capacity-maximum",
    "capacity-order",
    "capacity-segment",
)
_ASKED_AGAIN = 3


async def check_capacity(talk: Conversation, results: Results) -> None:
    if not talk.can.get_capacity:
        results.skip(STANDING, NOT_CLAIMED)
        return
    answers = [(segment, await talk.capacity(segment)) for segment in talk.segments]
    results.tell("capacity-answers", contracts.answers([(segments_told(where), found) for where, found in answers]))
    for where, found in answers:
        if isinstance(found, Capacity):
            results.tell("capacity-pools", contracts.lists_pools(found))
            results.tell("capacity-sum", contracts.sums_up(found))
            results.tell("capacity-maximum", contracts.maximum_fits(found))
            for _ in range(_ASKED_AGAIN):
                results.tell("capacity-order", contracts.stays_in_order(found, await talk.figures(where)))
    await _check_segments(talk, results)
    results.skip(STANDING, "GetCapacity was refused everywhere")


async def _check_segments(talk: Conversation, results: Results) -> None:
    known = talk.segments[0]
    if not talk.has_topology or not known:
        why = (
            "no segment is known" if talk.has_topology else "the driver does not claim VOLUME_ACCESSIBILITY_CONSTRAINTS"
        )
        results.tell("capacity-segment", skipped(why))
        return
    nowhere = dict.fromkeys(known, f"{talk.settings.prefix}-nowhere")
    results.tell(
        "capacity-segment", contracts.knows_its_segments(await talk.figures(known), await talk.capacity(nowhere))
    )


_OF_ONE_VOLUME = (
    "create-idempotent",
    "create-incompatible",
    "create-size",
    "create-topology",
    "capacity-after-create",
    "capacity-after-delete",
    "delete-idempotent",
)
_OF_VOLUMES = (*_OF_ONE_VOLUME, "create-too-large", "capacity-is-true")


async def check_volumes(talk: Conversation, results: Results) -> None:
    if not talk.can.create_delete_volume:
        results.skip(_OF_VOLUMES, "the driver does not claim CREATE_DELETE_VOLUME")
        return
    await _one_volume(talk, results)
    await _too_large(talk, results)
    await _largest(talk, results)


async def _one_volume(talk: Conversation, results: Results) -> None:
    size, where = talk.settings.size_bytes, talk.home
    before = await talk.figures(where)
    made = await talk.create(size, where)
    if isinstance(made, CallRefused):
        results.tell("create-size", failed(f"a volume of {amount(size)} was refused: {made}; try another --size"))
        results.skip(_OF_ONE_VOLUME, "no volume could be made")
        return
    name = talk.name_of(made.volume_id)
    results.tell("create-size", contracts.large_enough(made, size))
    results.tell("create-topology", contracts.in_its_place(made, where, has_topology=talk.has_topology))
    results.tell("create-idempotent", contracts.same_again(made, await talk.create(size, where, name)))
    asked = max(made.size_bytes, size) * 2
    results.tell("create-incompatible", contracts.incompatible(await talk.create(asked, where, name), asked))

    async def follows() -> CheckVerdict:
        return contracts.shrank(before, await talk.figures(where), max(made.size_bytes, size))

    async def comes_back() -> CheckVerdict:
        return contracts.came_back(before, await talk.figures(where))

    if talk.can.get_capacity:
        results.tell("capacity-after-create", await talk.settled(follows))
    first = await talk.delete(made.volume_id)
    results.tell("delete-idempotent", contracts.undone(first, await talk.delete(made.volume_id)))
    await talk.discard(talk.volume_ids)  # a second volume of the name, if there was one
    if talk.can.get_capacity:
        results.tell("capacity-after-delete", await talk.settled(comes_back))
    results.skip(_OF_ONE_VOLUME, NOT_CLAIMED)


async def _too_large(talk: Conversation, results: Results) -> None:
    if not talk.can.get_capacity:
        results.tell("create-too-large", skipped(f"{NOT_CLAIMED}: it is not known what is too large"))
        return
    found = await talk.figures(talk.home)
    asked = (
        max([*found.pools, found.available if not found.pools else 0, found.maximum or 0]) + talk.settings.size_bytes
    )
    answer = await talk.create(asked, talk.home)
    results.tell("create-too-large", contracts.too_large(answer, asked))
    if isinstance(answer, CheckedVolume):
        await talk.discard([answer.volume_id])


async def _largest(talk: Conversation, results: Results) -> None:
    if not talk.settings.fills:
        results.tell("capacity-is-true", skipped("it takes a whole pool: add --fill to try it"))
        return
    largest = (await talk.figures(talk.home)).largest_bytes if talk.can.get_capacity else 0
    if not largest:
        results.tell("capacity-is-true", skipped("no free space is reported"))
        return
    answer = await talk.create(largest, talk.home)
    results.tell("capacity-is-true", contracts.is_true(largest, answer if isinstance(answer, CallRefused) else largest))
    if isinstance(answer, CheckedVolume):
        await talk.discard([answer.volume_id])


_USED = ("limit-is-a-total", "publish-idempotent", "publish-unknown", "limit-enforced")
_OF_LIMITS = ("limit-sane", "limit-stable", *_USED)


async def check_limits(talk: Conversation, results: Results) -> None:
    for node in talk.nodes:
        results.tell("limit-sane", contracts.sane(node.info, has_topology=talk.has_topology))
        results.tell("limit-stable", contracts.stable(node.info, await _info(node)))
    home = talk.home_node
    if home is None or talk.cannot_use:
        results.skip(_OF_LIMITS, talk.cannot_use)
        return
    if not talk.can.create_delete_volume:
        results.skip(_OF_LIMITS, "the driver does not claim CREATE_DELETE_VOLUME")
        return
    await _one_volume_used(talk, results, home)
    await _enforced(talk, results, home)


async def _info(node: CheckedNode) -> NodeInfo | CallRefused:
    answer = await tried(node.client.node_info())
    return answer if isinstance(answer, CallRefused) else NodeInfo.of(answer)


async def _one_volume_used(talk: Conversation, results: Results, node: CheckedNode) -> None:
    made = await talk.create(talk.settings.size_bytes, talk.home)
    if isinstance(made, CallRefused):
        results.skip(_USED, f"no volume could be made: {made}")
        return
    refused = await talk.use(made.volume_id, node)
    if refused is not None:
        results.tell("publish-idempotent", failed(f"a volume could not be put to use on its node: {refused}"))
        results.skip(_USED, "no volume could be put to use")
    else:
        again = await talk.use(made.volume_id, node)
        results.tell("limit-is-a-total", contracts.is_a_total(node.info, await _info(node)))
        undone = [await talk.let_go(made.volume_id, node), await talk.let_go(made.volume_id, node)]
        results.tell("publish-idempotent", contracts.undone(again, *undone))
        nobody = await talk.use(f"{talk.settings.prefix}-unknown", node)
        results.tell("publish-unknown", contracts.unknown_refused("an unknown volume", nobody))
        if talk.attaches:
            answer = await talk.use(made.volume_id, node, node_id=f"{talk.settings.prefix}-unknown")
            results.tell("publish-unknown", contracts.unknown_refused("a volume, on an unknown node,", answer))
    await talk.discard([made.volume_id])


async def _enforced(talk: Conversation, results: Results, node: CheckedNode) -> None:
    if results.outcome_of("limit-enforced") is not None:
        return
    limit, before = node.info.limit, await talk.attached_to(node.info.node_id)
    if limit <= 0:
        results.tell("limit-enforced", skipped("the node has no limit"))
        return
    if limit + 1 - before > talk.settings.most_volumes:
        results.tell(
            "limit-enforced", skipped(f"it takes {limit + 1 - before} volumes: raise --most-volumes to allow as many")
        )
        return
    results.tell("limit-enforced", await _until_refused(talk, node, limit, before))
    await talk.discard(talk.volume_ids)


async def _until_refused(talk: Conversation, node: CheckedNode, limit: int, before: int) -> CheckVerdict:
    answers: list[CallRefused | None] = []
    for _ in range(limit + 1 - before):
        made = await talk.create(talk.settings.size_bytes, talk.home)
        if not isinstance(made, CheckedVolume):
            return skipped(f"there is no room for {limit + 1 - before} volumes ({made}): give a smaller --size")
        answers.append(await talk.use(made.volume_id, node))
        if answers[-1] is not None:
            break
    return contracts.enforced(limit, before, answers or [CallRefused(errors.Code.RESOURCE_EXHAUSTED)])


_MOVED = ("rebuild-topology", "rebuild-contents", "rebuild-capacity")
_OF_REBUILDING = ("publish-elsewhere", "rebuild-moves", *_MOVED, "rebuild-without-room")
_FILE = "driver-check_rebuilding"
_MOST_POOLS = 64


async def check_rebuilding(talk: Conversation, results: Results) -> None:
    home = talk.home_node
    if home is None or talk.cannot_use or not talk.can.create_delete_volume:
        results.skip(_OF_REBUILDING, talk.cannot_use or "the driver does not claim CREATE_DELETE_VOLUME")
        return
    made = await talk.create(talk.settings.size_bytes, talk.home)
    if isinstance(made, CallRefused):
        results.skip(_OF_REBUILDING, f"no volume could be made: {made}")
        return
    other = next((node for node in talk.nodes if node is not home and not made.reaches(node.info.topology)), None)
    if other is None:
        results.skip(
            _OF_REBUILDING, "no node is known that the volume cannot be reached from: give --node-address for two nodes"
        )
    else:
        await _elsewhere(talk, results, made, home, other)
    await talk.discard([made.volume_id])
    if other is not None:
        await _without_room(talk, results, other)


async def _elsewhere(
    talk: Conversation, results: Results, made: CheckedVolume, home: CheckedNode, other: CheckedNode
) -> None:
    written = await _write(talk, made, home)
    before = [await talk.figures(checked_node.info.topology) for checked_node in (home, other)]
    answer = await talk.use(made.volume_id, other)
    results.tell("publish-elsewhere", contracts.refused_rightly(answer))
    is_out_of_use = bool(talk.settings.cordoned_node) and home.info.node_id == talk.settings.cordoned_node
    results.tell("rebuild-moves", contracts.moves(answer, is_out_of_use=is_out_of_use))
    if answer is not None:
        results.skip(_MOVED, "the volume did not move")
        return
    results.tell("rebuild-topology", contracts.is_there(await talk.look_up(made.volume_id), other.info.topology))
    results.tell("rebuild-contents", await _kept(talk, made, other, written))
    results.tell("rebuild-capacity", await _counted(talk, made, (home, other), before))


async def _counted(
    talk: Conversation, made: CheckedVolume, nodes: tuple[CheckedNode, CheckedNode], before: list[Capacity]
) -> CheckVerdict:
    if not talk.can.get_capacity:
        return skipped("the driver does not claim GET_CAPACITY")
    size = max(made.size_bytes, talk.settings.size_bytes)

    async def follows() -> CheckVerdict:
        old, new = [await talk.figures(node.info.topology) for node in nodes]
        is_one_place = nodes[0].info.topology == nodes[1].info.topology
        return contracts.moved((before[0], old), (before[1], new), size, is_one_place=is_one_place)

    return await talk.settled(follows)


async def _write(talk: Conversation, made: CheckedVolume, home: CheckedNode) -> bytes | str:
    """Write something into the volume on its own node; returns the bytes, or why it failed."""
    refused = await talk.use(made.volume_id, home)
    if refused is not None:
        return f"it could not be put to use on its own node: {refused}"
    shown = await talk.show(made.volume_id, home)
    contents = secrets.token_bytes(32)
    why = ""
    if isinstance(shown, CallRefused):
        why = f"it could not be shown on its own node: {shown}"
    else:
        try:
            (shown / _FILE).write_bytes(contents)
        except OSError as exc:
            why = f"this program cannot write to that folder: {exc.strerror}"
    for undo in (talk.hide, talk.let_go):
        refused = await undo(made.volume_id, home)
        if refused is not None:
            why = why or f"it could not be taken off its own node: {refused}"
    return why or contents


async def _kept(talk: Conversation, made: CheckedVolume, other: CheckedNode, written: bytes | str) -> CheckVerdict:
    if isinstance(written, str):
        return skipped(written)
    shown = await talk.show(made.volume_id, other)
    if isinstance(shown, CallRefused):
        return failed(f"it could not be shown on its new node: {shown}")
    try:
        read: bytes | str = (shown / _FILE).read_bytes()
    except OSError as exc:
        read = exc.strerror or str(exc)
    return contracts.kept_contents(written, read)


async def _without_room(talk: Conversation, results: Results, other: CheckedNode) -> None:
    name = "rebuild-without-room"
    if results.outcome_of("rebuild-moves") is not CheckOutcome.PASSED:
        results.tell(name, skipped("the driver did not rebuild a volume"))
        return
    if not talk.settings.fills or not talk.can.get_capacity:
        why = "it fills a node: add --fill to try it" if talk.can.get_capacity else "no figures are known"
        results.tell(name, skipped(why))
        return
    made = await talk.create(talk.settings.size_bytes, talk.home)
    filled: list[str] = []
    for _ in range(_MOST_POOLS):
        largest = (await talk.figures(other.info.topology)).largest_bytes
        if largest < talk.settings.size_bytes:
            break
        filler = await talk.create(largest, other.info.topology)
        if isinstance(filler, CallRefused):
            break
        filled.append(filler.volume_id)
    left = (await talk.figures(other.info.topology)).largest_bytes
    if isinstance(made, CallRefused) or left >= talk.settings.size_bytes:
        results.tell(name, skipped("the other node could not be filled"))
    else:
        results.tell(name, contracts.refused_without_room(await talk.use(made.volume_id, other)))
    await talk.discard([*filled, *([made.volume_id] if isinstance(made, CheckedVolume) else [])])


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
        plugin = await driver_capabilities.get_plugin_capabilities(controller)
        can = (
            await driver_capabilities.get_controller_capabilities(controller)
            if plugin.controller_service
            else driver_capabilities.ControllerCapabilities()
        )
        nodes = await _nodes([controller, *[await connected(each) for each in node_addresses]], results)
        talk = Conversation(controller, nodes, settings, plugin=plugin, can=can, clock=clock)
        try:
            for name, check in PARTS.items():
                say(f"checking {name}")
                await check(talk, results)
            if settings.measures:
                say("measuring how pools are picked and sizes rounded")
                await measuring.measure(talk, results)
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
            if answer.code is not errors.Code.UNIMPLEMENTED or place:
                results.tell("limit-sane", failed(f"NodeGetInfo at {client.address} was refused: {answer}"))
            continue
        info = NodeInfo.of(answer)
        try:
            can = await driver_capabilities.get_node_capabilities(client)
        except errors.CsiError as exc:
            results.tell("limit-sane", failed(f"NodeGetCapabilities of {info.node_id} was refused: {exc.rpc_error}"))
            continue
        found.setdefault(info.node_id, CheckedNode(client, info, can))
    return list(found.values())
