"""Rows of volumes: their state by the laws of binding and rebuilding, where they are, and who uses them."""

from __future__ import annotations

from support.filled_cluster import FilledCluster
from support.virtual_clock import VirtualClock
from tonnage.dashboard.model.known_objects import Content, DriverContents
from tonnage.dashboard.wire import COLLECTIONS
from tonnage.driver import DRIVER_NAME
from tonnage.driver.node_pools import PoolId
from tonnage.objects.core_v1.persistent_volume import REBUILD_TARGET
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import (
    attachment,
    claim,
    csi_node,
    driver,
    pod_with,
    storage_class,
    volume,
)

GI = 1 << 30
ZONE = "topology.kubernetes.io/zone"


def cluster_of(*objects):
    cluster = FilledCluster(clock=VirtualClock())
    cluster.put(*objects)
    return cluster


def rows(cluster, collection="volumes"):
    return cluster.collections.of(COLLECTIONS[collection])


def test_a_claim_waits_is_made_and_is_bound():
    cluster = cluster_of(node("a"), storage_class(), claim("data", "20Gi"))
    row = rows(cluster)["default/data"]
    assert (row.state, row.node, row.bytes, row.driver) == ("waiting", "", 20 * GI, "csi.example")
    cluster.put(claim("data", "20Gi", selected_node="a"))
    assert (rows(cluster)["default/data"].state, rows(cluster)["default/data"].node) == ("making", "a")
    cluster.put(volume("pv", "20Gi", on="a", claim="default/data"))
    assert (rows(cluster)["default/data"].state, rows(cluster)["default/data"].volume) == ("making", "pv")
    assert "pv" not in rows(cluster)
    cluster.put(claim("data", "20Gi", selected_node="a", volume="pv"))
    assert (rows(cluster)["default/data"].state, rows(cluster)["default/data"].node) == ("bound", "a")


def test_a_claim_of_an_immediate_class_is_made_once_its_driver_is_named():
    asked = {"annotations": {"volume.kubernetes.io/storage-provisioner": "csi.example"}}
    cluster = cluster_of(storage_class(delayed=False), claim("data", metadata=asked))
    assert rows(cluster)["default/data"].state == "making"


def test_a_bound_claim_whose_volume_was_deleted_is_lost():
    cluster = cluster_of(claim("data", volume="pv"))
    assert (rows(cluster)["default/data"].state, rows(cluster)["default/data"].why) == (
        "lost",
        "its volume pv was deleted",
    )
    cluster.put(volume("pv", claim="other/data"))
    assert rows(cluster)["default/data"].why == "its volume pv belongs to other/data"
    assert rows(cluster)["pv"].state == "released"


def test_a_volume_without_a_claim_is_released_or_available():
    cluster = cluster_of(volume("old", claim="default/gone", phase="Released"), volume("free"))
    assert (rows(cluster)["old"].state, rows(cluster)["old"].why) == ("released", "its claim default/gone is gone")
    assert rows(cluster)["free"].state == "available"


def test_a_volume_of_a_claim_that_was_made_anew_is_left_behind():
    cluster = cluster_of(claim("data"), volume("pv", claim="default/data", claim_uid="an-older-one"))
    assert rows(cluster)["default/data"].state == "waiting"
    assert rows(cluster)["pv"].state == "released"


def rebuilding(*, affinity_on=None, attached=(), **annotations):
    told = {"annotations": annotations} if annotations else None
    return [
        node("a", unschedulable=True),
        node("b"),
        storage_class(),
        driver(rebuilding=True),
        volume("pv", "20Gi", on=affinity_on, claim="default/data"),
        claim("data", volume="pv", selected_node="b" if annotations else "a", metadata=told),
        *(attachment(f"att-{each}", "pv", each) for each in attached),
    ]


def test_a_volume_without_affinity_is_on_its_way_while_the_mark_equals_selected_node():
    row = rows(cluster_of(*rebuilding(attached=["a"], **{REBUILD_TARGET: "b"})))["default/data"]
    assert (row.state, row.node, row.target) == ("moving", "a", "b")


def test_a_mark_for_another_node_says_nothing():
    row = rows(cluster_of(*rebuilding(**{REBUILD_TARGET: "c"})))["default/data"]
    assert (row.state, row.node, row.target) == ("bound", "b", "")


def test_a_volume_that_has_arrived_is_where_its_affinity_says():
    row = rows(cluster_of(*rebuilding(affinity_on="b", **{REBUILD_TARGET: "b"})))["default/data"]
    assert (row.state, row.node, row.target) == ("bound", "b", "")


def test_a_volume_that_may_move_is_at_home_until_somebody_decides():
    row = rows(cluster_of(*rebuilding()))["default/data"]
    assert (row.state, row.node) == ("bound", "a")


def test_a_volume_that_may_move_is_where_it_is_attached_whatever_its_claim_says():
    row = rows(cluster_of(*rebuilding(attached=["a"], **{REBUILD_TARGET: "c"})))["default/data"]
    assert (row.state, row.node) == ("bound", "a")


def test_the_drivers_records_say_where_a_moving_volume_comes_from():
    objects = rebuilding(**{REBUILD_TARGET: "b"})
    objects[4] = volume("pv", "20Gi", claim="default/data", driver=DRIVER_NAME, handle="vol-1")
    cluster = cluster_of(*objects)
    contents = Content(PoolId("a", 1), 20 * GI, arriving=PoolId("b", 0))
    cluster.look_into(DriverContents(DRIVER_NAME, {"a": (100 * GI, 100 * GI), "b": (50 * GI,)}, {"vol-1": contents}))
    row = rows(cluster)["default/data"]
    assert (row.state, row.node, row.pool, row.target) == ("moving", "a", 1, "b")
    # a: 100 - 20 in pool 1.  b: 50 - 20 that are being copied.
    pools = {
        name: [(each.free, each.volumes, each.arriving) for each in rows(cluster, "nodes")[name].pools] for name in "ab"
    }
    assert pools["a"] == [(100 * GI, (), ()), (80 * GI, ("default/data",), ())]
    assert pools["b"] == [(30 * GI, (), ("default/data",))]


def test_a_refused_attachment_is_told_with_its_node():
    refused = attachment("att", "pv", "b", error="no pool has room")
    row = rows(cluster_of(*rebuilding(**{REBUILD_TARGET: "b"}), refused))["default/data"]
    assert (row.attached, row.attaching, row.attach_error) == ((), ("b",), "no pool has room")


def test_zones_are_told_of_a_volume_that_a_zone_reaches_though_it_has_one_node():
    affinity = {"key": ZONE, "operator": "In", "values": ["z1"]}
    cluster = cluster_of(node("a", labels={ZONE: "z1"}), volume("pv", affinity=affinity))
    assert (rows(cluster)["pv"].node, rows(cluster)["pv"].zones) == ("", ("z1",))


def test_a_volume_on_several_nodes_names_them_and_a_shared_one_says_so():
    both = volume("pv", on=["a", "b"], claim="default/data")
    shared = claim("data", volume="pv", modes=["ReadWriteMany"])
    row = rows(cluster_of(node("a"), node("b"), both, shared))["default/data"]
    assert (row.node, row.nodes, row.shared) == ("", ("a", "b"), True)


def test_pods_that_use_a_claim_are_named_but_for_those_that_have_ended():
    ended = pod_with("ended", "data", status={"phase": "Succeeded"})
    row = rows(cluster_of(claim("data"), pod_with("one", "data"), pod_with("two", "data"), ended))["default/data"]
    assert row.pods == ("default/one", "default/two")


def test_why_a_volume_cannot_be_made_is_told_until_it_is_made():
    cluster = cluster_of(node("a"), claim("data", selected_node="a"))
    cluster.model.cannot_make("default/data", "default-data", "no space left")
    cluster.settle()
    assert rows(cluster)["default/data"].error == "no space left"
    cluster.put(volume("pv", on="a", claim="default/data"), claim("data", volume="pv"))
    assert rows(cluster)["default/data"].error == ""


# -- nodes ---------------------------------------------------------------------------------------------------------


def test_a_node_that_volumes_name_and_that_is_gone_is_shown_until_they_are():
    cluster = cluster_of(node("a"), volume("pv", on="a", claim="default/data"), claim("data", volume="pv"))
    cluster.remove(node("a"))
    assert rows(cluster, "nodes")["a"].gone
    assert rows(cluster)["default/data"].why == "its node a is gone"
    cluster.remove(claim("data"), volume("pv"))
    assert "a" not in rows(cluster, "nodes")


def test_a_node_that_a_bound_claim_was_once_made_for_is_not_missed():
    cluster = cluster_of(volume("pv", claim="default/data"), claim("data", volume="pv", selected_node="long-gone"))
    assert not rows(cluster, "nodes")


def test_slots_count_different_volumes_that_are_mounted_or_attached():
    """Two pods share one claim: 1. A claim that is being made: 2. Attached, and its pod gone: 3. Two claims for one
    handle: still 3. An attachment of what is mounted already: still 3."""
    cluster = cluster_of(
        node("a"),
        storage_class(),
        csi_node("a", {"csi.example": 4, "other.example": None}),
        volume("pv-1", on="a", claim="default/one"),
        volume("pv-2", on="a", claim="default/gone"),
        volume("pv-3", on="a", claim="default/same", handle="pv-1"),
        claim("one", volume="pv-1"),
        claim("same", volume="pv-3"),
        claim("new", selected_node="a"),
        pod_with("p1", "one", on="a"),
        pod_with("p2", "one", "new", "same", on="a"),
        pod_with("ended", "other", on="a", status={"phase": "Failed"}),
        attachment("att-1", "pv-1", "a"),
        attachment("att-2", "pv-2", "a"),
    )
    row = rows(cluster, "nodes")["a"]
    assert [(each.driver, each.used, each.limit) for each in row.slots] == [
        ("csi.example", 3, 4),
        ("other.example", 0, None),
    ]
    assert row.pods == 2


def test_a_node_says_its_zone_why_it_is_not_ready_and_which_taints_keep_pods_away():
    cluster = cluster_of(node("a", labels={ZONE: "z1"}, taints=["dedicated=db:NoSchedule", "soft:PreferNoSchedule"]))
    row = rows(cluster, "nodes")["a"]
    assert (row.zone, row.ready, row.taints) == ("z1", True, ("dedicated=db:NoSchedule",))
    cluster.put(node("a", taints=["node.kubernetes.io/not-ready:NoSchedule"], unschedulable=True))
    row = rows(cluster, "nodes")["a"]
    assert (row.ready, row.cordoned, row.reason) == (False, True, "it has the taint node.kubernetes.io/not-ready")


def test_pools_tell_volumes_snapshots_and_what_nobody_knows():
    cluster = cluster_of(node("a"), claim("data"), volume("pv", driver=DRIVER_NAME, handle="vol-1"))
    contents = DriverContents(
        DRIVER_NAME,
        {"a": (100 * GI,)},
        {
            "vol-1": Content(PoolId("a", 0), 20 * GI, "somebody's"),
            "vol-2": Content(PoolId("a", 0), 10 * GI, "pvc-default-data"),
            "vol-3": Content(PoolId("a", 0), 5 * GI, "pvc-gone"),
        },
        {PoolId("a", 0): 7 * GI},
        {PoolId("a", 0): 3 * GI},
    )
    cluster.look_into(contents)
    # 100 - 20 - 10 - 5 - 7 - 3; of those 5 + 7 + 3 are nobody's rows.
    (pool,) = rows(cluster, "nodes")["a"].pools
    assert (pool.free, pool.other, pool.snapshots, pool.unknown) == (55 * GI, 15 * GI, 7 * GI, 3 * GI)
    assert pool.volumes == ("default/data", "pv")
    assert (rows(cluster)["default/data"].node, rows(cluster)["default/data"].pool) == ("a", 0)


def test_nodes_that_are_there_and_do_not_reach_a_volume_are_not_told_as_if_they_did():
    asked = [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": ["a", "b", "left"]},
        {"key": "disk", "operator": "In", "values": ["ssd"]},
    ]
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": asked}]}}}
    cluster = cluster_of(node("a"), node("b", labels={"disk": "ssd"}), volume("pv", spec=affinity))
    assert (rows(cluster)["pv"].node, rows(cluster)["pv"].nodes) == ("b", ())
    cluster.put(node("b"))
    row = rows(cluster)["pv"]
    assert (row.node, row.nodes, row.why) == ("left", (), "its node left is gone")
    cluster.put(node("left"))
    row = rows(cluster)["pv"]
    assert (row.node, row.nodes, row.why) == ("", (), "no existing node reaches it")


def test_a_volume_without_a_claim_is_where_its_driver_has_it():
    cluster = cluster_of(node("a"), node("b"), volume("pv", on="b", driver=DRIVER_NAME, handle="vol-1"))
    content = Content(PoolId("a", 1), GI)
    cluster.look_into(DriverContents(DRIVER_NAME, {"a": (9 * GI, 9 * GI), "b": (9 * GI,)}, {"vol-1": content}))
    assert (rows(cluster)["pv"].node, rows(cluster)["pv"].pool) == ("a", 1)
    assert rows(cluster, "nodes")["a"].pools[1].volumes == ("pv",)
