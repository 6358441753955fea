"""What a namespace's LimitRanges and a pod's RuntimeClass do to pods and claims when they are created."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from contract_documents import pod

from support.api_servers import ServerApi
from support.eventually import eventually

RUNTIMES = "/apis/node.k8s.io/v1/runtimeclasses"


def container(**resources: Any) -> dict[str, Any]:
    return {"name": "c", "image": "i", "resources": resources}


def claim(name: str, size: str) -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, "storageClassName": "s"}
    return {"metadata": {"name": name}, "spec": spec}


@pytest.fixture
def limits(api: ServerApi, ns: str, pods: str) -> str:
    """A namespace with limits, once the server heeds them."""
    items = [
        {
            "type": "Container",
            "default": {"cpu": "500m", "memory": "500Mi"},
            "defaultRequest": {"cpu": "100m"},
            "max": {"cpu": "1"},
        },
        {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "5Gi"}},
    ]
    made = api.create(
        f"/api/v1/namespaces/{ns}/limitranges", {"metadata": {"name": "limits"}, "spec": {"limits": items}}
    )
    assert made["spec"]["limits"][0]["defaultRequest"] == {"cpu": "100m", "memory": "500Mi"}
    eventually(
        lambda: api.post(f"{pods}?dryRun=All", pod("probe")),
        holds=lambda reply: "annotations" in reply.meta,
    )
    return ns


def test_containers_get_the_defaults_of_their_namespace(api: ServerApi, limits: str, pods: str) -> None:
    made = api.create(pods, pod("a"))
    assert made["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "500m", "memory": "500Mi"},
        "requests": {"cpu": "100m", "memory": "500Mi"},
    }
    assert made["status"]["qosClass"] == "Burstable"
    assert made.meta["annotations"] == {
        "kubernetes.io/limit-ranger": (
            "LimitRanger plugin set: cpu, memory request for container c; cpu, memory limit for container c"
        )
    }


def test_a_pod_beyond_the_limits_is_refused(api: ServerApi, limits: str, pods: str) -> None:
    refused = api.post(pods, pod("a", containers=[container(limits={"cpu": "2"})]))
    assert (refused.code, refused.message) == (
        403,
        'pods "a" is forbidden: maximum cpu usage per Container is 1, but limit is 2',
    )


def test_a_claim_beyond_the_limits_is_refused(api: ServerApi, limits: str) -> None:
    claims = f"/api/v1/namespaces/{limits}/persistentvolumeclaims"
    refused = api.post(claims, claim("a", "10Gi"))
    assert (refused.code, refused.message) == (
        403,
        'persistentvolumeclaims "a" is forbidden: maximum storage usage per PersistentVolumeClaim is 5Gi, '
        "but request is 10Gi",
    )
    assert api.post(claims, claim("a", "5Gi")).code == 201


@pytest.fixture
def runtime(api: ServerApi, ns: str, pods: str) -> Iterator[str]:
    """The name of a RuntimeClass, once the server heeds it."""
    toleration = {"key": "sandbox", "operator": "Exists", "effect": "NoSchedule"}
    scheduling = {"nodeSelector": {"runtime": ns}, "tolerations": [toleration]}
    doc = {"metadata": {"name": ns}, "handler": "kata", "overhead": {"podFixed": {"cpu": "250m"}}}
    api.create(RUNTIMES, {**doc, "scheduling": scheduling})
    eventually(lambda: api.post(f"{pods}?dryRun=All", pod("probe", runtimeClassName=ns)).code == 201, "the class")
    yield ns
    api.delete(f"{RUNTIMES}/{ns}")


def test_a_runtime_class_writes_overhead_and_scheduling_into_its_pods(api: ServerApi, pods: str, runtime: str) -> None:
    made = api.create(pods, pod("a", runtimeClassName=runtime))["spec"]
    assert (made["overhead"], made["nodeSelector"]) == ({"cpu": "250m"}, {"runtime": runtime})
    assert [each["key"] for each in made["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "sandbox",
    ]


def test_a_pod_that_contradicts_its_runtime_class_is_refused(api: ServerApi, pods: str, runtime: str) -> None:
    refused = api.post(pods, pod("a", runtimeClassName=runtime, overhead={"cpu": "1"}))
    assert (refused.code, refused.message) == (
        403,
        "pods \"a\" is forbidden: pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
    )
    refused = api.post(pods, pod("a", overhead={"cpu": "1"}))
    assert refused.message == (
        'pods "a" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead'
    )


def test_a_pod_with_a_runtime_class_that_is_not_there_is_refused(api: ServerApi, pods: str) -> None:
    refused = api.post(pods, pod("a", runtimeClassName="nobody"))
    assert (refused.code, refused.message) == (
        403,
        'pods "a" is forbidden: pod rejected: RuntimeClass "nobody" not found',
    )
