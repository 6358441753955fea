"""What selects a pod, for spreading by default. Mirrors DefaultSelector."""

from __future__ import annotations

from typing import Any

from tonnage.objects.requirements import Requirement
from tonnage.objects.selectors import LabelSelector
from tonnage.scheduling.cluster.pod_matching import Workloads
from tonnage.testing.builders import pod


def owned(kind: str, name: str, *, version: str = "apps/v1", controller: bool = True, **labels: str) -> Any:
    owner = {"apiVersion": version, "kind": kind, "name": name, "uid": name, "controller": controller}
    return pod("web", labels=labels, metadata={"ownerReferences": [owner]})


def test_a_pod_that_nothing_selects_is_not_spread():
    workloads = Workloads()
    workloads.put("Service", "default/other", {"app": "db"})
    workloads.put("Service", "elsewhere/web", {"app": "web"})
    workloads.put("Service", "default/headless", {})  # without a selector: its endpoints are somebody else's affair
    assert workloads.selector_for(pod("web", labels={"app": "web"})) is None


def test_the_selectors_of_all_its_services_are_one():
    workloads = Workloads()
    workloads.put("Service", "default/web", {"app": "web"})
    workloads.put("Service", "default/front", {"tier": "front"})
    workloads.put("Service", "default/canary", {"app": "web", "track": "canary"})
    found = workloads.selector_for(pod("web", labels={"app": "web", "tier": "front", "x": "y"}))
    assert found == LabelSelector(match_labels={"app": "web", "tier": "front"})


def test_its_owner_adds_its_selector():
    workloads = Workloads()
    workloads.put("Service", "default/web", {"app": "web"})
    exists = Requirement(key="hash", operator="Exists")
    workloads.put("ReplicaSet", "default/web-1", LabelSelector(match_labels={"hash": "1"}, match_expressions=(exists,)))
    found = workloads.selector_for(owned("ReplicaSet", "web-1", app="web", hash="1"))
    assert found == LabelSelector(match_labels={"app": "web", "hash": "1"}, match_expressions=(exists,))


def test_only_the_controller_counts_and_only_of_kinds_that_spread():
    workloads = Workloads()
    for kind in ("ReplicaSet", "DaemonSet"):
        workloads.put(kind, "default/web", LabelSelector(match_labels={"app": "web"}))
    assert workloads.selector_for(owned("ReplicaSet", "web")) is not None
    assert workloads.selector_for(owned("ReplicaSet", "web", controller=False)) is None
    assert workloads.selector_for(owned("ReplicaSet", "web", version="example.com/v1")) is None
    assert workloads.selector_for(owned("ReplicaSet", "unknown")) is None
    assert workloads.selector_for(owned("DaemonSet", "web")) is None


def test_a_pod_whose_owner_and_services_disagree_is_spread_among_nobody():
    workloads = Workloads()
    workloads.put("Service", "default/web", {"app": "renamed"})
    workloads.put("StatefulSet", "default/web", LabelSelector(match_labels={"app": "web"}))
    found = workloads.selector_for(owned("StatefulSet", "web", app="renamed"))
    assert found is not None
    assert not found.matches({"app": "web"}) and not found.matches({"app": "renamed"})


def test_the_selector_of_a_replication_controller_wins():
    workloads = Workloads()
    workloads.put("Service", "default/web", {"app": "renamed"})
    workloads.put("ReplicationController", "default/web", LabelSelector(match_labels={"app": "web"}))
    found = workloads.selector_for(owned("ReplicationController", "web", version="v1", app="renamed"))
    assert found == LabelSelector(match_labels={"app": "web"})


def test_what_is_removed_selects_nothing_any_more_and_every_change_is_a_tick():
    workloads = Workloads()
    ticks = [workloads.tick]
    workloads.put("Service", "default/web", {"app": "web"})
    ticks.append(workloads.tick)
    workloads.put("ReplicaSet", "default/web", LabelSelector(match_labels={"app": "web"}))
    ticks.append(workloads.tick)
    workloads.put("Service", "default/web", None)
    ticks.append(workloads.tick)
    workloads.put("ReplicaSet", "default/web", None)
    ticks.append(workloads.tick)
    assert workloads.selector_for(owned("ReplicaSet", "web", app="web")) is None
    assert len(set(ticks)) == 5
    workloads.put("Service", "default/never-seen", None)
    workloads.put("ReplicaSet", "default/never-seen", None)
