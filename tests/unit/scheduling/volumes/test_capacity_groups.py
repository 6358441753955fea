"""Classes that draw from the same disks (`tonnage.dev/capacity-group`): packed together, and held for one another."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from volume_rig import ALL_OFF, FULL, VolumeRig, refused

from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Object
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.volumes.capacity.index import CapacityIndex
from tonnage.scheduling.volumes.explain.account_entries import NodeAccount
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class, volume

EVERY_MODE = pytest.mark.parametrize("reservation", ["Object", "Ledger", "None"])
HOLDING_MODE = pytest.mark.parametrize("reservation", ["Object", "Ledger"])
GROUPED = (storage_class("fast", group="disks"), storage_class("slow", group="disks"))


def rooms(pools: list[str], *nodes: str, **options: Any) -> list[Object]:
    return [capacity(name, each, pools=pools, **options) for each in nodes for name in ("fast", "slow")]


def mixed(rig: VolumeRig, name: str, fast: str, slow: str) -> Pod:
    """A pod with a claim of each class."""
    rig.put(claim(f"{name}-fast", fast), claim(f"{name}-slow", slow, class_name="slow"))
    return pod_with(name, f"{name}-fast", f"{name}-slow")


def refreshed(rig: VolumeRig, class_name: str, *pools: str) -> None:
    rig.put(capacity(class_name, "a", pools=pools))


# -- packing ----------------------------------------------------------------------------------------------------------


@EVERY_MODE
def test_claims_of_both_classes_are_packed_together(reservation: str):
    rig = VolumeRig(node("a"), *GROUPED, *rooms(["100Gi"], "a"), reservation=reservation)
    assert rig.message(mixed(rig, "web", "80Gi", "80Gi")) == refused({FULL: 1}, 1)
    assert rig.message(mixed(rig, "db", "60Gi", "41Gi")) == refused({FULL: 1}, 1)
    assert rig.place(mixed(rig, "kv", "60Gi", "40Gi")) == "a"


def test_each_claim_is_made_of_its_own_classs_object():
    rig = VolumeRig(node("a"), *GROUPED, *rooms(["100Gi", "60Gi"], "a"))
    assert rig.planned(mixed(rig, "web", "100Gi", "60Gi"), "a") == {
        "web-fast": "made of fast-a",
        "web-slow": "made of slow-a",
    }


@EVERY_MODE
def test_without_the_annotation_classes_are_apart(reservation: str):
    rig = VolumeRig(node("a"), storage_class("slow"), *rooms(["100Gi"], "a"), reservation=reservation)
    assert rig.place(mixed(rig, "web", "80Gi", "80Gi")) == "a"


@pytest.mark.parametrize("other", [storage_class("slow", group="others"), storage_class("slow", group=" ")])
def test_other_groups_and_empty_names_are_no_group(other: Object):
    rig = VolumeRig(node("a"), GROUPED[0], other, *rooms(["100Gi"], "a"), reservation="Ledger")
    assert rig.place(mixed(rig, "web", "80Gi", "80Gi")) == "a"


def test_with_the_gate_off_the_annotation_has_no_effect():
    rig = VolumeRig(node("a"), *GROUPED, *rooms(["100Gi"], "a", free="100Gi"), gates=ALL_OFF)
    assert rig.place(mixed(rig, "web", "80Gi", "80Gi")) == "a"
    assert rig.place(mixed(rig, "db", "80Gi", "80Gi")) == "a"


def test_of_figures_that_differ_the_least_of_each_pool_counts_for_both_together():
    rig = VolumeRig(node("a"), *GROUPED, reservation="None")
    rig.put(capacity("fast", "a", pools=["100Gi", "60Gi"]), capacity("slow", "a", pools=["80Gi", "80Gi", "10Gi"]))
    assert rig.nodes(mixed(rig, "web", "80Gi", "60Gi")) == ["a"]
    assert rig.nodes(mixed(rig, "db", "80Gi", "61Gi")) == []
    # Claims of one class are judged by its own object.
    assert rig.nodes(rig.pod("kv", "100Gi")) == ["a"]
    assert rig.nodes(rig.pod("mq", "80Gi", "80Gi", "10Gi", class_name="slow")) == ["a"]


def test_an_object_of_each_class_must_reach_the_node():
    rig = VolumeRig(node("a"), node("b"), *GROUPED, *rooms(["100Gi"], "a"), capacity("fast", "b", pools=["500Gi"]))
    assert rig.nodes(mixed(rig, "web", "1Gi", "1Gi")) == ["a"]
    rig.put(capacity("slow", "b", pools=["500Gi"]))
    assert rig.nodes(mixed(rig, "db", "80Gi", "80Gi")) == ["b"]


def test_objects_of_different_topologies_are_packed_together_where_nothing_better_is_known():
    zone = {"matchLabels": {"zone": "z"}}
    rig = VolumeRig(node("a", labels={"zone": "z"}), *GROUPED, reservation="None")
    rig.put(capacity("fast", "a", pools=["100Gi"]), capacity("slow", topology=zone, pools=["900Gi"]))
    assert rig.nodes(mixed(rig, "web", "60Gi", "40Gi")) == ["a"]
    assert rig.nodes(mixed(rig, "db", "60Gi", "41Gi")) == []
    # With a sibling on the node, the zone's object is not asked.
    rig.put(capacity("slow", "a", pools=["50Gi"]))
    assert rig.nodes(mixed(rig, "kv", "30Gi", "20Gi")) == ["a"]
    assert rig.nodes(mixed(rig, "mq", "30Gi", "21Gi")) == []


def test_topologies_are_the_same_however_they_are_spelt():
    rig = VolumeRig(node("a"), *GROUPED, reservation="Ledger")
    spelt = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]}]}
    rig.put(capacity("fast", "a", pools=["100Gi"]), capacity("slow", topology=spelt, pools=["100Gi"]))
    assert rig.place(rig.pod("web", "80Gi")) == "a"
    assert rig.message(rig.pod("db", "80Gi", class_name="slow")) == refused({FULL: 1}, 1)


def test_three_classes_and_nodes_that_come_and_go():
    rig = VolumeRig(node("a"), *GROUPED, storage_class("big", group="disks"), reservation="None")
    rig.put(*(capacity(name, "a", pools=["100Gi"]) for name in ("fast", "slow", "big")))
    rig.put(claim("one", "40Gi"), claim("two", "40Gi", class_name="slow"), claim("three", "40Gi", class_name="big"))
    pod = pod_with("web", "one", "two", "three")
    assert rig.message(pod) == refused({FULL: 1}, 1)
    rig.put(*(capacity(name, "b", pools=["100Gi", "50Gi"]) for name in ("fast", "slow", "big")), node("b"))
    assert rig.nodes(pod) == ["b"]
    rig.put(*(capacity(name, "a", pools=["120Gi"]) for name in ("fast", "slow", "big")))
    assert rig.nodes(pod) == ["a", "b"]
    rig.put(capacity("big", "a", pools=["119Gi"]))
    assert rig.nodes(pod) == ["b"]


# -- holds ------------------------------------------------------------------------------------------------------------


@HOLDING_MODE
def test_what_is_held_of_one_classs_object_counts_in_the_others(reservation: str):
    rig = VolumeRig(node("a"), node("b"), *GROUPED, *rooms(["100Gi"], "a", "b"), reservation=reservation)
    first = rig.place(rig.pod("web", "80Gi"))
    second = rig.place(rig.pod("db", "80Gi", class_name="slow"))
    assert sorted((first, second)) == ["a", "b"]
    assert rig.message(rig.pod("kv", "80Gi", class_name="slow")) == refused({FULL: 2}, 2)
    assert rig.message(mixed(rig, "mq", "40Gi", "40Gi")) == refused({FULL: 2}, 2)


def test_the_ledger_leaves_the_other_class_what_is_left():
    rig = VolumeRig(node("a"), *GROUPED, *rooms(["100Gi"], "a"), reservation="Ledger")
    assert rig.place(rig.pod("web", "60Gi")) == "a"
    assert rig.place(rig.pod("db", "40Gi", class_name="slow")) == "a"
    assert rig.message(rig.pod("kv", "1Gi", class_name="slow")) == refused({FULL: 1}, 1)


@HOLDING_MODE
def test_a_refresh_of_one_object_does_not_free_the_other_which_is_stale_still(reservation: str):
    rig = VolumeRig(node("a"), *GROUPED, *rooms(["100Gi"], "a"), reservation=reservation)
    assert rig.place(rig.pod("web", "80Gi")) == "a"
    rig.put(volume("pv", "80Gi", on="a", claim="default/web-0"), claim("web-0", "80Gi", volume="pv", selected_node="a"))
    refreshed(rig, "fast", "20Gi")
    assert rig.message(rig.pod("db", "80Gi", class_name="slow")) == refused({FULL: 1}, 1)
    assert rig.nodes(rig.pod("kv", "20Gi")) == ["a"]
    refreshed(rig, "slow", "20Gi")
    assert rig.nodes(rig.pod("mq", "20Gi", class_name="slow")) == ["a"]


@HOLDING_MODE
def test_what_failed_is_given_back_to_all(reservation: str):
    rig = VolumeRig(node("a"), *GROUPED, *rooms(["100Gi"], "a"), reservation=reservation)
    pod = mixed(rig, "web", "40Gi", "40Gi")
    assert rig.place(pod) == "a"
    assert rig.message(rig.pod("db", "80Gi", class_name="slow")) == refused({FULL: 1}, 1)
    rig.fail(pod)
    assert rig.nodes(rig.pod("kv", "80Gi", class_name="slow")) == ["a"]
    assert rig.nodes(rig.pod("mq", "80Gi")) == ["a"]


@HOLDING_MODE
def test_a_pod_that_tries_again_is_not_refused_by_what_is_held_for_it(reservation: str):
    rig = VolumeRig(node("a"), *GROUPED, *rooms(["100Gi"], "a"), reservation=reservation)
    pod = mixed(rig, "web", "50Gi", "50Gi")
    assert rig.place(pod) == "a"
    assert rig.nodes(pod) == ["a"]


@HOLDING_MODE
def test_an_object_that_is_held_for_one_pod_stays_so_when_a_sibling_is_given_to_another(reservation: str):
    rig = VolumeRig(node("a"), *GROUPED, *rooms(["100Gi"], "a"), reservation=reservation)
    assert rig.place(rig.pod("web", "10Gi")) == "a"
    refreshed(rig, "slow", "100Gi")  # knows nothing of the first pod's volume, which is not made yet
    second = rig.pod("db", "10Gi", class_name="slow")
    assert rig.place(second) == "a"
    rig.fail(second)
    # The first pod's claim is still to be made of the other class's object.
    assert rig.message(rig.pod("kv", "95Gi")) == refused({FULL: 1}, 1)


@HOLDING_MODE
def test_a_class_that_joins_a_group_shares_what_is_held_already_and_one_that_leaves_does_not(reservation: str):
    rig = VolumeRig(node("a"), GROUPED[0], storage_class("slow"), *rooms(["100Gi"], "a"), reservation=reservation)
    assert rig.place(rig.pod("web", "80Gi")) == "a"
    assert rig.nodes(rig.pod("db", "80Gi", class_name="slow")) == ["a"]
    rig.put(GROUPED[1])
    assert rig.nodes(rig.pod("kv", "80Gi", class_name="slow")) == []
    rig.put(storage_class("slow"))
    assert rig.nodes(rig.pod("mq", "80Gi", class_name="slow")) == ["a"]
    assert rig.nodes(rig.pod("fs", "80Gi")) == []


@HOLDING_MODE
def test_an_object_that_comes_while_its_sibling_is_held_is_held_too(reservation: str):
    rig = VolumeRig(node("a"), *GROUPED, capacity("fast", "a", pools=["100Gi"]), reservation=reservation)
    assert rig.place(rig.pod("web", "80Gi")) == "a"
    refreshed(rig, "slow", "100Gi")
    assert rig.message(rig.pod("db", "80Gi", class_name="slow")) == refused({FULL: 1}, 1)


def test_the_ledger_finds_shared_promises_again_after_a_restart():
    rig = VolumeRig(node("a"), *GROUPED, *rooms(["100Gi"], "a"), claim("old", "80Gi", selected_node="a"))
    rig.use(reservation="Ledger")
    assert rig.message(rig.pod("db", "80Gi", class_name="slow")) == refused({FULL: 1}, 1)


def test_no_hold_is_left_when_everything_is_shown():
    rig = VolumeRig(node("a"), *GROUPED, *rooms(["100Gi"], "a"), reservation="Ledger")
    pod = mixed(rig, "web", "10Gi", "10Gi")
    rig.place(pod)
    assert {hold.capacity for hold in rig.engine.held.modes["Ledger"].holds()} == {  # type: ignore[index]
        "kube-system/fast-a",
        "kube-system/slow-a",
    }
    for name, class_name in (("web-fast", "fast"), ("web-slow", "slow")):
        made = claim(name, "10Gi", class_name=class_name, volume=f"pv-{name}", selected_node="a")
        rig.put(volume(f"pv-{name}", "10Gi", class_name=class_name, on="a", claim=f"default/{name}"), made)
    refreshed(rig, "fast", "80Gi")
    refreshed(rig, "slow", "80Gi")
    assert rig.engine.held.modes["Ledger"].holds() == []  # type: ignore[index]


# -- drivers, scores, words -------------------------------------------------------------------------------------------


def test_a_group_across_drivers_is_told_once_and_is_none(caplog: pytest.LogCaptureFixture):
    other = (driver("other.example"), storage_class("slow", provisioner="other.example", group="disks"))
    rig = VolumeRig(node("a"), GROUPED[0], *other, *rooms(["100Gi"], "a"), reservation="Ledger")
    rig.put(storage_class("third", provisioner="third.example", group="disks"))
    assert rig.place(mixed(rig, "web", "80Gi", "80Gi")) == "a"
    (told,) = [record for record in caplog.records if "capacity group" in record.message]
    assert "StorageClass slow" in str(told.__dict__) and "csi.example, other.example" in str(told.__dict__)


def test_a_group_is_scored_as_one_class_by_what_is_left_of_its_pools():
    rig = VolumeRig(
        node("a"), node("b"), *GROUPED, *rooms(["100Gi"], "a"), *rooms(["200Gi"], "b"), reservation="Ledger"
    )
    # 50 of 100 and of 200.
    assert rig.scores(mixed(rig, "web", "20Gi", "30Gi")) == {"a": 50, "b": 75}
    rig.put(claim("old", "100Gi", class_name="slow", selected_node="b"))
    assert rig.scores(mixed(rig, "db", "20Gi", "30Gi")) == {"a": 50, "b": 50}
    assert rig.scores(rig.pod("kv", "50Gi")) == {"a": 50, "b": 50}


@pytest.mark.parametrize(
    ("reservation", "miss"),
    [
        ("Ledger", "100Gi free, 80Gi promised to default/web since"),
        ("Object", "reserved by default/web since"),
    ],
)
def test_explain_names_the_group_and_who_holds_what_of_the_other_class(reservation: str, miss: str):
    rig = VolumeRig(node("a"), *GROUPED, *rooms(["100Gi"], "a"), reservation=reservation)
    refusal = told(rig, mixed(rig, "both", "80Gi", "80Gi"))
    assert [each["capacity"] for each in refusal] == ["kube-system/fast-a", "kube-system/slow-a"]
    assert {each["capacityGroup"] for each in refusal} == {"disks"}
    assert {each["miss"] for each in refusal} == {"100Gi free, needs 160Gi together (capacity group disks)"}
    rig.place(rig.pod("web", "80Gi"))
    (entry,) = told(rig, rig.pod("db", "80Gi", class_name="slow"))
    assert entry["capacityGroup"] == "disks" and entry["capacity"] == "kube-system/slow-a"
    assert entry["miss"].startswith(miss) and entry["miss"].endswith("(capacity group disks)")


def test_explain_says_which_classs_object_is_missing():
    rig = VolumeRig(node("a"), *GROUPED, capacity("fast", "a", pools=["100Gi"]))
    (first, second) = told(rig, mixed(rig, "web", "1Gi", "1Gi"))
    assert first["miss"] == second["miss"] == "no capacity object of class slow reaches this node"


def told(rig: VolumeRig, pod: Pod) -> list[dict[str, Any]]:
    """What `explain` says of a pod's claims on the only node."""
    decision = rig.profile.decider.decide(rig.cluster, PodInfo(pod), diagnose=True)
    accounts = rig.plugin.account(decision.cycle)
    assert accounts is not None
    account = accounts[rig.cluster.row_of["a"]]
    assert isinstance(account, NodeAccount)
    return account.document()


def test_a_figure_that_is_refreshed_is_seen_in_what_is_joined():
    rig = VolumeRig(node("a"), *GROUPED, *rooms(["100Gi"], "a"), reservation="None")
    pod = mixed(rig, "web", "60Gi", "60Gi")
    assert rig.nodes(pod) == []
    old = rig.cluster.storage.capacities["kube-system/fast-a"]
    assert isinstance(old, CSIStorageCapacity)
    rig.put(msgspec.structs.replace(old, available_capacities=(*old.available_capacities, *old.available_capacities)))
    assert rig.nodes(pod) == []
    refreshed(rig, "slow", "60Gi", "60Gi")
    assert rig.nodes(pod) == ["a"]
    assert rig.cluster.index(CapacityIndex).of("fast,slow").numbers_at(rig.cluster.row_of["a"]) == [0]


def test_an_object_that_goes_and_comes_back_with_other_figures_is_joined_anew():
    rig = VolumeRig(node("a"), *GROUPED, *rooms(["100Gi"], "a"), reservation="None")
    pod = mixed(rig, "web", "60Gi", "60Gi")
    assert rig.nodes(pod) == []
    for name in ("fast", "slow"):
        rig.put(capacity(name, name=f"{name}-a", topology={"matchLabels": {"zone": "none"}}, pools=["1Gi"]))
        rig.put(capacity(name, "a", pools=["60Gi", "60Gi"]))
    assert rig.nodes(pod) == ["a"]
