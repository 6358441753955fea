"""No pod is left half-made where some order of its claims works: one volume made, and no room for another.

Random clusters are played in the simulator, with the scheduler's own decisions and bindings and a driver of each
policy; `perf/half_made.py` has the play and prints the whole table. The judge, `order_play.py`, tries every order.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from order_play import safe_orders

from examples_tried import tries
from tonnage.scheduling.volumes.packing.pool_fits import descending
from tonnage.scheduling.volumes.packing.pool_policies import PoolPolicy
from tonnage.whatif.simulate.disks import PICK_POLICIES

sys.path.append(str(Path(__file__).parents[3] / "perf"))
from half_made import RandomCluster, play

CLUSTERS = range(tries(12))


@st.composite
def tight_nodes(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Pools that the claims nearly fill, the claims in any order."""
    sizes = draw(st.lists(st.integers(1, 12), min_size=2, max_size=4))
    filled = [0] * draw(st.integers(2, 3))
    for size in sizes:
        filled[draw(st.integers(0, len(filled) - 1))] += size
    return [used + draw(st.integers(0, 3)) for used in filled], sizes


@settings(max_examples=tries(60), deadline=None)
@given(tight_nodes(), st.sampled_from(PICK_POLICIES), st.booleans(), st.integers(0, 99))
@example(([100, 60], [40, 80]), PoolPolicy.MOST_FREE, False, 0)
def test_a_pod_alone_runs_wherever_some_order_of_its_claims_works(
    case: tuple[list[int], list[int]], pick: PoolPolicy, is_told: bool, seed: int
) -> None:
    pools, sizes = case
    found = play(RandomCluster({"n0": pools}, {"p0": sizes}), pick, is_told=is_told, seed=seed)
    assert found.refused == 0
    known = pick if is_told else PoolPolicy.UNKNOWN
    if safe_orders(known, descending(pools), descending(sizes)):
        assert (found.running, found.half_made) == (1, [])


@pytest.mark.parametrize("gap_s", [2.0, 0.0], ids=["one by one", "all at once"])
@pytest.mark.parametrize("pick", PICK_POLICIES)
def test_clusters_that_fill_up_leave_no_pod_half_made_and_no_volume_refused(pick: PoolPolicy, gap_s: float) -> None:
    """With more pods than fit. Of most-free and best-fit every fit has an order, so that none may go wrong."""
    half_made = 0
    for seed in CLUSTERS:
        found = play(RandomCluster.of(seed), pick, is_told=True, seed=seed, gap_s=gap_s)
        assert found.refused == 0
        half_made += len(found.half_made)
    assert half_made == 0 or pick in ("first-fit", "random")


def test_the_play_has_teeth() -> None:
    """Where no order is safe chance decides: a driver that picks at random leaves some pods half-made, and not all."""
    assert not safe_orders(PoolPolicy.UNKNOWN, (5, 4), (4, 3, 2))
    cluster = RandomCluster({"n0": [5, 4]}, {"p0": [4, 3, 2]})
    spoilt = [seed for seed in range(40) if play(cluster, PoolPolicy.RANDOM, is_told=False, seed=seed).half_made]
    assert 5 < len(spoilt) < 35
