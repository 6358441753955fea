"""The scheduler's clock, the server's and that of `tonnage pools` differ by minutes: nothing is promised twice."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from ledger_rig import NODE_1, LedgerRig, bound, written

from tonnage.clock import rfc3339
from tonnage.objects.storage_v1 import (
    AVAILABLE_CAPACITIES,
    POOLS_CHECKED_AT,
    POOLS_SOURCE,
    POOLS_STALE_SINCE,
    CSIStorageCapacity,
)
from tonnage.testing.storage_builders import capacity, volume

SKEWS_S = [-86400, -7200, -600, -61, 0, 61, 600, 7200, 86400]
"""The server's clock is behind ours, or ahead."""


class Skewed:
    """Node-1 of the rig, with a server whose clock differs from the scheduler's."""

    def __init__(self, skew_s: float, *, is_down: bool = False) -> None:
        self.rig = LedgerRig(is_down=is_down)
        self.rig.clock.advance(100_000)
        self.skew_s = skew_s

    def stamp(self, age_s: float = 0) -> str:
        return rfc3339(self.rig.clock.now() + timedelta(seconds=self.skew_s - age_s))

    def bound(self, name: str) -> Any:
        return bound(name, at=self.rig.clock.now() + timedelta(seconds=self.skew_s))

    def volume(self, name: str, age_s: float = 0) -> Any:
        created = {"creationTimestamp": self.stamp(age_s)}
        return volume(f"pv-{name}", "20Gi", on="node-1", claim=f"default/{name}", metadata=created)

    def object(self, age_s: float, uid: str = NODE_1) -> CSIStorageCapacity:
        stamps = {"creationTimestamp": self.stamp(age_s), "managedFields": [{"time": self.stamp(age_s)}]}
        return capacity("fast", "node-1", "100Gi", metadata={"uid": uid, **stamps})


@pytest.mark.parametrize("skew_s", SKEWS_S)
def test_an_object_is_older_than_a_volume_made_after_it_whatever_our_clock_shows(skew_s: float) -> None:
    it = Skewed(skew_s)
    it.rig.put(it.object(age_s=30))
    it.rig.reserve(it.rig.pod("web", "data"))
    it.rig.put(it.volume("data"), it.bound("data"))
    assert it.rig.gibs() == [20]


@pytest.mark.parametrize("skew_s", SKEWS_S)
def test_and_one_that_is_made_anew_after_the_volume_shows_it(skew_s: float) -> None:
    it = Skewed(skew_s)
    it.rig.put(it.object(age_s=30))
    it.rig.reserve(it.rig.pod("web", "data"))
    it.rig.put(it.volume("data"), it.bound("data"))
    it.rig.clock.advance(2)
    it.rig.put(it.object(age_s=0, uid="anew"))
    assert it.rig.gibs("anew") == []


@pytest.mark.parametrize("skew_s", SKEWS_S)
def test_a_restarted_scheduler_counts_a_young_volume_and_not_an_old_one(skew_s: float) -> None:
    it = Skewed(skew_s, is_down=True)
    it.rig.put(it.volume("young", age_s=45), bound("young"), it.volume("old", age_s=100), bound("old"))
    it.rig.server_shows(skew_s)
    assert [each.claims for each in it.rig.ledger.holds()] == [("default/young",)]
    it.rig.wait(15)
    assert it.rig.gibs() == []


@pytest.mark.parametrize("skew_s", [-600, 0, 600])
def test_where_the_last_stamp_is_the_volumes_own_it_is_young_for_a_while(skew_s: float) -> None:
    it = Skewed(skew_s, is_down=True)
    it.rig.put(it.volume("data", age_s=300), bound("data"))
    assert it.rig.gibs() == [20]
    it.rig.wait(60)
    assert it.rig.gibs() == []


def test_what_is_older_than_clocks_differ_by_is_old_though_nothing_else_has_a_stamp() -> None:
    """As in a dump that was made without managedFields."""
    it = Skewed(0, is_down=True)
    it.rig.put(it.volume("data", age_s=4000), bound("data"))
    assert it.rig.gibs() == []


@pytest.mark.parametrize("ahead_s", [-7200, 86400])
def test_when_the_servers_clock_is_set_a_volume_is_held_until_it_shows_or_its_time_is_up(ahead_s: float) -> None:
    for shows in (True, False):
        it = Skewed(0)
        it.rig.put(it.object(age_s=30))
        it.rig.reserve(it.rig.pod("web", "data"))
        it.skew_s += ahead_s
        it.rig.put(it.volume("data"), it.bound("data"))
        assert it.rig.gibs() == [20]
        it.rig.wait(10)
        assert it.rig.gibs() == [20]
        for _ in range(2 * shows):
            it.rig.put(it.object(age_s=0))
            it.rig.wait(1)
        it.rig.wait(50 * (not shows))
        assert it.rig.gibs() == []


# -- `tonnage pools` --------------------------------------------------------------------------------------------------


class SkewedPools(Skewed):
    """The object's pools are kept by a program with a clock of its own; 20Gi were promised, and made just now."""

    def __init__(self, skew_s: float, pools_skew_s: float, set_back_s: float = 0) -> None:
        super().__init__(skew_s)
        self.pools_skew_s = pools_skew_s
        self.rig.put(self.kept())
        self.rig.clock.advance(10)
        self.skew_s -= set_back_s
        self.rig.reserve(self.rig.pod("web", "data"))
        self.rig.put(written("data"), self.volume("data"), self.bound("data"))
        self.rig.clock.advance(1)

    def kept(self, **annotations: str) -> CSIStorageCapacity:
        """The object as both of its writers have written it just now."""
        checked_at = self.rig.clock.now() + timedelta(seconds=self.pools_skew_s)
        told = {AVAILABLE_CAPACITIES: "100Gi", POOLS_SOURCE: "nodes", POOLS_CHECKED_AT: rfc3339(checked_at)}
        managers = [{"manager": each, "time": self.stamp()} for each in ("tonnage-pools", "csi-provisioner")]
        metadata = {"annotations": {**told, **annotations}, "managedFields": managers}
        return capacity("fast", "node-1", "100Gi", metadata=metadata)


@pytest.mark.parametrize("skew_s", [-600, 0, 600])
@pytest.mark.parametrize("pools_skew_s", [-600, 0, 600])
@pytest.mark.parametrize("set_back_s", [0, 7200])
def test_no_clock_ends_a_promise_whose_pools_nobody_looked_at(
    skew_s: float, pools_skew_s: float, set_back_s: float
) -> None:
    it = SkewedPools(skew_s, pools_skew_s, set_back_s)
    for _ in range(5):
        it.rig.wait(70)
        assert it.rig.gibs() == [20]
    # The program is back, and looks: the pools are as they were, so that the volume is a thin one.
    it.rig.put(it.kept())
    it.rig.wait(70)
    assert it.rig.gibs() == []


def test_a_look_counts_though_the_servers_clock_was_set_back_after_the_volume_was_made() -> None:
    it = SkewedPools(0, 0)
    it.skew_s -= 7200
    it.rig.wait(70)
    assert it.rig.gibs() == [20]
    it.rig.put(it.kept())
    it.rig.wait(70)
    assert it.rig.gibs() == []


@pytest.mark.parametrize("pools_skew_s", [-600, 0, 600])
def test_what_a_program_writes_of_a_silent_source_is_no_look_at_it(pools_skew_s: float) -> None:
    it = SkewedPools(0, pools_skew_s)
    # Written one second ago, after the volume was made; the last look was twelve seconds before that.
    silent_at = it.rig.clock.now() + timedelta(seconds=pools_skew_s)
    looked_at = silent_at - timedelta(seconds=12)
    it.rig.put(it.kept(**{POOLS_STALE_SINCE: rfc3339(silent_at), POOLS_CHECKED_AT: rfc3339(looked_at)}))
    it.rig.wait(200)
    assert it.rig.gibs() == [20]
