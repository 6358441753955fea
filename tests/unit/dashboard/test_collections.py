"""Rows by collection, and what of them changed since a follower last took."""

from __future__ import annotations

import msgspec

from tonnage.dashboard.wire.collections import Collections
from tonnage.dashboard.wire.rows import NodeRow


def taken(follower):
    return msgspec.json.decode(follower.take())


def test_a_follower_is_told_the_whole_state_first_then_what_changed():
    collections = Collections()
    collections.put("nodes", "a", NodeRow(name="a"))
    follower = collections.follow()
    first = taken(follower)
    assert first["state"] and first["set"]["nodes"] == {"a": {"name": "a"}}
    collections.put("nodes", "a", NodeRow(name="a", cordoned=True))
    collections.put("nodes", "b", NodeRow(name="b"))
    collections.remove("nodes", "b")
    assert taken(follower) == {
        "revision": 4,
        "set": {"nodes": {"a": {"name": "a", "cordoned": True}}},
        "gone": {"nodes": ["b"]},
    }


def test_a_row_that_is_as_it_was_is_no_change():
    collections = Collections()
    collections.put("nodes", "a", NodeRow(name="a"))
    collections.put("nodes", "a", NodeRow(name="a"))
    assert collections.revision == 1


def test_what_waits_for_a_slow_follower_is_never_more_than_there_are_rows():
    collections = Collections()
    follower = collections.follow()
    follower.take()
    for number in range(1000):
        collections.put("nodes", "a", NodeRow(name="a", pods=number))
    assert taken(follower)["set"] == {"nodes": {"a": {"name": "a", "pods": 999}}}
