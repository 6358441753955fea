"""Whatever happens to two schedulers that share a lease, no node and no pool is given away twice."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from two_leaders_world import TwoLeaders

from examples_tried import tries

ACTS = ("stop", "go on", "cut", "mend", "deafen", "stick", "unstick", "hold", "release", "set the clock", "add pods")
STEPS = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(ACTS), st.integers(0, 25)), min_size=3, max_size=12)


async def live_through(acts: list[tuple[str, str, int]], *, fences: bool, may_hold: bool) -> TwoLeaders:
    world = TwoLeaders(fences=fences)
    machines = {name: world.machine(name) for name in "ab"}
    world.add_pods(16, priority=0, with_volume=False)
    world.add_pods(6, priority=0, with_volume=True)
    await world.clock.run_for(3.0)
    for name, act, seconds in acts:
        machine = machines[name]
        match act:
            case "stop":
                machine.running.clear()
            case "go on":
                machine.running.set()
            case "cut":
                machine.is_cut = True
            case "mend":
                machine.is_cut = machine.is_deaf = False
            case "deafen":
                machine.is_deaf = True
                machine.watching.clear()
            case "stick":
                machine.watching.clear()
            case "unstick":
                machine.watching.set()
            case "hold" if may_hold:
                machine.forwarding.clear()
            case "release":
                machine.forwarding.set()
            case "set the clock":
                world.clock.set_time_of_day((seconds - 12) * 3600.0)
            case _:
                world.add_pods(12 if seconds > 20 else 3, priority=seconds, with_volume=seconds % 2 == 0)
        await world.clock.run_for(float(seconds))
        assert not world.problems()
    for machine in machines.values():
        machine.is_cut = machine.is_deaf = False
        for each in (machine.running, machine.watching, machine.forwarding):
            each.set()
    await world.clock.run_for(60.0)
    assert not world.problems()
    for machine in machines.values():
        assert not machine.task.done(), machine.task.exception()
        machine.task.cancel()
    await world.clock.run_for(1.0)
    return world


STOPPED = [("a", "stop", 0), ("b", "add pods", 25), ("a", "go on", 5)]
"""It wakes with bindings decided and not sent, after another has placed others."""
LAGGING = [("b", "stick", 5), ("a", "stop", 25)]
"""Who takes over has heard nothing of what the first one bound."""
HELD = [("a", "hold", 3), ("b", "add pods", 25), ("b", "set the clock", 20), ("a", "release", 5)]
"""Bindings lie in a proxy until another has placed others."""
DEAF = [("a", "deafen", 8), ("a", "mend", 8)]
"""Bindings are carried out, and nobody is told."""


@settings(max_examples=tries(8), deadline=None)
@given(STEPS)
@example(STOPPED)
@example(LAGGING)
@example(HELD)
@example(DEAF)
def test_two_schedulers_never_give_anything_away_twice(acts):
    asyncio.run(live_through(acts, fences=True, may_hold=True))


@pytest.mark.slow
@settings(max_examples=tries(150), deadline=None)
@given(STEPS)
def test_two_schedulers_never_give_anything_away_twice_for_longer(acts):
    asyncio.run(live_through(acts, fences=True, may_hold=True))


@pytest.mark.slow
@settings(max_examples=tries(100), deadline=None)
@given(STEPS)
@example(STOPPED)
@example(LAGGING)
@example(DEAF)
def test_nor_where_the_server_looks_at_no_lease_and_nothing_is_kept_on_the_way(acts):
    asyncio.run(live_through(acts, fences=False, may_hold=False))
