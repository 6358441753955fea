"""Falls of an object's figure pay for volumes: never more than fell, the oldest volume first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tonnage.scheduling.volumes.reservations.promises import EVER, Decided, Falls, UnshownVolume

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


def fallen(*sizes: int) -> Falls:
    """Falls of these sizes, at ticks 1, 2, 3 …"""
    falls = Falls()
    for tick, size in enumerate(sizes, start=1):
        falls.fell(tick, size)
    return falls


def made(size: int, tick: int = 0) -> UnshownVolume:
    return UnshownVolume(size, Decided(tick), is_made=True)


def unmade(size: int, tick: int = 0) -> UnshownVolume:
    return UnshownVolume(size, Decided(tick), is_made=False)


def test_the_oldest_volume_is_paid_first_and_what_is_left_is_kept() -> None:
    falls = fallen(30)
    assert falls.pay([made(20), made(20), made(10)], has_pools=False) == [0, 2]
    assert falls.since(EVER) == 0
    falls = fallen(30)
    assert falls.pay([made(20)], has_pools=False) == [0]
    assert falls.since(EVER) == 10


def test_a_fall_from_before_the_decision_pays_for_nothing() -> None:
    falls = fallen(20)
    assert falls.pay([made(20, tick=1)], has_pools=False) == []
    falls.fell(2, 20)
    assert falls.pay([made(20, tick=1)], has_pools=False) == [0]
    assert falls.since(EVER) == 20


def test_a_figure_told_before_the_claim_was_given_its_node_pays_for_nothing() -> None:
    falls = Falls()
    falls.fell(1, 20, NOON - timedelta(seconds=1))
    asked = UnshownVolume(20, Decided(0, NOON), is_made=True)
    assert falls.pay([asked], has_pools=False) == []
    falls.fell(2, 20, NOON)
    assert falls.pay([asked], has_pools=False) == [0]


def test_a_rise_takes_the_last_falls_back_and_no_more_than_fell() -> None:
    falls = fallen(10, 20)
    falls.rose(25)
    assert falls.since(EVER) == 5
    falls.rose(100)
    falls.fell(3, 7)
    assert falls.since(EVER) == 7


def test_with_pools_it_matters_which_volume_a_fall_is_of() -> None:
    """A fall of 30 may be of the 30 that has no object yet. If it paid for 10 and 20, 30 would stay promised, for which
    pools of 30 and 25 keep 25 free; but 10 and 20 are to come, and they may leave 10 and 15."""
    falls = fallen(30)
    assert falls.pay([made(10), made(20), unmade(30)], has_pools=True) == []
    assert falls.pay([made(10), made(20), unmade(30)], has_pools=False) == [0, 1]


def test_with_pools_a_fall_that_is_enough_for_all_pays_for_those_that_exist() -> None:
    falls = fallen(30, 30)
    assert falls.pay([made(10), made(20), unmade(30)], has_pools=True) == [0, 1]
    assert falls.pay([made(30)], has_pools=True) == [0]


def test_with_pools_volumes_of_one_size_stand_for_one_another() -> None:
    assert fallen(20).pay([made(20), unmade(20)], has_pools=True) == [0]


def test_with_pools_a_volume_that_is_larger_than_the_fall_is_not_in_it() -> None:
    assert fallen(20).pay([made(20), unmade(30)], has_pools=True) == [0]
