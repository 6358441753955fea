"""What the next figures of a driver are known to include."""

from __future__ import annotations

from datetime import timedelta

from support.virtual_clock import VirtualClock
from tonnage.provisioner.capacity.objects import KEPT_S, MOST, IncludedClaims


def test_figures_include_what_was_made_before_they_were_asked_for_where_it_was_made():
    made = IncludedClaims(VirtualClock())
    made.note("pools/node-1", "u1")
    made.note("pools/node-1", "u2")
    assert (made.about("pools/node-1").claims, made.about("pools/node-2").claims) == (("u1", "u2"), ())


def test_what_is_older_than_anybody_waits_for_is_not_worth_a_word():
    clock = VirtualClock()
    made = IncludedClaims(clock)
    made.note("pools/node-1", "old")
    clock.advance(KEPT_S)
    made.note("pools/node-1", "new")
    assert made.about("pools/node-1").claims == ("old", "new")
    clock.advance(1)
    assert made.about("pools/node-1").claims == ("new",)


def test_of_very_many_the_newest_are_named():
    made = IncludedClaims(VirtualClock())
    for number in range(MOST + 2):
        made.note("pools/node-1", str(number))
    made.note("pools/node-1", "2")  # expanded meanwhile: news again
    assert made.about("pools/node-1").claims == (*map(str, range(3, MOST + 2)), "2")


def test_where_more_were_made_than_are_named_every_volume_created_before_the_newest_is_included():
    made, at = IncludedClaims(VirtualClock()), VirtualClock().now()
    assert list(made.created(at)) == []
    for number in range(MOST - 1):
        made.note("pools/node-1", str(number))
    assert made.about("pools/node-1").until is None
    made.note("pools/node-1", "one more")
    made.note("pools/node-2", "another")
    assert (made.about("pools/node-1").until, made.about("pools/node-2").until) == (at, None)
    # A later volume is worth another report, where there may be claims without a name; an earlier one says nothing.
    assert list(made.created(at + timedelta(seconds=5))) == ["pools/node-1"]
    assert list(made.created(at + timedelta(seconds=3))) == []
    assert made.about("pools/node-1").until == at + timedelta(seconds=5)


def test_a_volume_that_was_rebuilt_elsewhere_is_in_no_figures_until_it_is_noted_there():
    made = IncludedClaims(VirtualClock())
    for key in ("pools/node-1", "gold/node-1"):
        made.note(key, "u1")
        made.note(key, "u2")
    made.moved("u1")
    made.note("pools/node-2", "u1")
    assert [made.about(key).claims for key in ("pools/node-1", "gold/node-1", "pools/node-2")] == [
        ("u2",),
        ("u2",),
        ("u1",),
    ]
