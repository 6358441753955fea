"""Longhorn, DirectPV and HwameiStor: what their objects say, by each driver's own arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from support.foreign_drivers import (
    DIRECTPV,
    HWAMEISTOR,
    LONGHORN,
    class_of,
    disk,
    drive,
    longhorn_node,
    longhorn_setting,
    pool,
    storage_node,
    thin_pool,
)
from tonnage.objects.document import Doc
from tonnage.pools.class_pools import ClassPools, NodePools, PoolSource, Published

GI, MI = 1 << 30, 1 << 20


def told(source: PoolSource, *objects: Doc, **parameters: str) -> ClassPools:
    names = {key.replace("__", "/").replace("_", "."): text for key, text in parameters.items()}
    return source.pools_of(class_of(source, **names), Published((), objects))


def gibs(found: NodePools | None) -> list[float]:
    assert found is not None
    return [free / GI for free in found.free_bytes]


@pytest.mark.parametrize(
    ("source", "objects", "single", "double"),
    [
        (
            HWAMEISTOR,
            [
                storage_node("node-1", SSD=pool("100Gi", free="60Gi")),
                storage_node("node-2", SSD=pool("100Gi", free="20Gi")),
            ],
            {"poolClass": "SSD", "replicaNumber": "1"},
            {"poolClass": "SSD", "replicaNumber": "2"},
        ),
        (
            LONGHORN,
            [longhorn_node("node-1", a=disk("60Gi")), longhorn_node("node-2", a=disk("20Gi"))],
            {"dataLocality": "strict-local", "numberOfReplicas": "1"},
            {"numberOfReplicas": "2"},
        ),
    ],
)
def test_a_pool_that_replicas_cannot_fill_is_not_taken_for_the_whole_pool_of_other_classes(
    source: PoolSource, objects: list[Doc], single: dict[str, str], double: dict[str, str]
) -> None:
    """Of pools with one id the least figure counts."""
    (own,), (cut,) = (
        source.pools_of(class_of(source, **each), Published((), objects)).by_node["node-1"].pools
        for each in (single, double)
    )
    assert (own.free_bytes, cut.free_bytes) == (60 * GI, 20 * GI)
    assert own.identity != cut.identity
    (own,), (whole,) = (
        source.pools_of(class_of(source, **each), Published((), objects)).by_node["node-2"].pools
        for each in (single, double)
    )
    assert own == whole


LOCAL = {"dataLocality": "strict-local", "numberOfReplicas": "1"}


# -- the edges, as each driver computes them --------------------------------------------------------------------------


def longhorn_size(asked: int) -> int:
    """CreateVolume in csi/controller_server.go: at least MinimalVolumeSize, then RoundUpSize."""
    return -(-max(asked, 10 * MI) // (2 * MI)) * 2 * MI


def hwameistor_size(asked: int) -> int:
    """NumericToLVMBytes in pkg/local-storage/utils/lvm_utils.go."""
    return max(-(-asked // (4 * MI)), 1) * 4 * MI


EDGES: list[tuple[str, PoolSource, Doc, dict[str, str], int, int]] = [
    # what and where in the driver's source · its object · the class · the driver's largest size · one step more
    (
        "longhorn scheduler/replica_scheduler.go IsSchedulableToDisk: 80Gi of 100Gi, 10Gi reserved, 30Gi scheduled",
        LONGHORN,
        longhorn_node("node-1", a=disk("100Gi", reserved="10Gi", scheduled="30Gi")),
        LOCAL,
        60 * GI,
        2 * MI,
    ),
    (
        "longhorn IsSchedulableToDisk: int64(float64(max - reserved) * pct / 100), an odd maximum",
        LONGHORN,
        longhorn_node("node-1", a=disk(100 * GI + 1, scheduled="50Gi")),
        LOCAL,
        50 * GI,
        2 * MI,
    ),
    (
        "directpv pkg/csi/controller/utils.go matchDrive: FreeCapacity < RequiredBytes is refused",
        DIRECTPV,
        drive("node-1", "a", free=10 * GI + 7),
        {},
        10 * GI + 7,
        1,
    ),
    (
        "hwameistor pkg/local-storage/member/node/storage/validator.go checkPoolCapacity, thick",
        HWAMEISTOR,
        storage_node("node-1", SSD=pool("100Gi", free=10 * GI)),
        {"poolClass": "SSD", "replicaNumber": "1"},
        10 * GI,
        1,
    ),
    (
        "hwameistor checkPoolCapacity, thin: float64(required + provisioned) > size * ratio is refused",
        HWAMEISTOR,
        storage_node("node-1", SSD=pool("100Gi", free=0, thin=thin_pool("50Gi", "1.5", "65Gi"))),
        {"poolClass": "SSD", "replicaNumber": "1", "thin": "True"},
        10 * GI,
        1,
    ),
]
ROUNDED: dict[str, Callable[[int], int]] = {
    "longhorn": longhorn_size,
    "hwameistor": hwameistor_size,
    "directpv": lambda asked: asked,
}


@pytest.mark.parametrize(
    ("what", "source", "doc", "parameters", "most", "step"), EDGES, ids=[each[0] for each in EDGES]
)
def test_a_volume_fits_up_to_the_drivers_own_edge(
    what: str, source: PoolSource, doc: Doc, parameters: dict[str, str], most: int, step: int
) -> None:
    found = source.pools_of(class_of(source, **parameters), Published((), [doc]))
    (free,) = found.by_node["node-1"].free_bytes
    rounded = ROUNDED[source.name]
    assert [rounded(asked) <= free for asked in (most - step, most, most + step)] == [True, True, False]


@settings(max_examples=tries(150), deadline=None)
@given(
    maximum=st.integers(0, 1 << 45),
    reserved=st.integers(0, 1 << 44),
    scheduled=st.integers(0, 1 << 45),
    available=st.integers(0, 1 << 45),
    percentages=st.tuples(st.integers(0, 500), st.integers(0, 100)),
    asked=st.integers(1, 1 << 45),
)
def test_longhorns_rule_for_any_disk_and_size(
    maximum: int, reserved: int, scheduled: int, available: int, percentages: tuple[int, int], asked: int
) -> None:
    over, minimal = percentages
    size = longhorn_size(asked)
    # IsSchedulableToDisk, line by line; a new volume has no actual size yet.
    takes = (
        maximum > 0
        and available > 0
        and available - 0 > int(float(maximum) * float(minimal) / 100)
        and size + scheduled <= int(float(maximum - reserved) * float(over) / 100)
    )
    found = told(
        LONGHORN,
        longhorn_node("node-1", a=disk(maximum, reserved=reserved, scheduled=scheduled, available=available)),
        longhorn_setting("storage-over-provisioning-percentage", str(over)),
        longhorn_setting("storage-minimal-available-percentage", str(minimal)),
        **LOCAL,
    )
    assert any(size <= free for free in found.by_node["node-1"].free_bytes) == takes


# -- Longhorn ---------------------------------------------------------------------------------------------------------


def test_strict_local_volumes_have_the_disks_of_their_node() -> None:
    nodes = [
        longhorn_node("node-1", a=disk("100Gi"), b=disk("50Gi", scheduled="20Gi")),
        longhorn_node("node-2", a=disk("10Gi")),
    ]
    found = told(LONGHORN, *nodes, **LOCAL)
    assert {name: gibs(each) for name, each in found.by_node.items()} == {"node-1": [100, 30], "node-2": [10]}
    assert (found.anywhere, found.copies, found.policy, found.problems) == (None, 1, "unknown", ())


@pytest.mark.parametrize("locality", ["", "disabled", "best-effort"])
def test_a_single_replica_may_be_on_any_node(locality: str) -> None:
    nodes = [longhorn_node("node-1", a=disk("100Gi")), longhorn_node("node-2", a=disk("10Gi"), b=disk("60Gi"))]
    found = told(LONGHORN, *nodes, numberOfReplicas="1", dataLocality=locality)
    assert gibs(found.anywhere) == [100, 60, 10]
    assert found.anywhere is not None and found.anywhere.largest_bytes is None


def test_every_replica_takes_room_on_a_node_of_its_own() -> None:
    nodes = [longhorn_node(f"node-{number}", a=disk(f"{size}Gi")) for number, size in enumerate((100, 60, 30))]
    found = told(LONGHORN, *nodes, numberOfReplicas="2")
    # Two replicas: the largest volume is node-1's 60Gi; in all min(190/2, 90/1) = 90Gi: 60 on 0 and 1, 30 on 0 and 2.
    assert found.copies == 2
    assert found.anywhere is not None
    assert (gibs(found.anywhere), found.anywhere.largest_bytes) == ([90], 60 * GI)
    # Where Longhorn publishes by node, no node is better than the second best.
    assert {name: gibs(each) for name, each in found.by_node.items()} == {
        "node-0": [60],
        "node-1": [60],
        "node-2": [30],
    }


def test_fewer_nodes_than_replicas_hold_as_many_as_there_are_if_longhorn_may_degrade() -> None:
    nodes = [longhorn_node("node-1", a=disk("100Gi")), longhorn_node("node-2", a=disk("60Gi"), allow=False)]
    found = told(LONGHORN, *nodes)
    assert (found.copies, gibs(found.anywhere)) == (1, [100])
    strict = longhorn_setting("allow-volume-creation-with-degraded-availability", "false")
    found = told(LONGHORN, *nodes, strict)
    assert (found.copies, gibs(found.anywhere)) == (3, [])
    assert found.problems == ("3 replicas need 3 nodes, and 1 of 2 take replicas",)


def test_without_parameters_longhorns_settings_count() -> None:
    nodes = [longhorn_node(f"node-{number}", a=disk("10Gi")) for number in range(3)]
    count = longhorn_setting("default-replica-count", '{"v1":"2","v2":"3"}')
    assert told(LONGHORN, *nodes, count).copies == 2
    one = longhorn_setting("default-replica-count", "1")
    local = longhorn_setting("default-data-locality", "strict-local")
    assert told(LONGHORN, *nodes, one, local).anywhere is None


@pytest.mark.parametrize(
    "node",
    [
        longhorn_node("node-1", a=disk("100Gi"), ready=False),
        longhorn_node("node-1", a=disk("100Gi"), schedulable=False),
        longhorn_node("node-1", a=disk("100Gi"), allow=False),
        longhorn_node("node-1", a=disk("100Gi"), evict=True),
        longhorn_node("node-1", a=disk("100Gi", allow=False)),
        longhorn_node("node-1", a=disk("100Gi", evict=True)),
        longhorn_node("node-1", a=disk("100Gi", schedulable=False)),
        longhorn_node("node-1", a=disk("100Gi", kind="block")),
        longhorn_node("node-1", a=disk("100Gi", available="25Gi")),
        longhorn_node("node-1", a=disk(0)),
        longhorn_node("node-1"),
    ],
)
def test_what_takes_no_replica_is_no_pool_and_the_node_is_known_to_be_full(node: Doc) -> None:
    assert gibs(told(LONGHORN, node, **LOCAL).by_node["node-1"]) == []


@pytest.mark.parametrize(
    ("node_tags", "disk_tags", "parameters", "empty_takes_all", "fits"),
    [
        ((), (), {}, "true", True),
        (("fast",), ("ssd",), {}, "true", True),
        (("fast",), ("ssd",), {}, "false", False),
        ((), (), {}, "false", True),
        (("fast", "big"), ("ssd",), {"nodeSelector": "big,fast", "diskSelector": "ssd"}, "false", True),
        (("fast",), ("ssd",), {"nodeSelector": "big,fast"}, "true", False),
        ((), ("ssd",), {"diskSelector": "ssd,nvme"}, "true", False),
        (("fast",), (), {"nodeSelector": "fast"}, "true", True),
        ((), ("ssd",), {"diskSelector": ""}, "true", True),
    ],
)
def test_tags_are_matched_as_longhorn_does(
    node_tags: tuple[str, ...],
    disk_tags: tuple[str, ...],
    parameters: dict[str, str],
    empty_takes_all: str,
    fits: bool,
) -> None:
    """IsSelectorsInTags in types/types.go."""
    node = longhorn_node("node-1", tags=node_tags, a=disk("10Gi", tags=disk_tags))
    for_both = [longhorn_setting(f"allow-empty-{kind}-selector-volume", empty_takes_all) for kind in ("node", "disk")]
    assert bool(told(LONGHORN, node, *for_both, **LOCAL, **parameters).by_node["node-1"].pools) == fits


def test_volumes_of_the_second_engine_go_to_block_disks() -> None:
    node = longhorn_node("node-1", a=disk("100Gi"), b=disk("50Gi", kind="block"))
    assert gibs(told(LONGHORN, node, dataEngine="v2", **LOCAL).by_node["node-1"]) == [50]


@pytest.mark.parametrize(("engine", "label", "room"), [("v1", "true", [40]), ("v2", "true", []), ("v2", "yes", [50])])
def test_a_node_may_be_closed_to_the_second_engine(engine: str, label: str, room: list[int]) -> None:
    """ListSchedulableNodes in scheduler/replica_scheduler.go."""
    node = longhorn_node("node-1", a=disk("40Gi"), b=disk("50Gi", kind="block"))
    labels = {"node.longhorn.io/disable-v2-data-engine": label}
    nodes: list[Doc] = [{"metadata": {"name": "node-1", "labels": labels}}]
    found = LONGHORN.pools_of(class_of(LONGHORN, dataEngine=engine, **LOCAL), Published(nodes, [node]))
    assert gibs(found.by_node["node-1"]) == room


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"numberOfReplicas": "many"}, 'parameters.numberOfReplicas "many" is not a number of replicas'),
        ({"numberOfReplicas": "-1"}, 'parameters.numberOfReplicas "-1" is not a number of replicas'),
        (
            {"numberOfReplicas": "2", "dataLocality": "strict-local"},
            'parameters.numberOfReplicas "2" is not 1, which strict-local needs',
        ),
        ({"dataEngine": "v3"}, 'parameters.dataEngine "v3" is not one of v1, v2'),
        (
            {"dataEngine": "v2", "dataLayout_type": "sharded", "numberOfReplicas": "1"},
            "parameters.dataLayout.type: a sharded volume takes parts of its size on several nodes, "
            "which is not counted",
        ),
    ],
)
def test_a_class_that_longhorn_refuses_or_shards_has_no_pools(parameters: dict[str, str], problem: str) -> None:
    found = told(LONGHORN, longhorn_node("node-1", a=disk("100Gi")), **parameters)
    assert (found.by_node, found.problems) == ({}, (problem,))


def test_a_setting_that_is_no_number_is_reported_and_its_default_counts() -> None:
    odd = longhorn_setting("storage-over-provisioning-percentage", "much")
    found = told(LONGHORN, longhorn_node("node-1", a=disk("100Gi")), odd, **LOCAL)
    assert gibs(found.by_node["node-1"]) == [100]
    assert found.problems == (
        'setting storage-over-provisioning-percentage is "much", which is not a number: 100 is used',
    )


# -- DirectPV ---------------------------------------------------------------------------------------------------------


def test_drives_are_pools_and_the_driver_takes_the_one_with_the_most_free() -> None:
    drives = [drive("node-1", "a", free="10Gi"), drive("node-1", "b", free="30Gi"), drive("node-2", "a", free="5Gi")]
    found = told(DIRECTPV, *drives)
    assert {name: gibs(each) for name, each in found.by_node.items()} == {"node-1": [30, 10], "node-2": [5]}
    assert (found.policy, found.problems) == ("most-free", ())


@pytest.mark.parametrize("status", ["Lost", "Error", "Removed", "Moving", "Repairing", ""])
def test_drives_that_are_not_ready_are_left_out(status: str) -> None:
    assert gibs(told(DIRECTPV, drive("node-1", "a", free="10Gi", status=status)).by_node["node-1"]) == []


def test_cordoned_and_deleted_drives_are_left_out() -> None:
    deleted = drive("node-1", "b", free="10Gi")
    deleted["metadata"]["deletionTimestamp"] = "2026-09-01T07:10:00Z"
    drives = [drive("node-1", "a", free="10Gi", unschedulable=True), deleted]
    assert gibs(told(DIRECTPV, *drives).by_node["node-1"]) == []


def test_a_class_chooses_drives_by_tier_and_by_labels() -> None:
    rack = {"directpv.min.io/rack-7": "yes"}
    drives = [drive("node-1", "a", free="10Gi", tier="Hot", labels=rack), drive("node-1", "b", free="30Gi")]
    tier = {"directpv.min.io/access-tier": "hot"}
    for parameters in (tier, rack, {**tier, **rack, "csi.storage.k8s.io/fstype": "xfs"}):
        found = DIRECTPV.pools_of(class_of(DIRECTPV, **parameters), Published((), drives))
        assert gibs(found.by_node["node-1"]) == [10]
    found = DIRECTPV.pools_of(class_of(DIRECTPV, **{"directpv.min.io/access-tier": "tepid"}), Published((), drives))
    assert found.problems == ("parameters[directpv.min.io/access-tier]: tepid is not one of Default, Warm, Hot, Cold",)


def test_a_drive_has_one_volume_of_a_claim_id() -> None:
    taken = {"directpv.min.io/volume-claim-id-x": "true"}
    drives = [drive("node-1", "a", free="10Gi", labels=taken), drive("node-1", "b", free="30Gi")]
    found = DIRECTPV.pools_of(class_of(DIRECTPV, **{"directpv.min.io/volume-claim-id": "x"}), Published((), drives))
    assert gibs(found.by_node["node-1"]) == [30]
    assert "a pod's claims need a drive each" in found.problems[0]


# -- HwameiStor -------------------------------------------------------------------------------------------------------

SSD = {"poolClass": "SSD", "replicaNumber": "1"}


def test_a_class_has_the_pool_of_its_disk_class() -> None:
    node = storage_node("node-1", SSD=pool("100Gi", free="60Gi"), HDD=pool("1Ti", free="900Gi"))
    found = told(HWAMEISTOR, node, **SSD)
    assert (gibs(found.by_node["node-1"]), found.by_node["node-1"].largest_bytes) == ([60], 100 * GI)
    assert gibs(told(HWAMEISTOR, node, **{**SSD, "poolClass": "NVMe"}).by_node["node-1"]) == []


@pytest.mark.parametrize("state", ["Maintain", "Offline", ""])
def test_nodes_that_are_not_ready_take_no_volume(state: str) -> None:
    assert (
        gibs(told(HWAMEISTOR, storage_node("node-1", state=state, SSD=pool(1, free=1)), **SSD).by_node["node-1"]) == []
    )


def test_a_pool_with_as_many_volumes_as_it_may_have_takes_none() -> None:
    node = storage_node("node-1", SSD=pool("100Gi", free="60Gi", volumes_left=0))
    assert gibs(told(HWAMEISTOR, node, **SSD).by_node["node-1"]) == []


def test_thin_volumes_need_a_thin_pool() -> None:
    node = storage_node("node-1", SSD=pool("100Gi", free="60Gi"))
    assert gibs(told(HWAMEISTOR, node, thin="true", **SSD).by_node["node-1"]) == []


@pytest.mark.parametrize("thin", ["true", ""])
def test_a_pool_of_hwameistor_tells_how_many_volumes_it_still_takes(thin: str) -> None:
    """checkPoolVolumeCount in member/node/storage/validator.go refuses at FreeVolumeCount 0; `predicate` in
    member/controller/scheduler/resources.go refuses more volumes than are left."""
    pools = {most: pool("100Gi", free="10Gi", volumes_left=most, thin=thin_pool("50Gi", "1", 0)) for most in (3, 1, 0)}
    nodes = [storage_node(f"node-{most}", SSD=each) for most, each in pools.items()]
    found = told(HWAMEISTOR, *nodes, poolClass="SSD", replicaNumber="1", thin=thin)
    assert {name: each.free_volumes for name, each in found.by_node.items()} == {
        "node-3": 3,
        "node-1": 1,
        "node-0": None,  # it has no pool
    }
    assert found.by_node["node-0"].pools == ()


def test_with_two_copies_another_node_must_have_the_room_too() -> None:
    sizes = {"node-1": 100, "node-2": 60, "node-3": 30}
    nodes = [storage_node(name, SSD=pool("1Ti", free=f"{size}Gi")) for name, size in sizes.items()]
    found = told(HWAMEISTOR, *nodes, poolClass="SSD", replicaNumber="2")
    assert {name: gibs(each) for name, each in found.by_node.items()} == {
        "node-1": [60],  # node-2 has 60
        "node-2": [60],  # node-1 has 100
        "node-3": [30],
    }
    assert found.copies == 2
    alone = told(HWAMEISTOR, nodes[0], poolClass="SSD", replicaNumber="2")
    assert gibs(alone.by_node["node-1"]) == [0]


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"poolClass": "RAM", "replicaNumber": "1"}, 'parameters.poolClass "RAM" is not one of HDD, SSD, NVMe'),
        ({"poolClass": "SSD"}, 'parameters.replicaNumber "" is not a number of replicas'),
        ({"poolClass": "SSD", "replicaNumber": "0"}, 'parameters.replicaNumber "0" is not a number of replicas'),
    ],
)
def test_a_class_that_hwameistor_refuses_has_no_pools(parameters: dict[str, str], problem: str) -> None:
    found = told(HWAMEISTOR, storage_node("node-1", SSD=pool("1Gi", free="1Gi")), **parameters)
    assert (found.by_node, found.problems) == ({}, (problem,))


ODD: list[Any] = [None, [], "x", 3, {"disks": 3, "tags": "x"}, {"diskStatus": {"a": 3, "b": {}}, "pools": []}]


@pytest.mark.parametrize("source", [LONGHORN, DIRECTPV, HWAMEISTOR], ids=lambda each: each.name)
@pytest.mark.parametrize("odd", ODD)
def test_objects_of_another_shape_do_no_harm(source: PoolSource, odd: Any) -> None:
    docs = [{}, {"metadata": odd}, {"metadata": {"name": "n", "labels": odd}, "spec": odd, "status": odd}]
    parameters = SSD if source is HWAMEISTOR else LOCAL if source is LONGHORN else {}
    found = source.pools_of(class_of(source, **parameters), Published((), docs))
    assert all(each.pools == () for each in found.by_node.values())
