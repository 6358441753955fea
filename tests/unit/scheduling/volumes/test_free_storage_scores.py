"""KEP-4049: nodes are ranked by how full their storage would be. The KEP's two unit tests first, by name."""

from __future__ import annotations

import numpy as np
import pytest
from volume_rig import GI, VolumeRig

from tonnage.scheduling.volumes.volume_scores import class_scores, mean
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class, volume

MOST_FREE = ((0, 100), (100, 0))
LEAST_FREE = ((0, 0), (100, 100))
LEAST_FREE_SHAPE = "[{utilization: 0, score: 0}, {utilization: 100, score: 10}]"
LOCAL = storage_class("local", provisioner="kubernetes.io/no-provisioner")


# -- the unit tests of KEP-4049 ---------------------------------------------------------------------------------------


def test_scores_for_dynamic_provisioning_are_appropriate_for_the_amount_of_free_space():
    rig = VolumeRig(*(node(name) for name in "abcd"), reservation="Object")
    rig.put(
        *(capacity("fast", name, free) for name, free in (("a", "10Gi"), ("b", "20Gi"), ("c", "100Gi"), ("d", "7Ti")))
    )
    # 10 of 10, 20 and 100 Gi are 100, 50 and 10 %, of 7 Ti 0.1, floored: 100 - each.
    assert rig.scores(rig.pod("web", "10Gi")) == {"a": 0, "b": 50, "c": 90, "d": 100}
    assert rig.place(rig.pod("db", "10Gi")) == "d"
    rig.use(shape=LEAST_FREE_SHAPE, reservation="Object")
    assert rig.place(rig.pod("mq", "10Gi", node_selector={"kubernetes.io/hostname": "d"})) == "d"
    assert rig.scores(rig.pod("kv", "10Gi")) == {"a": 100, "b": 50, "c": 10}  # d is reserved
    assert rig.place(rig.pod("fs", "10Gi")) == "a"


def test_free_space_and_static_bindings_are_both_scored():
    rig = VolumeRig(*(node(name) for name in "abc"), volume("disk-a", "20Gi", on="a"), volume("disk-b", "80Gi", on="b"))
    rig.put(capacity("fast", "c", "40Gi"), capacity("fast", "a", "10Ti"))
    # a takes a disk that exists, 20 of 20 Gi, and its free space is not looked at; b 20 of 80; c is made, 20 of 40.
    assert rig.scores(rig.pod("web", "20Gi")) == {"a": 0, "b": 75, "c": 50}


# -- what is counted on a node ----------------------------------------------------------------------------------------


def test_requests_of_a_class_add_up_and_its_capacity_is_counted_once():
    for gates in ({}, {"CSIStorageCapacityV2": False}):
        rig = VolumeRig(
            node("a"), node("b"), capacity("fast", "a", "100Gi"), capacity("fast", "b", "200Gi"), gates=gates
        )
        # 60 of 100 and of 200.
        assert rig.scores(rig.pod("web", "20Gi", "40Gi")) == {"a": 40, "b": 70}


def test_without_the_gate_of_pools_more_may_be_requested_than_there_is():
    rig = VolumeRig(node("a"), node("b"), gates={"CSIStorageCapacityV2": False})
    rig.put(capacity("fast", "a", "50Gi"), capacity("fast", "b", "200Gi"))
    assert rig.scores(rig.pod("web", "50Gi", "50Gi")) == {"a": 0, "b": 50}


def test_a_node_scores_the_mean_over_its_classes_halves_rounded_up():
    rig = VolumeRig(node("a"), node("b"), storage_class("slow"))
    rig.put(*(capacity(name, "a", "100Gi") for name in ("fast", "slow")))
    rig.put(*(capacity(name, "b", "1000Gi") for name in ("fast", "slow")))
    rig.put(claim("one", "10Gi"), claim("two", "5Gi", class_name="slow"))
    # a: 90 and 95, 92.5. b: 99 and 100 (0.5 % is floored), 99.5.
    assert rig.scores(pod_with("web", "one", "two")) == {"a": 93, "b": 100}


def test_classes_that_nobody_keeps_count_of_are_left_out():
    quiet = (storage_class("quiet", provisioner="quiet.example"), driver("quiet.example", capacity=False))
    rig = VolumeRig(node("a"), node("b"), *quiet, capacity("fast", "a", "100Gi"), capacity("fast", "b", "50Gi"))
    rig.put(claim("one", "10Gi"), claim("two", "10Gi", class_name="quiet"))
    assert rig.scores(pod_with("web", "one", "two")) == {"a": 90, "b": 80}
    assert rig.scores(pod_with("web", "two")) == {"a": 0, "b": 0}


def test_pools_count_by_their_sum_when_no_capacity_is_told():
    rig = VolumeRig(node("a"), node("b"))
    rig.put(capacity("fast", "a", pools=["50Gi", "50Gi"]), capacity("fast", "b", "1000Gi", pools=["50Gi", "50Gi"]))
    assert rig.scores(rig.pod("web", "50Gi")) == {"a": 50, "b": 95}


def test_the_basis_is_chosen_node_by_node_and_one_static_binding_makes_it_static():
    rig = VolumeRig(node("a"), node("b"), LOCAL, volume("disk", "40Gi", class_name="local", on=["a"]))
    rig.put(volume("other", "10Gi", class_name="local", on=["b"]))
    rig.put(claim("old", "10Gi", class_name="local"), claim("new", "10Gi"))
    rig.put(*(capacity("fast", name, "20Gi") for name in "ab"))
    # Only the disks are looked at: 10 of 40 and 10 of 10. That 10 of 20 would be made as well does not count.
    assert rig.scores(pod_with("web", "old", "new")) == {"a": 75, "b": 0}


def test_static_volumes_of_a_class_add_up_on_both_sides():
    rig = VolumeRig(node("a"), node("b"), LOCAL)
    for name, sizes in (("a", ("10Gi", "30Gi")), ("b", ("20Gi", "20Gi"))):
        rig.put(*(volume(f"disk-{name}-{size}-{n}", size, class_name="local", on=name) for n, size in enumerate(sizes)))
    rig.put(claim("one", "5Gi", class_name="local"), claim("two", "15Gi", class_name="local"))
    # 20 of 40 on both.
    assert rig.scores(pod_with("web", "one", "two")) == {"a": 50, "b": 50}


def test_a_pod_whose_volumes_are_all_there_is_not_scored():
    rig = VolumeRig(node("a"), node("b"), volume("pv", claim="default/data"), claim("data", volume="pv"))
    assert rig.scores(pod_with("web", "data")) == {}


def test_a_single_node_that_fits_is_taken_unscored():
    rig = VolumeRig(node("a"), node("b"), capacity("fast", "b", "10Gi"))
    assert rig.place(rig.pod("web", "10Gi")) == "b"


# -- what is promised, and several objects ----------------------------------------------------------------------------


def test_what_is_promised_is_not_free():
    rig = VolumeRig(*(node(name) for name in "ab"), capacity("fast", "a", "100Gi"), capacity("fast", "b", "90Gi"))
    rig.use(reservation="Ledger")
    assert rig.scores(rig.pod("first", "9Gi")) == {"a": 91, "b": 90}
    rig.put(claim("other", "40Gi", selected_node="a"))
    # Of a's 100 Gi 40 are promised: 9 of 60 and of 90.
    assert rig.scores(rig.pod("web", "9Gi")) == {"a": 85, "b": 90}
    assert rig.place(rig.pod("db", "9Gi")) == "b"
    # And of b's 90 Gi 9: 54 of 60 and of 81.
    assert rig.scores(rig.pod("kv", "54Gi")) == {"a": 10, "b": 34}


def test_pods_with_claims_spread_over_equal_nodes_though_no_figure_is_refreshed():
    rig = VolumeRig(*(node(name) for name in "abc"), reservation="Ledger")
    rig.put(*(capacity("fast", name, pools=["50Gi", "50Gi"]) for name in "abc"))
    assert sorted(rig.place(rig.pod(f"web-{number}", "10Gi")) for number in range(6)) == list("aabbcc")


def test_of_several_objects_for_a_node_the_one_with_most_free_is_scored():
    rig = VolumeRig(node("a"), node("b"), capacity("fast", "b", "100Gi"))
    rig.put(capacity("fast", "a", "20Gi", name="a-1"), capacity("fast", "a", "200Gi", name="z-1"))
    # a: 10 of 200, not of 20.
    assert rig.scores(rig.pod("web", "10Gi")) == {"a": 95, "b": 90}
    # One that does not hold the claims is not looked at, however much it says in all.
    rig.put(capacity("fast", "a", "900Gi", pools=["5Gi"] * 180, name="m-1"))
    assert rig.scores(rig.pod("db", "10Gi")) == {"a": 95, "b": 90}


def test_without_the_gate_the_first_of_several_objects_is_scored_as_upstream_does():
    rig = VolumeRig(node("a"), node("b"), capacity("fast", "b", "100Gi"), gates={"CSIStorageCapacityV2": False})
    rig.put(capacity("fast", "a", "20Gi", name="a-1"), capacity("fast", "a", "200Gi", name="z-1"))
    assert rig.scores(rig.pod("web", "10Gi")) == {"a": 50, "b": 90}


# -- the arithmetic ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "requested", "free", "score"),
    [
        (MOST_FREE, 0, 100, 100),
        (MOST_FREE, 1, 100, 99),
        (MOST_FREE, 199, 1000, 81),  # 19.9 % is 19 %
        (MOST_FREE, 100, 100, 0),
        (MOST_FREE, 101, 100, 0),
        (MOST_FREE, 0, 0, 0),  # nothing there counts as full
        (MOST_FREE, 1, -5, 0),
        (LEAST_FREE, 101, 100, 100),
        (((30, 70), (60, 20)), 10, 100, 70),  # before the first point, and after the last
        (((30, 70), (60, 20)), 90, 100, 20),
        (((0, 100), (3, 0)), 1, 100, 67),  # 100 - 33.3: the step is cut toward zero, not down
        (((0, 100), (3, 0)), 2, 100, 34),
        (((0, 0), (3, 100)), 2, 100, 66),
        (((50, 40),), 70, 100, 40),
        (MOST_FREE, (1 << 62), (1 << 63) - 1, 50),  # half: the product needs more than 64 bits
        (MOST_FREE, (1 << 62), (1 << 62), 0),
    ],
)
def test_one_class_is_scored_in_integers_as_go_divides(
    shape: tuple[tuple[int, int], ...], requested: int, free: int, score: int
):
    assert class_scores(shape, requested, np.array([free])).tolist() == [score]
    assert class_scores(shape, np.array([requested, 0]), np.array([free, free])).tolist()[0] == score


@pytest.mark.parametrize(
    ("scores", "expected"),
    [([7], 7), ([0, 1], 1), ([1, 2], 2), ([0, 0, 1], 0), ([1, 1, 0], 1), ([100, 100], 100)],
)
def test_means_round_halves_up(scores: list[int], expected: int):
    assert mean([np.array([each]) for each in scores], [np.array([1])] * len(scores)).tolist() == [expected]


def test_the_mean_leaves_out_classes_that_do_not_count_on_a_row():
    first, second = np.array([10, 10, 10, 10]), np.array([21, 21, 21, 21])
    counts = [np.array([1, 1, 0, 0]), np.array([1, 0, 1, 0])]
    assert mean([first, second], counts).tolist() == [16, 10, 21, 0]


def test_a_score_of_bytes_beyond_counting_is_no_accident():
    rig = VolumeRig(node("a"), node("b"), gates={"CSIStorageCapacityV2": False})
    rig.put(capacity("fast", "a", "8Ei"), capacity("fast", "b", f"{GI}Gi"))
    assert rig.scores(rig.pod("web", "1Ei")) == {"a": 88, "b": 0}
