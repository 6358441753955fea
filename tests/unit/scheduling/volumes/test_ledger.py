"""Reservation mode Ledger: what is promised of which object, and who holds it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from ledger_rig import GI, NODE_1, NODE_2, ZONE, LedgerRig, bound, written

from support.scheduling_sight import next_expiry_at, promised, promises
from support.virtual_clock import VirtualClock
from tonnage.scheduling.volumes.bind_volumes import asking_for
from tonnage.scheduling.volumes.reservations.holds import REFRESH, Hold
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim, driver, storage_class


@pytest.fixture
def rig() -> LedgerRig:
    return LedgerRig()


@pytest.fixture
def down() -> LedgerRig:
    """A cluster whose scheduler is not running yet."""
    return LedgerRig(is_down=True)


# -- promises ---------------------------------------------------------------------------------------------------------


def test_an_assumed_claim_is_a_promise_before_the_api_knows(rig: LedgerRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    assert rig.gibs() == [20]
    assert rig.gibs(NODE_2) == []
    assert set(rig.changed) == {NODE_1}


def test_a_claim_that_could_not_be_sent_elsewhere_is_promised_where_it_was(rig: LedgerRig) -> None:
    """Another claim of its pod had changed meanwhile: what was assumed is taken back while `reserve` is awaited."""
    rig.put(written("data", node_name="node-1"))
    assert rig.gibs() == [20]
    rig.ledger.awaited = ["default/data"]
    rig.storage.claims.assume(asking_for(rig.claim("default/data"), "node-2"))
    rig.storage.claims.restore("default/data")
    rig.ledger.awaited = ()
    assert (rig.gibs(), rig.gibs(NODE_2)) == ([20], [])


def test_promises_are_told_largest_first_and_by_claim(rig: LedgerRig) -> None:
    rig.reserve(rig.pod("small", "a", size="5Gi"))
    rig.reserve(rig.pod("large", "b", size="50Gi"))
    assert rig.gibs() == [50, 5]
    assert promises(rig.ledger, NODE_1) == {"default/a": 5 * GI, "default/b": 50 * GI}
    assert promises(rig.ledger, "unknown") == {}


def test_five_pods_are_promised_at_once(rig: LedgerRig) -> None:
    for number in range(5):
        rig.reserve(rig.pod(f"web-{number}", f"data-{number}"))
    assert rig.gibs() == [20, 20, 20, 20, 20]


def test_a_quantity_is_promised_in_whole_bytes_rounded_up(rig: LedgerRig) -> None:
    rig.reserve(rig.pod("web", "data", size="1500m"))
    assert promised(rig.ledger, NODE_1) == (2,)


def test_a_claim_that_does_not_say_how_much_promises_nothing(rig: LedgerRig) -> None:
    rig.put(claim("data", None, selected_node="node-1"))
    assert rig.gibs() == []


def test_a_driver_that_does_not_publish_capacity_is_promised_nothing(rig: LedgerRig) -> None:
    rig.put(driver(capacity=False))
    rig.put(written("data"))
    assert rig.gibs() == []
    rig.put(driver(capacity=True))
    assert rig.gibs() == [20]
    rig.storage.remove(rig.storage.drivers["csi.example"])
    assert rig.gibs() == []


def test_claims_of_other_classes_are_not_charged(rig: LedgerRig) -> None:
    rig.put(storage_class("slow"), claim("data", "20Gi", class_name="slow", selected_node="node-1"))
    assert rig.gibs() == []


def test_a_claim_without_a_node_promises_nothing(rig: LedgerRig) -> None:
    rig.put(claim("data", "20Gi"))
    assert rig.gibs() == []


# -- which object -----------------------------------------------------------------------------------------------------


def test_a_claim_of_another_scheduler_is_charged_to_every_object_that_reaches_its_node(rig: LedgerRig) -> None:
    rig.put(capacity("fast", topology={"matchLabels": {"zone": "z"}}))
    rig.put(written("data"))
    assert rig.gibs(NODE_1) == [20]
    assert rig.gibs(ZONE) == [20]
    assert rig.gibs(NODE_2) == []


def test_a_reserved_claim_is_charged_to_the_object_that_was_named(rig: LedgerRig) -> None:
    shared = capacity("fast", topology={"matchLabels": {"zone": "z"}})
    rig.put(shared)
    rig.reserve(rig.pod("web", "data"), of=shared)
    assert rig.gibs(ZONE) == [20]
    assert rig.gibs(NODE_1) == []
    rig.put(written("data"))
    assert rig.gibs(ZONE) == [20]
    assert rig.gibs(NODE_1) == []


def test_when_the_named_object_goes_the_others_are_charged(rig: LedgerRig) -> None:
    shared = capacity("fast", topology={"matchLabels": {"zone": "z"}})
    rig.put(shared)
    rig.reserve(rig.pod("web", "data"), of=shared)
    rig.storage.remove(shared)
    assert rig.gibs(ZONE) == []
    assert rig.gibs(NODE_1) == [20]
    assert rig.released == [ZONE]


def test_an_object_that_stops_reaching_the_node_is_not_charged(rig: LedgerRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.put(capacity("fast", name="fast-node-1", free="100Gi", topology={"matchLabels": {"zone": "elsewhere"}}))
    assert rig.gibs() == []
    rig.put(capacity("fast", "node-1", "100Gi"))
    assert rig.gibs() == [20]


def test_a_figure_about_other_disks_shows_nothing_of_those_before(rig: LedgerRig) -> None:
    """The object falls by as much as the volume takes, because it is about another node from now on."""
    rig.reserve(rig.pod("web", "data"))
    rig.put(bound("data"), capacity("fast", name="fast-node-1", free="80Gi", topology={"matchLabels": {"zone": "z"}}))
    assert rig.gibs() == [20]
    rig.put(capacity("fast", name="fast-node-1", free="60Gi", topology={"matchLabels": {"zone": "z"}}))
    assert rig.gibs() == []


def test_an_object_that_changes_its_class_takes_no_promise_along(rig: LedgerRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.put(capacity("slow", "node-1", "100Gi", name="fast-node-1"))
    assert rig.gibs() == []


def test_an_object_made_anew_under_its_name_is_charged(rig: LedgerRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.put(capacity("fast", "node-1", "100Gi", metadata={"uid": "second"}))
    assert rig.gibs("second") == [20]
    assert rig.gibs(NODE_1) == []


def test_what_was_named_stays_charged_when_the_node_goes(rig: LedgerRig) -> None:
    shared = capacity("fast", topology={"matchLabels": {"zone": "z"}})
    rig.put(shared)
    rig.reserve(rig.pod("web", "data"), of=shared)
    rig.cluster.remove_node("node-1")
    assert rig.gibs(ZONE) == [20]


def test_what_was_not_named_is_charged_nowhere_while_its_node_is_not_known(rig: LedgerRig) -> None:
    rig.put(written("data"))
    rig.cluster.remove_node("node-1")
    assert rig.gibs() == []
    rig.cluster.put_node(node("node-1", labels={"zone": "z"}))
    assert rig.gibs() == [20]


def test_a_node_that_takes_the_place_of_another_is_not_taken_for_it(rig: LedgerRig) -> None:
    rig.put(written("data"))
    rig.cluster.remove_node("node-1")
    rig.cluster.put_node(node("node-3"))  # in the same row
    assert rig.gibs() == []
    rig.cluster.remove_node("node-3")
    rig.cluster.put_node(node("node-1"))
    assert rig.gibs() == [20]
    rig.cluster.remove_node("node-1")
    assert rig.gibs() == []


def test_a_node_that_came_late_and_goes_is_noticed(rig: LedgerRig) -> None:
    rig.put(capacity("fast", "node-3", "100Gi"), written("data", node_name="node-3"))
    rig.cluster.put_node(node("node-3"))
    assert rig.gibs("kube-system-fast-node-3") == [20]
    rig.cluster.remove_node("node-3")
    assert rig.gibs("kube-system-fast-node-3") == []


def test_an_object_that_was_named_for_another_class_is_not_charged_when_the_node_goes(rig: LedgerRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.cluster.remove_node("node-1")
    rig.put(capacity("slow", "node-1", "100Gi", name="fast-node-1"))
    assert rig.gibs() == []


def test_a_class_that_changes_its_driver_takes_the_promises_along(rig: LedgerRig) -> None:
    rig.put(written("data"))
    rig.put(storage_class(provisioner="other.example"))
    assert rig.gibs() == []
    rig.put(storage_class())
    assert rig.gibs() == [20]


def test_a_node_that_changes_its_labels_moves_the_charge(rig: LedgerRig) -> None:
    rig.put(capacity("fast", topology={"matchLabels": {"zone": "other"}}))
    rig.put(written("data"))
    assert rig.gibs(ZONE) == []
    rig.changed.clear()
    rig.cluster.put_node(node("node-1", labels={"zone": "other"}))
    assert rig.gibs(ZONE) == [20]
    assert rig.changed == [ZONE]


# -- who holds what ---------------------------------------------------------------------------------------------------


def test_a_hold_says_who_since_when_and_why(rig: LedgerRig) -> None:
    rig.clock.advance(90)
    rig.reserve(rig.pod("web", "a", "b"))
    rig.put(bound("b"))
    since = VirtualClock().now() + timedelta(seconds=90)
    of_object: dict[str, Any] = {"capacity": "kube-system/fast-node-1", "uid": NODE_1, "pod": "default/web"}
    assert rig.ledger.holds() == [
        Hold(**of_object, claims=("default/a",), bytes=20 * GI, since=since, why="waits for its claim to be bound"),
        Hold(
            **of_object,
            claims=("default/b",),
            bytes=20 * GI,
            since=since,
            why="bound; waits for the object to be refreshed",
        ),
    ]
    assert rig.ledger.holds_on(NODE_2) == []


def test_listeners_find_the_change_made(rig: LedgerRig) -> None:
    seen: list[tuple[int, ...]] = []
    rig.ledger.on_change.append(lambda uid: seen.append(promised(rig.ledger, uid)))
    rig.put(written("data"))
    rig.put(claim("data", "20Gi"))
    assert seen == [(20 * GI,), ()]


def test_nothing_is_kept_of_promises_that_ended(rig: LedgerRig) -> None:
    for number in range(20):
        name = f"data-{number}"
        rig.reserve(rig.pod(f"web-{number}", name))
        rig.put(bound(name))
        rig.refresh()
    rig.refresh()  # the same figure again: it was measured after the one before it was written
    ledger = rig.ledger
    assert list(ledger._records) == [] and not ledger._records._by_tag and next_expiry_at(ledger) is None


def test_reservations_and_what_a_refresh_ends_of_them_are_counted(rig: LedgerRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    assert (rig.ledger.reservations_total, rig.ledger.ended[REFRESH]) == (1, 0)
    rig.put(bound("data"))
    rig.refresh()
    assert (rig.ledger.reservations_total, rig.ledger.ended[REFRESH]) == (1, 1)
