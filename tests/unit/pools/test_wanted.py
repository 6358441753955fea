"""Which annotations objects and classes are to have."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from tonnage.client.cache import Cache
from tonnage.client.discovered_kinds import document_class
from tonnage.objects.codec import convert
from tonnage.objects.resources import BY_PLURAL
from tonnage.objects.selectors import LabelSelector
from tonnage.objects.storage_v1 import (
    AVAILABLE_CAPACITIES,
    FREE_VOLUMES,
    POOL_IDS,
    POOLS_CHECKED_AT,
    POOLS_OBSERVED_AT,
    POOLS_SOURCE,
    POOLS_STALE_SINCE,
    SIZE_RULES,
    CSINode,
    CSIStorageCapacity,
    StorageClass,
)
from tonnage.pools.class_pools import ClassPools, NodePools, Pool, PoolSource
from tonnage.pools.created_objects import Watched
from tonnage.pools.settings import InvalidKeepFree, KeepFree, PoolsSettings
from tonnage.pools.sources.nodes import NodeTexts
from tonnage.pools.sources.openebs import OpenEbsLvm
from tonnage.pools.wanted import MOST_LISTED, groups_of, ours_of, wanted_of, wanted_of_class
from tonnage.testing.storage_builders import storage_class

GI = 1 << 30
LVM_SIZES = "step=1Mi,step=1Gi,above=1Gi,extent=4Mi"
ZFS_SIZES = "step=1Mi,step=1Gi,above=1Gi,strict"
AT = datetime(2026, 9, 1, 7, 10, 30, 500_000, tzinfo=UTC)


def capacity(annotations: dict[str, str] | None = None, pools: list[str] | None = None) -> CSIStorageCapacity:
    return convert(
        CSIStorageCapacity,
        {
            "kind": "CSIStorageCapacity",
            "metadata": {"name": "csisc-1", "namespace": "openebs", "annotations": annotations or {}},
            "storageClassName": "fast",
            "capacity": "100Gi",
            **({"availableCapacities": pools} if pools else {}),
        },
    )


def node_pools(*gibs: float) -> NodePools:
    return NodePools(tuple(Pool(str(number), int(each * GI)) for number, each in enumerate(gibs)), AT)


NOW = AT + timedelta(minutes=7)
CHECKED = {POOLS_CHECKED_AT: "2026-09-01T07:17:30Z"}


def wanted(
    found: NodePools | None,
    to: CSIStorageCapacity | None = None,
    keep: str = "0",
    *,
    stale_since: datetime | None = None,
    now: datetime = NOW,
) -> dict[str, str]:
    keep_free = KeepFree.parse(keep)
    return wanted_of(
        to or capacity(),
        found,
        source="openebs-lvm",
        keep_free=keep_free,
        now=now,
        check_every_s=150,
        stale_since=stale_since,
    )


def test_pools_are_listed_largest_first_with_their_source_and_time() -> None:
    assert wanted(node_pools(20, 100)) == {
        AVAILABLE_CAPACITIES: "100Gi,20Gi",
        POOL_IDS: "1,0",
        POOLS_SOURCE: "openebs-lvm",
        POOLS_OBSERVED_AT: "2026-09-01T07:10:30Z",
        **CHECKED,
    }


def test_pools_that_cannot_be_told_apart_have_no_ids_and_no_id_has_a_comma() -> None:
    assert POOL_IDS not in wanted(NodePools((Pool("a", 1), Pool("a", 2))))
    assert wanted(NodePools((Pool("a, b", 1),)))[POOL_IDS] == "a_b"
    assert POOL_IDS not in wanted(NodePools(()))


def test_how_many_volumes_are_free_is_told_if_the_source_tells_it() -> None:
    assert FREE_VOLUMES not in wanted(node_pools(20))
    told = wanted(replace(node_pools(20), free_volumes=3))
    assert told[FREE_VOLUMES] == "3"
    has_it = capacity({**told, FREE_VOLUMES: "4"})
    assert wanted(replace(node_pools(20), free_volumes=3), has_it)[FREE_VOLUMES] == "3"
    assert set(ours_of(has_it)) >= {FREE_VOLUMES}


def test_that_the_source_was_looked_at_is_written_now_and_then_and_with_every_other_change() -> None:
    first = wanted(node_pools(20))
    has_it = capacity(first)
    assert wanted(node_pools(20), has_it, now=NOW + timedelta(seconds=149)) == first
    later = wanted(node_pools(20), has_it, now=NOW + timedelta(seconds=151))
    assert later[POOLS_CHECKED_AT] == "2026-09-01T07:20:01Z"
    assert later[AVAILABLE_CAPACITIES] == "20Gi"
    assert wanted(node_pools(19), has_it, now=NOW + timedelta(seconds=9))[POOLS_CHECKED_AT] == "2026-09-01T07:17:39Z"
    # What is ahead, or no time, is not believed.
    for told in ("2027-01-01T00:00:00Z", "soon", ""):
        assert wanted(node_pools(20), capacity({**first, POOLS_CHECKED_AT: told})) == first


def test_nobody_says_of_a_silent_source_that_it_says_the_same_still() -> None:
    first = wanted(node_pools(20))
    silent = wanted(node_pools(20), capacity(first), stale_since=AT, now=NOW + timedelta(hours=1))
    assert silent[POOLS_CHECKED_AT] == first[POOLS_CHECKED_AT]
    assert POOLS_CHECKED_AT not in wanted(node_pools(20), stale_since=AT)
    back = wanted(node_pools(20), capacity(silent), now=NOW + timedelta(hours=2))
    assert back[POOLS_CHECKED_AT] == "2026-09-01T09:17:30Z"
    assert POOLS_STALE_SINCE not in back


def test_a_node_without_a_pool_has_no_room() -> None:
    found = wanted(NodePools(()))
    assert found == {AVAILABLE_CAPACITIES: "0", POOLS_SOURCE: "openebs-lvm", **CHECKED}


def test_a_silent_source_is_marked() -> None:
    found = wanted(node_pools(1), stale_since=AT)
    assert found[POOLS_STALE_SINCE] == "2026-09-01T07:10:30Z"


def test_what_is_not_known_is_not_written() -> None:
    assert wanted(None) == {}


def test_an_object_that_lists_pools_itself_needs_none() -> None:
    assert wanted(node_pools(1), capacity(pools=["1Gi"])) == {}


def test_pools_that_a_provisioner_annotated_are_left_alone_and_are_not_ours() -> None:
    theirs = capacity({AVAILABLE_CAPACITIES: "7Gi"})
    assert wanted(node_pools(1), theirs) == {}
    assert ours_of(theirs) == {}
    mine = capacity({AVAILABLE_CAPACITIES: "7Gi", POOLS_SOURCE: "openebs-lvm", "other": "x"})
    assert ours_of(mine) == {AVAILABLE_CAPACITIES: "7Gi", POOLS_SOURCE: "openebs-lvm"}


def test_of_very_many_pools_the_largest_are_listed() -> None:
    found = wanted(NodePools(tuple(Pool(str(n), n) for n in range(MOST_LISTED + 5))))
    assert len(found[AVAILABLE_CAPACITIES].split(",")) == MOST_LISTED
    assert found[AVAILABLE_CAPACITIES].startswith(f"{MOST_LISTED + 4},")


@pytest.mark.parametrize(("keep", "left"), [("0", "100Gi,1Gi"), ("1Gi", "99Gi,0"), ("2%", "98Gi,1052266987")])
def test_something_of_each_pool_may_be_kept_free(keep: str, left: str) -> None:
    found = wanted(node_pools(100, 1), keep=keep)
    # 2% of 1 Gi is 21474836.48 bytes, kept as 21474837.
    assert found[AVAILABLE_CAPACITIES] == left


@pytest.mark.parametrize("text", ["", "much", "-1Gi", "101%", "-1%", "%", "nan%"])
def test_what_is_no_part_of_a_pool_is_refused(text: str) -> None:
    with pytest.raises(InvalidKeepFree):
        KeepFree.parse(text)


def selector(**labels: str) -> LabelSelector:
    return LabelSelector(match_labels=labels)


class Nodes:
    """Nodes by name, and which of them a topology selects."""

    def __init__(self) -> None:
        self._versions = count(1)
        self._kind = document_class(BY_PLURAL["", "nodes"])
        self.cache = Cache(self._kind)
        others: tuple[Any, ...] = (Cache(CSIStorageCapacity), Cache(StorageClass), self.cache, Cache(CSINode), ())
        self._watched = Watched(*others)

    def put(self, name: str, labels: dict[str, str]) -> None:
        metadata = {"name": name, "labels": labels, "resourceVersion": str(next(self._versions))}
        self.cache.put(convert(self._kind, {"apiVersion": "v1", "kind": "Node", "metadata": metadata}))

    def selected(self, topology: LabelSelector | None) -> list[str]:
        return self._watched.reached(topology)


def test_nodes_are_found_by_their_labels_as_they_are_now() -> None:
    nodes = Nodes()
    nodes.put("node-1", {"host": "a", "zone": "x"})
    nodes.put("node-2", {"host": "b", "zone": "x"})
    assert nodes.selected(selector(host="a")) == ["node-1"]
    assert nodes.selected(selector(zone="x")) == ["node-1", "node-2"]
    assert nodes.selected(selector(zone="x", host="b")) == ["node-2"]
    assert nodes.selected(selector()) == ["node-1", "node-2"]
    assert nodes.selected(None) == []
    nodes.put("node-1", {"host": "c"})
    nodes.cache.remove("node-2")
    nodes.cache.remove("node-3")
    assert nodes.selected(selector(host="a")) == []
    assert nodes.selected(selector(zone="x")) == []
    assert nodes.selected(selector(host="c")) == ["node-1"]


def test_a_topology_of_expressions_is_read_too() -> None:
    nodes = Nodes()
    nodes.put("node-1", {"host": "a"})
    expression = {"key": "host", "operator": "In", "values": ["a"]}
    assert nodes.selected(convert(LabelSelector, {"matchExpressions": [expression]})) == ["node-1"]
    nonsense = {"key": "host", "operator": "Near", "values": ["a"]}
    assert nodes.selected(convert(LabelSelector, {"matchExpressions": [nonsense]})) == []


def on(node: str, *disks: str) -> ClassPools:
    return ClassPools({node: NodePools(tuple(Pool(disk, 1) for disk in disks))})


@pytest.mark.parametrize(
    ("source", "provisioner", "rules"),
    [
        (OpenEbsLvm(), "local.csi.openebs.io", LVM_SIZES),
        (OpenEbsLvm(), "pools.tonnage.dev", LVM_SIZES),  # --driver names one that does as OpenEBS LVM
        (NodeTexts("key", drivers=("local.csi.openebs.io", "zfs.csi.openebs.io")), "local.csi.openebs.io", LVM_SIZES),
        (NodeTexts("key", drivers=("local.csi.openebs.io", "zfs.csi.openebs.io")), "zfs.csi.openebs.io", ZFS_SIZES),
        (NodeTexts("key", drivers=("local.csi.openebs.io", "csi.example.com")), "csi.example.com", None),
    ],
)
def test_a_class_follows_the_sizes_of_its_own_driver_or_of_the_one_that_the_source_is_for(
    source: PoolSource, provisioner: str, rules: str | None
) -> None:
    settings = PoolsSettings(drivers=(provisioner, *source.drivers))
    of_class = storage_class(provisioner=provisioner)
    told = wanted_of_class(of_class, ClassPools(), settings, source=source, group="")
    assert told == ({SIZE_RULES: rules} if rules else {})
    assert wanted_of_class(of_class, ClassPools(), replace(settings, sets_sizes=False), source=source, group="") == {}


def test_only_classes_with_exactly_the_same_disks_are_a_group() -> None:
    found = {
        "a": on("n", "1", "2"),
        "b": on("n", "2", "3"),
        "c": on("n", "3"),
        "d": on("n", "2", "1"),
        "e": on("m", "3"),
        "f": on("n"),
        "g": on("n"),
    }
    plain = {name: storage_class(name) for name in found}
    assert groups_of(plain, found, []) == {"a": "shared-a", "d": "shared-a"}
    assert groups_of({}, {}, []) == {}


def test_a_name_that_classes_with_other_disks_have_too_is_not_kept() -> None:
    found = {"a": on("n", "1"), "b": on("n", "1"), "c": on("n", "2"), "d": on("n", "2"), "e": on("n", "1", "2")}
    wide = {name: storage_class(name, group="all") for name in found}
    expected = {"a": "shared-a", "b": "shared-a", "c": "shared-c", "d": "shared-c"}
    assert groups_of(wide, found, []) == expected


def test_a_group_is_named_after_its_first_class_or_as_one_of_them_says_already() -> None:
    found = {"a": on("n", "1"), "b": on("n", "1")}
    plain = {name: storage_class(name) for name in "ab"}
    assert groups_of(plain, found, []) == {"a": "shared-a", "b": "shared-a"}
    named = {"a": storage_class("a"), "b": storage_class("b", group="disks")}
    assert groups_of(named, found, []) == {"a": "disks", "b": "disks"}
    unlike = {"a": storage_class("a", group="one"), "b": storage_class("b", group="two")}
    problems: list[str] = []
    assert groups_of(unlike, found, problems) == {}
    assert problems == ["StorageClasses a, b draw from the same disks and are in different capacity groups: one, two"]
