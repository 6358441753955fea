"""However pods come and are refused, rounds of failed pods keep their distance, and nobody waits longer than that."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from support.virtual_clock import VirtualClock
from tonnage.node.drivers import MAX_S, AttachRefusals

DRIVER = "csi.example"
pauses_s = st.one_of(st.floats(0.001, 3.0), st.floats(1.0, 200.0))


@given(st.lists(st.tuples(pauses_s, st.integers(0, 3)), max_size=60))
def test_rounds_keep_their_distance_and_no_pod_waits_longer_than_two_minutes(steps: list[tuple[float, int]]) -> None:
    clock = VirtualClock()
    refusals = AttachRefusals(clock)
    waiting: list[float] = []
    rounds_s: list[float] = []
    for pause_s, come in steps:
        clock.advance(pause_s)
        now_s = clock.monotonic()
        waiting += [now_s] * come
        for came_s in tuple(waiting):
            left_s = refusals.wait_s(DRIVER, came_s)
            assert left_s <= MAX_S
            if left_s == 0:
                if not rounds_s or came_s > rounds_s[-1]:
                    rounds_s.append(now_s)
                refusals.failed(DRIVER, came_s)
                waiting.remove(came_s)
    # No pause is longer than 200 s, so that nothing is forgotten: round n comes 2^(n-1) s after the one before it.
    gaps_s = [after - before for before, after in itertools.pairwise(rounds_s)]
    assert all(gap >= min(2.0**number, MAX_S) - 1e-5 for number, gap in enumerate(gaps_s))
