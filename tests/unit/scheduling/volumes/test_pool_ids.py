"""Classes that have some pools in common (`tonnage.dev/pool-ids`): packed, promised and explained pool by pool."""

from __future__ import annotations

from typing import Any

import pytest
from volume_rig import FULL, VolumeRig, refused

from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Object
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.volumes.capacity.groups import pool_ids_of, problem_with_pool_ids
from tonnage.scheduling.volumes.capacity.index import CapacityIndex
from tonnage.scheduling.volumes.explain.account_entries import NodeAccount
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim, pod_with, storage_class, volume

EVERY_MODE = pytest.mark.parametrize("reservation", ["Object", "Ledger", "None"])
MIXED = storage_class("mixed")


def objects(on: str = "a") -> list[Object]:
    """fast has ssd-1 (100Gi) and ssd-2 (60Gi), mixed has ssd-2 and hdd (400Gi)."""
    return [
        capacity("fast", on, pools=["100Gi", "60Gi"], pool_ids="ssd-1,ssd-2"),
        capacity("mixed", on, pools=["60Gi", "400Gi"], pool_ids="ssd-2,hdd"),
    ]


def asking(rig: VolumeRig, name: str, **sizes: list[str]) -> Pod:
    """A pod with claims of these sizes by class."""
    names = []
    for class_name, each in sizes.items():
        for number, size in enumerate(each):
            names.append(f"{name}-{class_name}-{number}")
            rig.put(claim(names[-1], size, class_name=class_name))
    return pod_with(name, *names)


def told(rig: VolumeRig, pod: Pod) -> list[dict[str, Any]]:
    account = rig.engine.explain(pod).volumes["a"]
    assert isinstance(account, NodeAccount)
    return account.document()


# -- packing ----------------------------------------------------------------------------------------------------------


@EVERY_MODE
def test_claims_of_both_classes_share_the_common_pool_and_nothing_else(reservation: str):
    rig = VolumeRig(node("a"), MIXED, *objects(), reservation=reservation)
    # ssd-1 80, ssd-2 60 or 50, hdd 400
    assert rig.nodes(asking(rig, "fits", fast=["80Gi", "60Gi"], mixed=["400Gi"])) == ["a"]
    assert rig.nodes(asking(rig, "full", fast=["80Gi", "50Gi"], mixed=["400Gi", "50Gi"])) == []
    assert rig.nodes(asking(rig, "tight", fast=["100Gi", "30Gi"], mixed=["400Gi", "30Gi"])) == ["a"]
    assert rig.message(asking(rig, "large", fast=["101Gi"], mixed=["1Gi"])) == refused({FULL: 1}, 1)
    assert rig.nodes(asking(rig, "hdd", fast=["1Gi"], mixed=["300Gi"])) == ["a"]


def test_a_class_is_not_refused_for_the_others_pools():
    rig = VolumeRig(node("a"), MIXED, *objects(), reservation="Ledger")
    assert rig.place(asking(rig, "web", fast=["100Gi", "60Gi"])) == "a"
    assert rig.nodes(asking(rig, "db", mixed=["400Gi"])) == ["a"]
    assert rig.nodes(asking(rig, "kv", mixed=["400Gi", "1Gi"])) == []


def test_without_ids_classes_are_apart():
    rig = VolumeRig(node("a"), MIXED, capacity("fast", "a", pools=["100Gi"]), capacity("mixed", "a", pools=["100Gi"]))
    assert rig.nodes(asking(rig, "web", fast=["100Gi"], mixed=["100Gi"])) == ["a"]


def test_pools_of_other_drivers_and_other_nodes_are_other_pools():
    other = storage_class("mixed", provisioner="another.example")
    rig = VolumeRig(node("a"), other, *objects())
    assert rig.cluster.index(CapacityIndex).groups.of("fast") is None
    rig = VolumeRig(node("a"), node("b"), MIXED, objects("a")[0], objects("b")[1])
    assert rig.cluster.index(CapacityIndex).groups.of("fast") is None


def test_classes_with_the_same_pools_are_packed_as_one():
    pools: dict[str, Any] = {"pools": ["100Gi", "60Gi"], "pool_ids": "ssd-1,ssd-2"}
    rig = VolumeRig(node("a"), MIXED, capacity("fast", "a", **pools), capacity("mixed", "a", **pools))
    assert rig.nodes(asking(rig, "web", fast=["100Gi"], mixed=["60Gi"])) == ["a"]
    assert rig.nodes(asking(rig, "db", fast=["100Gi"], mixed=["61Gi"])) == []
    assert "sharesPoolsWith" not in told(rig, asking(rig, "kv", fast=["100Gi"], mixed=["60Gi"]))[0]


def test_ids_go_before_a_capacity_group():
    grouped = [storage_class("fast", group="disks"), storage_class("mixed", group="disks")]
    rig = VolumeRig(node("a"), *grouped, *objects(), reservation="Ledger")
    assert rig.place(asking(rig, "web", fast=["100Gi", "60Gi"])) == "a"
    assert rig.nodes(asking(rig, "db", mixed=["400Gi"])) == ["a"]


def test_of_figures_of_one_pool_the_least_counts():
    rig = VolumeRig(node("a"), MIXED, *objects())
    rig.put(capacity("mixed", "a", pools=["10Gi", "400Gi"], pool_ids="ssd-2,hdd"))
    assert rig.nodes(asking(rig, "web", fast=["60Gi", "60Gi"])) == []
    assert rig.nodes(asking(rig, "db", fast=["60Gi", "10Gi"])) == ["a"]
    rig.put(capacity("mixed", "a", pools=["60Gi", "400Gi"], pool_ids="ssd-2,hdd"))
    assert rig.nodes(asking(rig, "kv", fast=["60Gi", "60Gi"])) == ["a"]


# -- holds ------------------------------------------------------------------------------------------------------------


def test_a_promise_counts_in_the_pools_it_may_have_gone_to():
    rig = VolumeRig(node("a"), MIXED, *objects(), reservation="Ledger")
    # 50Gi of mixed are in ssd-2 or in hdd: then fast has 100 and 10, or 100 and 60
    assert rig.place(asking(rig, "web", mixed=["50Gi"])) == "a"
    assert rig.nodes(asking(rig, "db", fast=["100Gi"])) == ["a"]
    assert rig.nodes(asking(rig, "kv", fast=["100Gi", "10Gi"])) == ["a"]
    assert rig.nodes(asking(rig, "no", fast=["100Gi", "11Gi"])) == []


def test_a_known_policy_tells_where_a_promise_goes():
    most_free = storage_class("mixed", pool_policy="most-free")
    rig = VolumeRig(node("a"), most_free, *objects(), reservation="Ledger")
    assert rig.place(asking(rig, "web", mixed=["50Gi"])) == "a"  # into hdd
    assert rig.nodes(asking(rig, "db", fast=["100Gi", "60Gi"])) == ["a"]


def test_a_promise_too_large_for_the_common_pool_takes_nothing_of_it():
    rig = VolumeRig(node("a"), MIXED, *objects(), reservation="Ledger")
    assert rig.place(asking(rig, "web", mixed=["61Gi"])) == "a"
    assert rig.nodes(asking(rig, "db", fast=["100Gi", "60Gi"])) == ["a"]


def test_a_promise_that_the_own_object_shows_counts_nowhere():
    rig = VolumeRig(node("a"), MIXED, *objects(), reservation="Ledger")
    assert rig.place(asking(rig, "web", mixed=["50Gi"])) == "a"
    rig.put(volume("pv", "50Gi", class_name="mixed", claim="default/web-mixed-0", on="a"))
    # It went to hdd. The object of fast is not written again: none of its pools has changed.
    rig.put(capacity("mixed", "a", pools=["60Gi", "350Gi"], pool_ids="ssd-2,hdd"))
    rig.put(claim("web-mixed-0", "50Gi", class_name="mixed", volume="pv", selected_node="a"))
    assert rig.nodes(asking(rig, "db", fast=["100Gi", "60Gi"])) == ["a"]


def test_in_mode_object_the_pools_of_a_reserved_object_are_not_there_for_others():
    rig = VolumeRig(node("a"), MIXED, *objects(), reservation="Object")
    assert rig.place(asking(rig, "web", mixed=["10Gi"])) == "a"
    assert rig.nodes(asking(rig, "db", fast=["100Gi"])) == ["a"]  # ssd-1 is fast's alone
    assert rig.nodes(asking(rig, "kv", fast=["50Gi", "60Gi"])) == []
    rig.put(capacity("mixed", "a", pools=["50Gi", "400Gi"], pool_ids="ssd-2,hdd"))
    assert rig.nodes(asking(rig, "two", fast=["100Gi", "50Gi"])) == ["a"]


def test_ids_that_come_and_go_are_followed():
    rig = VolumeRig(node("a"), MIXED, *objects(), reservation="Ledger")
    assert rig.place(asking(rig, "web", mixed=["60Gi"])) == "a"
    pod = asking(rig, "db", fast=["100Gi", "60Gi"])
    assert rig.nodes(pod) == []
    rig.put(capacity("mixed", "a", pools=["60Gi", "400Gi"]))
    assert rig.nodes(pod) == ["a"]
    rig.put(capacity("mixed", "a", pools=["60Gi", "400Gi"], pool_ids="ssd-2,hdd"))
    assert rig.nodes(pod) == []
    rig.remove(CSIStorageCapacity, "kube-system/mixed-a")
    assert rig.nodes(pod) == ["a"]


# -- grades -----------------------------------------------------------------------------------------------------------


def test_a_fit_beside_a_foreign_promise_has_the_right_grade():
    rig = VolumeRig(node("a"), MIXED, *objects(), reservation="Ledger")
    rig.place(asking(rig, "web", mixed=["50Gi"]))
    # ssd-2 has 10 or 60: 90 and 10 work if the 10 does not take ssd-1's 100
    (first, second) = told(rig, asking(rig, "db", fast=["95Gi", "10Gi"]))
    assert first["grade"] == second["grade"] == "ordered"
    assert first["order"] == ["default/db-fast-0", "default/db-fast-1"]
    (alone,) = told(rig, asking(rig, "kv", fast=["90Gi"]))
    assert alone["grade"] == "guaranteed"


def test_poolfit_guaranteed_takes_no_other_node():
    rig = VolumeRig(node("a"), MIXED, *objects(), reservation="Ledger", poolFit="Guaranteed")
    assert rig.nodes(asking(rig, "web", fast=["90Gi"], mixed=["60Gi"])) == ["a"]
    assert rig.nodes(asking(rig, "db", fast=["60Gi"], mixed=["400Gi", "10Gi"])) == []


# -- words ------------------------------------------------------------------------------------------------------------


def test_explain_says_with_whom_pools_are_shared_and_what_is_missing():
    rig = VolumeRig(node("a"), MIXED, *objects(), reservation="Ledger")
    (first, *_) = told(rig, asking(rig, "web", fast=["80Gi", "60Gi"], mixed=["360Gi", "50Gi"]))
    assert first["miss"] == (
        "fast needs 80Gi, 60Gi of 100Gi, 60Gi and mixed needs 360Gi, 50Gi of 400Gi, 60Gi: "
        "they pack no way into these pools"
    )
    rig.place(asking(rig, "job", mixed=["50Gi"]))
    (entry, _) = told(rig, asking(rig, "db", fast=["100Gi", "11Gi"]))
    assert entry["sharesPoolsWith"] == ["mixed"]
    assert entry["pools"] == ["100Gi", "60Gi"]
    assert entry["miss"].startswith("160Gi free, 50Gi promised to default/job since ")
    assert entry["miss"].endswith("(pools shared with mixed)")


@pytest.mark.parametrize(
    ("ids", "problem"),
    [
        ("a", 'tonnage.dev/pool-ids="a" has 1 ids, and the object 2 pools; write one id for each pool'),
        ("a,a", 'tonnage.dev/pool-ids="a,a" names a pool twice; write one id for each pool'),
        ("a, b", ""),
        ("", ""),
    ],
)
def test_ids_that_do_not_fit_the_pools_are_ignored(ids: str, problem: str):
    found = capacity("fast", "a", pools=["1Gi", "2Gi"], pool_ids=ids)
    assert problem_with_pool_ids(found) == problem
    assert pool_ids_of(found) == (("a", "b") if ids == "a, b" else ())


@pytest.mark.parametrize("reservation", ["Object", "Ledger"])
def test_many_nodes_are_judged_as_each_one_alone(reservation: str):
    """More objects than are judged one by one, other pools on every node, promises of the other class on some."""

    def made(number: int) -> list[Object]:
        name, shared = f"n{number:02}", 20 + 5 * (number % 7)
        return [
            node(name),
            capacity("fast", name, pools=["60Gi", f"{shared}Gi"], pool_ids="ssd-1,ssd-2"),
            capacity("mixed", name, pools=[f"{shared}Gi", f"{10 * (number % 5)}Gi"], pool_ids="ssd-2,hdd"),
            claim(
                f"job-{number}", f"{15 + number % 3}Gi", class_name="mixed", selected_node=name if number % 2 else ""
            ),
        ]

    numbers = range(24)
    all_nodes = VolumeRig(MIXED, *(each for number in numbers for each in made(number)), reservation=reservation)
    for fast, mixed in ((["60Gi", "10Gi"], []), (["50Gi", "20Gi"], ["12Gi"]), (["30Gi", "30Gi"], ["20Gi", "20Gi"])):
        asked = asking(all_nodes, "web", fast=fast, mixed=mixed)
        alone = []
        for number in numbers:
            rig = VolumeRig(MIXED, *made(number), reservation=reservation)
            alone += rig.nodes(asking(rig, "web", fast=fast, mixed=mixed))
        assert alone and (reservation == "Object" or len(alone) < len(numbers))
        assert sorted(all_nodes.nodes(asked)) == alone
