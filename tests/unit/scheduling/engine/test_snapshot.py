"""A cluster from a heap of objects."""

from __future__ import annotations

from datetime import UTC, datetime

from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import Namespace, Pod, ReplicationController, Service
from tonnage.objects.policy_v1 import PodDisruptionBudget
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.engine.snapshot import clock_of, snapshot_of
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import attachment, capacity, claim, csi_node, driver, storage_class, volume


def test_pods_find_their_nodes_in_any_order():
    snapshot = snapshot_of([pod("a", on="n2", cpu="1"), node("n2"), node("n1"), pod("b")])
    assert snapshot.cluster.names() == ["n1", "n2"]
    assert [info.key for info in snapshot.cluster.pods()] == ["default/a"]
    assert sorted(snapshot.pods) == ["default/a", "default/b"]


def test_the_order_of_objects_does_not_matter():
    objects = [node("n1"), node("n2"), node("n3"), pod("a", on="n3")]
    assert snapshot_of(objects).cluster.row_of == snapshot_of(reversed(objects)).cluster.row_of


def test_a_pod_that_has_ended_uses_nothing():
    snapshot = snapshot_of([node("n1"), pod("a", on="n1", status={"phase": "Succeeded"})])
    assert list(snapshot.cluster.pods()) == []
    assert list(snapshot.pods) == ["default/a"]


def test_pods_that_are_expected_somewhere_are_nominated():
    expected = pod("a", priority=5, status={"nominatedNodeName": "n1"})
    ended = pod("b", status={"nominatedNodeName": "n1", "phase": "Failed"})
    running = pod("c", on="n1", status={"nominatedNodeName": "n1"})
    snapshot = snapshot_of([node("n1"), expected, ended, running])
    ahead = snapshot.nominator.ahead_of(PodInfo(pod("new")))
    assert [(name, info.key) for name, info in ahead] == [("n1", "default/a")]


def test_a_namespace_has_its_labels_or_at_least_its_name():
    shop = convert(Namespace, {"kind": "Namespace", "metadata": {"name": "shop", "labels": {"team": "a"}}})
    snapshot = snapshot_of([pod("a", namespace="shop"), pod("b", namespace="lab"), shop])
    assert snapshot.cluster.namespaces == {"shop": {"team": "a"}, "lab": {"kubernetes.io/metadata.name": "lab"}}


def test_services_and_owners_select_their_pods():
    service = convert(
        Service,
        {"kind": "Service", "metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": {"a": "1"}}},
    )
    owner = convert(
        ReplicationController,
        {
            "kind": "ReplicationController",
            "metadata": {"name": "rc", "namespace": "default"},
            "spec": {"selector": {"b": "2"}},
        },
    )
    reference = {"apiVersion": "v1", "kind": "ReplicationController", "name": "rc", "uid": "u", "controller": True}
    member: Pod = pod("p", labels={"a": "1", "b": "2"}, metadata={"ownerReferences": [reference]})
    selector = snapshot_of([service, owner]).cluster.workloads.selector_for(member)
    assert selector is not None
    assert selector.match_labels == {"a": "1", "b": "2"}


def test_kinds_that_are_not_looked_at_are_passed_over():
    budget = convert(PodDisruptionBudget, {"kind": "PodDisruptionBudget", "metadata": {"name": "b"}})
    snapshot = snapshot_of([budget])
    snapshot.remove(budget)
    assert snapshot.cluster.count == 0


def test_storage_is_loaded_and_goes_again():
    storage = [
        claim("c"),
        volume("v"),
        storage_class("s"),
        driver("d"),
        csi_node("n1", {}),
        capacity("s", "n1", name="k"),
        attachment("t", "v", "n1"),
    ]
    snapshot = snapshot_of(storage)
    held = snapshot.cluster.storage
    assert [list(held.classes), list(held.drivers), list(held.csi_nodes)] == [["s"], ["d"], ["n1"]]
    assert [list(held.capacities), list(held.attachments)] == [["kube-system/k"], ["t"]]
    assert (held.claims.get("default/c"), held.volumes.get("v")) == (storage[0], storage[1])
    for each in storage:
        snapshot.remove(each)
    assert not any((held.classes, held.drivers, held.csi_nodes, held.capacities, held.attachments))
    assert [*held.claims, *held.volumes] == []


def test_a_pod_that_is_bound_later_is_no_longer_nominated():
    snapshot = snapshot_of([node("n1"), pod("a", status={"nominatedNodeName": "n1"})])
    snapshot.put(pod("a", on="n1"))
    assert len(snapshot.nominator) == 0
    assert [info.key for info in snapshot.cluster.pods()] == ["default/a"]


def test_what_goes_leaves_nothing_behind():
    shop = convert(Namespace, {"kind": "Namespace", "metadata": {"name": "shop"}})
    objects = [node("n1"), pod("a", on="n1"), pod("b", status={"nominatedNodeName": "n1"}), shop]
    snapshot = snapshot_of(objects)
    for each in objects:
        snapshot.remove(each)
    assert (snapshot.cluster.count, list(snapshot.cluster.pods()), snapshot.pods) == (0, [], {})
    assert len(snapshot.nominator) == 0
    assert "shop" not in snapshot.cluster.namespaces


def test_the_clock_of_objects_stands_at_the_last_time_they_tell():
    first = pod("a", metadata={"creationTimestamp": "2026-02-01T00:00:00Z"})
    second = pod("b", status={"startTime": "2026-02-03T00:00:00Z"})
    assert clock_of([first, second, node("n1")]).now() == datetime(2026, 2, 3, tzinfo=UTC)
    assert clock_of([node("n1")]).now() == datetime(2000, 1, 1, tzinfo=UTC)
