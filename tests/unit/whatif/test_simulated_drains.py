"""Drains on virtual time: who is left alone, in which order a StatefulSet comes back, where freed volumes are."""

from __future__ import annotations

from typing import Any

from tonnage.gates import Gates
from tonnage.objects import codec
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Object
from tonnage.objects.storage_v1 import VolumeAttachment
from tonnage.scheduling.configuration.configuration import default_configuration
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import attachment, capacity, claim, driver, pod_with, storage_class, volume
from tonnage.whatif.simulate.world import World
from tonnage.whatif.simulate.world_state import Watcher
from tonnage.whatif.sources import ClusterState, clock_of

OWNER = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "set", "controller": True}
RUNNING = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def world_of(*objects: Any) -> World:
    profiles = default_configuration(gates=Gates()).profiles
    typed: list[Object] = [codec.decode_doc(each) if isinstance(each, dict) else each for each in objects]
    return World(ClusterState(typed, "the test", clock_of(typed)), profiles, Watcher())


def stateful_set(policy: str) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "default", "uid": "set"},
        "spec": {
            "replicas": 2,
            "podManagementPolicy": policy,
            "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": []}},
        },
    }


def member(name: str, cpu: str) -> Pod:
    return pod(name, cpu=cpu, on="a", status=RUNNING, metadata={"ownerReferences": [OWNER]})


def test_an_ordered_set_makes_no_pod_while_one_before_it_waits():
    # db-0 asks for 3 of the 2 cpus that b has, so it waits, and db-1 is not even made.
    world = world_of(
        node("a"), node("b", cpu="2"), stateful_set("OrderedReady"), member("db-0", "3"), member("db-1", "1")
    )
    world.nodes.drain("a")
    world.run_until(60.0)
    assert [each.key for each in world.pods()] == ["default/db-0"]
    assert world.controllers.waits_for(member("db-1", "1")) == "default/db-0"
    world.put(node("c", cpu="4"))
    world.run_until(120.0)
    assert {each.name: each.status.phase for each in world.pods()} == {"db-0": "Running", "db-1": "Running"}


def test_a_parallel_set_makes_all_of_its_pods_at_once():
    world = world_of(node("a"), node("b", cpu="2"), stateful_set("Parallel"), member("db-0", "3"), member("db-1", "1"))
    world.nodes.drain("a")
    world.run_until(60.0)
    assert {each.name: each.spec.node_name for each in world.pods()} == {"db-0": "", "db-1": "b"}


def test_a_drain_leaves_static_pods_and_those_on_their_way_out_alone():
    static = pod("etcd-a", on="a", status=RUNNING, metadata={"annotations": {"kubernetes.io/config.mirror": "x"}})
    node_owned = {"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "node-a", "controller": True}
    proxy = pod("proxy-a", on="a", status=RUNNING, metadata={"ownerReferences": [node_owned]})
    going = pod("going", on="a", status=RUNNING, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    done = pod("done", on="a", status={"phase": "Succeeded"})
    world = world_of(node("a"), node("b"), static, proxy, going, done)
    world.nodes.drain("a")
    world.run_until(60.0)
    still_there = {each.name: each.spec.node_name for each in world.pods()}
    assert still_there == dict.fromkeys(("etcd-a", "proxy-a", "done"), "a"), "the other ended by itself"


def test_a_volume_that_was_freed_before_is_still_on_the_node_that_was_selected_for_it():
    world = world_of(
        storage_class(),
        driver(rebuilding=True),
        node("a", unschedulable=True),
        node("b"),
        capacity("fast", "a", "50Gi", pools=["50Gi"]),
        capacity("fast", "b", "100Gi", pools=["100Gi"]),
        claim("data", "50Gi", volume="pv", selected_node="a"),
        volume("pv", "50Gi", claim="default/data"),
        pod_with("db-0", "data", on="a", status=RUNNING, metadata={"ownerReferences": [OWNER]}),
    )
    world.nodes.drain("a")
    world.run_until(600.0)
    assert [each.spec.node_name for each in world.pods()] == ["b"]
    assert [each[1:] for each in world.storage.counts.rebuilt] == [("pv", "a", "b", 50 << 30)]


def test_attachments_go_with_the_pods_and_a_volume_that_moved_twice_is_where_it_went_last():
    """From a to b, then b is drained as well: a, which is back, is no home any more, and has no room left."""
    owned = {"ownerReferences": [OWNER]}
    db = pod_with("db-0", "data", on="a", status=RUNNING, metadata=owned)
    rooms = [capacity("fast", name, free) for name, free in (("a", "0"), ("b", "20Gi"), ("c", "20Gi"))]
    world = world_of(
        *map(node, "abc"), stateful_set("Parallel"), storage_class(), driver(rebuilding=True), *rooms, db,
        claim("data", "20Gi", volume="pv", selected_node="a"), volume("pv", "20Gi", on="a", claim="default/data"),
        attachment("va", "pv", "a"),
    )  # fmt: skip
    events = world.nodes
    events.drain("a")
    world.run_until(600.0)
    (first,) = {each.spec.node_name for each in world.pods() if each.name == "db-0"}
    assert first in ("b", "c") and world.all(VolumeAttachment) == []
    events.uncordon("a")
    world.put(capacity("fast", "a", "5Gi"))
    events.drain(first)
    world.run_until(1200.0)
    assert {each.spec.node_name for each in world.pods() if each.name == "db-0"} == {"b", "c"} - {first}


def test_where_a_freed_volume_is_attached_counts_more_than_a_stale_selected_node():
    world = world_of(
        node("a", unschedulable=True), node("b"), storage_class(), driver(rebuilding=True),
        capacity("fast", "a", "5Gi"), capacity("fast", "b", "5Gi"), volume("pv", "20Gi", claim="default/data"),
        claim("data", "20Gi", volume="pv", selected_node="b"), attachment("va", "pv", "a"),
    )  # fmt: skip
    assert [each.name for each in world.nodes.volumes_on("a")] == ["pv"]
    assert world.nodes.volumes_on("b") == []
