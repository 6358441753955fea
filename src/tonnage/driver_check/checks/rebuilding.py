"""A volume is published on another node than its own: does it follow, or is it refused with the right code?"""

from __future__ import annotations

import secrets
from pathlib import Path

from tonnage.driver_check.answers import CallRefused, Capacity, CheckedVolume
from tonnage.driver_check.contracts import capacity as figures
from tonnage.driver_check.contracts import rebuilding as contract
from tonnage.driver_check.controller_calls import CheckedNode
from tonnage.driver_check.conversation import Conversation
from tonnage.driver_check.results import CheckOutcome, CheckVerdict, Results, failed, skipped

_MOVED = ("rebuild-topology", "rebuild-contents", "rebuild-capacity")
_ALL = ("publish-elsewhere", "rebuild-moves", *_MOVED, "rebuild-without-room")
_FILE = "driver-check"
_MOST_POOLS = 64


async def check(talk: Conversation, results: Results) -> None:
    home = talk.home_node
    if home is None or talk.cannot_use or not talk.can.create_delete_volume:
        results.skip(_ALL, talk.cannot_use or "the driver does not claim CREATE_DELETE_VOLUME")
        return
    made = await talk.create(talk.settings.size_bytes, talk.home)
    if isinstance(made, CallRefused):
        results.skip(_ALL, f"no volume could be made: {made}")
        return
    other = next((each for each in talk.nodes if each is not home and not made.reaches(each.info.topology)), None)
    if other is None:
        results.skip(_ALL, "no node is known that the volume cannot be reached from: say --node-address of two nodes")
    else:
        await _elsewhere(talk, results, made, home, other)
    await talk.discard([made.volume_id])
    if other is not None:
        await _without_room(talk, results, other)


async def _elsewhere(
    talk: Conversation, results: Results, made: CheckedVolume, home: CheckedNode, other: CheckedNode
) -> None:
    written = await _write(talk, made, home)
    before = [await talk.figures(each.info.topology) for each in (home, other)]
    answer = await talk.use(made.volume_id, other)
    results.tell("publish-elsewhere", contract.refused_rightly(answer))
    is_out_of_use = bool(talk.settings.cordoned_node) and home.info.node_id == talk.settings.cordoned_node
    results.tell("rebuild-moves", contract.moves(answer, is_out_of_use=is_out_of_use))
    if answer is not None:
        results.skip(_MOVED, "the volume did not move")
        return
    results.tell("rebuild-topology", contract.is_there(await talk.look_up(made.volume_id), other.info.topology))
    results.tell("rebuild-contents", await _kept(talk, made, other, written))
    results.tell("rebuild-capacity", await _counted(talk, made, (home, other), before))


async def _counted(
    talk: Conversation, made: CheckedVolume, nodes: tuple[CheckedNode, CheckedNode], before: list[Capacity]
) -> CheckVerdict:
    if not talk.can.get_capacity:
        return skipped("the driver does not claim GET_CAPACITY")
    size = max(made.size_bytes, talk.settings.size_bytes)

    async def follows() -> CheckVerdict:
        old, new = [await talk.figures(each.info.topology) for each in nodes]
        is_one_place = nodes[0].info.topology == nodes[1].info.topology
        return figures.moved((before[0], old), (before[1], new), size, is_one_place=is_one_place)

    return await talk.settled(follows)


# -- contents ---------------------------------------------------------------------------------------------------------


async def _write(talk: Conversation, made: CheckedVolume, home: CheckedNode) -> bytes | str:
    """Write something into the volume on its own node; why it could not be done, in words."""
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
            _place(shown).write_bytes(contents)
        except OSError as exc:
            why = f"it is no folder that this program can write to: {exc.strerror}"
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
        read: bytes | str = _place(shown).read_bytes()
    except OSError as exc:
        read = exc.strerror or str(exc)
    return contract.kept_contents(written, read)


def _place(shown: Path) -> Path:
    return shown / _FILE


# -- no room ----------------------------------------------------------------------------------------------------------


async def _without_room(talk: Conversation, results: Results, other: CheckedNode) -> None:
    name = "rebuild-without-room"
    if results.outcome_of("rebuild-moves") is not CheckOutcome.PASSED:
        results.tell(name, skipped("the driver did not rebuild a volume"))
        return
    if not talk.settings.fills or not talk.can.get_capacity:
        why = "it fills a node: say --fill to try it" if talk.can.get_capacity else "no figures are known"
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
        results.tell(name, contract.refused_without_room(await talk.use(made.volume_id, other)))
    await talk.discard([*filled, *([made.volume_id] if isinstance(made, CheckedVolume) else [])])
