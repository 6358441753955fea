"""Where a volume may be; cases named as in external-provisioner's topology_test.go, sums of places by hand."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from tonnage.client.cache import Cache
from tonnage.csi import csi_pb2 as csi
from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import Node
from tonnage.objects.storage_v1 import CSINode
from tonnage.provisioner.volumes.topology import (
    NodeGone,
    NoTopology,
    flattened,
    is_accessible,
    node_affinity_of,
    requirement,
    spread,
)
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import DRIVER, meta, storage_class

ZONES = [
    {"zone": "z1", "rack": "A"},
    {"zone": "z2", "rack": "B"},
    {"zone": "z3", "rack": "C"},
    {"zone": "z4", "rack": "D"},
]
THREE = [{"zone": "z2", "rack": "A"}, {"zone": "z1", "rack": "A"}, {"zone": "z1", "rack": "B"}]
FOUR_ALLOWED = [{"zone": ["z1", "z2"], "rack": ["A", "B"]}]


def asked(
    labels: Iterable[Mapping[str, str]],
    *,
    keys: Iterable[str] | None = ("zone", "rack"),
    selected: str = "",
    claim: str = "data",
    allowed: Iterable[Mapping[str, Iterable[str]]] = (),
    strict: bool = False,
    immediate: bool = True,
) -> csi.TopologyRequirement | None:
    """The requirement with nodes n0, n1, … of these labels; `keys` None: the driver is registered nowhere."""
    nodes, csi_nodes = Cache(Node), Cache(CSINode)
    for number, each in enumerate(labels):
        name = f"n{number}"
        nodes.put(node(name, labels=each))
        drivers = [] if keys is None else [{"name": DRIVER, "nodeID": name, "topologyKeys": list(keys)}]
        csi_nodes.put(convert(CSINode, {"kind": "CSINode", "metadata": meta(name), "spec": {"drivers": drivers}}))
    return requirement(
        DRIVER,
        claim,
        storage_class(topologies=allowed).allowed_topologies,
        selected,
        strict=strict,
        immediate=immediate,
        csi_nodes=csi_nodes,
        nodes=nodes,
        rng=random.Random(1),
    )


def told(places: Iterable[csi.Topology]) -> list[str]:
    """Places in short: rack and zone, such as `A z1`."""
    return [" ".join(value for _, value in sorted(place.segments.items())) for place in places]


@pytest.mark.parametrize(
    ("claim", "first"),
    [
        ("testpvcA-testset-1", "A z1"),
        ("testpvcB-testset-1", "A z1"),
        ("testset-2", "B z2"),
        ("testpvcB-testset-2", "B z2"),
        ("testpvcB-testset-3", "C z3"),
        ("testpvcB-testset-4", "D z4"),
    ],
)
def test_stateful_set_spreading(claim: str, first: str) -> None:
    found = asked(ZONES, claim=claim)
    assert found is not None
    order = ["A z1", "B z2", "C z3", "D z4"]
    at = order.index(first)
    assert told(found.preferred) == order[at:] + order[:at]
    assert told(found.requisite) == order


def test_claims_of_one_pod_start_at_the_same_place_and_an_index_beyond_32_bits_is_no_index() -> None:
    assert spread("data-web-3") == spread("logs-web-3") == (spread("x-web-0") + 3) % 2**32
    assert spread("data-4294967296") != (spread("data-0") + 4294967296) % 2**32
    # FNV-1 (not 1a) of nothing is its offset basis.
    assert spread("") == 2166136261


@pytest.mark.parametrize(
    ("name", "given", "preferred", "strict"),
    [
        (
            "allowedTopologies specified",
            {"labels": THREE, "allowed": FOUR_ALLOWED},
            ["A z2", "B z1", "B z2", "A z1"],
            ["A z2"],
        ),
        ("topology aggregation", {"labels": THREE}, ["A z2", "B z1", "A z1"], ["A z2"]),
        (
            "allowedTopologies is subset of selected node's topology",
            {
                "labels": [{"zone": "z1", "rack": "r1", "disk": "ssd"}, {"zone": "z2", "rack": "r2", "disk": "ssd"}],
                "keys": ("zone", "rack", "disk"),
                "allowed": [{"disk": ["ssd"], "zone": ["z1"]}],
            },
            ["ssd z1"],
            ["ssd r1 z1"],
        ),
    ],
)
def test_preferred_topologies(name: str, given: dict[str, Any], preferred: list[str], strict: list[str]) -> None:
    found = asked(**given, selected="n0")
    assert found is not None and told(found.preferred) == preferred, name
    only = asked(**given, selected="n0", strict=True)
    assert only is not None and told(only.preferred) == told(only.requisite) == strict, name


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"labels": THREE, "keys": None}, "no topology key found for node n0"),
        (
            {"labels": [{"rack": "A"}], "keys": ("foo", "rack")},
            "topology labels from selected node map[kubernetes.io/hostname:n0 rack:A] does not match topology keys "
            "from CSINode [foo rack]",
        ),
        (
            {"labels": [{"zone": "z2"}, {"zone": "z1"}], "keys": ("zone",), "allowed": [{"zone": ["z1"]}]},
            'topology [{zone z2}] from selected node "n0" is not in requisite: [[{zone z1}]]',
        ),
        (
            {"labels": [{"zone": "z2"}], "keys": ("zone",), "allowed": [{"zone": ["z1"]}], "strict": True},
            "selected node '\"n0\"' topology '[{zone z2}]' is not in allowed topologies: [[{zone z1}]]",
        ),
    ],
)
def test_a_selected_node_that_does_not_fit_is_refused_in_upstreams_words(given: dict[str, Any], error: str) -> None:
    with pytest.raises(NoTopology) as caught:
        asked(**given, selected="n0")
    assert caught.value.message == error


def test_a_selected_node_that_is_gone_is_told_apart() -> None:
    with pytest.raises(NodeGone) as caught:
        asked(THREE, selected="n9")
    assert caught.value.message == 'failed to get selected CSINode n9: csinode.storage.k8s.io "n9" not found'


def test_without_a_node_and_without_immediate_topology_nothing_is_asked() -> None:
    assert asked(THREE, immediate=False) is None


def test_without_a_node_a_driver_that_is_registered_nowhere_is_waited_for() -> None:
    with pytest.raises(NoTopology, match="no available topology found"):
        asked(THREE, keys=None)


def test_topology_keys_that_no_node_has_are_named() -> None:
    with pytest.raises(NoTopology) as caught:
        asked([{}, {}])
    assert caught.value.message == "topologyKeys [zone rack] were not found on any nodes"


def test_equal_places_are_asked_for_once() -> None:
    found = asked([{"zone": "z1", "rack": "A"}] * 3)
    assert found is not None and told(found.requisite) == ["A z1"]


def test_allowed_topologies_multiply_out() -> None:
    terms = storage_class(topologies=FOUR_ALLOWED).allowed_topologies
    # (z1 or z2) and (A or B): 2 * 2 = 4 places.
    assert sorted(flattened(terms)) == [
        (("rack", "A"), ("zone", "z1")),
        (("rack", "A"), ("zone", "z2")),
        (("rack", "B"), ("zone", "z1")),
        (("rack", "B"), ("zone", "z2")),
    ]


def test_generate_volume_node_affinity() -> None:
    for nowhere in ([], [csi.Topology()], [csi.Topology(), csi.Topology()]):
        assert node_affinity_of(nowhere).required is None  # a selector without terms would be refused
    found = node_affinity_of(
        [csi.Topology(segments={"zone": "z1", "rack": "A"}), csi.Topology(segments={"zone": "z2"})]
    )
    assert found.required is not None
    here = [{"zone": "z1", "rack": "A"}, {"zone": "z1", "rack": "B"}, {"zone": "z2"}]
    assert [found.required.matches("", labels) for labels in here] == [True, False, True]


def test_a_volume_is_accessible_where_it_matches_and_everywhere_when_nothing_is_known() -> None:
    on_a = node_affinity_of([csi.Topology(segments={"host": "a"})])
    assert [is_accessible(on_a, place) for place in ({"host": "a"}, {"host": "b"}, None)] == [True, False, True]
    assert is_accessible(node_affinity_of([]), {"host": "b"})
