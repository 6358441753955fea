"""How many volumes can still be made from an object (`tonnage.dev/free-volumes`): judged, promised and explained."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from volume_rig import FULL, GI, VolumeRig, refused

from tonnage.objects.core_v1 import Pod
from tonnage.objects.size_rules import SizeRules
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.plugin_args import LegacyPools
from tonnage.scheduling.events import QUEUE, SKIP, ActionType, ClusterEvent, EventResource
from tonnage.scheduling.volumes.capacity.pools import (
    NO_ROOM,
    Room,
    free_volumes,
    problem_with_free_volumes,
    room_of,
    room_without_gate,
)
from tonnage.scheduling.volumes.capacity.reading import CapacityPolicy, Question, Reading
from tonnage.scheduling.volumes.explain.account_entries import NodeAccount
from tonnage.scheduling.volumes.hints import after_pools_change
from tonnage.scheduling.volumes.packing.pool_fits import UNBOUNDED
from tonnage.scheduling.volumes.packing.pool_grades import Grade
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim, pod_with, storage_class

EVERY_MODE = pytest.mark.parametrize("reservation", ["Object", "Ledger", "None"])


def told(rig: VolumeRig, pod: Pod) -> dict[str, Any]:
    account = rig.engine.explain(pod).volumes["a"]
    assert isinstance(account, NodeAccount)
    return account.document()[0]


# -- what an object tells ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("legacy", list(LegacyPools))
def test_the_number_is_read_however_pools_are_told(legacy: LegacyPools):
    for options in ({"pools": ["9Gi"]}, {"free": "9Gi"}, {"free": "9Gi", "maximum": "5Gi"}):
        assert room_of(capacity(**options, free_volumes=2), legacy).slots == 2
        assert room_of(capacity(**options), legacy).slots == UNBOUNDED
    assert room_of(capacity(free_volumes=2), legacy) is NO_ROOM
    assert room_without_gate(capacity(free="9Gi", free_volumes=0)).slots == UNBOUNDED


@pytest.mark.parametrize("text", ["-1", "1.5", "many", "", "1Gi", " 3", "1000000000"])
def test_what_is_no_such_number_is_told_of_and_ignored(text: str, caplog: pytest.LogCaptureFixture):
    odd = capacity(pools=["9Gi"], free_volumes=text)
    assert room_of(odd, LegacyPools.STRICT) == Room((9 * GI,))
    assert problem_with_free_volumes(odd) == (
        f'tonnage.dev/free-volumes="{text}" is no whole number from 0 to 999999999'
    )
    assert [record.getMessage() for record in caplog.records] == [
        "The number of free volumes of a capacity object cannot be read and is ignored"
    ]
    assert [free_volumes(capacity(free_volumes=each)) for each in ("0", "999999999")] == [0, 999_999_999]
    assert problem_with_free_volumes(capacity(free_volumes=0)) == problem_with_free_volumes(capacity()) == ""


def test_a_driver_that_wants_a_byte_more_takes_as_many_volumes():
    strict = SizeRules(is_strict=True)
    for room in (Room((9,), slots=2), Room((UNBOUNDED,), 9, 9, slots=2)):
        assert room.kept_by(strict).slots == 2


# -- fitting ----------------------------------------------------------------------------------------------------------


@EVERY_MODE
@pytest.mark.parametrize(("claims", "fits"), [(1, True), (2, True), (3, False)])
def test_a_pod_fits_up_to_the_number_of_free_volumes(reservation: str, claims: int, fits: bool):
    rig = VolumeRig(node("a"), capacity("fast", "a", pools=["100Gi"], free_volumes=2), reservation=reservation)
    pod = rig.pod("web", *["1Gi"] * claims)
    assert rig.nodes(pod) == (["a"] if fits else [])
    assert rig.message(pod) == ("" if fits else refused({FULL: 1}, 1))


@pytest.mark.parametrize("guarantee", ["Possible", "Guaranteed"])
@pytest.mark.parametrize(("claims", "fits"), [(1, True), (2, True), (3, False)])
def test_volumes_that_are_promised_to_other_pods_count(claims: int, fits: bool, guarantee: str):
    rig = VolumeRig(
        node("a"),
        capacity("fast", "a", pools=["100Gi"], free_volumes=4),
        reservation="Ledger",
        poolFit=guarantee,
    )
    assert rig.place(rig.pod("job", "1Gi", "1Gi")) == "a"  # 2 of 4
    assert rig.nodes(rig.pod("web", *["1Gi"] * claims)) == (["a"] if fits else [])


def test_a_reserved_object_takes_nobody_else_and_afterwards_what_it_tells():
    of = capacity("fast", "a", pools=["100Gi"], free_volumes=2)
    rig = VolumeRig(node("a"), of, reservation="Object")
    job = rig.pod("job", "1Gi")
    assert rig.place(job) == "a"
    assert rig.message(rig.pod("web", "1Gi")) == refused({FULL: 1}, 1)
    rig.fail(job)
    assert rig.nodes(rig.pod("db", "1Gi", "1Gi")) == ["a"]
    rig.put(capacity("fast", "a", pools=["100Gi"], free_volumes=1))
    assert rig.nodes(rig.pod("kv", "1Gi", "1Gi")) == []


@pytest.mark.parametrize(("mixed", "fits"), [(1, True), (2, False)])
def test_of_joined_objects_the_least_counts(mixed: int, fits: bool):
    grouped = [storage_class(name, group="disks") for name in ("fast", "mixed")]
    objects = [capacity(name, "a", pools=["9Gi"], free_volumes=most) for name, most in (("fast", 2), ("mixed", 5))]
    rig = VolumeRig(node("a"), *grouped, *objects)
    names = [f"m{number}" for number in range(mixed)]
    rig.put(claim("f", "1Gi", class_name="fast"), *(claim(name, "1Gi", class_name="mixed") for name in names))
    assert rig.nodes(pod_with("web", "f", *names)) == (["a"] if fits else [])


@pytest.mark.parametrize("ids", ["ssd-1,ssd-2", "ssd-2,hdd"], ids=["the same pools", "some of the pools"])
@pytest.mark.parametrize(("mixed", "fits"), [(1, True), (2, False)])
def test_of_connected_objects_that_are_asked_together_the_least_counts(ids: str, mixed: int, fits: bool):
    rig = VolumeRig(
        node("a"),
        storage_class("mixed"),
        capacity("fast", "a", pools=["9Gi", "9Gi"], pool_ids="ssd-1,ssd-2", free_volumes=2),
        capacity("mixed", "a", pools=["9Gi", "9Gi"], pool_ids=ids, free_volumes=5),
    )
    names = [f"m{number}" for number in range(mixed)]
    rig.put(claim("f", "1Gi", class_name="fast"), *(claim(name, "1Gi", class_name="mixed") for name in names))
    assert rig.nodes(pod_with("web", "f", *names)) == (["a"] if fits else [])


@pytest.mark.parametrize("ids", ["ssd-1,ssd-2", "ssd-2,hdd"], ids=["the same pools", "some of the pools"])
@pytest.mark.parametrize(
    ("claims", "miss"),
    [(2, ""), (3, "takes 3 more volumes, 1 promised"), (4, "takes 3 more volumes, needs 4")],
)
def test_promises_of_connected_objects_count(ids: str, claims: int, miss: str):
    rig = VolumeRig(
        node("a"),
        storage_class("mixed"),
        capacity("fast", "a", pools=["9Gi", "9Gi"], pool_ids="ssd-1,ssd-2", free_volumes=3),
        capacity("mixed", "a", pools=["9Gi", "9Gi"], pool_ids=ids),
        reservation="Ledger",
    )
    assert rig.place(rig.pod("job", "1Gi", class_name="mixed")) == "a"
    web = rig.pod("web", *["1Gi"] * claims)
    assert rig.nodes(web) == ([] if miss else ["a"])
    entry = told(rig, web)
    assert entry.get("miss", "").startswith(miss)
    assert (entry["grade"] == "none") is bool(miss)
    assert entry["freeVolumes"] == 3


def test_arrays_count_promises_except_where_nothing_is_held():
    most, held = [0, 1, 2, 3, 4] * 8, (1, 1)
    policy = CapacityPolicy(lambda each: Room((9,), slots=most[int(each.name)]), lambda each: 0, lambda each, own: held)
    every = np.arange(len(most))
    for question, read, taken in (
        (Question.FITS, policy, 2),
        (Question.GRADE, policy, 2),
        (Question.FITS, CapacityPolicy(policy.room_of, policy.scored_bytes), 0),
    ):
        reading = Reading(read, len(most) + 1)
        for number in range(len(most)):
            reading.write(number, capacity(name=str(number)))
        for claims in (1, 2):
            found = reading.says(question, (1,) * claims, every) > Grade.NONE
            assert found.tolist() == [claims + taken <= each for each in most]


# -- waking and explaining --------------------------------------------------------------------------------------------


def test_another_number_wakes_pods():
    event = ClusterEvent(EventResource.CSI_STORAGE_CAPACITY, ActionType.UPDATE)
    old, new = (capacity("fast", "a", pools=["9Gi"], free_volumes=each) for each in (0, 1))
    pod = PodInfo(pod_with("web", "data"))
    assert [after_pools_change(pod, event, old, each) for each in (new, old)] == [QUEUE, SKIP]


@pytest.mark.parametrize(
    ("most", "miss"),
    [
        (2, "takes 2 more volumes, needs 3"),
        (1, "takes 1 more volume, needs 3"),
        (0, "takes no more volumes, needs 3"),
    ],
)
def test_the_nearest_miss_tells_the_number(most: int, miss: str):
    rig = VolumeRig(node("a"), capacity("fast", "a", pools=["100Gi"], free_volumes=most))
    entry = told(rig, rig.pod("web", "1Gi", "1Gi", "1Gi"))
    assert (entry["miss"], entry["freeVolumes"], entry["grade"]) == (miss, most, "none")


def test_missing_bytes_are_told_first():
    rig = VolumeRig(node("a"), capacity("fast", "a", pools=["2Gi"], free_volumes=1))
    assert told(rig, rig.pod("web", "2Gi", "1Gi"))["miss"] == "2Gi free, needs 3Gi together"


def test_promised_volumes_are_told_with_whom_they_are_for():
    rig = VolumeRig(node("a"), capacity("fast", "a", pools=["100Gi"], free_volumes=2), reservation="Ledger")
    assert rig.place(rig.pod("job", "1Gi")) == "a"
    entry = told(rig, rig.pod("web", "1Gi", "1Gi"))
    assert entry["miss"] == ("takes 2 more volumes, 1 promised to default/job since 2000-01-01T00:00:00Z, needs 2")


def test_an_object_without_a_limit_tells_none():
    rig = VolumeRig(node("a"), capacity("fast", "a", pools=["100Gi"]))
    assert "freeVolumes" not in told(rig, rig.pod("web", "1Gi"))
