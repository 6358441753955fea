"""How a driver picks pools and rounds sizes, measured by making volumes and deleting them: `driver-check --measure`.

Only where that is allowed: no more volumes than --most-volumes at a time, none larger than a few Gi unless --fill is
said. What cannot be told is said with its reason; nothing is guessed.
"""

from __future__ import annotations

from tonnage.driver_check.checks import NOT_CLAIMED
from tonnage.driver_check.contracts import NO_ROOM, CallRefused, Capacity, CheckedVolume, amount
from tonnage.driver_check.conversation import Conversation
from tonnage.driver_check.inferences import (
    GI,
    SIZES_TO_TRY,
    UNKNOWN,
    PoolChoice,
    choice_seen,
    next_size,
    policies_left,
    policy_measured,
    size_rules_measured,
    sizes_allowed,
)
from tonnage.driver_check.results import CheckVerdict, Measured, Results, failed, passed
from tonnage.objects.size_rules import SizeRules
from tonnage.objects.storage_v1 import POOL_POLICY, SIZE_RULES

_ROUNDS = 8
"""How often all volumes are deleted and pools watched anew before the measuring is given up."""
_LARGEST_UNASKED = 3 * GI
"""A pool with more free is filled only with --fill. The sizes that are always tried are no larger."""


async def measure(talk: Conversation, results: Results) -> None:
    if not talk.can.create_delete_volume or not talk.can.get_capacity:
        why = "the driver does not claim CREATE_DELETE_VOLUME" if talk.can.get_capacity else NOT_CLAIMED
        results.measured = [Measured(POOL_POLICY, "", why), Measured(SIZE_RULES, "", why)]
        return
    results.measured = [await _pool_policy(talk), await _size_rules(talk)]


async def _pool_policy(talk: Conversation) -> Measured:
    pools = (await talk.figures(talk.home)).pools
    if len(pools) < 2:
        told = "there is one pool, so there is nothing to choose" if pools else "available_capacities is empty"
        return Measured(POOL_POLICY, "", told)
    choices: list[PoolChoice] = []
    why = ""
    for _ in range(_ROUNDS):
        known = len(choices)
        why = await _volumes_made(talk, choices)
        await talk.discard(talk.volume_ids)
        shows_nothing_new = len(policies_left(choices)) > 1 and {*choices[known:]} <= {*choices[:known]}
        if why or policy_measured(choices) or shows_nothing_new:
            break
    policy = policy_measured(choices)
    if policy == UNKNOWN:
        return Measured(POOL_POLICY, policy, f"{_volumes(choices)}, and no policy explains which pools they went to")
    if policy:
        return Measured(POOL_POLICY, policy, f"{_volumes(choices)} went where {policy} puts them")
    could_be = " or ".join(policies_left(choices)) or "any"
    hint = "" if talk.settings.fills else "; --fill lets larger volumes tell them apart"
    return Measured(POOL_POLICY, "", f"{could_be}, after {_volumes(choices)}{f' ({why})' if why else ''}{hint}")


async def _volumes_made(talk: Conversation, choices: list[PoolChoice]) -> str:
    """Make volumes until the policy is known or no two pools have room; note the choices. Returns what went wrong."""
    before = await talk.figures(talk.home)
    for _ in range(talk.settings.most_volumes):
        sizes = sizes_allowed(before.pools, talk.settings.size_bytes, fills=talk.settings.fills)
        size = next_size(before.pools, choices, sizes)
        if not size or policy_measured(choices):
            return ""
        answer = await talk.create(size, talk.home)
        if isinstance(answer, CallRefused):
            is_for_room = answer.code in NO_ROOM and size > talk.settings.size_bytes
            return "" if is_for_room else f"a volume of {amount(size)} was refused: {answer}"
        after = await _figures_after(talk, before)
        seen = choice_seen(before.pools, after.pools)
        if seen is None:
            return f"a volume of {amount(size)} was made: {before} became {after}"
        if len(seen.with_room) > 1:
            choices.append(seen)
        before = after
    return ""


def _volumes(choices: list[PoolChoice]) -> str:
    return f"{len(choices)} volume{'' if len(choices) == 1 else 's'} that had a choice"


async def _figures_after(talk: Conversation, before: Capacity) -> Capacity:
    """The figures of home once they have changed, or after the time that they are given."""
    now = before

    async def has_changed() -> CheckVerdict:
        nonlocal now
        now = await talk.figures(talk.home)
        changed = now.pools != before.pools if before.pools else now.available != before.available
        return passed() if changed else failed("unchanged")

    await talk.settled(has_changed)
    return now


async def _size_rules(talk: Conversation) -> Measured:
    taken: dict[int, int] = {}
    refused: dict[int, CallRefused] = {}
    for size in SIZES_TO_TRY:
        before = await talk.figures(talk.home)
        if size > before.largest_bytes // 2:
            break
        answer = await talk.create(size, talk.home)
        if isinstance(answer, CallRefused):
            refused[size] = answer
            if not taken:  # a driver may refuse what is below its minimum
                continue
            return Measured(SIZE_RULES, "", f"a volume of {amount(size)} was refused: {answer}")
        after = await _figures_after(talk, before)
        taken[size] = before.free_bytes - after.free_bytes
        await talk.discard([answer.volume_id])
        await _figures_after(talk, after)
    if refused and not taken:
        size, answer = next(iter(refused.items()))
        return Measured(SIZE_RULES, "", f"a volume of {amount(size)} was refused: {answer}")
    lines = [f"{amount(size)} was refused" for size in refused]
    told = ", ".join([*lines, *(f"{amount(size)} took {amount(bytes_)}" for size, bytes_ in taken.items())])
    value = size_rules_measured(taken)
    if value is None:
        tried = len(taken) + len(refused)
        missing = "no rule explains all of them" if tried == len(SIZES_TO_TRY) else "there is no room to try more"
        return Measured(SIZE_RULES, "", f"{told or 'nothing was made'}: {missing}")
    told = told if value else f"sizes are taken as they are asked: {told}"
    is_strict = await _wants_more_than_it_takes(talk, SizeRules.parse(value))
    if is_strict:
        value = f"{value},strict" if value else "strict"
    elif is_strict is None:
        hint = "" if talk.settings.fills else ": --fill tries it"
        told = f"{told}; a volume that takes all that is free was not tried{hint}"
    return Measured(SIZE_RULES, value, told)


async def _wants_more_than_it_takes(talk: Conversation, rules: SizeRules) -> bool | None:
    """True if a volume that takes exactly the largest pool is refused, and one that is a step smaller is made. None if
    no volume takes exactly that, or it is larger than what may be made.

    Where the largest pool is no whole number of steps, a volume of all its whole steps leaves less, and smaller volumes
    may have smaller steps.
    """
    most = None if talk.settings.fills else _LARGEST_UNASKED
    volumes: list[str] = []
    try:
        for _ in range(talk.settings.most_volumes):
            before = await talk.figures(talk.home)
            largest = before.largest_bytes - rules.overhead_bytes
            step = rules.step_of(largest)
            if largest <= max(step, rules.minimum) or (most is not None and largest > most):
                return None
            if largest % step == 0:
                break
            answer = await talk.create(largest - largest % step, talk.home)
            if isinstance(answer, CallRefused):
                return None
            volumes.append(answer.volume_id)
            await _figures_after(talk, before)
        else:
            return None
        whole = await talk.create(largest, talk.home)
        if isinstance(whole, CheckedVolume):
            volumes.append(whole.volume_id)
            return False
        less = await talk.create(largest - step, talk.home)
        if isinstance(less, CheckedVolume):
            volumes.append(less.volume_id)
        return isinstance(less, CheckedVolume)
    finally:
        await talk.discard(volumes)
