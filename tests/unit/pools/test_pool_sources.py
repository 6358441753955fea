"""Sources against objects as the drivers write them, and against odd ones."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from tonnage.objects.codec import convert
from tonnage.objects.document import Doc, copy
from tonnage.objects.storage_v1 import StorageClass
from tonnage.pools.class_pools import ClassPools, PoolSource, Published
from tonnage.pools.sources import source_of
from tonnage.pools.sources.command import CommandPools, InvalidOutput, read_output
from tonnage.pools.sources.nodes import NodeTexts
from tonnage.pools.sources.openebs import OpenEbsLvm, OpenEbsZfs
from tonnage.pools.sources.topolvm import TopoLvm

GI = 1 << 30
ODD = {"name": 3, "ownerReferences": [1, {"kind": "Node"}], "annotations": {"k": 1}, "managedFields": "x"}
RECORDED = Path(__file__).parent / "recorded"


def recorded(name: str) -> list[Doc]:
    found: list[Doc] = yaml.safe_load((RECORDED / f"{name}.yaml").read_text())
    return found


def class_of(provisioner: str, name: str = "fast", **parameters: str) -> StorageClass:
    doc = {"kind": "StorageClass", "metadata": {"name": name}, "provisioner": provisioner, "parameters": parameters}
    return convert(StorageClass, doc)


def node(name: str, labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None) -> Doc:
    metadata: Doc = {"name": name, "labels": labels or {}, "annotations": annotations or {}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata}


def gibs(found: ClassPools) -> dict[str, list[float]]:
    return {name: [free / GI for free in each.free_bytes] for name, each in found.by_node.items()}


# -- OpenEBS LVM LocalPV ----------------------------------------------------------------------------------------------


def lvm(objects: list[Doc] | None = None, **parameters: str) -> ClassPools:
    published = Published((), recorded("lvmnodes") if objects is None else objects)
    return OpenEbsLvm().pools_of(class_of("local.csi.openebs.io", **parameters), published)


def lvm_node(name: str, *groups: dict[str, Any]) -> Doc:
    return {"metadata": {"name": name, "namespace": "openebs"}, "volumeGroups": list(groups)}


def test_a_pattern_draws_from_every_group_it_matches() -> None:
    found = lvm(vgpattern="^data-[0-9]$")
    # data-2 of node-1 is 107369988096 bytes, an extent less than 100 Gi; of node-2 one group of four takes volumes.
    assert found.by_node["node-1"].free_bytes == (100 * GI, 107369988096)
    assert gibs(found)["node-2"] == [20.0]
    assert found.policy == "best-fit"
    assert found.by_node["node-1"].observed_at == datetime(2026, 9, 1, 7, 10, tzinfo=UTC)


def test_groups_in_which_lvm_makes_no_volume_are_told_and_left_out() -> None:
    assert lvm(vgpattern="^data-").problems == (
        "volume group data-2 of node node-2 misses a physical volume: no volume can be made in it",
        "volume group data-3 of node node-2 is read-only: no volume can be made in it",
        "volume group data-4 of node node-2 has as many volumes as it may have (8): no volume can be made in it",
    )


def test_a_group_by_name_is_one_pool_and_nothing_is_chosen() -> None:
    found = lvm(volgroup="data-1")
    assert gibs(found) == {"node-1": [100.0], "node-2": [20.0], "node-3": []}
    assert found.policy == ""


def test_a_name_of_a_group_is_an_expression_between_its_ends() -> None:
    assert gibs(lvm(volgroup="data"))["node-1"] == []
    assert len(lvm(volgroup="data-.").by_node["node-1"].pools) == 2


def test_a_name_goes_before_a_pattern_and_keys_are_read_in_any_case() -> None:
    assert gibs(lvm(VolGroup="data-1", vgpattern=".*"))["node-1"] == [100.0]


def test_without_either_every_group_is_meant() -> None:
    assert len(lvm().by_node["node-1"].pools) == 3


def test_a_pattern_that_matches_nothing_means_no_room_where_the_agent_runs() -> None:
    found = lvm(vgpattern="^nothing$")
    assert gibs(found) == {"node-1": [], "node-2": [], "node-3": []}
    assert found.problems == ()


@pytest.mark.parametrize("pattern", ["data-[", "(?=data)", "*"])
def test_a_pattern_that_go_refuses_gives_no_pools_and_says_why(pattern: str) -> None:
    found = lvm(vgpattern=pattern)
    assert found.by_node == {}
    assert found.problems[0].startswith(f'parameters.vgpattern: "{pattern}" is not a regular expression as Go reads')


def test_thin_volumes_come_from_the_drivers_thin_pool_or_from_the_group_where_there_is_none() -> None:
    found = lvm(vgpattern="^(thin|data-1)$", thinProvision="yes")
    assert gibs(found)["node-1"] == [400.0, 100.0]
    assert found.policy == "unknown"


def test_a_thin_pool_is_another_pool_than_the_group_that_it_is_in() -> None:
    thin, thick = lvm(vgpattern="^(thin|data-1)$", thinProvision="yes"), lvm(vgpattern="^(thin|data-1)$")
    ids = [{pool.identity for pool in each.by_node["node-1"].pools} for each in (thin, thick)]
    # data-1 has no thin pool yet: it will be made of the group's free bytes
    assert len(ids[0] & ids[1]) == 1
    assert [each.endswith("/thin_thinpool") for each in ids[0] - ids[1]] == [True]


def test_thick_volumes_have_no_room_in_a_group_that_is_all_thin_pool() -> None:
    assert gibs(lvm(volgroup="thin"))["node-1"] == [0.0]


def test_two_groups_of_one_name_are_left_out_and_one_that_is_told_twice_counts_once() -> None:
    twice = {"name": "vg", "uuid": "a", "free": "10Gi"}
    assert gibs(lvm([lvm_node("node-1", twice, twice)])) == {"node-1": [10.0]}
    found = lvm([lvm_node("node-1", twice, {**twice, "uuid": "b"}, {"name": "vg2", "uuid": "c", "free": "1Gi"})])
    assert gibs(found) == {"node-1": [1.0]}
    assert found.problems == ("node node-1 has 2 volume groups named vg: LVM makes no volume in either",)


@pytest.mark.parametrize(
    ("free", "expected"), [("1Ti", 1024 * GI), ("1.5Gi", 3 * GI // 2), ("10G", 10**10), (5 * GI, 5 * GI), ("0", 0)]
)
def test_amounts_come_in_every_unit(free: Any, expected: int) -> None:
    found = lvm([lvm_node("node-1", {"name": "vg", "uuid": "a", "free": free})])
    assert found.by_node["node-1"].free_bytes == (expected,)


@pytest.mark.parametrize("free", ["-1Gi", "much", None, True, [], ""])
def test_an_amount_that_is_none_leaves_its_group_out(free: Any) -> None:
    found = lvm([lvm_node("node-1", {"name": "vg", "uuid": "a", "free": free})])
    assert gibs(found) == {"node-1": []}
    assert found.problems == ("volume group vg of node node-1 does not say how much is free",)


@pytest.mark.parametrize(
    "doc",
    [
        {},
        {"metadata": None},
        {"metadata": {"name": "n"}, "volumeGroups": {"a": 1}},
        {"metadata": {"name": "n"}, "volumeGroups": [None]},
    ],
)
def test_objects_of_another_shape_do_no_harm(doc: Doc) -> None:
    assert gibs(lvm([doc])) in ({}, {"n": []})


def test_of_two_objects_for_one_node_the_one_written_last_is_read() -> None:
    old, new = copy(recorded("lvmnodes")[0]), copy(recorded("lvmnodes")[0])
    old["metadata"] |= {"namespace": "old", "managedFields": [], "creationTimestamp": "2024-01-01T00:00:00Z"}
    old["volumeGroups"] = []
    for objects in ([old, new], [new, old]):
        found = lvm(objects, volgroup="data-1")
        assert gibs(found) == {"node-1": [100.0]}
        assert found.problems[0].startswith("there are several objects for node node-1")


def test_a_class_that_changes_changes_its_pools() -> None:
    assert lvm(volgroup="data-1") != lvm(vgpattern="^data-")


# -- OpenEBS ZFS LocalPV ----------------------------------------------------------------------------------------------


def zfs(nodes: list[Doc] | None = None, objects: list[Doc] | None = None, **parameters: str) -> ClassPools:
    published = Published(nodes or [], recorded("zfsnodes") if objects is None else objects)
    return OpenEbsZfs().pools_of(class_of("zfs.csi.openebs.io", **parameters), published)


def test_a_pool_pattern_draws_from_every_pool_it_matches() -> None:
    found = zfs(poolpattern="zfspv-pool")
    assert found.by_node["node-1"].free_bytes == (200 * GI, 103498467328)
    assert found.policy == "unknown"
    assert found.by_node["node-1"].observed_at == datetime(2026, 9, 2, 7, 30, tzinfo=UTC)


def test_space_weighted_takes_the_pool_with_the_most_room() -> None:
    assert zfs(poolpattern="zfspv-pool", scheduler="SpaceWeighted").policy == "most-free"


def test_a_pool_by_name_may_be_a_dataset_and_is_no_expression() -> None:
    assert gibs(zfs(poolname="tank.prod"))["node-1"] == [50.0]
    assert gibs(zfs(poolname="tank.prod/k8s/localpv"))["node-1"] == [50.0]
    assert gibs(zfs(poolpattern="tank.prod"))["node-1"] == [70.0, 50.0]


def test_a_node_is_found_by_its_owner_its_id_or_its_name() -> None:
    found = zfs([node("node-2", {"openebs.io/nodeid": "id-of-node-2"})], poolpattern=".")
    assert set(found.by_node) == {"node-1", "node-2"}
    assert set(zfs([], poolpattern=".").by_node) == {"node-1", "id-of-node-2"}


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"poolname": "a", "poolpattern": "b"}, "parameters: poolname and poolpattern exclude one another"),
        ({}, "parameters: neither poolname nor poolpattern is set"),
        ({"poolpattern": "("}, 'parameters.poolpattern: "(" is not a regular expression'),
    ],
)
def test_a_zfs_class_that_its_driver_refuses_has_no_pools(parameters: dict[str, str], problem: str) -> None:
    found = zfs(None, None, **parameters)
    assert found.by_node == {}
    assert found.problems[0].startswith(problem)


def test_a_pool_told_twice_counts_once_and_one_without_an_amount_not_at_all() -> None:
    pools = [{"name": "a", "uuid": "1", "free": "1Gi"}, {"name": "a", "uuid": "1", "free": "1Gi"}, {"name": "b"}]
    found = zfs(objects=[{"metadata": {"name": "n"}, "pools": pools}], poolpattern=".")
    assert gibs(found) == {"n": [1.0]}
    assert found.problems == ("pool b of node n does not say how much is free",)


# -- TopoLVM ----------------------------------------------------------------------------------------------------------


def topolvm(*nodes: Doc, provisioner: str = "topolvm.io", **parameters: str) -> ClassPools:
    return TopoLvm().pools_of(class_of(provisioner, **parameters), Published(nodes))


def topolvm_node(name: str, prefix: str = "capacity.topolvm.io", **free: str) -> Doc:
    return node(name, annotations={f"{prefix}/{key.strip('_')}": value for key, value in free.items()})


def test_a_device_class_is_one_pool() -> None:
    nodes = [topolvm_node("node-1", ssd=str(100 * GI), _00default=str(7 * GI)), topolvm_node("node-2", hdd="1")]
    found = topolvm(*nodes, **{"topolvm.io/device-class": "ssd"})
    assert gibs(found) == {"node-1": [100.0], "node-2": []}
    assert found.policy == ""


def test_without_a_device_class_the_default_is_meant_and_is_known_by_its_number() -> None:
    nodes = [
        topolvm_node("node-1", _00default=str(5 * GI), ssd=str(5 * GI), hdd="9"),
        topolvm_node("node-2", _00default=str(GI), ssd=str(GI)),
    ]
    found = topolvm(*nodes)
    assert gibs(found) == {"node-1": [5.0], "node-2": [1.0]}
    assert found.by_node["node-1"].pools[0].identity == "ssd"


def test_a_default_whose_number_two_device_classes_have_is_called_neither() -> None:
    new = topolvm_node("node-1", _00default=str(100 * GI), hdd=str(100 * GI), ssd=str(100 * GI))
    assert topolvm(new).by_node["node-1"].pools[0].identity == "00default"
    used = topolvm_node("node-1", _00default=str(40 * GI), hdd=str(100 * GI), ssd=str(40 * GI))
    assert topolvm(used).by_node["node-1"].pools[0].identity == "ssd"


def test_the_older_name_of_topolvm_is_known() -> None:
    found = topolvm(
        topolvm_node("node-1", "capacity.topolvm.cybozu.com", _00default=str(GI)), provisioner="topolvm.cybozu.com"
    )
    assert gibs(found) == {"node-1": [1.0]}


def test_a_node_without_device_classes_is_not_known_and_a_number_that_is_none_is_told() -> None:
    found = topolvm(node("node-1"), topolvm_node("node-2", _00default="lots", ssd="1"))
    assert found.by_node == {}
    assert found.problems == (
        'node node-2: annotation capacity.topolvm.io/00default says "lots", which is not an amount',
    )


def test_when_an_annotation_was_written_is_read_from_whoever_manages_it() -> None:
    doc = topolvm_node("node-1", _00default="1")
    key = "f:capacity.topolvm.io/00default"
    doc["metadata"]["managedFields"] = [
        {"manager": "kubelet", "time": "2026-09-02T09:00:00Z", "fieldsV1": {"f:status": {}}},
        {
            "manager": "topolvm-node",
            "time": "2026-09-02T08:00:00Z",
            "fieldsV1": {"f:metadata": {"f:annotations": {key: {}}}},
        },
    ]
    assert topolvm(doc).by_node["node-1"].observed_at == datetime(2026, 9, 2, 8, tzinfo=UTC)


# -- any driver -------------------------------------------------------------------------------------------------------


def test_pools_of_any_driver_may_stand_on_nodes() -> None:
    source = NodeTexts("example.com/pools")
    nodes = [
        node("node-1", annotations={"example.com/pools": "100Gi, 107374182400"}),
        node("node-2", annotations={"example.com/pools": ""}),
        node("node-3"),
        node("node-4", annotations={"example.com/pools": "100Gi,x"}),
    ]
    found = source.pools_of(class_of("csi.example"), Published(nodes))
    assert gibs(found) == {"node-1": [100.0, 100.0], "node-2": []}
    assert found.policy == ""
    assert found.problems == (
        'node node-4: annotation example.com/pools says "100Gi,x", which is not a list of amounts',
    )


def test_a_key_may_name_the_class_and_labels_use_another_sign() -> None:
    source = NodeTexts("pools.example.com/{class}", is_label=True)
    nodes = [node("node-1", {"pools.example.com/fast": "1Gi_2Gi", "pools.example.com/slow": "3Gi"})]
    assert gibs(source.pools_of(class_of("csi.example", "fast"), Published(nodes))) == {"node-1": [2.0, 1.0]}
    assert gibs(source.pools_of(class_of("csi.example", "slow"), Published(nodes))) == {"node-1": [3.0]}


def test_classes_with_one_key_draw_from_the_same_disks_and_with_their_own_do_not() -> None:
    nodes = [node("node-1", annotations={"p": "1Gi", "p-fast": "1Gi", "p-slow": "1Gi"})]
    fast, slow = class_of("csi.example", "fast"), class_of("csi.example", "slow")
    for key, is_shared in (("p", True), ("p-{class}", False)):
        source = NodeTexts(key)
        disks = [source.pools_of(each, Published(nodes)).disks for each in (fast, slow)]
        assert bool(disks[0] & disks[1]) is is_shared


def test_a_program_prints_a_list_or_one_a_class() -> None:
    at = datetime(2026, 9, 2, tzinfo=UTC)
    output = read_output(b'[{"name": "a", "free": "1Gi"}, {"free": 2147483648}, "3Gi"]')
    source = CommandPools("node-1", ("csi.example",), output, at)
    found = source.pools_of(class_of("csi.example"), Published(()))
    assert gibs(found) == {"node-1": [3.0, 2.0, 1.0]}
    assert found.by_node["node-1"].observed_at == at
    output = read_output(b'{"classes": {"fast": ["1Gi", "2Gi"]}, "policy": "first-fit"}')
    source = CommandPools("node-1", ("csi.example",), output, at)
    assert source.pools_of(class_of("csi.example", "fast"), Published(())).policy == "first-fit"
    assert source.pools_of(class_of("csi.example", "slow"), Published(())).by_node == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "it is empty"),
        (b"no", "it is not JSON"),
        (b"3", "neither a list nor an object"),
        (b"{}", "neither pools nor classes"),
        (b'{"pool": []}', 'unknown field "pool"'),
        (b'[{"free": "x"}]', "the list[0]: a pool has"),
        (b'[{"free": "1Gi", "used": "1"}]', 'the list[0]: unknown field "used"'),
        (b'[{"free": "1Gi", "name": "a"}, {"free": "1Gi", "name": "a"}]', 'two pools named "a"'),
        (b'[{"free": "-1"}]', "the list[0]"),
        (b'{"pools": [], "policy": "fastest"}', 'policy "fastest" is not one of'),
        (b'{"classes": {"fast": 3}}', "classes.fast is not a list"),
    ],
)
def test_what_is_no_list_of_pools_is_refused_as_a_whole(text: bytes, problem: str) -> None:
    with pytest.raises(InvalidOutput) as caught:
        read_output(text)
    assert problem in caught.value.message


@pytest.mark.parametrize("source", [OpenEbsLvm(), OpenEbsZfs(), TopoLvm()], ids=lambda each: each.name)
def test_a_source_is_found_by_its_drivers_name(source: PoolSource) -> None:
    assert {type(source_of(driver)) for driver in source.drivers} == {type(source)}
    assert source_of("csi.example") is None


@pytest.mark.parametrize("source", [OpenEbsLvm(), OpenEbsZfs(), TopoLvm(), NodeTexts("k")], ids=lambda each: each.name)
@pytest.mark.parametrize("doc", [{}, {"metadata": []}, {"metadata": ODD}])
def test_no_source_breaks_on_what_a_stranger_wrote(source: PoolSource, doc: Doc) -> None:
    storage_class = class_of(source.drivers[0] if source.drivers else "csi.example", poolname="a")
    assert source.pools_of(storage_class, Published([doc], [doc])).by_node == {}
