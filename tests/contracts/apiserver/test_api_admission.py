"""What other objects do to one that is created or changed: default classes, priorities, nodes, quotas of one.

Kubernetes' admission reads caches that follow by some milliseconds, so a scene is asked for until it has settled.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from contract_documents import binding, pod

from support.api_servers import ServerApi
from support.eventually import eventually

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
DEFAULT = {"storageclass.kubernetes.io/is-default-class": "true"}


def claim(name: str, **spec: Any) -> dict[str, Any]:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": wanted}


@pytest.fixture
def claims(ns: str) -> str:
    return f"/api/v1/namespaces/{ns}/persistentvolumeclaims"


@pytest.fixture
def default_class(api: ServerApi, ns: str, claims: str) -> Iterator[str]:
    """The name of a default StorageClass that can expand its volumes."""
    doc = {"metadata": {"name": ns, "annotations": DEFAULT}, "provisioner": "p", "allowVolumeExpansion": True}
    api.create(CLASSES, doc)
    eventually(
        lambda: api.post(f"{claims}?dryRun=All", claim("probe")),
        holds=lambda reply: reply["spec"].get("storageClassName") == ns,
    )
    yield ns
    api.delete(f"{CLASSES}/{ns}")


def test_a_claim_without_a_class_gets_the_default(api: ServerApi, claims: str, default_class: str) -> None:
    assert api.create(claims, claim("a"))["spec"]["storageClassName"] == default_class


def test_a_claim_with_a_class_keeps_it_even_the_empty_one(api: ServerApi, claims: str, default_class: str) -> None:
    assert api.create(claims, claim("a", storageClassName=""))["spec"]["storageClassName"] == ""
    assert api.create(claims, claim("b", storageClassName="other"))["spec"]["storageClassName"] == "other"


def test_a_bound_claim_grows_where_its_class_lets_it(api: ServerApi, ns: str, claims: str, default_class: str) -> None:
    api.create(claims, claim("a", volumeName="v"))
    larger = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    assert api.patch(f"{claims}/a", larger).code == 422  # it is not bound yet
    api.patch(f"{claims}/a/status", {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}})
    assert api.patch(f"{claims}/a", larger).code == 200
    api.create(claims, claim("b", volumeName="v", storageClassName="other"))
    api.patch(f"{claims}/b/status", {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}})
    refused = api.patch(f"{claims}/b", larger)
    assert (refused.code, refused.reason) == (403, "Forbidden")
    assert refused.message == (
        'persistentvolumeclaims "b" is forbidden: only dynamically provisioned pvc can be resized and the storageclass '
        "that provisions the pvc must support resize"
    )


@pytest.fixture
def important(api: ServerApi, ns: str, pods: str) -> Iterator[str]:
    """The name of a PriorityClass of 77 that never preempts."""
    api.create(PRIORITIES, {"metadata": {"name": ns}, "value": 77, "preemptionPolicy": "Never"})
    eventually(
        lambda: api.post(f"{pods}?dryRun=All", pod("probe", priorityClassName=ns)),
        holds=lambda reply: reply.code == 201,
    )
    yield ns
    api.delete(f"{PRIORITIES}/{ns}")


def test_a_pod_gets_the_number_of_its_priority_class(api: ServerApi, pods: str, important: str) -> None:
    spec = api.create(pods, pod("a", priorityClassName=important))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (77, "Never")
    spec = api.create(pods, pod("b"))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")


def test_a_pod_cannot_choose_a_number_of_its_own(api: ServerApi, pods: str, important: str) -> None:
    refused = api.post(pods, pod("a", priority=5))
    assert (refused.code, refused.message) == (
        403,
        'pods "a" is forbidden: the integer value of priority (5) must not be provided in pod spec; '
        "priority admission controller computed 0 from the given PriorityClass name",
    )
    refused = api.post(pods, pod("a", priorityClassName="nobody"))
    assert refused.message == 'pods "a" is forbidden: no PriorityClass with name nobody was found'
    refused = api.post(pods, pod("a", priorityClassName=important, preemptionPolicy="PreemptLowerPriority"))
    assert refused.message == (
        'pods "a" is forbidden: the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided in '
        "pod spec; priority admission controller computed Never from the given PriorityClass name"
    )


def test_one_priority_class_may_be_the_default(api: ServerApi, ns: str, pods: str) -> None:
    api.create(PRIORITIES, {"metadata": {"name": ns}, "value": 9, "globalDefault": True})
    try:
        made = eventually(
            lambda: api.post(f"{pods}?dryRun=All", pod("a")), holds=lambda reply: reply["spec"]["priority"] == 9
        )
        assert made["spec"]["priorityClassName"] == ns
        refused = api.post(PRIORITIES, {"metadata": {"name": f"{ns}-2"}, "value": 9, "globalDefault": True})
        assert (refused.code, refused.message) == (
            403,
            f'priorityclasses.scheduling.k8s.io "{ns}-2" is forbidden: PriorityClass {ns} is already marked as '
            "default. Only one default can exist",
        )
    finally:
        api.delete(f"{PRIORITIES}/{ns}")


@pytest.mark.parametrize("name", ["system-cluster-critical", "system-node-critical"])
def test_the_classes_of_the_system_are_there_to_stay(api: ServerApi, name: str) -> None:
    refused = api.delete(f"{PRIORITIES}/{name}?dryRun=All")
    assert (refused.code, refused.message) == (
        403,
        f'priorityclasses.scheduling.k8s.io "{name}" is forbidden: '
        "this is a system priority class and cannot be deleted",
    )


def test_a_pod_inherits_the_zone_of_its_node(api: ServerApi, ns: str, pods: str) -> None:
    zone = {"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"}
    api.create("/api/v1/nodes", {"metadata": {"name": ns, "labels": {**zone, "other": "x"}}})
    made = eventually(
        lambda: api.post(f"{pods}?dryRun=All", pod("a", nodeName=ns)), holds=lambda reply: "labels" in reply.meta
    )
    assert made.meta["labels"] == zone
    api.create(pods, pod("b"))
    api.create(f"{pods}/b/binding", binding("b", ns))
    assert api.get(f"{pods}/b").meta["labels"] == zone


def test_every_pod_tolerates_a_node_in_trouble_for_five_minutes(api: ServerApi, pods: str) -> None:
    tolerations = api.create(pods, pod("a"))["spec"]["tolerations"]
    assert [(item["key"], item["effect"], item["tolerationSeconds"]) for item in tolerations] == [
        ("node.kubernetes.io/not-ready", "NoExecute", 300),
        ("node.kubernetes.io/unreachable", "NoExecute", 300),
    ]
