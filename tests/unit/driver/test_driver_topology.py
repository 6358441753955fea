"""From topologies to nodes, and what a StorageClass may ask for."""

from __future__ import annotations

import pytest

from tonnage.csi import csi_pb2 as csi
from tonnage.csi.errors import Code, StatusError
from tonnage.driver.volumes.parameters import (
    Parameters,
    admits,
    groups_within,
    nodes_within,
    read_parameters,
    topology_of,
)

NODES = ("node-1", "node-2", "node-3")


def requirement(*, requisite: tuple[str, ...] = (), preferred: tuple[str, ...] = ()) -> csi.TopologyRequirement:
    return csi.TopologyRequirement(requisite=map(topology_of, requisite), preferred=map(topology_of, preferred))


def test_a_topology_takes_in_its_node_and_an_empty_one_all() -> None:
    assert nodes_within(topology_of("node-2"), NODES) == ("node-2",)
    assert nodes_within(csi.Topology(), NODES) == NODES
    assert nodes_within(topology_of("node-9"), NODES) == ()


def test_a_label_that_no_node_has_takes_in_none() -> None:
    assert nodes_within(csi.Topology(segments={"zone": "a"}), NODES) == ()
    both = csi.Topology(segments={**topology_of("node-1").segments, "zone": "a"})
    assert nodes_within(both, NODES) == ()


@pytest.mark.parametrize(
    ("asked", "groups"),
    [
        (requirement(), (NODES,)),
        (requirement(preferred=("node-3",)), (("node-3",), ("node-1", "node-2"))),
        (requirement(requisite=("node-3", "node-2")), (("node-2", "node-3"),)),
        (
            requirement(requisite=("node-1", "node-2", "node-3"), preferred=("node-2", "node-3")),
            (("node-2",), ("node-3",), ("node-1",)),
        ),
        (requirement(requisite=("node-9",)), ()),
        # A wish outside of what must be is none.
        (requirement(requisite=("node-1",), preferred=("node-2",)), (("node-1",),)),
    ],
)
def test_preferred_nodes_come_first_and_only_requisite_ones_at_all(
    asked: csi.TopologyRequirement, groups: tuple[tuple[str, ...], ...]
) -> None:
    assert groups_within(asked, NODES) == groups


def test_a_volume_elsewhere_than_preferred_is_still_admitted() -> None:
    assert admits(requirement(preferred=("node-1",)), "node-2")
    assert admits(requirement(requisite=("node-1", "node-2"), preferred=("node-1",)), "node-2")
    assert not admits(requirement(requisite=("node-1",)), "node-2")


def test_a_class_may_name_pools_and_a_policy_and_sidecars_what_they_like() -> None:
    asked = {"pools": "0, 2", "pool-policy": "random", "csi.storage.k8s.io/pvc/name": "data"}
    assert read_parameters(asked) == Parameters(frozenset({0, 2}), "random")
    assert read_parameters({}) == Parameters()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"pools": "ssd"}, 'parameter pools="ssd": write it like "0,2"'),
        (
            {"pool-policy": "worst"},
            'parameter pool-policy="worst": it is one of best-fit, most-free, first-fit, random',
        ),
        (
            {"tier": "1", "colour": "red"},
            "unknown parameter colour, tier: this driver knows pools, vgpattern, pool-policy and size-rules",
        ),
        (
            {"vgpattern": "["},
            'parameter vgpattern: "[" is not a regular expression as Go reads them: missing closing ]: `[`',
        ),
    ],
)
def test_a_slip_in_a_class_is_named(parameters: dict[str, str], message: str) -> None:
    with pytest.raises(StatusError) as refused:
        read_parameters(parameters)
    assert (refused.value.code, refused.value.message) == (Code.INVALID_ARGUMENT, message)
