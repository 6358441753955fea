"""Kubernetes' own roles: what we have of them is what kube-apiserver has; what we have not is listed here."""

from __future__ import annotations

from typing import Any

import pytest

from support.api_servers import ServerApi
from tonnage.documents.access.bootstrap_policy import bootstrap_policy

Doc = dict[str, Any]
RBAC = "/apis/rbac.authorization.k8s.io/v1"
MARK = "kubernetes.io/bootstrapping"

OF_WHAT_DOES_NOT_RUN_HERE = {
    # certificates are not asked for in the API
    *(f"system:certificates.k8s.io:certificatesigningrequests:{who}" for who in ("nodeclient", "selfnodeclient")),
    *(
        f"system:certificates.k8s.io:{signer}-approver"
        for signer in (
            "kube-apiserver-client",
            "kube-apiserver-client-kubelet",
            "kubelet-serving",
            "legacy-unknown",
        )
    ),
    "system:node-bootstrapper",
    "system:controller:certificate-controller",
    # there is no kubelet, no proxy, no DNS, and no API server behind this one
    "system:kubelet-api-admin",
    "system:node-proxier",
    "system:kube-dns",
    "system:kube-aggregator",
    # controllers that do not run here
    *(
        f"system:controller:{name}"
        for name in (
            "bootstrap-signer",
            "cloud-provider",
            "device-taint-eviction-controller",
            "endpoint-controller",
            "endpointslice-controller",
            "endpointslicemirroring-controller",
            "expand-controller",
            "horizontal-pod-autoscaler",
            "legacy-service-account-token-cleaner",
            "resource-claim-controller",
            "route-controller",
            "selinux-warning-controller",
            "service-cidrs-controller",
            "service-controller",
            "token-cleaner",
            "ttl-controller",
            "validatingadmissionpolicy-status-controller",
        )
    ),
}


def told(doc: Doc) -> Doc:
    """What a role or a binding says, without what the server says of it; gathered rules are a controller's."""
    meta = {field: doc["metadata"].get(field) for field in ("labels", "annotations")}
    rules = None if "aggregationRule" in doc else doc.get("rules") or []
    fields = ("aggregationRule", "roleRef", "subjects")
    return {"metadata": meta, "rules": rules, **{field: doc[field] for field in fields if field in doc}}


@pytest.mark.parametrize("plural", ["clusterroles", "clusterrolebindings", "roles", "rolebindings"])
def test_every_bootstrap_role_and_binding_is_kubernetes_own(api: ServerApi, plural: str) -> None:
    kind = api.get(f"{RBAC}/{plural}")["kind"].removesuffix("List")
    found = {
        (item["metadata"].get("namespace"), item["metadata"]["name"]): told(item)
        for item in api.get(f"{RBAC}/{plural}?labelSelector={MARK}%3Drbac-defaults")["items"]
    }
    ours = {
        (doc["metadata"].get("namespace"), doc["metadata"]["name"]): told(doc)
        for doc in bootstrap_policy()
        if doc["kind"] == kind
    }
    assert {key: found.get(key) for key in ours} == ours
    beyond = {name for _, name in found.keys() - ours.keys()}
    assert beyond <= OF_WHAT_DOES_NOT_RUN_HERE and not (beyond and api.is_embedded)
