"""The real kubectl as somebody else: whoami, tokens, certificates, --as, and a kubeconfig with a token file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.kubectl


def as_somebody(cluster, folder: Path, user: dict[str, str]) -> str:
    """A kubeconfig like the administrator's with other credentials."""
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"][0]["user"] = user
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return str(path)


def test_who_am_i(kubectl):
    user = json.loads(kubectl("auth", "whoami", "-o", "json"))["status"]["userInfo"]
    assert user == {"username": "admin", "groups": ["system:masters", "system:authenticated"]}


def test_as_somebody_else(kubectl, namespace):
    told = kubectl("auth", "whoami", "-o", "json", "--as=jo", "--as-group=dev", "--as-group=ops", "--as-uid=u-1")
    assert json.loads(told)["status"]["userInfo"] == {
        "username": "jo",
        "uid": "u-1",
        "groups": ["dev", "ops", "system:authenticated"],
    }
    told = kubectl.fails("get", "pods", "-n", namespace, "--as=jo")
    assert told.strip() == (
        'Error from server (Forbidden): pods is forbidden: User "jo" cannot list resource "pods" in API group "" in '
        f'the namespace "{namespace}"'
    )
    account = f"system:serviceaccount:{namespace}:db"
    groups = json.loads(kubectl("auth", "whoami", "-o", "json", f"--as={account}"))["status"]["userInfo"]["groups"]
    assert groups[:2] == ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]


def test_a_token_of_an_account_and_what_it_may(kubectl, namespace):
    kubectl("create", "serviceaccount", "db", "-n", namespace)
    token = kubectl("create", "token", "db", "-n", namespace, "--duration=10m").strip()
    user = json.loads(kubectl("auth", "whoami", "-o", "json", f"--token={token}"))["status"]["userInfo"]
    assert user["username"] == f"system:serviceaccount:{namespace}:db"
    told = kubectl.fails("get", "pods", "-n", namespace, f"--token={token}")
    assert f'User "system:serviceaccount:{namespace}:db" cannot list resource "pods"' in told
    kubectl("create", "role", "reader", "--verb=get,list", "--resource=pods", "-n", namespace)
    kubectl("create", "rolebinding", "db", "--role=reader", f"--serviceaccount={namespace}:db", "-n", namespace)
    assert kubectl("get", "pods", "-n", namespace, f"--token={token}") == ""
    kubectl("delete", "serviceaccount", "db", "-n", namespace)
    told = kubectl.fails("get", "pods", "-n", namespace, f"--token={token}")
    assert "Unauthorized" in told


def test_a_token_is_bound_and_for_an_audience(kubectl, namespace):
    kubectl("create", "serviceaccount", "db", "-n", namespace)
    kubectl("create", "secret", "generic", "key", "-n", namespace)
    token = kubectl(
        "create", "token", "db", "-n", namespace, "--bound-object-kind=Secret", "--bound-object-name=key"
    ).strip()
    kubectl("auth", "whoami", f"--token={token}")
    kubectl("delete", "secret", "key", "-n", namespace)
    assert "Unauthorized" in kubectl.fails("auth", "whoami", f"--token={token}")
    other = kubectl("create", "token", "db", "-n", namespace, "--audience=vault").strip()
    assert "Unauthorized" in kubectl.fails("auth", "whoami", f"--token={other}")
    told = kubectl.fails("create", "token", "db", "-n", namespace, "--duration=1m")
    assert "may not specify a duration less than 10 minutes" in told


def test_a_kubeconfig_with_a_token_file(cluster, kubectl, namespace, tmp_path):
    kubectl("create", "serviceaccount", "db", "-n", namespace)
    file = tmp_path / "token"
    file.write_text(kubectl("create", "token", "db", "-n", namespace))
    config = as_somebody(cluster, tmp_path, {"tokenFile": str(file)})
    user = json.loads(kubectl("--kubeconfig", config, "auth", "whoami", "-o", "json"))["status"]["userInfo"]
    assert user["username"] == f"system:serviceaccount:{namespace}:db"


def test_without_credentials_kubectl_is_told_to_log_in(cluster, kubectl, tmp_path):
    told = kubectl.fails("--kubeconfig", as_somebody(cluster, tmp_path, {"token": "wrong"}), "get", "nodes")
    assert "You must be logged in to the server" in told
