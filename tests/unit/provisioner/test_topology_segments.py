"""Which segments a driver's nodes form, and which segments a volume is in. Cases as external-provisioner lists them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import Node
from tonnage.objects.storage_v1 import CSINode
from tonnage.provisioner.capacity.objects import Segment, find_segments, segments_of_volume
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import volume

DRIVER = "pools.tonnage.dev"
EVERYWHERE = Segment()


def registered(name: str, *keys: str, driver: str = DRIVER) -> CSINode:
    entry = {"name": driver, "nodeID": name, "topologyKeys": list(keys)}
    return convert(CSINode, {"kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": [entry]}})


def segments(csi_nodes: list[CSINode], nodes: list[Node]) -> set[Segment]:
    by_name = {each.name: each for each in nodes}
    return set(find_segments(DRIVER, csi_nodes, by_name.get))


def test_no_nodes_no_segments():
    assert segments([], []) == set()


def test_each_node_with_a_value_of_its_own_is_a_segment():
    nodes = [node("a", labels={"host": "1"}), node("b", labels={"host": "2"})]
    assert segments([registered("a", "host"), registered("b", "host")], nodes) == {
        Segment.of({"host": "1"}),
        Segment.of({"host": "2"}),
    }


def test_nodes_that_share_storage_are_one_segment():
    nodes = [node("a", labels={"zone": "z1"}), node("b", labels={"zone": "z1"})]
    assert segments([registered("a", "zone"), registered("b", "zone")], nodes) == {Segment.of({"zone": "z1"})}


def test_a_deep_topology_tells_apart_by_all_of_its_keys_whatever_their_order():
    nodes = [node("a", labels={"zone": "z1", "rack": "1"}), node("b", labels={"zone": "z1", "rack": "2"})]
    assert segments([registered("a", "zone", "rack"), registered("b", "rack", "zone")], nodes) == {
        Segment((("rack", "1"), ("zone", "z1"))),
        Segment((("rack", "2"), ("zone", "z1"))),
    }


def test_nodes_may_name_different_keys():
    nodes = [node("a", labels={"zone": "z1"}), node("b", labels={"zone": "z1", "rack": "1"})]
    assert segments([registered("a", "zone"), registered("b", "zone", "rack")], nodes) == {
        Segment.of({"zone": "z1"}),
        Segment.of({"zone": "z1", "rack": "1"}),
    }


def test_a_driver_without_topology_is_everywhere_once_it_is_anywhere():
    assert segments([registered("a")], [node("a")]) == {EVERYWHERE}


@pytest.mark.parametrize(
    ("csi_nodes", "nodes"),
    [
        pytest.param([registered("a", "host")], [], id="the CSINode has outlived its node"),
        pytest.param([], [node("a", labels={"host": "1"})], id="no CSINode yet"),
        pytest.param([registered("a", "host")], [node("a")], id="the label is not set yet"),
        pytest.param(
            [registered("a", "host", "rack")], [node("a", labels={"host": "1"})], id="one of two labels is not set yet"
        ),
        pytest.param(
            [registered("a", "host", driver="another")], [node("a", labels={"host": "1"})], id="another driver's node"
        ),
    ],
)
def test_a_node_counts_once_all_is_known_of_it(csi_nodes: list[CSINode], nodes: list[Node]):
    assert segments(csi_nodes, nodes) == set()


def term(*expressions: tuple[str, str, list[str]], **more: Any) -> Mapping[str, Any]:
    return {
        "matchExpressions": [
            {"key": key, "operator": operator, "values": values} for key, operator, values in expressions
        ],
        **more,
    }


def reach(*terms: Mapping[str, Any]) -> tuple[Segment, ...]:
    affinity = {"required": {"nodeSelectorTerms": list(terms)}}
    return segments_of_volume(volume("pv-1", spec={"nodeAffinity": affinity}))


def test_every_term_of_a_volume_is_a_segment_in_the_order_of_its_keys():
    found = reach(term(("zone", "In", ["z1"]), ("rack", "In", ["1"])), term(("zone", "In", ["z2"])))
    assert found == (Segment((("rack", "1"), ("zone", "z1"))), Segment((("zone", "z2"),)))


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(term(("zone", "NotIn", ["z1"])), id="another operator"),
        pytest.param(term(("zone", "In", ["z1", "z2"])), id="two values"),
        pytest.param(
            term(("zone", "In", ["z1"]), matchFields=[{"key": "metadata.name", "operator": "In", "values": ["a"]}]),
            id="fields",
        ),
    ],
)
def test_a_term_that_no_provisioner_wrote_is_passed_over(odd: Mapping[str, Any]):
    assert reach(odd, term(("zone", "In", ["z2"]))) == (Segment.of({"zone": "z2"}),)


def test_a_volume_without_affinity_names_no_segment():
    assert segments_of_volume(volume("pv-1")) == ()


@pytest.mark.parametrize(
    ("one", "other", "answer"),
    [
        ({"zone": "z1"}, {"zone": "z1"}, True),
        ({"zone": "z1"}, {"zone": "z2"}, False),
        ({"zone": "z1", "rack": "1"}, {"zone": "z1"}, True),
        ({"zone": "z1", "rack": "1"}, {"zone": "z1", "rack": "2"}, False),
        ({"zone": "z1"}, {"host": "a"}, False),
        ({}, {"host": "a"}, True),
        ({}, {}, True),
    ],
)
def test_segments_overlap_when_they_share_a_key_and_disagree_on_none(one: Any, other: Any, answer: bool):
    assert Segment.of(one).overlaps(Segment.of(other)) is answer
    assert Segment.of(other).overlaps(Segment.of(one)) is answer
