"""What every node would do for a pod's volumes, claim by claim, and how near a refused one came."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.gates import Gates
from tonnage.objects.meta import Object
from tonnage.scheduling.configuration.configuration import default_configuration, parse
from tonnage.scheduling.decision.explain import Explanation
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import (
    DRIVER,
    capacity,
    claim,
    csi_node,
    driver,
    pod_with,
    storage_class,
    volume,
)
from tonnage.whatif.replay import Replay

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: StorageCapacity
    args: {%s}
"""


def replay(*objects: Object, args: str = "", gates: str = "") -> Replay:
    switched = Gates.parse(gates)
    if not args:
        return Replay([driver(), storage_class(), *objects], default_configuration(gates=switched).profiles)
    found = parse(CONFIG % args, source="config.yaml", gates=switched)
    return Replay([driver(), storage_class(), *objects], found.profiles)


def explained(*objects: Object, args: str = "", gates: str = "") -> Explanation:
    """The answer for pod default/x among these objects, a driver and its class."""
    return replay(*objects, args=args, gates=gates).schedule("default/x")


def told(answer: Explanation, name: str = "a") -> str:
    """The nearest miss on a node that was refused."""
    (refused,) = [each for each in answer.nodes if each.name == name]
    miss = refused.miss
    return miss.told if miss is not None else ""


def entries(answer: Explanation, name: str = "a") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = answer.document()["volumes"][name]
    return found


def claims_of(*sizes: str) -> list[Object]:
    """A pod x with claims of these sizes."""
    names = [f"c{place}" for place, _ in enumerate(sizes)]
    return [pod_with("x", *names), *(claim(name, size) for name, size in zip(names, sizes, strict=True))]


# -- kinds ------------------------------------------------------------------------------------------------------------


def test_a_pod_without_claims_has_no_storage_to_tell_of():
    assert explained(node("a"), pod("x")).document()["volumes"] == {}


def test_a_claim_that_is_missing_leaves_nothing_to_tell():
    answer = explained(node("a"), pod_with("x", "gone"))
    assert answer.document()["volumes"] == {}
    assert answer.message == '0/1 nodes are available: persistentvolumeclaim "gone" not found.'


def test_a_claim_to_be_made_tells_its_object_pools_and_place():
    answer = explained(node("a"), capacity(node="a", pools=["60Gi", "100Gi"]), *claims_of("80Gi"))
    assert entries(answer) == [
        {
            "claim": "default/c0",
            "kind": "dynamic",
            "capacity": "kube-system/fast-a",
            "pools": ["100Gi", "60Gi"],
            "size": "80Gi",
            "takes": {"pool": 0},
            "grade": "guaranteed",
        }
    ]


def test_claims_are_shared_out_over_the_pools():
    answer = explained(node("a"), capacity(node="a", pools=["100Gi", "60Gi"]), *claims_of("60Gi", "100Gi"))
    # 100 only goes into the 100, so that the 60 goes into the 60; a driver that is asked for the 60 first may err.
    assert [(each["size"], each["takes"], each["grade"]) for each in entries(answer)] == [
        ("60Gi", {"pool": 1}, "ordered"),
        ("100Gi", {"pool": 0}, "ordered"),
    ]


def test_a_bound_claim_tells_its_volume():
    answer = explained(
        node("a"), pod_with("x", "c"), claim("c", "5Gi", volume="pv-1"), volume("pv-1", "5Gi", claim="default/c")
    )
    assert entries(answer) == [
        {"claim": "default/c", "kind": "bound", "volume": "pv-1", "pools": [], "size": "5Gi"},
    ]


def test_a_volume_elsewhere_is_out_of_reach():
    answer = explained(
        node("a"),
        node("b"),
        pod_with("x", "c"),
        claim("c", "5Gi", volume="pv-1"),
        volume("pv-1", "5Gi", claim="default/c", on="b"),
    )
    assert answer.node == "b"
    assert told(answer) == "volume pv-1 cannot be reached from this node"
    assert entries(answer)[0]["miss"] == "volume pv-1 cannot be reached from this node"
    assert "miss" not in entries(answer, "b")[0]


def test_a_free_volume_is_taken_where_it_is_and_made_elsewhere():
    answer = explained(
        node("a"), node("b"), volume("pv-1", "9Gi", on="a"), capacity(node="b", free="10Gi"), *claims_of("8Gi")
    )
    assert [(each["kind"], each["volume"]) for each in entries(answer)] == [("static", "pv-1")]
    assert [(each["kind"], each["capacity"]) for each in entries(answer, "b")] == [("dynamic", "kube-system/fast-b")]


def test_a_claim_whose_driver_keeps_no_count_has_no_object_and_no_miss():
    answer = explained(node("a"), driver(capacity=False), *claims_of("8Gi"))
    assert entries(answer) == [
        {"claim": "default/c0", "kind": "dynamic", "capacity": None, "pools": [], "size": "8Gi"},
    ]


def test_a_volume_to_be_rebuilt_is_judged_by_room_and_stays_on_its_own_node():
    answer = explained(
        node("a", unschedulable=True),
        node("b"),
        node("c"),
        driver(rebuilding=True),
        capacity(node="b", free="20Gi"),
        capacity(node="c", free="5Gi"),
        pod_with("x", "c"),
        claim("c", "8Gi", volume="pv-1", selected_node="a"),
        volume("pv-1", "8Gi", claim="default/c"),
    )
    assert answer.node == "b"
    assert [(each["kind"], each["volume"]) for each in entries(answer, "a")] == [("bound", "pv-1")]
    (rebuilt,) = entries(answer, "b")
    assert (rebuilt["kind"], rebuilt["volume"], rebuilt["capacity"]) == ("rebuild", "pv-1", "kube-system/fast-b")
    assert told(answer, "c") == "largest free pool 5Gi, needs 8Gi"


# -- the nearest miss -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("room", "sizes", "miss"),
    [
        ({"pools": ["80Gi", "40Gi"]}, ["120Gi"], "largest free pool 80Gi, needs 120Gi"),
        ({"pools": ["100Gi"]}, ["100Gi", "100Gi"], "100Gi free, needs 200Gi together"),
        ({"pools": ["100Gi"] * 3}, ["80Gi"] * 4, "300Gi free in 3 pools, needs 320Gi together"),
        # 280 <= 300, and 70 <= 100; but each pool holds one.
        ({"pools": ["100Gi"] * 3}, ["70Gi"] * 4, "4×70Gi pack no way into 3×100Gi"),
        ({"free": "80Gi"}, ["120Gi"], "largest free pool 80Gi, needs 120Gi"),
        ({}, ["1Gi"], "capacity object kube-system/fast-a does not say how much is free"),
    ],
)
def test_a_refusal_is_told_in_numbers(room, sizes, miss):
    answer = explained(node("a"), capacity(node="a", **room), *claims_of(*sizes))
    assert answer.node == ""
    assert told(answer) == miss
    assert {each["miss"] for each in entries(answer)} == {miss}
    assert all("takes" not in each for each in entries(answer))


def test_a_node_that_no_object_reaches_is_told_so():
    answer = explained(node("a"), node("b"), capacity(node="b", free="10Gi"), *claims_of("1Gi"))
    assert told(answer) == "no capacity object of class fast reaches this node"


def test_of_several_objects_the_nearest_is_told():
    zone = capacity(free="90Gi", topology={}, name="zone")
    answer = explained(node("a"), zone, capacity(node="a", free="40Gi"), *claims_of("100Gi"))
    assert told(answer) == "largest free pool 90Gi, needs 100Gi"
    assert entries(answer)[0]["capacity"] == "kube-system/zone"


def test_strict_says_when_bounded_would_take_it():
    legacy = capacity(node="a", free="300Gi", maximum="100Gi")
    answer = explained(node("a"), legacy, *claims_of("60Gi", "60Gi"), args="legacyPools: Strict")
    assert told(answer) == (
        "100Gi free, needs 120Gi together; legacyPools: Bounded would take it (each at most 100Gi, 300Gi together)"
    )
    # 120Gi is more than any volume may be: no reading helps.
    refused = explained(node("a"), legacy, *claims_of("120Gi"), args="legacyPools: Strict")
    assert told(refused) == "largest free pool 100Gi, needs 120Gi"


def test_bounded_tells_the_limit_of_one_volume():
    legacy = capacity(node="a", free="300Gi", maximum="100Gi")
    taken = explained(node("a"), legacy, *claims_of("60Gi", "60Gi"))
    assert [(each["pools"], each["maximumVolumeSize"]) for each in entries(taken)] == [(["300Gi"], "100Gi")] * 2
    refused = explained(node("a"), legacy, *claims_of("120Gi"))
    assert told(refused) == "largest volume 100Gi, needs 120Gi"


def test_a_fit_that_is_not_sure_is_told_where_it_must_be():
    answer = explained(
        node("a"), capacity(node="a", pools=["100Gi", "60Gi"]), *claims_of("100Gi", "60Gi"), args="poolFit: Guaranteed"
    )
    assert told(answer) == (
        "100Gi, 60Gi fit 100Gi, 60Gi only if the driver picks the right pools (poolFit: Guaranteed)"
    )
    assert {each["grade"] for each in entries(answer)} == {"ordered"}


def test_a_claim_selected_for_another_node_is_told_so():
    answer = explained(
        node("a"),
        node("b"),
        capacity(topology={}, free="9Gi"),
        pod_with("x", "c"),
        claim("c", "1Gi", selected_node="b"),
    )
    assert told(answer) == "its volume is being made for node b"


def test_a_class_that_makes_no_volumes_here_is_told_so():
    objects = [node("a", labels={"zone": "z1"}), capacity(topology={}, free="9Gi"), *claims_of("1Gi")]
    elsewhere = explained(*objects, storage_class(topologies=[{"zone": ["z2"]}]))
    assert told(elsewhere) == "class fast makes no volumes here (allowedTopologies)"
    nowhere = explained(*objects, storage_class(provisioner="kubernetes.io/no-provisioner"))
    assert told(nowhere) == "no free volume fits, and class fast makes none"


def test_a_node_refused_for_something_else_has_no_miss_but_its_account():
    answer = explained(node("a", unschedulable=True), capacity(node="a", free="9Gi"), *claims_of("1Gi"))
    assert told(answer) == ""
    assert entries(answer)[0]["takes"] == {"pool": 0}


def test_without_the_gate_each_claim_is_on_its_own():
    objects = [node("a"), capacity(node="a", free="100Gi"), *claims_of("100Gi", "120Gi")]
    answer = explained(*objects, gates="CSIStorageCapacityV2=false")
    assert [each.get("miss", "") for each in entries(answer)] == ["", "largest volume 100Gi, needs 120Gi"]
    assert entries(answer)[0] == {
        "claim": "default/c0",
        "kind": "dynamic",
        "capacity": "kube-system/fast-a",
        "pools": [],
        "size": "100Gi",
        "maximumVolumeSize": "100Gi",
    }


# -- who holds it -----------------------------------------------------------------------------------------------------


def test_a_reserved_object_tells_by_whom_and_since_when():
    room, theirs = capacity(node="a", free="90Gi"), (pod_with("y", "d"), claim("d", "9Gi"))
    run = replay(node("a"), room, *theirs, *claims_of("9Gi"), args="reservation: Object")
    run.advance(5)
    run.schedule("default/y")
    answer = run.schedule("default/x")
    assert told(answer) == "reserved by default/y since 2000-01-01T00:00:05Z"
    (entry,) = entries(answer)
    assert entry["reservedBy"] == {"pod": "default/y", "since": "2000-01-01T00:00:05Z"}
    assert entry["grade"] == "guaranteed"


def test_an_object_too_small_is_told_so_even_while_it_is_reserved():
    room, theirs = capacity(node="a", free="90Gi"), (pod_with("y", "d"), claim("d", "9Gi"))
    run = replay(node("a"), room, *theirs, *claims_of("99Gi"), args="reservation: Object")
    run.schedule("default/y")
    assert told(run.schedule("default/x")) == "largest free pool 90Gi, needs 99Gi"


def test_promises_are_told_claim_by_claim():
    others = [each for name in ("u", "v", "w") for each in (pod_with(name, f"{name}-d"), claim(f"{name}-d", "20Gi"))]
    run = replay(node("a"), capacity(node="a", free="90Gi"), *others, *claims_of("40Gi"), args="reservation: Ledger")
    for name in ("u", "v", "w"):
        run.schedule(f"default/{name}")
    answer = run.schedule("default/x")
    # 90 - 3 * 20 = 30 < 40
    assert told(answer) == (
        "90Gi free, 60Gi promised to default/u, default/v and 1 more since 2000-01-01T00:00:00Z, needs 40Gi"
    )
    promise = {"claim": "default/u-d", "pod": "default/u", "size": "20Gi", "since": "2000-01-01T00:00:00Z"}
    assert entries(answer)[0]["promised"][0] == promise


def test_promises_that_may_lie_anywhere_are_told_as_such():
    others = [each for name in ("u", "v") for each in (pod_with(name, f"{name}-d"), claim(f"{name}-d", "50Gi"))]
    pools = capacity(node="a", pools=["80Gi", "80Gi"])
    run = replay(node("a"), pools, *others, *claims_of("40Gi"), args="reservation: Ledger")
    assert [run.schedule(f"default/{name}").node for name in ("u", "v")] == ["a", "a"]
    # 160 - 100 = 60 >= 40, but both pools may have a 50 in them, which leaves 30 and 30.
    assert told(run.schedule("default/x")) == (
        "160Gi free, 100Gi promised to default/u, default/v since 2000-01-01T00:00:00Z, needs 40Gi"
        ", and the driver may pick pools for the promised ones so that no pool keeps 40Gi free"
    )


def test_a_claim_takes_the_pool_that_promises_leave():
    first = [pod_with("y", "d"), claim("d", "60Gi")]
    run = replay(
        node("a"), capacity(node="a", pools=["100Gi", "90Gi"]), *first, *claims_of("80Gi"), args="reservation: Ledger"
    )
    run.schedule("default/y")
    # The 60 is taken to be in the 100, which leaves 40: the 80 goes into the 90.
    assert entries(run.schedule("default/x"))[0]["takes"] == {"pool": 1}


# -- attach slots -----------------------------------------------------------------------------------------------------


def bound_claim(name: str) -> list[Object]:
    return [claim(name, "1Gi", volume=f"pv-{name}"), volume(f"pv-{name}", "1Gi", claim=f"default/{name}")]


def test_attach_slots_are_told_where_there_is_a_limit():
    answer = explained(
        node("a"),
        node("b"),
        csi_node("a", {DRIVER: 3}),
        csi_node("b", {DRIVER: None}),
        *bound_claim("used"),
        pod_with("resident", "used", on="a"),
        *bound_claim("c"),
        pod_with("x", "c"),
    )
    assert entries(answer)[0]["attach"] == {"driver": DRIVER, "used": 1, "limit": 3}
    assert "attach" not in entries(answer, "b")[0]


def test_full_slots_are_the_miss():
    residents = [each for n in range(3) for each in (*bound_claim(f"u{n}"), pod_with(f"r{n}", f"u{n}", on="a"))]
    answer = explained(node("a"), csi_node("a", {DRIVER: 3}), *residents, *bound_claim("c"), pod_with("x", "c"))
    assert answer.message == "0/1 nodes are available: 1 node(s) exceed max volume count."
    assert told(answer) == "attach slots 3 of 3 used (csi.example)"
    assert entries(answer)[0]["miss"] == "attach slots 3 of 3 used (csi.example)"


def test_too_few_slots_tell_how_many_are_needed():
    answer = explained(
        node("a"), csi_node("a", {DRIVER: 1}), *bound_claim("c"), *bound_claim("d"), pod_with("x", "c", "d")
    )
    assert told(answer) == "attach slots 0 of 1 used, needs 2 more (csi.example)"


def test_a_volume_that_is_mounted_there_needs_no_slot():
    answer = explained(
        node("a"), csi_node("a", {DRIVER: 1}), *bound_claim("c"), pod_with("y", "c", on="a"), pod_with("x", "c")
    )
    assert answer.node == "a"
    assert "miss" not in entries(answer)[0]
