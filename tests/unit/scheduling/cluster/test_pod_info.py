"""A pod as decisions see it: what is derived, and who counts as equal."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.testing.builders import info, pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

BASE: dict[str, Any] = {
    "cpu": "100m",
    "memory": "1Gi",
    "node_selector": {"disk": "ssd"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "host_ports": [80],
}


def terms(*values: str) -> dict[str, Any]:
    return {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": list(values)}]}]}


def node_affinity(*values: str) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: terms(*values)}}}


SAME = {
    "another name and namespace": {"namespace": "other"},
    "labels and annotations": {"labels": {"app": "x"}, "metadata": {"annotations": {"a": "b"}}},
    "another image": {"image": "other:2"},
    "a priority": {"priority": 7},
    "the same amount written differently": {"cpu": "0.1", "memory": "1024Mi"},
    "a grace period": {"spec": {"terminationGracePeriodSeconds": 1}},
    "affinity to pods": {"spec": {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "zone"}]}}}},
    "a nomination": {"status": {"nominatedNodeName": "a"}},
}
OTHER_WISHES = {
    "a node's name": {"on": "a"},
    "another node selector": {"node_selector": {"disk": "hdd"}},
    "no toleration": {"tolerations": []},
    "another toleration": {"tolerations": [{"key": "dedicated", "operator": "Equal", "value": "db"}]},
    "node affinity": {"spec": node_affinity("a")},
    "a preference": {
        "spec": {
            "affinity": {
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "preference": terms("a")["nodeSelectorTerms"][0]}
                    ]
                }
            }
        }
    },
}
OTHER_DEMANDS = {
    "more CPU": {"cpu": "101m"},
    "no memory": {"memory": None},
    "zero where nothing was said": {"ephemeral-storage": "0"},
    "an extended resource": {"example.com/gpu": "1"},
    "another port": {"host_ports": [81]},
    "no port": {"host_ports": []},
    "overhead": {"spec": {"overhead": {"cpu": "1m"}}},
    "pod-level requests": {"spec": {"resources": {"requests": {"cpu": "1"}}}},
    "a silent init container, which scores assume something for": {
        "spec": {"initContainers": [{"name": "i", "restartPolicy": "Always"}]}
    },
}


@pytest.mark.parametrize("change", SAME.values(), ids=SAME)
def test_what_no_row_local_plugin_reads_makes_no_difference(change: dict[str, Any]):
    one, other = info("one", **BASE), info("other", **{**BASE, **change})
    assert one.signature == other.signature and hash(one.signature) == hash(other.signature)


@pytest.mark.parametrize("change", OTHER_WISHES.values(), ids=OTHER_WISHES)
def test_another_wish_is_another_pod(change: dict[str, Any]):
    one, other = info("one", **BASE), info("other", **{**BASE, **change})
    assert one.node_constraints != other.node_constraints and one.signature != other.signature


@pytest.mark.parametrize("change", OTHER_DEMANDS.values(), ids=OTHER_DEMANDS)
def test_another_demand_is_another_pod_with_the_same_wishes(change: dict[str, Any]):
    one, other = info("one", **BASE), info("other", **{**BASE, **change})
    assert one.node_constraints == other.node_constraints and one.signature != other.signature


def test_the_order_of_what_has_no_order_makes_no_difference():
    one = info("one", node_selector={"a": "1", "b": "2"}, **{"cpu": "1", "example.com/gpu": "1"})
    other = info("other", node_selector={"b": "2", "a": "1"}, **{"example.com/gpu": "1", "cpu": "1"})
    assert one.signature == other.signature


def test_a_pod_without_a_uid_goes_by_its_name():
    assert PodInfo(pod("web", metadata={"uid": ""})).uid == "default/web"


def test_images_go_by_their_canonical_names_init_containers_first():
    spec = {"containers": [{"name": "a", "image": "app"}], "initContainers": [{"name": "i", "image": "tool:1"}]}
    assert info("web", spec=spec).images == ("tool:1", "app:latest")


# -- residents --------------------------------------------------------------------------------------------------------

UNCOUNTED = {
    "a condition": {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
    "its phase": {"status": {"phase": "Running"}},
    "an annotation": {"metadata": {"annotations": {"a": "b"}}},
    "the node it was assumed on": {"on": ""},
    "its resources in force, as it asked for them": {
        "status": {"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}
    },
}
COUNTED = {
    "labels": {"labels": {"app": "other"}},
    "being deleted": {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
    "its requests": {"cpu": "2"},
    "what its node holds for it": {
        "status": {"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "3"}}}]}
    },
    "its priority": {"priority": 3},
    "its owner": {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "x"}]}},
}


@pytest.mark.parametrize("change", UNCOUNTED.values(), ids=UNCOUNTED)
def test_a_resident_that_says_something_new_counts_as_before(change: dict[str, Any]):
    assert info("web", **{"cpu": "1", "on": "a", **change}).counts_like(info("web", cpu="1", on="a"))


@pytest.mark.parametrize("change", COUNTED.values(), ids=COUNTED)
def test_a_resident_that_changed_counts_anew(change: dict[str, Any]):
    assert not info("web", **{"cpu": "1", "on": "a", **change}).counts_like(info("web", cpu="1", on="a"))
