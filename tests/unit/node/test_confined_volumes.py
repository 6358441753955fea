"""Whether a volume can be reached from a node, by what the node's labels and its CSINode tell (KEP-5381)."""

from __future__ import annotations

import pytest

from tonnage.node.mounts.pod_volumes import is_confined_elsewhere, rejection
from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import PersistentVolume
from tonnage.objects.storage_v1 import CSINode
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import volume

KEY = "topology.example/node"
HERE = node("node-1", labels={KEY: "node-1"})
REGISTERED = convert(
    CSINode,
    {
        "metadata": {"name": "node-1"},
        "spec": {"drivers": [{"name": "csi.example", "nodeID": "node-1", "topologyKeys": [KEY]}]},
    },
)


def on(*nodes: str) -> PersistentVolume:
    """A volume that can be reached from these nodes, from all if none is named."""
    terms = [{"matchExpressions": [{"key": KEY, "operator": "In", "values": list(nodes)}]}]
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if nodes else {}
    return volume("pv", spec={"csi": {"driver": "csi.example", "volumeHandle": "pv"}, **affinity})


@pytest.mark.parametrize(
    ("found", "expected"), [(on(), False), (on("node-1"), False), (on("node-1", "node-2"), False), (on("node-2"), True)]
)
def test_a_volume_is_confined_elsewhere_when_its_affinity_does_not_admit_the_node(
    found: PersistentVolume, expected: bool
) -> None:
    assert is_confined_elsewhere(found, HERE, REGISTERED) is expected


def test_a_node_without_its_topology_cannot_tell() -> None:
    """A Node that was made anew gets its labels when its driver registers."""
    assert not is_confined_elsewhere(on("node-1"), node("node-1"), REGISTERED)
    assert not is_confined_elsewhere(on("node-2"), node("node-1"), REGISTERED)
    assert not is_confined_elsewhere(on("node-2"), HERE, None)
    assert not is_confined_elsewhere(on("node-2"), HERE, convert(CSINode, {"metadata": {"name": "node-1"}}))


def test_a_volume_of_no_driver_is_taken_to_be_there() -> None:
    assert not is_confined_elsewhere(volume("pv", on="node-2", spec={"csi": None}), HERE, REGISTERED)


def test_people_are_told_which_claim_and_which_volume() -> None:
    assert rejection(on("node-2"), "default/data") == (
        'Node does not match the node affinity of volume "pv", rejecting pod: '
        "claim default/data can be used on other nodes only"
    )
