"""How a driver picks pools and rounds sizes, measured by making volumes and deleting them: `driver-check --measure`.

Only where that is allowed: no more volumes than --most-volumes at a time, none larger than a few Gi unless --fill is
said. What cannot be told is said with its reason; nothing is guessed.

A volume that was made leaves one pool smaller. Each policy that would have taken another pool is ruled out, until one
is left that a driver picking at random would hardly have imitated. `next_size` chooses the request that tells those
left apart.

A size rule is inferred from pairs of bytes requested and bytes taken, and holds only if it explains every pair.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Final

from tonnage.driver_check.contracts import NO_ROOM, CallRefused, Capacity, CheckedVolume, amount
from tonnage.driver_check.conversation import NOT_CLAIMED, Conversation
from tonnage.driver_check.results import CheckVerdict, Measured, Results, failed, passed
from tonnage.objects.size_rules import SizeRules, driver_size
from tonnage.objects.storage_v1 import POOL_POLICY, SIZE_RULES
from tonnage.scheduling.volumes.packing.pool_policies import PoolPolicy, placed_by

SURE: Final = 0.01
"""A policy is believed when a driver that picks at random would have looked like it with no more than this chance."""

GI: Final = 1 << 30
_PROBE: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class PoolChoice:
    """Free bytes of every pool before a volume was made, the place of the pool it went to, and the bytes it took.

    `place` is None where only the pool's former size is known, because the driver lists its pools in another order
    each time, as those that sort by size do.
    """

    free: tuple[int, ...]
    chosen_bytes: int
    taken: int
    place: int | None

    @property
    def with_room(self) -> list[int]:
        return [place for place, free in enumerate(self.free) if free >= self.taken]


def choice_seen(before: Sequence[int], after: Sequence[int]) -> PoolChoice | None:
    """The choice that explains both lists; None if not exactly one pool has less."""
    was, now = Counter(before) - Counter(after), Counter(after) - Counter(before)
    if len(before) != len(after) or was.total() != 1 or sum(was) <= sum(now):
        return None
    changed = [place for place, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]]
    return PoolChoice(tuple(before), sum(was), sum(was) - sum(now), changed[0] if len(changed) == 1 else None)


def policies_left(choices: Sequence[PoolChoice]) -> list[PoolPolicy]:
    """The policies that explain every choice."""
    left: list[PoolPolicy] = []
    if all(choice.chosen_bytes == max(choice.free) for choice in choices):
        left.append(PoolPolicy.MOST_FREE)
    if all(choice.chosen_bytes == min(choice.free[place] for place in choice.with_room) for choice in choices):
        left.append(PoolPolicy.BEST_FIT)
    if all(choice.place is not None for choice in choices) and _order_of_pools(choices):
        left.append(PoolPolicy.FIRST_FIT)
    return left


def _order_of_pools(choices: Sequence[PoolChoice]) -> list[int]:
    """An order in which the first pool with room was always chosen; empty if there is none."""
    before: dict[int, set[int]] = {}
    for choice in choices:
        if choice.place is not None:
            for place in range(len(choice.free)):
                before.setdefault(place, set())
            for place in set(choice.with_room) - {choice.place}:
                before[place].add(choice.place)
    try:
        return list(TopologicalSorter(before).static_order())
    except CycleError:
        return []


def chance_of_imitation(policy: str, choices: Sequence[PoolChoice]) -> float:
    """How probable it is that a driver which picks at random makes choices that `policy` explains."""
    chance = 1.0
    for number, each in enumerate(choices):
        explained = [
            place
            for place in each.with_room
            if policy in policies_left([*choices[:number], PoolChoice(each.free, each.free[place], each.taken, place)])
        ]
        chance *= len(explained) / len(each.with_room)
    return chance


def policy_measured(choices: Sequence[PoolChoice]) -> str:
    """The policy, `unknown` if none explains the choices, empty if there is too little to tell."""
    left = policies_left(choices)
    if choices and not left:
        return PoolPolicy.UNKNOWN
    if len(left) == 1 and chance_of_imitation(left[0], choices) <= SURE:
        return left[0]
    return ""


def sizes_allowed(free: Sequence[int], usual: int, *, fills: bool) -> list[int]:
    """The sizes that may be made, the smallest first; `fills` allows those that tell pools apart, however large."""
    if not fills:
        return [usual, 2 * usual]
    telling = {size for bytes_ in free for size in (bytes_ // 2, bytes_ // 2 + 1, bytes_ - usual, bytes_ + 1)}
    whole = {-(-size // usual) * usual for size in telling}  # odd sizes would be rounded by the driver
    return sorted({usual, *(size for size in whole if size >= usual)})


def next_size(free: Sequence[int], choices: Sequence[PoolChoice], sizes: Iterable[int]) -> int:
    """Of `sizes`, the one that tells the policies left apart at once, or else by the volume after it.

    0: no two pools have room any more, so nothing more can be seen before volumes are deleted.
    """
    order = _order_of_pools(choices) or list(range(len(free)))
    left = policies_left(choices)
    fitting = [size for size in sizes if size <= max(free)]
    if not fitting or sum(bytes_ >= fitting[0] for bytes_ in free) < 2:
        return 0

    def is_telling(pools: Sequence[int], size: int) -> bool:
        return size <= max(pools) and len({pools[_picked(policy, pools, size, order)] for policy in left}) > 1

    for size in fitting:
        if is_telling(free, size):
            return size
    for size in fitting:
        picked = _picked(left[0], free, size, order) if left else 0
        after = [bytes_ - size if place == picked else bytes_ for place, bytes_ in enumerate(free)]
        if any(is_telling(after, then) for then in fitting):
            return size
    return fitting[0]


def _picked(policy: PoolPolicy, free: Sequence[int], size: int, order: Sequence[int]) -> int:
    """The place of the pool that a driver of this policy takes; one of them has room."""
    return order[placed_by(policy, tuple(free[place] for place in order), size) or 0]


_EDGES: Final = (_PROBE, 8 * _PROBE, GI)
"""A step shows between an edge and one byte beyond: at the first edge that is not below the driver's minimum."""
SIZES_TO_TRY: Final = tuple(sorted({1, 3 * _PROBE + 1, 2 * GI + 1, *_EDGES, *(edge + 1 for edge in _EDGES)}))


def size_rules_measured(taken: Mapping[int, int]) -> str | None:
    """The value of `tonnage.dev/size-rules` that explains bytes taken by bytes requested; None if there is none. Sizes
    that the driver refuses are left out.

    Empty: sizes are taken as they are requested.
    """
    seen = (edge for edge in _EDGES if taken.keys() >= {edge, edge + 1})
    edge = next((edge for edge in seen if taken[edge + 1] > taken[edge]), None)
    if edge is None or (edge == GI and taken.get(1) != taken[GI]):  # sizes between the minimum and 1Gi were not seen
        return None
    overhead, step = taken[edge] - edge, taken[edge + 1] - taken[edge]
    large_step = taken[GI + 1] - taken[GI] if GI + 1 in taken else step
    if min(overhead, large_step - 1) < 0:
        return None
    least = taken.get(1, 0) - overhead
    words = [f"step={amount(step)}"] if step > 1 else []
    words += [f"step={amount(large_step)},above={amount(GI)}"] if large_step != step else []
    words += [f"minimum={amount(least)}"] if least > step else []
    words += [f"overhead={amount(overhead)}"] if overhead else []
    rules = SizeRules.parse(",".join(words))
    is_explained = all(driver_size(rules, size) == bytes_ for size, bytes_ in taken.items())
    return ",".join(words) if is_explained else None


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
    if policy == PoolPolicy.UNKNOWN:
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
