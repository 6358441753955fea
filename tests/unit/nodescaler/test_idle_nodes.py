"""When nodes of a pool go: idle long enough, then marked, then idle still."""

from __future__ import annotations

from pool_builders import burst, fresh, marked, member

from tonnage.nodescaler.plan import Removals, plan, removals

TIME_S = 1_000_000


def decided(*objects, now_s=0.0, idle=None, **limits):
    """What to do about these nodes `now_s` after `idle` began, with unneeded_s 60 and settle_s 5."""
    pool = burst(unneeded_s=60.0, settle_s=5.0, **limits)
    drawn = plan(objects, pool)
    idle = {} if idle is None else idle
    note(idle, drawn.idle, now_s)
    nodes = {each.name: each for each in objects if each.name.startswith("burst-")}
    return removals(drawn, nodes, pool, idle, now_s=now_s, time_s=TIME_S + now_s)


def idle_since_the_start(*names):
    return dict.fromkeys(names, 0.0)


def note(idle, names, now_s):
    """Exactly these nodes are idle now."""
    since_s = {name: idle.get(name, now_s) for name in names}
    idle.clear()
    idle.update(since_s)


def test_a_node_that_just_became_idle_waits():
    assert decided(member("burst-1")) == Removals(next_s=60.0)


def test_a_node_that_was_idle_long_enough_is_marked_and_looked_at_again():
    found = decided(member("burst-1"), now_s=60.0, idle=idle_since_the_start("burst-1"))
    assert found == Removals(mark=("burst-1",), next_s=5.0)


def test_a_marked_node_goes_when_the_mark_has_settled():
    assert decided(marked("burst-1", TIME_S), now_s=4.0) == Removals(next_s=1.0)
    assert decided(marked("burst-1", TIME_S), now_s=5.0) == Removals(remove=("burst-1",))


def test_a_marked_node_that_somebody_is_expected_on_is_let_be():
    binding = fresh("binding", nominated="burst-1")
    assert decided(marked("burst-1", TIME_S), binding, now_s=9.0) == Removals(unmark=("burst-1",))


def test_a_node_that_was_in_use_meanwhile_starts_over():
    idle = idle_since_the_start("burst-1")
    decided(member("burst-1"), fresh("binding", nominated="burst-1"), now_s=30.0, idle=idle)
    assert decided(member("burst-1"), now_s=60.0, idle=idle) == Removals(next_s=60.0)


def test_a_pool_keeps_its_minimum_and_those_that_were_idle_longest_go():
    idle = idle_since_the_start("burst-2")
    note(idle, ("burst-1", "burst-2", "burst-3"), 10.0)
    found = decided(*map(member, ("burst-1", "burst-2", "burst-3")), now_s=70.0, idle=idle, min_nodes=1)
    assert found.mark == ("burst-2", "burst-1")


def test_a_mark_is_taken_back_when_the_minimum_needs_the_node():
    assert decided(marked("burst-1", TIME_S), now_s=9.0, min_nodes=1) == Removals(unmark=("burst-1",))


def test_one_that_is_marked_counts_as_gone_for_the_minimum():
    idle = idle_since_the_start("burst-1", "burst-2")
    found = decided(marked("burst-1", TIME_S + 60), member("burst-2"), now_s=60.0, idle=idle, min_nodes=1)
    assert found == Removals(next_s=5.0)


def test_a_mark_without_a_time_is_old():
    assert decided(member("burst-1", "ToBeDeletedByClusterAutoscaler")).remove == ("burst-1",)
