"""Pods by uid, node and claim, and our own writes in front of a cache that lags behind."""

from __future__ import annotations

from typing import Any

from support.virtual_clock import VirtualClock
from tonnage.client.cache import Cache
from tonnage.node.context import PodIndex
from tonnage.objects.core_v1 import Pod
from tonnage.testing.storage_builders import pod_with


def made(name: str, *claims: str, version: int = 1, uid: str = "", phase: str = "Pending", **options: Any) -> Pod:
    metadata = {"resourceVersion": str(version), **({"uid": uid} if uid else {})}
    return pod_with(name, *claims, metadata=metadata, status={"phase": phase}, **options)


def indexed(*pods: Pod) -> tuple[Cache[Pod], PodIndex]:
    cache: Cache[Pod] = Cache(Pod)
    index = PodIndex(cache, frozenset({"node-1", "node-2"}), clock=VirtualClock())
    for each in pods:
        cache.put(each)
    return cache, index


def test_pods_of_other_nodes_are_none_of_ours():
    _, index = indexed(made("a", on="node-1"), made("b", on="elsewhere"), made("c"))
    assert [pod.name for pod in index.on_node("node-1")] == ["a"]
    assert index.pod("default-b") is None


def test_a_claim_leads_to_all_pods_that_mount_it_until_they_are_gone():
    cache, index = indexed(made("a", "data", on="node-1"), made("b", "data", "more", on="node-2"))
    assert sorted(index.with_claim("default/data")) == [("node-1", "default-a"), ("node-2", "default-b")]
    cache.remove("default/b")
    assert index.with_claim("default/data") == [("node-1", "default-a")]
    assert index.with_claim("default/more") == []


def test_a_namesake_is_another_pod():
    cache, index = indexed(made("db-0", on="node-1", uid="first"))
    cache.put(made("db-0", on="node-2", uid="second", version=2))
    assert index.pod("first") is None and list(index.on_node("node-1")) == []
    found = index.pod("second")
    assert found is not None and found.spec.node_name == "node-2"


def test_a_write_of_ours_is_seen_before_the_informer_tells_it():
    cache, index = indexed(made("a", on="node-1", version=1))
    index.note(made("a", on="node-1", version=3, phase="Running"))
    cache.put(made("a", on="node-1", version=2))
    found = index.pod("default-a")
    assert found is not None and found.status.phase == "Running"
    cache.put(made("a", on="node-1", version=4, phase="Failed"))
    found = index.pod("default-a")
    assert found is not None and found.status.phase == "Failed"


def test_a_write_that_the_informer_has_overtaken_is_old_news():
    _, index = indexed(made("a", on="node-1", version=5, phase="Failed"))
    index.note(made("a", on="node-1", version=3, phase="Running"))
    found = index.pod("default-a")
    assert found is not None and found.status.phase == "Failed"


def test_what_was_deleted_is_gone_whatever_we_wrote_last():
    cache, index = indexed(made("a", on="node-1", version=1))
    index.note(made("a", on="node-1", version=3))
    cache.remove("default/a")
    assert index.pod("default-a") is None


def test_addresses_are_taken_while_their_pod_is_there():
    here = pod_with("a", on="node-1", status={"podIP": "10.0.0.1"}, metadata={"resourceVersion": "1"})
    cache, index = indexed(here)
    assert "10.0.0.1" in index.ips
    cache.remove("default/a")
    assert index.ips == {}
