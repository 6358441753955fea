"""Which capacity objects reach which node, whatever comes first: nodes, labels or objects.

Every story ends with the same question: does the index say what a scan of all objects for all nodes would?
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tonnage.objects.requirements import InvalidSelector
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.configuration.plugin_args import LegacyPools
from tonnage.scheduling.volumes.capacity.class_capacity import NOTHING
from tonnage.scheduling.volumes.capacity.index import CapacityIndex
from tonnage.scheduling.volumes.capacity.pools import room_of, scored_capacity
from tonnage.scheduling.volumes.capacity.reading import CapacityPolicy
from tonnage.testing.builders import cluster_of, node
from tonnage.testing.storage_builders import capacity

GI = 1 << 30
FIRST_CAPACITY = 64
IN_ZONE = {"matchLabels": {"zone": "z1"}}
EVERYWHERE: dict[str, Any] = {}

POLICY = CapacityPolicy(
    lambda each: room_of(each, LegacyPools.STRICT), lambda each: scored_capacity(each, with_pools=True)
)


def index_of(cluster: Cluster) -> CapacityIndex:
    return cluster.index(CapacityIndex)


def scan(cluster: Cluster, class_name: str, node_name: str) -> list[str]:
    """The objects of a class that reach a node, found by looking at every one of them."""
    row = cluster.row_of.get(node_name)
    found = cluster.nodes[row] if row is not None else None
    if found is None:
        return []

    def reaches(each: CSIStorageCapacity) -> bool:
        try:
            return each.node_topology is not None and each.node_topology.matches(found.metadata.labels)
        except InvalidSelector:
            return False

    return sorted(
        each.key
        for each in cluster.storage.capacities.values()
        if each.storage_class_name == class_name and reaches(each)
    )


def assert_as_scanned(cluster: Cluster, *classes: str) -> None:
    """By node, by row and by what fits where."""
    index = index_of(cluster)
    for class_name in classes or ("fast",):
        found = index.of(class_name)
        told = {each.capacity.value() for each in cluster.storage.capacities.values() if each.capacity is not None}
        rooms = [(size,) for size in sorted(told | {0, 4 * GI})]
        names = {name: scan(cluster, class_name, name) for name in cluster.row_of}
        for name, row in cluster.row_of.items():
            assert [each.key for each in index.objects_at(class_name, name)] == names[name], name
            assert [found.entries[number].capacity.key for number in found.numbers_at(row)] == names[name], name
        for sizes in rooms:
            fits = found.fits(POLICY, sizes, cluster.all_rows)
            choices = found.choices(POLICY, sizes, cluster.all_rows)
            for row in range(cluster.size):
                holding = [
                    key
                    for key in names.get(cluster.name(row), [])
                    if room_of(cluster.storage.capacities[key], LegacyPools.STRICT).pools >= sizes
                ]
                assert fits[row] == bool(holding), (sizes, row)
                chosen = found.choice_at(POLICY, sizes, row)
                assert chosen == choices[row]
                assert (found.entries[chosen].capacity.key if chosen != NOTHING else None) == next(iter(holding), None)
                assert found.fits(POLICY, sizes, np.array([row]))[0] == fits[row]


def cluster_with(*objects: CSIStorageCapacity, nodes: int = 3) -> Cluster:
    """Nodes n0, n1, … of which the even ones are in zone z1, and an index that has been asked already."""
    cluster = cluster_of(*(node(f"n{i}", labels={"zone": "z1" if i % 2 == 0 else "z2"}) for i in range(nodes)))
    for each in objects:
        cluster.storage.put(each)
    assert_as_scanned(cluster)
    return cluster


# -- what reaches whom ------------------------------------------------------------------------------------------------


def keys_at(cluster: Cluster, node_name: str, class_name: str = "fast") -> list[str]:
    assert_as_scanned(cluster, class_name)
    return [each.name for each in index_of(cluster).objects_at(class_name, node_name)]


def test_an_object_without_a_topology_reaches_no_node_and_one_with_an_empty_one_all():
    cluster = cluster_with(capacity(name="nowhere", free="1Gi"), capacity(name="all", free="1Gi", topology=EVERYWHERE))
    assert [keys_at(cluster, name) for name in ("n0", "n1", "n2")] == [["all"]] * 3


def test_an_object_of_a_zone_is_one_object_for_all_nodes_in_it():
    cluster = cluster_with(capacity(name="zonal", free="10Gi", topology=IN_ZONE))
    found = index_of(cluster).of("fast")
    assert found.numbers_at(0) == found.numbers_at(2) == [0]
    assert found.numbers_at(1) == []
    assert len(found.layers) == 1


def test_objects_that_overlap_on_a_node_are_met_in_order_of_their_keys():
    cluster = cluster_with(
        capacity(name="b-zone", free="10Gi", topology=IN_ZONE),
        capacity("fast", "n0", "5Gi", name="c-node"),
        capacity(name="a-all", free="1Gi", topology=EVERYWHERE),
    )
    assert keys_at(cluster, "n0") == ["a-all", "b-zone", "c-node"]
    assert keys_at(cluster, "n1") == ["a-all"]


def test_objects_of_all_namespaces_count_and_are_told_apart_by_them():
    cluster = cluster_with(
        capacity("fast", "n0", "5Gi", name="room", namespace="team-b"),
        capacity("fast", "n0", "9Gi", name="room", namespace="team-a"),
    )
    assert [each.key for each in index_of(cluster).objects_at("fast", "n0")] == ["team-a/room", "team-b/room"]


def test_classes_are_kept_apart():
    cluster = cluster_with(capacity("fast", "n0", "1Gi"), capacity("slow", "n0", "2Gi"))
    assert keys_at(cluster, "n0", "slow") == ["slow-n0"]
    assert keys_at(cluster, "n0", "nobody-has-it") == []


def test_a_topology_that_makes_no_sense_reaches_no_node_that_is_here_or_comes_later():
    nonsense = {"matchExpressions": [{"key": "zone", "operator": "Sometimes"}]}
    cluster = cluster_with(capacity(name="odd", free="1Gi", topology=nonsense))
    cluster.put_node(node("n3", labels={"zone": "z1"}))
    assert keys_at(cluster, "n0") == keys_at(cluster, "n3") == []


def test_a_node_that_is_not_there_has_no_objects():
    cluster = cluster_with(capacity(name="all", free="1Gi", topology=EVERYWHERE))
    assert index_of(cluster).objects_at("fast", "ghost") == ()


# -- nodes that come, change and go -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "topology", [IN_ZONE, EVERYWHERE, {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]
)
def test_a_node_that_comes_after_the_object_finds_it(topology: dict[str, Any]):
    cluster = cluster_with(capacity(name="room", free="1Gi", topology=topology))
    cluster.put_node(node("late", labels={"zone": "z1"}))
    assert keys_at(cluster, "late") == ["room"]


def test_a_node_and_then_its_object_before_anybody_asks():
    """A class that was asked for and has no objects meets both at once."""
    cluster = cluster_with(nodes=3)
    assert index_of(cluster).of("slow").live() == []
    cluster.put_node(node("late", labels={"zone": "z1"}))
    cluster.storage.put(capacity("fast", "late", "5Gi"))
    assert keys_at(cluster, "late") == ["fast-late"]


def test_a_node_that_goes_leaves_a_hole_and_the_next_one_in_it_has_its_own_objects():
    cluster = cluster_with(capacity("fast", "n1", "5Gi"), capacity(name="zonal", free="1Gi", topology=IN_ZONE))
    cluster.remove_node("n1")
    assert_as_scanned(cluster)
    assert not index_of(cluster).of("fast").fits(POLICY, (0,), cluster.all_rows)[1]
    cluster.put_node(node("n9", labels={"zone": "z1"}))
    assert cluster.row_of["n9"] == 1
    assert keys_at(cluster, "n9") == ["zonal"]


def test_a_node_that_is_relabelled_changes_its_objects():
    cluster = cluster_with(
        capacity(name="one", free="1Gi", topology=IN_ZONE),
        capacity(name="two", free="1Gi", topology={"matchLabels": {"zone": "z2"}}),
        nodes=8,
    )
    assert keys_at(cluster, "n0") == ["one"]
    cluster.put_node(node("n0", labels={"zone": "z2"}))
    assert keys_at(cluster, "n0") == ["two"]
    cluster.put_node(node("n0"))
    assert keys_at(cluster, "n0") == []


def test_a_node_that_is_relabelled_before_the_object_comes():
    cluster = cluster_with()
    cluster.put_node(node("n1", labels={"zone": "z1"}))
    cluster.storage.put(capacity(name="zonal", free="1Gi", topology=IN_ZONE))
    assert keys_at(cluster, "n1") == ["zonal"]


def test_many_nodes_that_change_at_once_are_looked_at_in_one_go():
    cluster = cluster_with(capacity(name="zonal", free="1Gi", topology=IN_ZONE), nodes=20)
    for i in range(20):
        cluster.put_node(node(f"n{i}", labels={"zone": "z2" if i % 2 == 0 else "z1"}))
    assert keys_at(cluster, "n0") == [] and keys_at(cluster, "n1") == ["zonal"]


def test_nodes_past_the_first_table_that_no_object_reaches_have_none():
    cluster = cluster_with(capacity("fast", "n0", "1Gi"), nodes=FIRST_CAPACITY)
    cluster.put_node(node("beyond"))
    assert cluster.capacity > FIRST_CAPACITY
    assert index_of(cluster).objects_at("fast", "beyond") == ()
    assert_as_scanned(cluster)


def test_nodes_past_the_first_table_are_reached():
    cluster = cluster_with(capacity(name="all", free="1Gi", topology=EVERYWHERE), nodes=FIRST_CAPACITY)
    cluster.put_node(node("beyond"))
    cluster.storage.put(capacity("fast", "beyond", "5Gi"))
    assert keys_at(cluster, "beyond") == ["all", "fast-beyond"]


# -- objects that come, change and go ---------------------------------------------------------------------------------


def test_a_refresh_changes_the_figures_and_not_the_place():
    cluster = cluster_with(capacity("fast", "n0", "1Gi"))
    number = index_of(cluster).of("fast").numbers_at(0)
    cluster.storage.put(capacity("fast", "n0", "9Gi"))
    assert index_of(cluster).of("fast").numbers_at(0) == number
    assert index_of(cluster).of("fast").fits(POLICY, (9 * GI,), cluster.all_rows).tolist() == [True, False, False]
    assert_as_scanned(cluster)


def test_an_object_that_moves_to_another_topology_leaves_the_old_one():
    cluster = cluster_with(capacity("fast", "n0", "1Gi", name="room"))
    cluster.storage.put(capacity("fast", "n1", "1Gi", name="room"))
    assert keys_at(cluster, "n0") == [] and keys_at(cluster, "n1") == ["room"]


def test_an_object_that_moves_to_another_class_leaves_the_old_one():
    cluster = cluster_with(capacity("fast", "n0", "1Gi", name="room"))
    cluster.storage.put(capacity("slow", "n0", "1Gi", name="room"))
    assert keys_at(cluster, "n0") == [] and keys_at(cluster, "n0", "slow") == ["room"]


def test_an_object_that_is_deleted_and_made_again_is_another_one():
    cluster = cluster_with(capacity("fast", "n0", "1Gi"))
    cluster.storage.remove(capacity("fast", "n0"))
    assert keys_at(cluster, "n0") == []
    cluster.storage.put(capacity("fast", "n0", "2Gi", metadata={"uid": "a-second-life"}))
    assert keys_at(cluster, "n0") == ["fast-n0"]
    # The informer may have missed the deletion and tells of the second life as of a change.
    cluster.storage.put(capacity("fast", "n0", "3Gi", metadata={"uid": "a-third-life"}))
    assert keys_at(cluster, "n0") == ["fast-n0"]
    index_of(cluster).held_differs("a-second-life")  # nobody's any more: nothing happens
    index_of(cluster).held_differs("a-third-life")


def test_the_place_of_an_object_that_went_is_given_to_the_next():
    cluster = cluster_with(capacity("fast", "n0", "1Gi"), capacity("fast", "n1", "2Gi"))
    cluster.storage.remove(capacity("fast", "n0"))
    cluster.storage.put(capacity("fast", "n2", "3Gi"))
    assert len(index_of(cluster).of("fast").entries) == 2
    assert_as_scanned(cluster)


def test_more_objects_than_the_first_table_holds():
    cluster = cluster_with(*(capacity("fast", f"n{i}", f"{i + 1}Gi") for i in range(40)), nodes=40)
    fits = index_of(cluster).of("fast").fits(POLICY, (30 * GI,), cluster.all_rows)
    assert np.flatnonzero(fits).tolist() == list(range(29, 40))


def test_a_wide_object_comes_and_goes_among_narrow_ones():
    """More rows than are entered one by one: the layers are laid out anew."""
    cluster = cluster_with(*(capacity("fast", f"n{i}", "1Gi") for i in range(0, 100, 3)), nodes=100)
    cluster.storage.put(capacity(name="all", free="2Gi", topology=EVERYWHERE))
    assert keys_at(cluster, "n1") == ["all"]
    assert keys_at(cluster, "n3") == ["all", "fast-n3"]
    cluster.storage.remove(capacity(name="all"))
    assert keys_at(cluster, "n1") == [] and keys_at(cluster, "n3") == ["fast-n3"]


def test_only_the_rows_an_object_reaches_are_looked_at_again():
    cluster = cluster_with(capacity("fast", "n1", "1Gi"), nodes=10)
    before = cluster.changes.tick
    cluster.storage.put(capacity("fast", "n1", "2Gi"))
    rows = cluster.changes.since(before, cluster.size)
    assert isinstance(rows, slice) and (rows.start, rows.stop) == (1, 2)


def test_news_of_an_object_that_reaches_nobody_is_no_news_for_decisions():
    cluster = cluster_with(capacity(name="nowhere", free="1Gi"))
    before = cluster.changes.tick
    cluster.storage.put(capacity(name="nowhere", free="2Gi"))
    assert cluster.changes.tick == before


# -- everything at once -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_the_index_says_what_a_scan_says(seed: int):
    rng = random.Random(seed)
    cluster = cluster_with(nodes=rng.choice((1, 4, 60)))
    topologies = [
        None,
        {},
        IN_ZONE,
        {"matchLabels": {"zone": "z1", "rack": "r1"}},
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1", "z2", "z1"]}]},
        {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["z1"]}]},
        {"matchExpressions": [{"key": "rack", "operator": "DoesNotExist"}]},
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": []}]},
        {"matchLabels": {"zone": "z2"}, "matchExpressions": [{"key": "rack", "operator": "Exists"}]},
        *({"matchLabels": {"kubernetes.io/hostname": f"n{i}"}} for i in range(8)),
    ]

    def labels() -> dict[str, str]:
        return {
            key: rng.choice(values) for key, values in (("zone", ("z1", "z2")), ("rack", ("r1",))) if rng.random() < 0.6
        }

    def event() -> None:
        name, object_name = f"n{rng.randrange(70)}", f"room-{rng.randrange(25)}"
        match rng.choice(("node", "node", "node gone", "object", "object", "object", "object gone")):
            case "node":
                cluster.put_node(node(name, labels=labels()))
            case "node gone":
                cluster.remove_node(name)
            case "object":
                made = capacity(
                    rng.choice(("fast", "fast", "slow")),
                    free=rng.choice((None, "1Gi", "2Gi", "3Gi")),
                    name=object_name,
                    topology=rng.choice(topologies),
                    metadata={"uid": f"{object_name}-{rng.randrange(2)}"},
                )
                cluster.storage.put(made)
            case "object gone":
                cluster.storage.remove(capacity(name=object_name))

    for _ in range(15):
        for _ in range(rng.choice((1, 1, 2, 5, 40))):
            event()
        if rng.random() < 0.7:
            assert_as_scanned(cluster, "fast", "slow", "nobody-has-it")


@pytest.mark.parametrize("objects", [15, 16, 17, 32])
def test_a_row_that_no_object_reaches_has_none_however_many_objects_there_are(objects: int):
    """Not the last of them, of which something is promised: tables grow by doubling, and may be just full."""
    nodes = [node(f"n{number}") for number in range(objects)]
    cluster = cluster_of(*nodes, node("bare"), *(capacity("fast", each.name, pools=["40Gi", "20Gi"]) for each in nodes))
    last = f"kube-system/fast-n{objects - 1}"
    policy = CapacityPolicy(
        POLICY.room_of, POLICY.scored_bytes, held=lambda each, own: (30 * GI,) if each.key == last else ()
    )
    of_class = index_of(cluster).of("fast")
    rows = np.array([cluster.row_of["bare"], cluster.row_of[f"n{objects - 1}"], cluster.row_of["n0"]])
    sizes = (25 * GI, 5 * GI)
    assert of_class.fits(policy, sizes, rows).tolist() == [False, False, True]
    assert of_class.choices(policy, sizes, rows)[0] == NOTHING
    assert of_class.fits(policy, (5 * GI,), rows).tolist() == [False, True, True]
