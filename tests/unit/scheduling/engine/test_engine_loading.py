"""An engine that is loaded with a heap of objects, and told of changes after that."""

from __future__ import annotations

import random
from collections.abc import Iterable

from support.virtual_clock import VirtualClock
from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import ConfigMap, Namespace, Pod, ReplicationController, Service
from tonnage.objects.meta import Object
from tonnage.objects.small_groups import PodDisruptionBudget
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.configuration import default_configuration
from tonnage.scheduling.engine.attempt import EngineSettings
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.preemption.ranked_residents import DisruptionBudgets
from tonnage.scheduling.queue.queues import QueueName
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import attachment, capacity, claim, csi_node, driver, storage_class, volume


def loaded(objects: Iterable[Object]) -> Engine:
    settings = EngineSettings(implies_namespaces=True)
    engine = Engine(default_configuration().profiles, clock=VirtualClock(), rng=random.Random(1), settings=settings)
    engine.load(objects)
    return engine


def test_pods_find_their_nodes_in_any_order():
    engine = loaded([pod("a", on="n2", cpu="1"), node("n2"), node("n1"), pod("b")])
    assert list(engine.cluster.row_of) == ["n1", "n2"]
    assert [info.key for info in engine.cluster.pods()] == ["default/a"]
    assert [each.info.key for each in engine.queue.pods_in(QueueName.ACTIVE)] == ["default/b"]


def test_the_order_of_objects_does_not_matter():
    objects = [node("n1"), node("n2"), node("n3"), pod("a", on="n3")]
    assert loaded(objects).cluster.row_of == loaded(reversed(objects)).cluster.row_of


def test_a_pod_that_has_ended_uses_nothing():
    engine = loaded([node("n1"), pod("a", on="n1", status={"phase": "Succeeded"})])
    assert list(engine.cluster.pods()) == []


def test_pods_that_are_expected_somewhere_are_nominated():
    expected = pod("a", priority=5, status={"nominatedNodeName": "n1"})
    ended = pod("b", status={"nominatedNodeName": "n1", "phase": "Failed"})
    running = pod("c", on="n1", status={"nominatedNodeName": "n1"})
    engine = loaded([node("n1"), expected, ended, running])
    ahead = engine.queue.nominator.ahead_of(PodInfo(pod("new")))
    assert [(name, info.key) for name, info in ahead] == [("n1", "default/a")]


def test_a_namespace_has_its_labels_or_at_least_its_name():
    shop = convert(Namespace, {"kind": "Namespace", "metadata": {"name": "shop", "labels": {"team": "a"}}})
    engine = loaded([pod("a", namespace="shop"), pod("b", namespace="lab"), shop])
    assert engine.cluster.namespaces == {"shop": {"team": "a"}, "lab": {"kubernetes.io/metadata.name": "lab"}}


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
    selector = loaded([service, owner]).cluster.workloads.selector_for(member)
    assert selector is not None
    assert selector.match_labels == {"a": "1", "b": "2"}


def test_disruption_budgets_come_and_go():
    budget = convert(PodDisruptionBudget, {"kind": "PodDisruptionBudget", "metadata": {"name": "b"}})
    engine = loaded([budget])
    assert len(engine.cluster.index(DisruptionBudgets)) == 1
    engine.delete(budget)
    assert len(engine.cluster.index(DisruptionBudgets)) == 0


def test_kinds_that_are_not_read_are_passed_over():
    settings = convert(ConfigMap, {"kind": "ConfigMap", "metadata": {"name": "c"}})
    engine = loaded([settings])
    engine.delete(settings)
    assert engine.cluster.count == 0


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
    engine = loaded(storage)
    held = engine.cluster.storage
    assert [list(held.classes), list(held.drivers), list(held.csi_nodes)] == [["s"], ["d"], ["n1"]]
    assert [list(held.capacities), list(held.attachments)] == [["kube-system/k"], ["t"]]
    assert (held.claims.get("default/c"), held.volumes.get("v")) == (storage[0], storage[1])
    for each in storage:
        engine.delete(each)
    assert not any((held.classes, held.drivers, held.csi_nodes, held.capacities, held.attachments))
    assert [*held.claims, *held.volumes] == []


def test_a_pod_that_is_bound_later_is_no_longer_nominated():
    waiting = pod("a", status={"nominatedNodeName": "n1"})
    engine = loaded([node("n1"), waiting])
    engine.update(waiting, pod("a", on="n1"))
    assert len(engine.queue.nominator) == 0
    assert [info.key for info in engine.cluster.pods()] == ["default/a"]


def test_what_goes_leaves_nothing_behind():
    shop = convert(Namespace, {"kind": "Namespace", "metadata": {"name": "shop"}})
    objects = [node("n1"), pod("a", on="n1"), pod("b", status={"nominatedNodeName": "n1"}), shop]
    engine = loaded(objects)
    for each in objects:
        engine.delete(each)
    assert (engine.cluster.count, list(engine.cluster.pods()), engine.pop()) == (0, [], None)
    assert len(engine.queue.nominator) == 0
    assert "shop" not in engine.cluster.namespaces
