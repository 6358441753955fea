"""What the scheduler logs about a pod's volumes at raised verbosity, and that it does not at normal verbosity."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from scheduler_volume_rig import SchedulerRig

from tonnage.scheduler import program
from tonnage.scheduling.volumes.explain.volume_account import VolumeAccount
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class, volume

CLASS = (storage_class(), driver())
LOGGER = "tonnage.scheduler.volumes"


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[Any]:
    """The fields of the lines about one pod, at -v 4."""
    caplog.set_level(logging.DEBUG, logger=LOGGER)

    def found(key: str = "default/web") -> list[dict[str, Any]]:
        records = [each for each in caplog.records if each.name == LOGGER]
        told = [{"msg": each.getMessage(), **each.__dict__["tonnage_fields"]} for each in records]
        return [each for each in told if each.pop("pod") == key]

    yield found


async def attempted(*objects: Any) -> SchedulerRig:
    rig = SchedulerRig(*CLASS, *objects)
    async with rig.running():
        await rig.settle()
    return rig


async def test_each_object_is_one_line_with_its_pools_and_why_it_failed(lines):
    await attempted(
        node("a"),
        node("b"),
        node("c"),
        capacity(node="a", pools=["80Gi", "60Gi"]),
        capacity(node="b", free="300Gi", topology={"matchLabels": {"kubernetes.io/hostname": "b"}}, name="large"),
        claim("data", "120Gi"),
        pod_with("web", "data"),
    )
    assert lines() == [
        {
            "msg": "Considered for volumes",
            "kind": "dynamic",
            "object": "kube-system/fast-a",
            "pools": ["80Gi", "60Gi"],
            "claims": ["default/data"],
            "fits": False,
            "reason": "largest free pool 80Gi, needs 120Gi",
            "nodes": ["a"],
            "node_count": 1,
        },
        {
            "msg": "Considered for volumes",
            "kind": "dynamic",
            "claims": ["default/data"],
            "fits": False,
            "reason": "no capacity object of class fast reaches this node",
            "nodes": ["c"],
            "node_count": 1,
        },
        {
            "msg": "Considered for volumes",
            "kind": "dynamic",
            "object": "kube-system/large",
            "pools": ["300Gi"],
            "claims": ["default/data"],
            "fits": True,
            "grade": "guaranteed",
            "nodes": ["b"],
            "node_count": 1,
        },
    ]


async def test_of_several_objects_that_reach_a_node_each_is_told(lines):
    zone = capacity(free="90Gi", topology={}, name="zone")
    await attempted(node("a"), zone, capacity(node="a", free="40Gi"), claim("data", "100Gi"), pod_with("web", "data"))
    assert {(each["object"], each["reason"]) for each in lines()} == {
        ("kube-system/zone", "largest free pool 90Gi, needs 100Gi"),
        ("kube-system/fast-a", "largest free pool 40Gi, needs 100Gi"),
    }


async def test_who_holds_an_object_is_told_and_a_bound_volume_is_a_line_too(lines):
    await attempted(
        node("a"),
        node("b"),
        capacity(node="a", free="100Gi"),
        claim("one", "10Gi"),
        pod_with("first", "one", priority=1),
        claim("two", "10Gi"),
        claim("kept", volume="pv"),
        volume("pv", on="a", claim="default/kept"),
        pod_with("web", "two", "kept"),
    )
    told = {(each.get("object", each.get("volume")), each.get("reason", "")[:25]) for each in lines()}
    assert ("kube-system/fast-a", "reserved by default/first") in told
    assert ("pv", "") in told
    assert ("pv", "volume pv cannot be reach") in told


async def test_an_object_that_reaches_many_nodes_is_one_line(lines):
    nodes = [node(f"n{number:02}") for number in range(40)]
    await attempted(
        *nodes, capacity(free="1Gi", topology={}, name="zone"), claim("data", "2Gi"), pod_with("web", "data")
    )
    (line,) = lines()
    assert (line["nodes"], line["node_count"]) == ([f"n{number:02}" for number in range(5)], 40)


async def test_a_large_cluster_gets_so_many_lines_and_a_count_of_the_rest(lines):
    count = program.MAX_LINES + 7
    names = [f"n{number:02}" for number in range(count)]
    room = [capacity(node=name, free="1Gi") for name in names]
    await attempted(*map(node, names), *room, claim("data", "2Gi"), pod_with("web", "data"))
    told = lines()
    assert len(told) == program.MAX_LINES + 1
    assert told[-1] == {"msg": "More was considered for volumes", "lines_left_out": 7}


async def test_equal_pods_and_pods_without_claims(lines):
    room = capacity(node="a", free="1Gi")
    pods = [pod_with("web", "data"), pod_with("web-2", "data-2"), pod("plain")]
    await attempted(node("a"), room, claim("data", "2Gi"), claim("data-2", "2Gi"), *pods)
    assert [each["claims"] for each in lines() + lines("default/web-2")] == [["default/data"], ["default/data-2"]]
    assert lines("default/plain") == []


async def test_nothing_is_computed_at_normal_verbosity(monkeypatch, caplog):
    caplog.set_level(logging.INFO, logger=LOGGER)
    monkeypatch.setattr(VolumeAccount, "by_row", lambda self: pytest.fail("an account was made"))
    rig = await attempted(node("a"), capacity(node="a", free="9Gi"), claim("data", "2Gi"), pod_with("web", "data"))
    assert rig.claim("data").selected_node == "a"


async def test_a_failure_to_tell_changes_nothing(monkeypatch, caplog):
    caplog.set_level(logging.DEBUG, logger=LOGGER)

    def broken(self: VolumeAccount) -> None:
        raise RuntimeError("no account")

    monkeypatch.setattr(VolumeAccount, "by_row", broken)
    rig = await attempted(node("a"), capacity(node="a", free="9Gi"), claim("data", "2Gi"), pod_with("web", "data"))
    assert rig.claim("data").selected_node == "a"
    assert [each.getMessage() for each in caplog.records if each.name == LOGGER] == ["Decisions cannot be reported"]
