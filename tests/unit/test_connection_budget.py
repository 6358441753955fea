"""Who may connect, and who goes when there is no room: the arithmetic of a listener's descriptors."""

from __future__ import annotations

import pytest

from support.virtual_clock import VirtualClock
from tonnage.connection_budget import ConnectionBudget, ConnectionLimits, address_of


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def budget(clock: VirtualClock, *, strangers: int = 2, per_address: int = 2, known: int = 2) -> ConnectionBudget[str]:
    return ConnectionBudget(ConnectionLimits(strangers, per_address, known), clock.monotonic)


@pytest.mark.parametrize(
    ("descriptors", "strangers", "known"),
    [
        (128, 32, 64),  # 128 - 32 of its own = 96, a third of it
        (1024, 298, 598),  # 1024 - 128 = 896
        (20_000, 512, 19_232),  # 20,000 - 256 = 19,744, and no more than 512 strangers
        (10, 5, 11),  # too few to serve anybody; there is a least
    ],
)
def test_descriptors_are_divided(descriptors: int, strangers: int, known: int):
    limits = ConnectionLimits.of_descriptors(descriptors)
    assert (limits.strangers, limits.known) == (strangers, known)
    assert limits.strangers_per_address == max(strangers // 2, 1)


def test_strangers_within_their_moment_are_not_dropped(clock: VirtualClock):
    held = budget(clock)
    held.opened("a", "")
    assert held.has_room
    held.opened("b", "")
    assert not held.has_room
    assert held.may_make_room() is None
    clock.advance(0.5)
    assert held.may_make_room() == "a"


def test_one_that_says_nothing_after_its_handshake_goes_before_one_that_still_shakes_hands(clock: VirtualClock):
    held = budget(clock)
    held.opened("shaking", "")
    held.opened("silent", "")
    held.shook_hands("silent")
    clock.advance(0.25)
    assert held.may_make_room() == "silent"


def test_one_whose_request_is_being_answered_has_longer(clock: VirtualClock):
    held = budget(clock)
    held.opened("a", "")
    held.shook_hands("a")
    held.began("a")
    clock.advance(1.9)
    assert held.may_make_room() is None
    held.ended("a")
    assert held.may_make_room() is None  # its moment begins anew
    clock.advance(0.25)
    assert held.may_make_room() == "a"


def test_whoever_shows_a_token_is_no_stranger_any_more(clock: VirtualClock):
    held = budget(clock)
    for name in ("a", "b"):
        held.opened(name, "10.0.0.1")
        held.shook_hands(name)
        held.began(name)
        held.showed_token(name)
    assert (held.strangers, held.known) == (0, 2)
    assert held.has_room and not held.has_room_for_known
    assert not held.exceeds_address("10.0.0.1")
    assert held.longest_idle() is None
    clock.advance(100)
    assert held.may_make_room() is None
    held.ended("b")
    held.ended("a")
    assert held.longest_idle() == "b"
    held.began("b")
    assert held.longest_idle() == "a"
    held.closed("a")
    assert held.has_room_for_known


def test_one_address_has_a_share(clock: VirtualClock):
    held = budget(clock, strangers=4, per_address=2)
    held.opened("a", "10.0.0.1")
    held.opened("b", "10.0.0.1")
    assert held.exceeds_address("10.0.0.1")
    assert not held.exceeds_address("10.0.0.2")
    held.closed("a")
    held.closed("a")  # told twice
    assert not held.exceeds_address("10.0.0.1")
    assert held.strangers == 1


def test_overdue_are_strangers_without_a_request(clock: VirtualClock):
    held = budget(clock, strangers=9)
    held.opened("shaking", "")
    held.opened("silent", "")
    held.shook_hands("silent")
    held.opened("asking", "")
    held.shook_hands("asking")
    held.began("asking")
    clock.advance(5)
    held.opened("late", "")
    clock.advance(5)
    assert held.overdue(10) == ["shaking", "silent"]


@pytest.mark.parametrize(
    ("peername", "counted_under"),
    [
        (("10.1.2.3", 999), "10.1.2.3"),
        (("127.0.0.1", 999), ""),
        (("::1", 999, 0, 0), ""),
        (("::ffff:10.1.2.3", 999, 0, 0), "10.1.2.3"),
        (("2001:db8:1:2:3:4:5:6", 999, 0, 0), "2001:db8:1:2::"),
        (("fe80::1%eth0", 999, 0, 2), "fe80::"),
        ("", ""),
        (None, ""),
    ],
)
def test_an_address_is_what_one_person_has(peername: object, counted_under: str):
    assert address_of(peername) == counted_under
