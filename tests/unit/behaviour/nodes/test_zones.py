"""How fast pods are turned out of lost nodes: upstream's states of a zone, and its rates."""

from __future__ import annotations

import pytest

from support.node_builders import node
from tonnage.behaviour.nodes.node_lifecycle_plan import (
    EvictionRates,
    Zones,
    ZoneState,
    state_of,
    zone_of,
)


def ready(count: int, lost: int = 0) -> list[bool]:
    return [True] * count + [False] * lost


@pytest.mark.parametrize(
    ("is_ready", "state"),
    [
        (ready(0), ZoneState.NORMAL),
        (ready(1), ZoneState.NORMAL),
        (ready(0, 1), ZoneState.FULL),
        (ready(1, 2), ZoneState.NORMAL),  # 67 %, but fewer than three
        (ready(3, 3), ZoneState.NORMAL),  # 50 % < 55 %
        (ready(9, 11), ZoneState.PARTIAL),  # 55 %
        (ready(1, 3), ZoneState.PARTIAL),  # 75 %
        (ready(0, 3), ZoneState.FULL),
    ],
)
def test_the_state_of_a_zone(is_ready: list[bool], state: ZoneState) -> None:
    assert state_of(is_ready, 0.55) is state


def test_a_zone_is_region_and_zone_and_the_old_labels_come_first() -> None:
    assert zone_of(node("n")) == ""
    assert zone_of(node("n", zone="a")) == ":\0:a"


def test_a_normal_zone_loses_a_node_every_ten_seconds() -> None:
    zones = Zones(EvictionRates(node_eviction_rate=0.1))
    assert not zones.may_taint("a", 0.0)  # nobody has judged it yet
    assert zones.update({"a": ready(4, 2)}, 0.0) is False
    assert [zones.may_taint("a", now_s) for now_s in (0.0, 0.1, 9.9, 10.0, 15.0, 20.0)] == [
        True, False, False, True, False, True,
    ]  # fmt: skip


def test_a_small_zone_that_is_partly_disrupted_loses_no_more() -> None:
    zones = Zones(EvictionRates())
    zones.update({"a": ready(2, 3)}, 0.0)
    assert not zones.may_taint("a", 1000.0)


def test_a_large_zone_that_is_partly_disrupted_loses_nodes_slowly() -> None:
    zones = Zones(EvictionRates())
    zones.update({"a": ready(20, 31)}, 0.0)  # 51 nodes, 61 %: one in 1 / 0.01 = 100 s
    assert [zones.may_taint("a", now_s) for now_s in (0.0, 99.0, 100.0)] == [True, False, True]


def test_one_lost_zone_of_two_goes_on_at_the_usual_rate() -> None:
    zones = Zones(EvictionRates(node_eviction_rate=0.1))
    assert zones.update({"a": ready(0, 2), "b": ready(3)}, 0.0) is False
    assert zones.may_taint("a", 0.0)


def test_when_nobody_is_ready_nothing_happens_until_somebody_is() -> None:
    zones = Zones(EvictionRates(node_eviction_rate=0.1))
    assert zones.update({"a": ready(3), "b": ready(2)}, 0.0) is False
    assert zones.update({"a": ready(0, 3), "b": ready(0, 2)}, 5.0) and zones.are_all_lost
    assert zones.update({"a": ready(0, 3), "b": ready(0, 2)}, 10.0) is False
    assert not zones.may_taint("a", 1000.0)
    assert zones.update({"a": ready(1, 2), "b": ready(0, 2)}, 1000.0) and not zones.are_all_lost
    assert zones.may_taint("b", 1000.0)


def test_nodes_that_do_not_count_make_no_disruption() -> None:
    zones = Zones(EvictionRates(node_eviction_rate=0.1))
    assert zones.update({"a": []}, 0.0) is False
    assert zones.may_taint("a", 0.0)


def test_a_turn_that_was_taken_is_not_given_again_by_another_rate() -> None:
    zones = Zones(
        EvictionRates(node_eviction_rate=0.1, secondary_node_eviction_rate=0.01, large_cluster_size_threshold=5)
    )
    zones.update({"a": ready(5, 1)}, 0.0)
    assert zones.may_taint("a", 0.0)
    zones.update({"a": ready(2, 4)}, 1.0)  # partly disrupted, and large: the next comes 100 s later
    assert [zones.may_taint("a", now_s) for now_s in (2.0, 10.0, 100.9, 101.0)] == [False, False, False, True]
