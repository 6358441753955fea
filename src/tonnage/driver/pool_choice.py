"""Which pool a new volume goes to. A volume lives in one pool of one node, and no pool is ever overdrawn.

    best-fit    the pool that has the least left over afterwards, so that the large rooms stay large
    most-free   the pool that has the most room, so that all fill up alike
    first-fit   the first that has room
    random      any that has room, evenly

Ties go to the node and the pool that come first.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

Policy = Literal["best-fit", "most-free", "first-fit", "random"]
POLICIES: Final[tuple[Policy, ...]] = ("best-fit", "most-free", "first-fit", "random")


@dataclass(frozen=True, slots=True, order=True)
class PoolId:
    """One pool of one node, by its number from 0."""

    node: str
    pool: int


def choose(
    free_bytes: Mapping[str, Sequence[int]],
    size_bytes: int,
    *,
    policy: Policy,
    rng: random.Random,
    numbers: frozenset[int] | None = None,
) -> PoolId | None:
    """The pool for a volume of this size, out of all pools of these nodes; None when none has room.

    `free_bytes` is by node, then by pool; `numbers` narrows it to those pools of each node.
    """
    roomy = [(free - size_bytes, pool_id) for pool_id, free in _pools(free_bytes, numbers) if free >= size_bytes]
    if not roomy:
        return None
    if policy == "random":
        return rng.choice(roomy)[1]
    if policy == "first-fit":
        return roomy[0][1]
    if policy == "most-free":
        return max(roomy, key=lambda candidate: candidate[0])[1]
    return min(roomy, key=lambda candidate: candidate[0])[1]


def largest_bytes(free_bytes: Mapping[str, Sequence[int]], numbers: frozenset[int] | None = None) -> int:
    """The most that any one of these pools has free; 0 without any."""
    return max((free for _, free in _pools(free_bytes, numbers)), default=0)


def _pools(free_bytes: Mapping[str, Sequence[int]], numbers: frozenset[int] | None) -> Iterable[tuple[PoolId, int]]:
    for node, pools in free_bytes.items():
        for number, free in enumerate(pools):
            if numbers is None or number in numbers:
                yield PoolId(node, number), free
