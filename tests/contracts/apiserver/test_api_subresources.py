"""Eviction, which asks the disruption budget first, and scale, a workload seen as one number."""

from __future__ import annotations

from typing import Any

import pytest
from contract_documents import SUCCESS, deployment, owned_by, pod

from support.api_servers import ServerApi


def eviction(name: str, **delete_options: Any) -> dict[str, Any]:
    doc: dict[str, Any] = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return {**doc, "deleteOptions": delete_options} if delete_options else doc


@pytest.fixture
def running(api: ServerApi, pods: str) -> str:
    """Two ready pods on a node; gives the path of pods."""
    for name in ("a", "b"):
        api.create(pods, pod(name, nodeName="node-1", metadata={"labels": {"app": "x"}}))
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        api.patch(f"{pods}/{name}/status", {"status": ready})
    return pods


@pytest.fixture
def budget(api: ServerApi, ns: str) -> str:
    """A budget that nobody has looked at yet; gives its path."""
    path = f"/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
    api.create(path, {"metadata": {"name": "pdb"}, "spec": spec})
    return f"{path}/pdb"


def test_a_pod_without_a_budget_is_deleted_with_its_grace_and_a_condition(api: ServerApi, running: str) -> None:
    evicted = api.post(f"{running}/a/eviction", eviction("a"))
    assert (evicted.code, evicted.body) == (201, SUCCESS)
    now = api.get(f"{running}/a")
    assert now.meta["deletionGracePeriodSeconds"] == 30
    condition = next(item for item in now["status"]["conditions"] if item["type"] == "DisruptionTarget")
    assert (condition["status"], condition["reason"]) == ("True", "EvictionByEvictionAPI")
    assert condition["message"] == "Eviction API: evicting"
    api.create(f"{running}/b/eviction", eviction("b", gracePeriodSeconds=0))
    assert api.get(f"{running}/b").code == 404


def test_a_budget_nobody_has_looked_at_refuses_for_now(api: ServerApi, running: str, budget: str) -> None:
    refused = api.post(f"{running}/a/eviction", eviction("a"))
    assert (refused.code, refused.reason) == (429, "TooManyRequests")
    assert refused.message == "Cannot evict pod as it would violate the pod's disruption budget."
    assert refused["details"] == {
        "causes": [
            {
                "reason": "DisruptionBudget",
                "message": "The disruption budget pdb is still being processed by the server.",
            }
        ],
        "retryAfterSeconds": 10,
    }
    assert refused.headers["Retry-After"] == "10"


def test_a_budget_is_charged_and_then_exhausted(api: ServerApi, running: str, budget: str) -> None:
    counts = {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}
    api.patch(f"{budget}/status", {"status": {"observedGeneration": 1, **counts}})
    assert api.post(f"{running}/a/eviction?dryRun=All", eviction("a")).code == 201
    assert api.get(budget)["status"]["disruptionsAllowed"] == 1
    assert api.post(f"{running}/a/eviction", eviction("a")).code == 201
    charged = api.get(budget)["status"]
    assert charged["disruptionsAllowed"] == 0 and charged["disruptedPods"].keys() == {"a"}
    [condition] = charged["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "DisruptionAllowed",
        "False",
        "InsufficientPods",
    )
    refused = api.post(f"{running}/b/eviction", eviction("b"))
    assert refused.code == 429 and "Retry-After" not in refused.headers
    assert refused.causes == [("", "The disruption budget pdb does not allow evicting pods currently")]
    # A pod on its way out is nothing to guard any more.
    assert api.post(f"{running}/a/eviction", eviction("a")).code == 201


def test_a_budget_that_is_short_says_how_short(api: ServerApi, running: str, budget: str) -> None:
    counts = {"disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 2, "expectedPods": 2}
    api.patch(f"{budget}/status", {"status": {"observedGeneration": 1, **counts}})
    assert api.post(f"{running}/a/eviction", eviction("a")).causes == [
        ("", "The disruption budget pdb needs 2 healthy pods and has 2 currently")
    ]


def test_two_budgets_are_one_too_many(api: ServerApi, ns: str, running: str, budget: str) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
    api.create(f"/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets", {"metadata": {"name": "second"}, "spec": spec})
    refused = api.post(f"{running}/a/eviction", eviction("a"))
    assert (refused.code, refused.message) == (
        500,
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
    )


def test_a_pending_pod_is_guarded_by_nothing(api: ServerApi, pods: str, budget: str) -> None:
    api.create(pods, pod("a", metadata={"labels": {"app": "x"}}))
    assert api.post(f"{pods}/a/eviction", eviction("a")).code == 201
    assert api.get(f"{pods}/a").code == 404


def test_an_eviction_can_say_which_pod_it_means(api: ServerApi, running: str) -> None:
    uid = api.get(f"{running}/a").meta["uid"]
    refused = api.post(f"{running}/a/eviction", eviction("a", preconditions={"uid": "x"}))
    assert (refused.code, refused.message) == (
        409,
        f'Operation cannot be fulfilled on Pod "a": the UID in the precondition (x) does not match the UID in record '
        f"({uid}). The object might have been deleted and then recreated",
    )
    assert api.post(f"{running}/a/eviction", eviction("a", preconditions={"uid": uid})).code == 201


def test_an_eviction_is_read_like_any_other_body(api: ServerApi, running: str) -> None:
    path = f"{running}/a/eviction"
    assert api.post(path, eviction("b")).message == "name in URL does not match name in Eviction object"
    assert api.post(path, eviction("a", propagationPolicy="Bogus")).code == 422
    assert api.post(path, eviction("a", dryRun=["Some"])).code == 422
    assert api.post(f"{running}/nobody/eviction", eviction("nobody")).code == 404
    assert api.post(path, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}).message == (
        'Pod in version "v1" cannot be handled as a Eviction: converting (v1.Pod) to (policy.Eviction): '
        "unknown conversion"
    )
    assert api.get(path).code == 405
    assert "deletionTimestamp" not in api.get(f"{running}/a").meta


@pytest.fixture
def scaled(api: ServerApi, ns: str) -> str:
    path = f"/apis/apps/v1/namespaces/{ns}/deployments"
    api.create(path, deployment("web", replicas=2))
    return f"{path}/web"


def test_a_workload_can_be_seen_as_one_number(api: ServerApi, ns: str, scaled: str) -> None:
    whole = api.get(scaled).meta
    scale = api.get(f"{scaled}/scale")
    assert scale.body == {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            field: whole[field] for field in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        },
        "spec": {"replicas": 2},
        "status": {"replicas": 0, "selector": "app=web"},
    }


def test_writing_the_number_changes_the_workload(api: ServerApi, scaled: str) -> None:
    put = api.put(f"{scaled}/scale", {"metadata": {"name": "web"}, "spec": {"replicas": 3}})
    assert (put.code, put["kind"], put["spec"]) == (200, "Scale", {"replicas": 3})
    now = api.get(scaled)
    assert now["spec"]["replicas"] == 3 and now.meta["generation"] == 2
    assert owned_by(now.body, "contract", "scale") == {"f:spec": {"f:replicas": {}}}
    assert api.patch(f"{scaled}/scale", {"spec": {"replicas": 0}})["spec"] == {}
    assert api.get(scaled)["spec"]["replicas"] == 0


def test_a_scale_obeys_versions_and_limits(api: ServerApi, scaled: str) -> None:
    old = api.get(f"{scaled}/scale")
    api.patch(f"{scaled}/scale", {"spec": {"replicas": 5}})
    assert api.put(f"{scaled}/scale", old.body).code == 409
    refused = api.patch(f"{scaled}/scale", {"spec": {"replicas": -1}})
    assert refused.code == 422
    assert ("spec.replicas", "Invalid value: -1: must be greater than or equal to 0") in refused.causes
    assert api.get(f"{scaled.removesuffix('web')}nobody/scale").message == 'deployments.apps "nobody" not found'
