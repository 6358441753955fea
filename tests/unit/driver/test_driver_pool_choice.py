"""Which pool a volume goes to."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tonnage.driver.node_pools import PoolId, choose, largest_bytes

FREE = {"node-1": (30, 10, 20), "node-2": (10, 15)}


@pytest.mark.parametrize(
    ("policy", "size", "place"),
    [
        # Left over for 12: node-1 has 18, -, 8; node-2 has -, 3.
        ("best-fit", 12, PoolId("node-2", 1)),
        ("first-fit", 12, PoolId("node-1", 0)),
        # Left over for 10: 20, 0, 10; 0, 5. The first of equals.
        ("best-fit", 10, PoolId("node-1", 1)),
        ("best-fit", 30, PoolId("node-1", 0)),
        ("best-fit", 31, None),
        ("first-fit", 31, None),
        ("most-free", 12, PoolId("node-1", 0)),
        ("most-free", 31, None),
        ("random", 31, None),
    ],
)
def test_a_policy_picks_a_pool_with_room(policy: str, size: int, place: PoolId | None) -> None:
    assert choose(FREE, size, policy=policy, rng=random.Random(1)) == place  # type: ignore[arg-type]  # from a table


def test_random_picks_among_all_pools_with_room_and_no_other() -> None:
    rng = random.Random(7)
    seen = Counter(choose(FREE, 15, policy="random", rng=rng) for _ in range(300))
    # 15 fits 30 and 20 on node-1, and exactly 15 on node-2: about 100 times each.
    assert set(seen) == {PoolId("node-1", 0), PoolId("node-1", 2), PoolId("node-2", 1)}
    assert min(seen.values()) > 70


def test_a_class_may_be_narrowed_to_some_pools() -> None:
    only_one = frozenset({1})
    assert choose(FREE, 10, policy="best-fit", rng=random.Random(1), numbers=only_one) == PoolId("node-1", 1)
    assert choose(FREE, 16, policy="best-fit", rng=random.Random(1), numbers=only_one) is None
    assert largest_bytes(FREE, only_one) == 15
    assert largest_bytes({}) == 0
