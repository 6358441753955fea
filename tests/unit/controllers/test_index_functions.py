"""Pods are found by the claims they mount and by the node they are bound to."""

from __future__ import annotations

from tonnage.client.cache import Cache, Indexer
from tonnage.controllers.controller_context import node_of_pod
from tonnage.objects.core_v1 import Pod
from tonnage.testing.storage_builders import pod_with


def test_pods_are_found_by_their_claims_as_they_come_change_and_go() -> None:
    cache: Cache[Pod] = Cache(Pod)
    cache.put(pod_with("old", "data", metadata={"resourceVersion": "1"}))
    found = Indexer(cache, Pod.claim_keys)
    cache.put(pod_with("p", "data", "logs", metadata={"resourceVersion": "2"}))
    assert [pod.name for pod in found("default/data")] == ["old", "p"]
    cache.put(pod_with("p", "logs", metadata={"resourceVersion": "3"}))
    assert [pod.name for pod in found("default/data")] == ["old"]
    cache.remove("default/old")
    assert found("default/data") == ()
    assert [pod.name for pod in found("default/logs")] == ["p"]


def test_pods_are_found_on_their_node_from_binding_to_deletion() -> None:
    pods: Cache[Pod] = Cache(Pod)
    pods.put(pod_with("early", on="n", metadata={"resourceVersion": "1"}))
    on_node = Indexer(pods, node_of_pod)
    pods.put(pod_with("late", metadata={"resourceVersion": "2"}))
    assert [pod.name for pod in on_node("n")] == ["early"]
    pods.put(pod_with("late", on="n", metadata={"resourceVersion": "3"}))
    assert [pod.name for pod in on_node("n")] == ["early", "late"]
    pods.remove("default/early")
    assert [pod.name for pod in on_node("n")] == ["late"]
    assert on_node("elsewhere") == ()
