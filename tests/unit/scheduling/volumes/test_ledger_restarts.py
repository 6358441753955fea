"""Reservation mode Ledger: read off the objects after a restart, in whatever order they come."""

from __future__ import annotations

from datetime import timedelta

import pytest
from ledger_rig import GI, NODE_1, NODE_2, ZONE, LedgerRig, bound, made, marked, written

from support.scheduling_sight import next_expiry_at, promised
from tonnage.clock import rfc3339
from tonnage.scheduling.volumes.reservations.ledger import Ledger
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim, driver, storage_class, volume


@pytest.fixture
def rig() -> LedgerRig:
    return LedgerRig()


@pytest.fixture
def down() -> LedgerRig:
    """A cluster whose scheduler is not running yet."""
    return LedgerRig(is_down=True)


# -- restarts and the order of events ---------------------------------------------------------------------------------


def test_after_a_restart_unbound_claims_are_found_again(down: LedgerRig) -> None:
    down.put(written("data"), claim("loose", "20Gi"))
    assert down.gibs() == [20]
    assert down.changed == []


def test_after_a_restart_a_young_volume_counts_for_the_rest_of_its_time(down: LedgerRig) -> None:
    down.clock.advance(1000)
    down.put(bound("data"), made("data", down, age_s=45))
    assert down.gibs() == [20]
    # 60 - 45 = 15 s are left.
    assert next_expiry_at(down.ledger) == 1015
    down.wait(15)
    assert down.gibs() == []


def test_after_a_restart_a_refresh_ends_the_promise_of_a_young_volume(down: LedgerRig) -> None:
    down.put(bound("data"), made("data", down, age_s=45))
    assert down.gibs() == [20]
    down.refresh()
    assert down.gibs() == []


def test_after_a_restart_old_volumes_and_those_without_a_date_promise_nothing(down: LedgerRig) -> None:
    down.put(bound("old"), made("old", down, age_s=60))
    down.put(bound("undated"), volume("pv-undated", "20Gi", claim="default/undated"))
    assert down.gibs() == []


def test_a_volume_from_the_future_is_just_made(down: LedgerRig) -> None:
    down.put(bound("data"), made("data", down, age_s=-5))
    assert down.gibs() == [20]
    assert next_expiry_at(down.ledger) == 60


def test_a_longer_timeout_finds_the_volumes_that_were_too_old_before(down: LedgerRig) -> None:
    down.clock.advance(1000)
    down.put(bound("data"), made("data", down, age_s=100))
    down.put(bound("older"), made("older", down, age_s=300))
    assert down.gibs() == []
    down.ledger.tell_timeout(300)
    assert down.gibs() == [20]
    assert down.changed == [NODE_1]
    # 300 - 100 = 200 s are left.
    assert next_expiry_at(down.ledger) == 1200


def test_a_longer_timeout_promises_nothing_that_figures_showed(rig: LedgerRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.put(made("data", rig, age_s=0), bound("data"))
    rig.refresh()
    assert rig.gibs() == []
    rig.wait(100)
    rig.ledger.tell_timeout(300)
    assert rig.gibs() == []


def test_a_longer_timeout_promises_nothing_that_figures_showed_since_it_was_too_old(down: LedgerRig) -> None:
    down.clock.advance(1000)
    down.put(bound("data"), made("data", down, age_s=100))
    assert down.gibs() == []
    for _ in range(2):
        down.refresh()
    down.ledger.tell_timeout(300)
    assert down.gibs() == []


def test_a_longer_timeout_promises_anew_what_the_shorter_one_ended_and_no_figure_showed(rig: LedgerRig) -> None:
    rig.put(written("data"), made("data", rig, age_s=0), bound("data"))
    rig.wait(60)
    assert rig.gibs() == []
    rig.ledger.tell_timeout(300)
    assert rig.gibs() == [20]
    rig.wait(240)
    assert rig.gibs() == []


def test_claims_may_come_before_everything_else() -> None:
    rig = LedgerRig(is_empty=True)
    rig.put(written("data"), bound("young", "7Gi"))
    rig.put(made("young", rig, age_s=10))
    rig.put(capacity("fast", "node-1", "100Gi"))
    rig.cluster.put_node(node("node-1"))
    rig.put(storage_class())
    assert rig.gibs() == []
    rig.put(driver())
    assert rig.gibs() == [20, 7]
    assert rig.changed == [NODE_1]


def test_a_refresh_between_a_claim_and_its_late_volume_shows_nothing_and_the_next_does(rig: LedgerRig) -> None:
    # By how much the figure fell is forgotten by the time that there is somebody to show.
    rig.put(bound("data"))
    rig.refresh()
    rig.put(made("data", rig, age_s=1))
    assert rig.gibs() == [20]
    rig.refresh()
    assert rig.gibs() == []


def test_a_refresh_before_the_claim_came_does_not_show_its_late_volume(rig: LedgerRig) -> None:
    rig.refresh()
    rig.put(bound("data"))
    rig.put(made("data", rig, age_s=1))
    assert rig.gibs() == [20]


def test_a_late_volume_does_not_replace_the_promise_of_a_rebuild(rig: LedgerRig) -> None:
    rig.put(bound("data", node_name="node-2"))
    rig.reserve(rig.pod("web", "data"), "node-1")
    rig.put(made("data", rig, age_s=1, on=None))
    assert rig.gibs() == [20]
    assert [hold.pod for hold in rig.ledger.holds()] == ["default/web"]


def test_a_claim_that_goes_before_its_late_volume_comes_promises_nothing(rig: LedgerRig) -> None:
    rig.put(bound("data"))
    rig.storage.remove(rig.claim("default/data"))
    rig.put(made("data", rig, age_s=1))
    assert rig.gibs() == []


def test_a_claim_that_is_sent_elsewhere_before_its_late_volume_comes_promises_nothing(rig: LedgerRig) -> None:
    rig.put(bound("data"))
    rig.put(bound("data", node_name="node-2"))
    rig.put(made("data", rig, age_s=1))
    assert (rig.gibs(NODE_1), rig.gibs(NODE_2)) == ([], [])


def test_an_object_created_after_the_volume_shows_it(rig: LedgerRig) -> None:
    rig.put(written("data"))
    assert rig.gibs() == [20]
    rig.put(bound("data", at=rig.clock.now()))
    created = {"creationTimestamp": rfc3339(rig.clock.now() + timedelta(seconds=1))}
    rig.put(capacity("fast", topology={"matchLabels": {"zone": "z"}}, metadata=created))
    assert (rig.gibs(NODE_1), rig.gibs(ZONE)) == ([20], [])


def test_an_object_created_in_the_second_of_the_binding_need_not_show_it(rig: LedgerRig) -> None:
    rig.put(written("data"))
    rig.put(bound("data", at=rig.clock.now()))
    created = {"creationTimestamp": rfc3339(rig.clock.now())}
    rig.put(capacity("fast", topology={"matchLabels": {"zone": "z"}}, metadata=created))
    assert rig.gibs(ZONE) == [20]


def test_an_object_that_the_informer_tells_of_late_is_charged_for_what_was_made_before(rig: LedgerRig) -> None:
    rig.clock.advance(1000)
    rig.put(written("data"))
    assert rig.gibs() == [20]
    rig.put(bound("data", at=rig.clock.now()))
    created = {"creationTimestamp": rfc3339(rig.clock.now() - timedelta(seconds=500))}
    rig.put(capacity("fast", topology={"matchLabels": {"zone": "z"}}, metadata=created))
    assert rig.gibs(ZONE) == [20]


def test_names_are_lost_in_a_restart_and_promises_are_not(rig: LedgerRig) -> None:
    shared = capacity("fast", topology={"matchLabels": {"zone": "z"}})
    rig.put(shared)
    rig.reserve(rig.pod("web", "data"), of=shared)
    rig.put(written("data"))
    fresh = Ledger(rig.cluster)
    # Nobody knows any more which of the two was meant: both are charged.
    assert promised(fresh, ZONE) == (20 * GI,)
    assert promised(fresh, NODE_1) == (20 * GI,)
    assert [(hold.pod, hold.claims) for hold in fresh.holds_on(ZONE)] == [("", ("default/data",))]


# -- rebuilds ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("age_s", [10, 86_400])
def test_a_rebuild_under_way_is_found_again_however_old_the_volume_is(down: LedgerRig, age_s: float) -> None:
    free = made("data", down, age_s, on=None)
    down.put(marked("data", "node-1"), free)
    assert down.gibs() == [20]
    assert [hold.why for hold in down.ledger.holds()] == ["waits for its volume to be rebuilt"]
    down.wait(86_400)
    assert down.gibs() == [20]


def test_a_rebuild_whose_volume_comes_late_is_found_again(down: LedgerRig) -> None:
    down.put(marked("data", "node-1"))
    assert down.gibs() == []
    down.put(volume("pv-data", "20Gi", claim="default/data"))
    assert down.gibs() == [20]


def test_a_rebuild_that_was_over_and_shown_before_the_start_is_no_promise(down: LedgerRig) -> None:
    down.put(marked("data", "node-1"), made("data", down, 86_400))
    down.refresh()
    assert down.gibs() == []


def test_a_rebuild_that_was_over_before_the_start_and_need_not_be_shown_yet_is_a_promise_for_a_while(
    down: LedgerRig,
) -> None:
    """The object is older than the volume's last change: it may have been measured before the volume arrived."""
    down.put(marked("data", "node-1"), made("data", down, 86_400))
    assert down.gibs() == [20]
    down.refresh()
    assert down.gibs() == []


def test_a_rebuild_that_was_over_before_the_start_is_no_promise_for_longer_than_the_timeout(down: LedgerRig) -> None:
    down.put(marked("data", "node-1"), made("data", down, 86_400))
    assert down.gibs() == [20]
    down.wait(61)
    assert down.gibs() == []
