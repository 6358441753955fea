"""A driver's entry in a CSINode: what is compared, what is written, what is left alone."""

from __future__ import annotations

from typing import Any

from tonnage.csi import csi_pb2 as csi
from tonnage.node.registration import belongs_to, entry_of, new_csi_node, with_entry, without_entry
from tonnage.objects.document import Doc


def told(*, max_volumes: int = 0, node_id: str = "id-1", **topology: str) -> csi.NodeGetInfoResponse:
    return csi.NodeGetInfoResponse(
        node_id=node_id,
        max_volumes_per_node=max_volumes,
        accessible_topology=csi.Topology(segments=topology),
    )


def entry(name: str, count: int | None = None, **more: Any) -> Doc:
    return {"name": name, "nodeID": "id-1", **more, **({} if count is None else {"allocatable": {"count": count}})}


def test_an_entry_says_what_the_driver_said_with_its_topology_keys_in_order():
    assert entry_of("d", told(max_volumes=8, zone="z1", host="h1")) == {
        "name": "d",
        "nodeID": "id-1",
        "topologyKeys": ["host", "zone"],
        "allocatable": {"count": 8},
    }


def test_a_count_of_zero_or_below_is_no_count_and_a_huge_one_is_cut():
    assert "allocatable" not in entry_of("d", told(max_volumes=0))
    assert "allocatable" not in entry_of("d", told(max_volumes=-1))
    assert entry_of("d", told(max_volumes=2**40))["allocatable"] == {"count": 2**31 - 1}


def test_nothing_is_written_when_nothing_differs():
    before = [entry("d", 8, topologyKeys=["zone", "host"])]
    assert with_entry(before, entry("d", 8, topologyKeys=["host", "zone"])) is None


def test_an_entry_that_differs_is_put_at_the_end():
    assert with_entry([entry("d", 8), entry("other", 3)], entry("d", 5)) == [entry("other", 3), entry("d", 5)]


def test_a_limit_that_the_driver_no_longer_names_disappears():
    assert with_entry([entry("d", 8)], entry("d")) == [entry("d")]


def test_without_the_gate_a_count_that_is_there_stays_and_a_new_entry_gets_its_own():
    before = [entry("d", 8)]
    assert with_entry(before, entry("d", 5), count_may_change=False) is None
    assert with_entry(before, entry("new", 5), count_may_change=False) == [entry("d", 8), entry("new", 5)]


def test_a_driver_is_taken_out_once():
    assert without_entry([entry("d", 8), entry("other")], "d") == [entry("other")]
    assert without_entry([entry("other")], "d") is None


def test_a_csi_node_belongs_to_one_life_of_its_node():
    assert belongs_to(new_csi_node("node-1", "uid-1"), "uid-1")
    assert not belongs_to(new_csi_node("node-1", "uid-1"), "uid-2")
