"""Secrets that hold a ServiceAccount's token: filled in, good while they last, gone with their account."""

from __future__ import annotations

import base64
from typing import Any

from support.eventually import eventually
from support.processes import ApiServerProcess

SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def secret(name: str, account: str = "db") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "annotations": {"kubernetes.io/service-account.name": account}},
        "type": "kubernetes.io/service-account-token",
    }


def whoami(cluster: ApiServerProcess, token: str) -> Any:
    body = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}
    return cluster.post(SELF, body, token=token)


def token_in(cluster: ApiServerProcess, path: str) -> str:
    eventually(lambda: "token" in cluster.get(path).body.get("data", {}), "the Secret to have a token")
    return base64.b64decode(cluster.get(path)["data"]["token"]).decode()


def test_a_secret_gets_a_token_that_is_good_while_it_lasts(cluster: ApiServerProcess, namespace: str) -> None:
    secrets, accounts = (f"/api/v1/namespaces/{namespace}/{kind}" for kind in ("secrets", "serviceaccounts"))
    uid = cluster.post(accounts, {"metadata": {"name": "db"}}).meta["uid"]
    assert cluster.post(secrets, secret("key")).code == 201
    token = token_in(cluster, f"{secrets}/key")
    found = cluster.get(f"{secrets}/key")
    assert found.meta["annotations"]["kubernetes.io/service-account.uid"] == uid
    assert base64.b64decode(found["data"]["namespace"]).decode() == namespace
    assert base64.b64decode(found["data"]["ca.crt"]) == (cluster.folder / "pki" / "ca.crt").read_bytes()
    user = whoami(cluster, token)["status"]["userInfo"]
    assert (user["username"], user["uid"]) == (f"system:serviceaccount:{namespace}:db", uid)
    review = {"spec": {"token": token, "audiences": ["vault"]}}
    assert "authenticated" not in cluster.post("/apis/authentication.k8s.io/v1/tokenreviews", review)["status"]
    cluster.patch(f"{secrets}/key", {"data": {"token": base64.b64encode(b"another").decode()}})
    assert whoami(cluster, token).code == 401
    cluster.patch(f"{secrets}/key", {"data": {"token": None}})
    assert whoami(cluster, token_in(cluster, f"{secrets}/key")).code == 201
    cluster.delete(f"{secrets}/key")
    assert whoami(cluster, token).code == 401


def test_a_secret_goes_with_its_account(cluster: ApiServerProcess, namespace: str) -> None:
    secrets, accounts = (f"/api/v1/namespaces/{namespace}/{kind}" for kind in ("secrets", "serviceaccounts"))
    cluster.post(accounts, {"metadata": {"name": "db"}})
    cluster.post(secrets, secret("key"))
    cluster.post(secrets, {"metadata": {"name": "plain"}})
    token = token_in(cluster, f"{secrets}/key")
    cluster.delete(f"{accounts}/db")
    assert whoami(cluster, token).code == 401
    eventually(lambda: cluster.get(f"{secrets}/key").code == 404, "the Secret to go")
    assert cluster.get(f"{secrets}/plain").code == 200


def test_a_secret_of_nobody_goes_at_once(cluster: ApiServerProcess, namespace: str) -> None:
    secrets = f"/api/v1/namespaces/{namespace}/secrets"
    assert cluster.post(secrets, secret("key", "nobody")).code == 201
    eventually(lambda: cluster.get(f"{secrets}/key").code == 404, "the Secret to go")
