"""How a driver picks pools and rounds sizes, inferred from volumes that were made. Pure.

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

from tonnage.objects.size_rules import SizeRules, driver_size
from tonnage.quantity import Quantity

MOST_FREE: Final = "most-free"
BEST_FIT: Final = "best-fit"
FIRST_FIT: Final = "first-fit"
POLICIES: Final = (MOST_FREE, BEST_FIT, FIRST_FIT)
UNKNOWN: Final = "unknown"
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


def policies_left(choices: Sequence[PoolChoice]) -> list[str]:
    """The policies that explain every choice."""
    left = []
    if all(choice.chosen_bytes == max(choice.free) for choice in choices):
        left.append(MOST_FREE)
    if all(choice.chosen_bytes == min(choice.free[place] for place in choice.with_room) for choice in choices):
        left.append(BEST_FIT)
    if all(choice.place is not None for choice in choices) and _order_of_pools(choices):
        left.append(FIRST_FIT)
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
        return UNKNOWN
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


def _picked(policy: str, free: Sequence[int], size: int, order: Sequence[int]) -> int:
    """The place of the pool that a driver of this policy takes; one of them has room."""
    with_room = [place for place in order if free[place] >= size]
    if policy == MOST_FREE:
        return max(with_room, key=lambda place: free[place])
    if policy == BEST_FIT:
        return min(with_room, key=lambda place: free[place])
    return with_room[0]


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
    words = [f"step={_amount(step)}"] if step > 1 else []
    words += [f"step={_amount(large_step)},above={_amount(GI)}"] if large_step != step else []
    words += [f"minimum={_amount(least)}"] if least > step else []
    words += [f"overhead={_amount(overhead)}"] if overhead else []
    rules = SizeRules.parse(",".join(words))
    is_explained = all(driver_size(rules, size) == bytes_ for size, bytes_ in taken.items())
    return ",".join(words) if is_explained else None


def _amount(number: int) -> str:
    return str(Quantity.from_bytes(number))
