"""Volumes that this scheduler did not decide on: of other schedulers, of immediate binding, of claims not seen yet."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from ledger_rig import NODE_1, NODE_2, LedgerRig, bound, written

from support.scheduling_sight import next_expiry_at
from tonnage.clock import rfc3339
from tonnage.objects.core_v1 import PersistentVolume
from tonnage.scheduling.engine.profiles import add_indexes
from tonnage.scheduling.volumes.reservations.ledger import Ledger
from tonnage.testing.storage_builders import DRIVER, capacity, claim, storage_class, volume

PROVISIONED = {"pv.kubernetes.io/provisioned-by": DRIVER}


def provisioned(rig: LedgerRig, name: str = "data", age_s: float = 0, **options: Any) -> PersistentVolume:
    """A volume on node-1 that a provisioner made, created so long ago."""
    rig.server_shows()
    created_at = rfc3339(rig.clock.now() - timedelta(seconds=age_s))
    metadata = {"creationTimestamp": created_at, "annotations": PROVISIONED}
    where = {} if "affinity" in options else {"on": "node-1"}
    return volume(f"pv-{name}", "20Gi", claim=f"default/{name}", metadata=metadata, **{**where, **options})


@pytest.fixture
def rig() -> LedgerRig:
    return LedgerRig()


def test_a_claim_that_another_scheduler_sent_is_promised_from_the_news_of_it_on(rig: LedgerRig) -> None:
    rig.put(claim("data", "20Gi"))
    assert rig.gibs() == []
    rig.put(written("data"))
    assert rig.gibs() == [20]
    assert rig.changed == [NODE_1]


def test_a_volume_that_comes_before_the_news_of_its_claim_is_promised_and_counted_once(rig: LedgerRig) -> None:
    rig.put(provisioned(rig))
    assert rig.gibs() == [20]
    assert [(each.claims, each.why) for each in rig.ledger.holds()] == [
        (
            ("default/data (volume pv-data, on node-1)",),
            "made without a selected-node that was seen; waits for the object to be refreshed",
        )
    ]
    rig.put(written("data"))
    assert rig.gibs() == [20]
    rig.put(bound("data"))
    assert rig.gibs() == [20]
    assert [each.claims for each in rig.ledger.holds()] == [("default/data",)]
    rig.refresh()
    assert rig.gibs() == []


def test_a_claim_that_is_first_seen_bound_after_its_volume_is_counted_once(rig: LedgerRig) -> None:
    rig.put(provisioned(rig), bound("data"))
    assert [each.claims for each in rig.ledger.holds()] == [("default/data",)]


def test_a_volume_of_immediate_binding_takes_of_its_classs_object_until_that_shows_it(rig: LedgerRig) -> None:
    rig.put(storage_class(delayed=False), claim("data", "20Gi"))
    rig.put(provisioned(rig))
    assert (rig.gibs(NODE_1), rig.gibs(NODE_2)) == ([20], [])
    rig.put(claim("data", "20Gi", volume="pv-data"))
    assert rig.gibs() == [20]
    rig.refresh(free="80Gi")
    assert rig.gibs() == []


def test_a_figure_that_fell_just_before_a_volume_came_shows_it(rig: LedgerRig) -> None:
    rig.put(storage_class(delayed=False), claim("data", "20Gi"))
    rig.refresh(free="80Gi")
    rig.put(provisioned(rig))
    assert rig.gibs() == []


def test_what_a_figure_showed_of_a_volume_it_shows_of_its_claim_that_comes_later(rig: LedgerRig) -> None:
    rig.refresh(free="80Gi")
    rig.put(provisioned(rig), written("data"))
    assert rig.gibs() == []


def test_beside_a_promise_the_fall_of_a_volume_of_immediate_binding_is_its_own(rig: LedgerRig) -> None:
    rig.put(storage_class(group="disks"), storage_class("now", delayed=False, group="disks"))
    rig.put(written("mine"))
    rig.put(provisioned(rig, class_name="now"))
    assert rig.gibs() == [20, 20]
    rig.refresh(free="80Gi")
    assert [each.claims for each in rig.ledger.holds()] == [("default/mine",)]


def test_a_fall_is_not_taken_for_two_volumes(rig: LedgerRig) -> None:
    rig.refresh(free="80Gi")
    rig.put(provisioned(rig, "one"), provisioned(rig, "two"))
    assert [each.claims for each in rig.ledger.holds()] == [("default/two (volume pv-two, on node-1)",)]


def test_a_fall_of_long_ago_shows_nothing_that_comes_now(rig: LedgerRig) -> None:
    rig.refresh(free="80Gi")
    rig.refresh(free="80Gi")
    rig.put(provisioned(rig))
    assert rig.gibs() == [20]


def test_an_immediate_class_without_objects_takes_of_those_that_share_its_pools(rig: LedgerRig) -> None:
    rig.put(storage_class(group="disks"), storage_class("now", delayed=False, group="disks"))
    rig.put(provisioned(rig, class_name="now"))
    assert (rig.gibs(NODE_1), rig.gibs(NODE_2)) == ([20], [])
    rig.refresh(free="80Gi")
    assert rig.gibs() == []


def test_the_clock_ends_it_and_so_does_the_end_of_the_volume(rig: LedgerRig) -> None:
    rig.put(provisioned(rig, "one", age_s=50), provisioned(rig, "two"))
    rig.wait(10)
    assert [each.claims for each in rig.ledger.holds()] == [("default/two (volume pv-two, on node-1)",)]
    rig.storage.remove(volume("pv-two"))
    assert rig.gibs() == []


def test_one_that_is_old_one_that_a_person_made_and_one_that_may_be_anywhere_are_not_promised(rig: LedgerRig) -> None:
    rig.put(provisioned(rig, "old", age_s=61))
    by_hand = {"creationTimestamp": rfc3339(rig.clock.now())}
    rig.put(volume("pv-static", "20Gi", on="node-1", claim="default/static", metadata=by_hand))
    rig.put(provisioned(rig, "anywhere", on=None))
    rig.put(provisioned(rig, "either", on=["node-1", "node-2"]))
    assert (rig.gibs(NODE_1), rig.gibs(NODE_2)) == ([], [])


def test_a_volume_of_a_zone_takes_of_the_zones_object() -> None:
    rig = LedgerRig()
    for name in ("node-1", "node-2"):
        rig.storage.remove(capacity("fast", name))
    zone = capacity("fast", topology={"matchLabels": {"zone": "z"}})
    rig.put(zone)
    rig.put(provisioned(rig, affinity={"key": "zone", "operator": "In", "values": ["z"]}))
    assert rig.gibs(zone.uid) == [20]


def test_a_restarted_scheduler_finds_young_ones_again() -> None:
    rig = LedgerRig(is_down=True)
    rig.put(storage_class(delayed=False), claim("data", "20Gi", volume="pv-data"), provisioned(rig, age_s=20))
    rig.put(provisioned(rig, "lost", age_s=30))  # its claim is gone
    assert rig.gibs() == [20, 20]
    rig.wait(40)
    assert rig.gibs() == []
    assert next_expiry_at(add_indexes(rig.cluster).index(Ledger)) is None
