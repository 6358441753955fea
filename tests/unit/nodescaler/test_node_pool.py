"""A pool's names, and what its nodes look like."""

from __future__ import annotations

import pytest
from pool_builders import ROOM, burst, template

from tonnage.nodescaler.node_pool import InvalidPool, NodePool


def test_names_are_the_pools_and_a_number_and_there_are_no_more_than_the_limit():
    assert burst(max_nodes=3).names == ("burst-1", "burst-2", "burst-3")
    assert burst(max_nodes=0).names == ()


@pytest.mark.parametrize(("name", "is_one"), [("burst-1", True), ("burst-12", True), ("burst-", False)])
def test_a_name_that_could_be_of_the_pool_is_known(name, is_one):
    assert burst().is_named(name) is is_one


@pytest.mark.parametrize("name", ["", "burst", "burst-01", "burst-x", "other-1", "burst-²"])
def test_other_names_are_not(name):
    assert not burst().is_named(name)


def test_a_node_is_the_template_under_its_own_name_and_not_ready():
    said = template()
    said["metadata"] |= {
        "uid": "u",
        "resourceVersion": "7",
        "labels": {"zone": "z1", "topology.tonnage.dev/node": "burst"},
        "annotations": {"a": "b"},
    }
    said["spec"] = {"providerID": "cloud://1", "taints": [{"key": "dedicated", "effect": "NoSchedule"}]}
    assert NodePool(template=said, max_nodes=1).manifest("burst-1") == {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "burst-1",
            "labels": {
                "zone": "z1",
                "topology.tonnage.dev/node": "burst-1",
                "kubernetes.io/hostname": "burst-1",
                "tonnage.dev/node-pool": "burst",
            },
            "annotations": {"a": "b"},
        },
        "spec": {
            "taints": [
                {"key": "dedicated", "effect": "NoSchedule"},
                {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
            ]
        },
        "status": {"allocatable": ROOM, "capacity": ROOM},
    }


def test_a_node_as_it_will_be_has_the_templates_taints_alone():
    said = template()
    said["spec"] = {"taints": [{"key": "dedicated", "effect": "NoSchedule"}]}
    node = NodePool(template=said, max_nodes=1).node("burst-1")
    assert [taint.key for taint in node.spec.taints] == ["dedicated"]


def test_what_a_node_has_is_what_it_offers_unless_it_says_otherwise():
    said = template()
    del said["status"]["allocatable"]
    assert str(NodePool(template=said, max_nodes=1).node("burst-1").status.allocatable["cpu"]) == "4"


@pytest.mark.parametrize(
    ("change", "limits", "told"),
    [
        ({"kind": "Pod"}, {}, "a template is a Node, and this is kind=Pod"),
        ({"metadata": {}}, {}, 'metadata.name="" names the pool and has 0 characters; it may have 1 to 50'),
        ({"status": {}}, {}, "the template of pool burst offers nothing: status.allocatable is not set"),
        ({}, {"min_nodes": 4}, "a pool cannot have at least 4 and at most 3 nodes"),
    ],
)
def test_what_cannot_be_a_pool_is_refused(change, limits, told):
    with pytest.raises(InvalidPool) as refused:
        NodePool(template={**template(), **change}, max_nodes=3, **limits)
    assert refused.value.message == told
