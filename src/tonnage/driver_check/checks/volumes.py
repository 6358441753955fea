"""A volume is made, made again, and deleted; figures follow. Then one that no pool can hold."""

from __future__ import annotations

from tonnage.driver_check.answers import CallRefused, CheckedVolume
from tonnage.driver_check.checks.capacity import NOT_CLAIMED
from tonnage.driver_check.contracts import capacity as figures
from tonnage.driver_check.contracts import volumes as contract
from tonnage.driver_check.contracts.capacity import amount
from tonnage.driver_check.conversation import Conversation
from tonnage.driver_check.results import CheckVerdict, Results, failed, skipped

_MADE = (
    "create-idempotent",
    "create-incompatible",
    "create-size",
    "create-topology",
    "capacity-after-create",
    "capacity-after-delete",
    "delete-idempotent",
)
_ALL = (*_MADE, "create-too-large", "capacity-is-true")


async def check(talk: Conversation, results: Results) -> None:
    if not talk.can.create_delete_volume:
        results.skip(_ALL, "the driver does not claim CREATE_DELETE_VOLUME")
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
        results.skip(_MADE, "no volume could be made")
        return
    name = talk.made.name_of(made.volume_id)
    results.tell("create-size", contract.large_enough(made, size))
    results.tell("create-topology", contract.in_its_place(made, where, has_topology=talk.has_topology))
    results.tell("create-idempotent", contract.same_again(made, await talk.create(size, where, name)))
    asked = max(made.size_bytes, size) * 2
    results.tell("create-incompatible", contract.incompatible(await talk.create(asked, where, name), asked))

    async def follows() -> CheckVerdict:
        return figures.shrank(before, await talk.figures(where), max(made.size_bytes, size))

    async def comes_back() -> CheckVerdict:
        return figures.came_back(before, await talk.figures(where))

    if talk.can.get_capacity:
        results.tell("capacity-after-create", await talk.settled(follows))
    first = await talk.delete(made.volume_id)
    results.tell("delete-idempotent", contract.undone(first, await talk.delete(made.volume_id)))
    await talk.discard(talk.made.volume_ids)  # a second volume of the name, if there was one
    if talk.can.get_capacity:
        results.tell("capacity-after-delete", await talk.settled(comes_back))
    results.skip(_MADE, NOT_CLAIMED)


async def _too_large(talk: Conversation, results: Results) -> None:
    if not talk.can.get_capacity:
        results.tell("create-too-large", skipped(f"{NOT_CLAIMED}: it is not known what is too large"))
        return
    found = await talk.figures(talk.home)
    asked = (
        max([*found.pools, found.available if not found.pools else 0, found.maximum or 0]) + talk.settings.size_bytes
    )
    answer = await talk.create(asked, talk.home)
    results.tell("create-too-large", contract.too_large(answer, asked))
    if isinstance(answer, CheckedVolume):
        await talk.discard([answer.volume_id])


async def _largest(talk: Conversation, results: Results) -> None:
    if not talk.settings.fills:
        results.tell("capacity-is-true", skipped("it takes a whole pool: say --fill to try it"))
        return
    largest = (await talk.figures(talk.home)).largest_bytes if talk.can.get_capacity else 0
    if not largest:
        results.tell("capacity-is-true", skipped("no room is said to be free"))
        return
    answer = await talk.create(largest, talk.home)
    results.tell("capacity-is-true", figures.is_true(largest, answer if isinstance(answer, CallRefused) else largest))
    if isinstance(answer, CheckedVolume):
        await talk.discard([answer.volume_id])
