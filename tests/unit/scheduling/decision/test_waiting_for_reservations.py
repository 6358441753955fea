"""A pod that would fit but for capacity kept back for others says whose it is, since when, and on how many nodes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from support.configurations import storage_configuration
from tonnage.objects.meta import Object
from tonnage.scheduling.configuration.configuration import parse
from tonnage.scheduling.volumes.explain.refusal_notes import _told_holders, told_time
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class, volume
from tonnage.whatif.replay import Replay

FULL = "node(s) did not have enough free storage."


def replay(*objects: Object, reservation: str = "Ledger", gates: str = "") -> Replay:
    found = parse(storage_configuration(reservation=reservation), source="config.yaml")
    return Replay([driver(), storage_class(), *objects], found.profiles)


def db(name: str, size: str = "60Gi", **more: Any) -> list[Object]:
    return [claim(f"{name}-data", size), pod_with(name, f"{name}-data", **more)]


def rooms(**free: str) -> list[Object]:
    return [each for name, size in free.items() for each in (node(name), capacity(node=name, free=size))]


@pytest.mark.parametrize("mode", ["Object", "Ledger"])
def test_a_pod_that_waits_for_a_reservation_says_whose_since_when_and_where(mode: str) -> None:
    run = replay(*rooms(a="100Gi", b="10Gi", c="10Gi"), *db("first"), *db("second"), reservation=mode)
    run.advance(12 * 3600 + 3 * 60 + 5)
    assert run.schedule("default/first").node == "a"
    # a: 100 - 60 kept for the first = 40 < 60; b and c would not hold it in any case.
    assert run.schedule("default/second").message == (
        f"0/3 nodes are available: 3 {FULL} On 1 of 3 nodes the room is reserved for default/first (since 12:03:05Z)."
    )


@pytest.mark.parametrize("mode", ["Object", "Ledger"])
def test_the_text_does_not_change_while_time_passes_and_tells_the_date_once_it_is_another_day(mode: str) -> None:
    run = replay(*rooms(a="100Gi"), *db("first"), *db("second"), reservation=mode)
    run.schedule("default/first")
    told = run.schedule("default/second").message
    run.advance(3600)
    assert run.schedule("default/second").message == told
    run.advance(24 * 3600)
    assert "On 1 of 1 nodes the room is reserved for default/first (since 2000-01-01T00:00:00Z)." in (
        run.schedule("default/second").message
    )


@pytest.mark.parametrize("mode", ["Object", "Ledger"])
def test_of_several_holders_the_oldest_is_named_and_the_others_are_counted(mode: str) -> None:
    run = replay(*rooms(a="100Gi", b="100Gi", c="100Gi"), *db("x"), *db("y"), *db("z"), *db("late"), reservation=mode)
    for name in "xyz":
        run.schedule(f"default/{name}")
        run.advance(60)
    assert run.schedule("default/late").message == (
        f"0/3 nodes are available: 3 {FULL}"
        " On 3 of 3 nodes the room is reserved for default/x (since 00:00:00Z) and 2 more."
    )


def test_a_pod_that_no_node_would_hold_anyway_waits_for_nobody() -> None:
    run = replay(*rooms(a="100Gi"), *db("first"), *db("large", "120Gi"))
    run.schedule("default/first")
    assert run.schedule("default/large").message == f"0/1 nodes are available: 1 {FULL}"


def test_without_a_reservation_the_message_is_kube_schedulers() -> None:
    run = replay(*rooms(a="50Gi"), *db("first"), reservation="None")
    assert run.schedule("default/first").message == f"0/1 nodes are available: 1 {FULL}"


def test_a_node_that_another_plugin_refuses_is_not_counted() -> None:
    away = node("b", taints=("k=v:NoSchedule",))
    run = replay(*rooms(a="100Gi"), away, capacity(node="b", free="100Gi"), *db("first"), *db("second"))
    run.schedule("default/first")
    assert run.schedule("default/second").message.endswith(
        "On 1 of 2 nodes the room is reserved for default/first (since 00:00:00Z)."
    )


def test_a_pod_with_a_bound_claim_beside_the_one_to_be_made_is_told_as_well() -> None:
    old = [claim("old", "5Gi", volume="pv-old"), volume("pv-old", "5Gi", claim="default/old", on="a")]
    both = [*old, claim("new", "60Gi"), pod_with("second", "old", "new")]
    run = replay(*rooms(a="100Gi"), *db("first"), *both)
    run.schedule("default/first")
    assert "reserved for default/first (since 00:00:00Z)." in run.schedule("default/second").message


def test_equal_pods_are_told_the_same_and_anew_when_the_holder_changes() -> None:
    run = replay(*rooms(a="100Gi"), *db("x"), *db("y"), *db("p"), *db("q"))
    run.schedule("default/x")
    first = run.schedule("default/p").message
    assert run.schedule("default/q").message == first and "for default/x (since" in first
    run.fail_binding("default/x")
    run.advance(90)
    run.schedule("default/y")
    assert "reserved for default/y (since 00:01:30Z)" in run.schedule("default/p").message


def test_a_pod_without_claims_is_told_nothing_more() -> None:
    run = replay(node("a", cpu="1"), *rooms(), pod("x", cpu="2"))
    assert run.schedule("default/x").message == "0/1 nodes are available: 1 Insufficient cpu."


def test_a_holder_of_which_only_the_claim_is_known_is_named_by_it() -> None:
    taken = claim("x-data", "60Gi", selected_node="a")
    run = replay(*rooms(a="100Gi"), taken, *db("second"))
    assert "the room is reserved for claim default/x-data (since " in run.schedule("default/second").message


def test_very_many_holders_are_not_counted_out() -> None:
    at = datetime(2026, 11, 15, 12, 3, tzinfo=UTC)
    told = _told_holders((("shop/db-1", at), ("shop/db-2", at)), at, is_cut_off=True)
    assert told == "shop/db-1 (since 12:03:00Z) and others"


def test_times_are_told_in_utc() -> None:
    at = datetime.fromisoformat("2026-11-15T01:03:05+02:00")
    assert told_time(at, datetime(2026, 11, 14, 23, 30, tzinfo=UTC)) == "23:03:05Z"
    assert told_time(at, datetime(2026, 11, 15, 0, 30, tzinfo=UTC)) == "2026-11-14T23:03:05Z"


def test_it_stands_between_the_reasons_and_what_preemption_adds() -> None:
    run = replay(*rooms(a="100Gi"), *db("first"), *db("second"))
    run.schedule("default/first")
    decision = run.attempt("default/second").decision
    assert decision is not None and decision.diagnosis is not None
    assert decision.diagnosis.told("preemption: not helpful.") == (
        f"0/1 nodes are available: 1 {FULL} On 1 of 1 nodes the room is reserved for default/first (since 00:00:00Z)."
        " preemption: not helpful."
    )
    assert decision.diagnosis.message("preemption: not helpful.") == (
        f"0/1 nodes are available: 1 {FULL} preemption: not helpful."
    )


def test_a_hold_on_an_object_that_would_be_too_small_anyway_is_nobodys_to_wait_for() -> None:
    # Two objects reach a: of 100Gi, held for big, and of 30Gi, held for small, which could not hold 60Gi in any case.
    small = capacity(node="a", free="30Gi", name="small")
    run = replay(*rooms(a="100Gi"), *db("big", "80Gi"))
    run.schedule("default/big")
    for each in (small, *db("small", "25Gi"), *db("late")):
        run.apply(each)
    assert run.schedule("default/small").node == "a"
    assert (
        "On 1 of 1 nodes the room is reserved for default/big (since 00:00:00Z)."
        in run.schedule("default/late").message
    )
