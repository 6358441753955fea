"""What a capacity object says about room, in whichever of its fields; and what decisions make of it."""

from __future__ import annotations

from typing import Any

import pytest
from volume_rig import ALL_OFF, FULL, GI, VolumeRig, refused

from tonnage.objects import codec
from tonnage.objects.storage_v1 import AVAILABLE_CAPACITIES, CSIDriver, CSIStorageCapacity
from tonnage.scheduling.configuration.plugin_args import LegacyPools
from tonnage.scheduling.volumes.capacity.pools import (
    NO_ROOM,
    VOLUME_REBUILDING,
    Room,
    listed_pools,
    rebuilds_volumes,
    room_of,
    room_without_gate,
    scored_capacity,
)
from tonnage.scheduling.volumes.packing.pool_fits import UNBOUNDED
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim

STRICT, BOUNDED, INDEPENDENT = LegacyPools.STRICT, LegacyPools.BOUNDED, LegacyPools.INDEPENDENT


def annotated(text: str, **options: Any) -> CSIStorageCapacity:
    return capacity("fast", "a", metadata={"annotations": {AVAILABLE_CAPACITIES: text}}, **options)


# -- pools ------------------------------------------------------------------------------------------------------------


def test_pools_are_read_largest_first():
    assert listed_pools(capacity(pools=["10Gi", "30Gi", "20Gi"])) == (30 * GI, 20 * GI, 10 * GI)


def test_the_annotation_stands_in_for_the_field_and_the_field_wins():
    assert listed_pools(annotated("10Gi, 30Gi,")) == (30 * GI, 10 * GI)
    assert listed_pools(annotated("10Gi,30Gi", pools=["5Gi"])) == (5 * GI,)


def test_pools_go_before_all_other_figures():
    said = capacity(free="300Gi", maximum="200Gi", pools=["100Gi", "50Gi"])
    for legacy in LegacyPools:
        assert room_of(said, legacy) == Room((100 * GI, 50 * GI))


def test_an_annotation_that_cannot_be_read_is_told_of_and_passed_over(caplog: pytest.LogCaptureFixture):
    assert room_of(annotated("100Gi,lots", free="7Gi"), STRICT) == Room((7 * GI,))
    assert [record.getMessage() for record in caplog.records] == [
        "The pools of a capacity object cannot be read and are ignored"
    ]


def test_an_empty_annotation_lists_no_pools():
    assert room_of(annotated(" , ", free="7Gi"), STRICT) == Room((7 * GI,))


def test_parts_of_a_byte_are_rounded_up_as_upstream_does():
    assert listed_pools(capacity(pools=["1500m"])) == (2,)


# -- objects without pools --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("legacy", "options", "room"),
    [
        (STRICT, {"free": "300Gi", "maximum": "100Gi"}, Room((100 * GI,))),
        (STRICT, {"free": "300Gi"}, Room((300 * GI,))),
        (STRICT, {"free": "10Gi", "maximum": "100Gi"}, Room((100 * GI,))),
        (STRICT, {"maximum": "100Gi"}, Room((100 * GI,))),
        (BOUNDED, {"free": "300Gi", "maximum": "100Gi"}, Room((300 * GI,), 100 * GI)),
        (BOUNDED, {"free": "300Gi"}, Room((300 * GI,))),
        (BOUNDED, {"free": "10Gi", "maximum": "100Gi"}, Room((10 * GI,))),
        (BOUNDED, {"maximum": "100Gi"}, Room((UNBOUNDED,), 100 * GI)),
        (INDEPENDENT, {"free": "300Gi", "maximum": "100Gi"}, Room((UNBOUNDED,), 100 * GI, 300 * GI)),
        (INDEPENDENT, {"free": "300Gi"}, Room((UNBOUNDED,), 300 * GI, 300 * GI)),
        (INDEPENDENT, {"maximum": "100Gi"}, Room((UNBOUNDED,), 100 * GI)),
    ],
)
def test_legacy_pools_say_how_the_older_figures_are_read(legacy: LegacyPools, options: dict[str, Any], room: Room):
    assert room_of(capacity(**options), legacy) == room


@pytest.mark.parametrize("legacy", list(LegacyPools))
def test_the_maximum_counts_beside_pools_if_it_is_less_than_the_largest(legacy: LegacyPools):
    pools = (100 * GI, 60 * GI)
    listed: dict[str, Any] = {"pools": ["60Gi", "100Gi"], "free": "160Gi"}
    assert room_of(capacity(**listed, maximum="50Gi"), legacy) == Room(pools, 50 * GI)
    assert room_of(capacity(**listed, maximum="100Gi"), legacy) == Room(pools)
    assert room_of(annotated("100Gi,60Gi", maximum="0"), legacy) == Room(pools, 0)


def test_an_object_that_says_nothing_has_no_room():
    for legacy in LegacyPools:
        assert room_of(capacity(), legacy) is NO_ROOM
    assert room_without_gate(capacity()) is NO_ROOM and not NO_ROOM.is_known


def test_without_the_gate_pools_are_not_looked_at_and_each_claim_is_on_its_own():
    assert room_without_gate(capacity(free="300Gi", maximum="100Gi", pools=["1Gi"])) == Room((UNBOUNDED,), 100 * GI)
    assert room_without_gate(capacity(pools=["1Gi"])) is NO_ROOM


def test_scores_are_made_of_the_capacity_else_the_pools_else_the_largest_volume():
    assert scored_capacity(capacity(free="9Gi", maximum="5Gi", pools=["1Gi"]), with_pools=True) == 9 * GI
    assert scored_capacity(capacity(maximum="5Gi", pools=["1Gi", "2Gi"]), with_pools=True) == 3 * GI
    assert scored_capacity(capacity(maximum="5Gi", pools=["1Gi", "2Gi"]), with_pools=False) == 5 * GI
    assert scored_capacity(capacity(maximum="5Gi"), with_pools=True) == 5 * GI
    assert scored_capacity(capacity(), with_pools=True) == 0


# -- drivers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "annotations", "rebuilds"),
    [
        ({"volumeRebuilding": True}, {}, True),
        ({"volumeRebuilding": False}, {}, False),
        ({}, {}, False),
        ({}, {VOLUME_REBUILDING: "true"}, True),
        ({}, {VOLUME_REBUILDING: "false"}, False),
        ({}, {VOLUME_REBUILDING: "True"}, False),
    ],
)
def test_a_driver_rebuilds_when_its_field_or_its_annotation_says_so(
    spec: dict[str, bool], annotations: dict[str, str], rebuilds: bool
):
    doc = {"kind": "CSIDriver", "metadata": {"name": "csi.example", "annotations": annotations}, "spec": spec}
    assert rebuilds_volumes(codec.convert(CSIDriver, doc)) is rebuilds
    assert not rebuilds_volumes(None)


# -- decisions --------------------------------------------------------------------------------------------------------


def test_a_server_that_drops_the_field_serves_as_well_with_the_annotation():
    rig = VolumeRig(node("a"), annotated("100Gi,100Gi", free="200Gi"))
    assert rig.message(rig.pod("web", "101Gi")) == refused({FULL: 1}, 1)
    assert rig.message(rig.pod("db", "100Gi", "60Gi", "40Gi")) == ""
    rig.put(annotated("much", free="200Gi"))
    assert rig.message(rig.pod("kv", "101Gi")) == ""


@pytest.mark.parametrize(
    ("claims", "fits_strict", "fits_bounded", "fits_independent"),
    [
        (["60Gi"], True, True, True),
        (["60Gi", "60Gi"], False, True, True),
        (["100Gi"] * 3, False, True, True),
        (["100Gi"] * 3 + ["1Gi"], False, False, True),
        (["101Gi"], False, False, False),
    ],
)
def test_a_sum_and_a_maximum_under_each_of_the_legacy_rules(
    claims: list[str], fits_strict: bool, fits_bounded: bool, fits_independent: bool
):
    """300 Gi in all, no volume above 100."""
    for legacy, fits in zip(LegacyPools, (fits_strict, fits_bounded, fits_independent), strict=True):
        rig = VolumeRig(node("a"), capacity("fast", "a", "300Gi", maximum="100Gi"), legacyPools=legacy.value)
        assert rig.message(rig.pod("web", *claims)) == ("" if fits else refused({FULL: 1}, 1)), legacy


@pytest.mark.parametrize("legacy", list(LegacyPools))
def test_legacy_rules_do_not_touch_objects_with_pools_nor_the_time_before_the_gate(legacy: LegacyPools):
    rig = VolumeRig(node("a"), capacity("fast", "a", "200Gi", pools=["100Gi", "100Gi"]), legacyPools=legacy.value)
    assert rig.message(rig.pod("web", "60Gi", "60Gi", "60Gi")) == refused({FULL: 1}, 1)
    rig.use(gates=ALL_OFF, legacyPools=legacy.value)
    assert rig.message(rig.pod("db", "200Gi", "200Gi")) == ""
    assert rig.message(rig.pod("kv", "201Gi")) == refused({FULL: 1}, 1)


def test_capacities_beyond_what_64_bits_hold_are_as_much_as_they_hold():
    rig = VolumeRig(
        node("a"), node("b"), capacity("fast", "a", "100Ei"), capacity("fast", "b", pools=["100Ei", "100Ei"])
    )
    assert rig.nodes(rig.pod("web", "7Ei")) == ["a", "b"]
    assert sorted(rig.scores(rig.pod("db", "1Gi")).items()) == [("a", 100), ("b", 100)]
    # Of 100Ei all that is known is 8Ei less a byte: one claim of 4Ei goes in, a second does not.
    assert rig.nodes(rig.pod("kv", "4Ei", "3Ei")) == ["a", "b"]
    assert rig.nodes(rig.pod("mq", "4Ei", "4Ei")) == ["b"]
    assert rig.nodes(rig.pod("fs", "4Ei", "4Ei", "4Ei")) == []


@pytest.mark.parametrize("reservation", ["Object", "Ledger", "None"])
def test_a_claim_above_4_exbibytes_needs_a_pool_that_holds_it(reservation: str):
    rig = VolumeRig(node("a"), capacity("fast", "a", pools=["5Ei", "4608Pi"]), reservation=reservation)
    assert rig.nodes(rig.pod("web", "5Ei", "4Ei")) == ["a"]
    assert rig.message(rig.pod("db", "6Ei")) == refused({FULL: 1}, 1)
    assert rig.message(rig.pod("kv", "5Ei", "5Ei")) == refused({FULL: 1}, 1)


def test_promises_beyond_64_bits_are_counted():
    rig = VolumeRig(node("a"), capacity("fast", "a", pools=["7Ei"]), reservation="Ledger")
    rig.put(claim("one", "5Ei", selected_node="a"), claim("two", "5Ei", selected_node="a"))
    assert rig.message(rig.pod("web", "1Gi")) == refused({FULL: 1}, 1)
    rig.put(claim("two", "5Ei"))
    assert rig.nodes(rig.pod("db", "2Ei")) == ["a"]
    assert rig.message(rig.pod("kv", "3Ei")) == refused({FULL: 1}, 1)


@pytest.mark.parametrize("reservation", ["Object", "Ledger", "None"])
def test_no_volume_is_larger_than_the_maximum_however_large_a_pool_is(reservation: str):
    room = capacity("fast", "a", "200Gi", pools=["100Gi", "100Gi"], maximum="50Gi")
    rig = VolumeRig(node("a"), room, reservation=reservation)
    assert rig.nodes(rig.pod("web", "50Gi", "50Gi", "50Gi")) == ["a"]
    assert rig.message(rig.pod("db", "51Gi")) == refused({FULL: 1}, 1)
    rig.use(gates=ALL_OFF)
    assert rig.message(rig.pod("kv", "51Gi")) == refused({FULL: 1}, 1)


def test_a_capacity_below_zero_holds_nothing():
    rig = VolumeRig(node("a"), capacity("fast", "a", "-1Gi"))
    assert rig.message(rig.pod("web", "1")) == refused({FULL: 1}, 1)
