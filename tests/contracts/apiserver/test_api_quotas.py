"""ResourceQuotas, as an API server without controllers keeps them: their status is what the test writes."""

from __future__ import annotations

from typing import Any

import pytest
from contract_documents import config_map, pod

from support.api_servers import ServerApi
from support.eventually import eventually


@pytest.fixture
def quotas(ns: str) -> str:
    return f"/api/v1/namespaces/{ns}/resourcequotas"


def quota(api: ServerApi, quotas: str, hard: dict[str, str], used: dict[str, str] | None = None, **spec: Any) -> None:
    """Make a quota that is counted, and wait until the server heeds it."""
    api.create(quotas, {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}})
    status = {"hard": hard, "used": dict.fromkeys(hard, "0") | (used or {})}
    assert api.patch(f"{quotas}/q/status", {"status": status}).code == 200


def container(**resources: Any) -> dict[str, Any]:
    return {"name": "c", "image": "i", "resources": resources}


def test_a_quota_is_charged_for_what_is_created(api: ServerApi, quotas: str, pods: str) -> None:
    quota(api, quotas, {"pods": "2", "requests.cpu": "1"})
    asking = [container(requests={"cpu": "400m"})]
    eventually(lambda: api.post(f"{pods}?dryRun=All", pod("probe")).code == 403, "the quota to be heeded")
    assert api.post(pods, pod("a", containers=asking)).code == 201
    assert api.get(f"{quotas}/q")["status"]["used"] == {"pods": "1", "requests.cpu": "400m"}
    assert api.post(f"{pods}?dryRun=All", pod("b", containers=asking)).code == 201
    assert api.get(f"{quotas}/q")["status"]["used"]["pods"] == "1"


def test_what_exceeds_a_quota_is_refused_and_not_charged(api: ServerApi, quotas: str, pods: str) -> None:
    quota(api, quotas, {"pods": "2", "requests.cpu": "1"}, {"requests.cpu": "900m"})
    asking = [container(requests={"cpu": "200m"})]
    refused = eventually(
        lambda: api.post(f"{pods}?dryRun=All", pod("a", containers=asking)), holds=lambda reply: reply.code == 403
    )
    assert refused.message == (
        'pods "a" is forbidden: exceeded quota: q, requested: requests.cpu=200m, used: requests.cpu=900m, '
        "limited: requests.cpu=1"
    )
    assert api.get(f"{quotas}/q")["status"]["used"] == {"pods": "0", "requests.cpu": "900m"}


def test_a_container_has_to_say_what_is_counted(api: ServerApi, quotas: str, pods: str) -> None:
    quota(api, quotas, {"requests.cpu": "1"})
    refused = eventually(lambda: api.post(f"{pods}?dryRun=All", pod("a")), holds=lambda reply: reply.code == 403)
    assert refused.message == 'pods "a" is forbidden: failed quota: q: must specify requests.cpu for: c'


def test_any_kind_may_be_counted(api: ServerApi, quotas: str, maps: str) -> None:
    quota(api, quotas, {"count/configmaps": "1"})
    eventually(
        lambda: api.post(maps, config_map("a")) and api.get(f"{quotas}/q"),
        holds=lambda reply: reply["status"]["used"] == {"count/configmaps": "1"},
    )
    assert api.post(maps, config_map("other")).message == (
        'configmaps "other" is forbidden: exceeded quota: q, requested: count/configmaps=1, '
        "used: count/configmaps=1, limited: count/configmaps=1"
    )


def test_a_quota_of_a_storage_class(api: ServerApi, ns: str, quotas: str) -> None:
    name = "fast.storageclass.storage.k8s.io/requests.storage"
    quota(api, quotas, {name: "10Gi"})
    path = f"/api/v1/namespaces/{ns}/persistentvolumeclaims"
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast"}
    large = {"metadata": {"name": "a"}, "spec": {**spec, "resources": {"requests": {"storage": "20Gi"}}}}
    refused = eventually(lambda: api.post(f"{path}?dryRun=All", large), holds=lambda reply: reply.code == 403)
    assert refused.message == (
        f'persistentvolumeclaims "a" is forbidden: exceeded quota: q, requested: {name}=20Gi, used: {name}=0, '
        f"limited: {name}=10Gi"
    )
    large["spec"]["storageClassName"] = "slow"  # type: ignore[index]
    assert api.post(path, large).code == 201


def test_scopes_cannot_change(api: ServerApi, quotas: str) -> None:
    api.create(quotas, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}, "scopes": ["BestEffort"]}})
    refused = api.patch(f"{quotas}/q", {"spec": {"scopes": ["NotBestEffort"]}})
    assert (refused.code, [field for field, _ in refused.causes]) == (422, ["spec.scopes"])
