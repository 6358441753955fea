"""The failures of many keys: when each may be tried again, on virtual time."""

from __future__ import annotations

import random

import pytest

from support.virtual_clock import VirtualClock
from tonnage.clock import KeyedBackoff, exponential_s


def test_a_pause_grows_by_its_factor_up_to_the_longest() -> None:
    assert [exponential_s(0.01, retries, factor=5.0) for retries in range(3)] == pytest.approx([0.01, 0.05, 0.25])
    assert [exponential_s(1.0, retries, max_s=3.0) for retries in (0, 1, 2, 10_000)] == [1.0, 2.0, 3.0, 3.0]


async def test_the_same_request_waits_and_another_one_does_not() -> None:
    clock = VirtualClock()
    backoff = KeyedBackoff(clock=clock, rng=random.Random(1), first_s=1.0, max_s=3.0)
    waits = [backoff.failed("c", "node-1") for _ in range(4)]
    # 1, 2, then 4 and 8 cut to 3; each up to a fifth longer.
    for plain_s, pause_s in zip((1.0, 2.0, 3.0, 3.0), waits, strict=True):
        assert plain_s <= pause_s <= 1.2 * plain_s
    assert backoff.left_s("c", "node-1") == pytest.approx(waits[-1])
    assert backoff.left_s("c", "node-2") == 0.0
    clock.advance(waits[-1])
    assert backoff.left_s("c", "node-1") == 0.0
    assert 1.0 <= backoff.failed("c", "node-2") <= 1.2  # another request: its first failure
    backoff.forget("c")
    assert (backoff.left_s("c", "node-2"), len(backoff)) == (0.0, 0)
