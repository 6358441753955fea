"""Rows by collection, and what of them changed since a follower last took."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage.dashboard import wire as module
from tonnage.dashboard.server import change_stream
from tonnage.dashboard.wire import Collections, NodeRow


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
        "at": collections.at,
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


def test_whoever_knows_a_state_goes_on_from_there():
    collections = Collections()
    collections.put("nodes", "a", NodeRow(name="a"))
    at = msgspec.json.decode(collections.state())["at"]
    collections.put("nodes", "b", NodeRow(name="b"))
    collections.put("nodes", "c", NodeRow(name="c"))
    collections.remove("nodes", "c")
    follower = collections.follow_since(at)
    assert follower is not None
    told = taken(follower)
    assert (told["set"], told["gone"]) == ({"nodes": {"b": {"name": "b"}}}, {"nodes": ["c"]})
    late = collections.follow_since(told["at"])
    assert late is not None
    assert (taken(late)["set"], taken(late)["gone"]) == ({}, {})
    collections.remove("nodes", "a")
    assert taken(late)["gone"] == taken(follower)["gone"] == {"nodes": ["a"]}


def test_what_is_of_another_start_or_too_long_ago_cannot_be_gone_on_from(monkeypatch):
    monkeypatch.setattr(module, "MOST_REMEMBERED", 3)
    collections = Collections()
    before = collections.at
    for name in "abcd":
        collections.put("nodes", name, NodeRow(name=name))
    start, _, _ = collections.at.partition("-")
    for at in (before, Collections().at, f"{start}-5", f"{start}--1", f"{start}-x", f"{start}-٣", "", "-", start):
        assert collections.follow_since(at) is None, at
    follower = collections.follow_since(f"{start}-1")
    assert follower is not None
    assert taken(follower)["set"] == {"nodes": {name: {"name": name} for name in "bcd"}}


CHANGES = st.lists(st.tuples(st.sampled_from(["put", "remove", "note"]), st.sampled_from("abcdef"), st.integers(0, 3)))


@given(changes=CHANGES, most=st.integers(1, 8))
@settings(deadline=None)
def test_going_on_from_any_state_comes_to_the_same_as_reading_it_anew(changes, most):
    collections, known = Collections(), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST_REMEMBERED", most)
        for what, name, pods in changes:
            if what == "put":
                collections.put("nodes", name, NodeRow(name=name, pods=pods))
            elif what == "remove":
                collections.remove("nodes", name)
            else:
                known.append(msgspec.json.decode(collections.state()))
    now = msgspec.json.decode(collections.state())["set"]["nodes"]
    for state in known:
        follower = collections.follow_since(state["at"])
        if follower is None:
            assert most < len(changes)
            continue
        rows = dict(state["set"]["nodes"])
        told = taken(follower)
        rows |= told["set"].get("nodes", {})
        for key in told["gone"].get("nodes", []):
            rows.pop(key, None)
        assert rows == now


async def test_a_state_is_packed_once_for_all_who_ask_while_it_stays(monkeypatch):
    packed: list[bytes] = []

    def pack(data, level):
        packed.append(data)
        return data

    monkeypatch.setattr("gzip.compress", pack)
    collections = Collections()
    state = change_stream.PackedState(collections)
    assert len(set(await asyncio.gather(*(state.packed() for _ in range(20))))) == 1 == len(packed)
    collections.put("nodes", "a", NodeRow(name="a"))
    assert b'"a"' in await state.packed() and len(packed) == 2
