"""Pools as they are written on the command line, and which of them a volume goes to."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tonnage.driver.placement import Place, choose, largest_bytes
from tonnage.driver.pools import InvalidPools, parse_pools, pools_by_node

GI = 1 << 30


def test_a_list_of_pools_has_sizes_and_repetitions() -> None:
    assert parse_pools("3x100Gi") == ("", (100 * GI,) * 3)
    assert parse_pools("node-2=50Gi, 2x20Gi") == ("node-2", (50 * GI, 20 * GI, 20 * GI))


def test_what_names_a_node_wins_over_what_does_not() -> None:
    pools = pools_by_node(["2x10Gi", "node-2=5Gi"], ["node-1", "node-2"])
    assert pools == {"node-1": (10 * GI, 10 * GI), "node-2": (5 * GI,)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ax1Gi", '"ax1Gi" in "ax1Gi" is no number of pools: "a"'),
        ("0x1Gi", '"0x1Gi" in "0x1Gi" is no number of pools: "0"'),
        ("1000000x1Gi", '"1000000x1Gi" in "1000000x1Gi" is no number of pools: "1000000"'),
        ("600x1Gi,600x1Gi", '"600x1Gi,600x1Gi" makes 1200 pools; 1000 are the most a node can have'),
        ("=1Gi", '"=1Gi" names no node before the "="'),
        ("1Ki", '"1Ki" in "1Ki" is too small for any volume: 4096 bytes are the least'),
    ],
)
def test_a_slip_in_a_list_of_pools_is_named(text: str, message: str) -> None:
    with pytest.raises(InvalidPools) as refused:
        parse_pools(text)
    assert refused.value.message == message


def test_a_size_that_is_no_quantity_is_named() -> None:
    with pytest.raises(InvalidPools, match=r'^"10 GB" in "10 GB" is no size of a pool: '):
        parse_pools("10 GB")


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["node-1=1Gi"], "node-2 has no pools"),
        (["1Gi", "2Gi"], "pools are given twice for every node"),
        (["1Gi", "node-9=1Gi"], '"node-9=1Gi" gives pools to node-9, which is no node of this driver'),
    ],
)
def test_every_node_has_its_pools_said_once(texts: list[str], message: str) -> None:
    with pytest.raises(InvalidPools) as refused:
        pools_by_node(texts, ["node-1", "node-2"])
    assert refused.value.message == message


FREE = {"node-1": (30, 10, 20), "node-2": (10, 15)}


@pytest.mark.parametrize(
    ("policy", "size", "place"),
    [
        # Left over for 12: node-1 has 18, -, 8; node-2 has -, 3.
        ("best-fit", 12, Place("node-2", 1)),
        ("first-fit", 12, Place("node-1", 0)),
        # Left over for 10: 20, 0, 10; 0, 5. The first of equals.
        ("best-fit", 10, Place("node-1", 1)),
        ("best-fit", 30, Place("node-1", 0)),
        ("best-fit", 31, None),
        ("first-fit", 31, None),
        ("random", 31, None),
    ],
)
def test_a_policy_picks_a_pool_with_room(policy: str, size: int, place: Place | None) -> None:
    assert choose(FREE, size, policy=policy, rng=random.Random(1)) == place  # type: ignore[arg-type]  # from a table


def test_random_picks_among_all_pools_with_room_and_no_other() -> None:
    rng = random.Random(7)
    seen = Counter(choose(FREE, 15, policy="random", rng=rng) for _ in range(300))
    # 15 fits 30 and 20 on node-1, and exactly 15 on node-2: about 100 times each.
    assert set(seen) == {Place("node-1", 0), Place("node-1", 2), Place("node-2", 1)}
    assert min(seen.values()) > 70


def test_a_class_may_be_narrowed_to_some_pools() -> None:
    only_one = frozenset({1})
    assert choose(FREE, 10, policy="best-fit", rng=random.Random(1), numbers=only_one) == Place("node-1", 1)
    assert choose(FREE, 16, policy="best-fit", rng=random.Random(1), numbers=only_one) is None
    assert largest_bytes(FREE, only_one) == 15
    assert largest_bytes({}) == 0
