"""The real kubectl on roles, bindings and rights."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytestmark = pytest.mark.kubectl

RBAC = "rbac.authorization.k8s.io/v1"


def test_roles_and_bindings_are_made_shown_and_described(kubectl, namespace):
    here = ("-n", namespace)
    kubectl("create", "role", "reader", "--verb=get,list", "--resource=pods,pods/log,deployments.apps", *here)
    kubectl(
        "create", "rolebinding", "b", "--role=reader", "--user=jane", "--group=ops", "--serviceaccount=x:web", *here
    )
    shown = kubectl("get", "roles,rolebindings", "-o", "wide", *here).splitlines()
    assert shown[0].split() == ["NAME", "CREATED", "AT"] and shown[1].split()[0] == f"role.{RBAC[:-3]}/reader"
    assert shown[3].split() == ["NAME", "ROLE", "AGE", "USERS", "GROUPS", "SERVICEACCOUNTS"]
    cells = shown[4].split()
    assert (cells[1], cells[3:]) == ("Role/reader", ["jane", "ops", "x/web"])
    rows = {line.split()[0]: line.split()[-1] for line in kubectl("describe", "role", "reader", *here).splitlines()[5:]}
    assert set(rows) >= {"pods", "pods/log", "deployments.apps"}
    assert "jane" in kubectl("describe", "rolebinding", "b", *here)
    assert json.loads(kubectl("get", "role", "reader", "-o", "json", *here))["rules"][0]["verbs"] == ["get", "list"]


def test_cluster_roles_and_bindings_are_made_and_gone(kubectl, namespace):
    kubectl("create", "clusterrole", f"r:{namespace}", "--verb=get", "--resource=nodes", "--non-resource-url=/x/*")
    kubectl("create", "clusterrolebinding", f"b:{namespace}", f"--clusterrole=r:{namespace}", "--user=jane")
    assert "/x/*" in kubectl("describe", "clusterrole", f"r:{namespace}")
    kubectl("delete", "clusterrole,clusterrolebinding", "-l", "no=such")
    kubectl("delete", "clusterrole", f"r:{namespace}")
    assert "NotFound" in kubectl.fails("get", "clusterrole", f"r:{namespace}")
    kubectl("delete", "clusterrolebinding", f"b:{namespace}")


def test_can_i(kubectl, namespace):
    user = f"jane-{namespace}"
    here = ("-n", namespace, "--as", user)
    assert kubectl("auth", "can-i", "*", "*").strip() == "yes"
    assert kubectl.run("auth", "can-i", "list", "pods", *here).stdout.strip() == "no"
    kubectl("create", "rolebinding", "b", "--clusterrole=view", f"--user={user}", "-n", namespace)
    assert kubectl("auth", "can-i", "list", "pods", *here).strip() == "yes"
    assert kubectl("auth", "can-i", "get", "deployments.apps", "--subresource=scale", *here).strip() == "yes"
    assert kubectl.run("auth", "can-i", "list", "secrets", *here).stdout.strip() == "no"
    assert kubectl.run("auth", "can-i", "list", "pods", "-A", "--as", user).stdout.strip() == "no"
    assert kubectl("auth", "can-i", "get", "/healthz", "--as", user).strip() == "yes"
    assert kubectl("auth", "can-i", "create", "pods", "--as", "x", "--as-group", "system:masters").strip() == "yes"
    told = kubectl.fails("get", "secrets", *here)
    assert told == (
        f'Error from server (Forbidden): secrets is forbidden: User "{user}" cannot list resource "secrets" in API '
        f'group "" in the namespace "{namespace}"\n'
    )


def test_can_i_list(kubectl, namespace):
    user = f"jane-{namespace}"
    kubectl("create", "rolebinding", "b", "--clusterrole=view", f"--user={user}", "-n", namespace)
    listed = kubectl("auth", "can-i", "--list", "-n", namespace, "--as", user).splitlines()
    rows = {line.split()[0]: line.rpartition("[")[2].rstrip("]") for line in listed[1:]}
    assert rows["pods"] == "get list watch" and rows["deployments.apps/scale"] == "get list watch"
    assert rows["selfsubjectaccessreviews.authorization.k8s.io"] == "create" and "secrets" not in rows
    assert "[/healthz]" in "".join(listed)
    mine = kubectl("auth", "can-i", "--list").splitlines()
    assert mine[1].split() == ["*.*", "[]", "[]", "[*]"]


def test_auth_reconcile_adds_what_is_missing(kubectl, namespace):
    def role(*verbs):
        rule = {"apiGroups": [""], "resources": ["pods"], "verbs": list(verbs)}
        return {"apiVersion": RBAC, "kind": "Role", "metadata": {"name": "r", "namespace": namespace}, "rules": [rule]}

    binding: dict[str, Any] = {
        "apiVersion": RBAC,
        "kind": "RoleBinding",
        "metadata": {"name": "b", "namespace": namespace},
        "roleRef": {"apiGroup": RBAC[:-3], "kind": "Role", "name": "r"},
        "subjects": [{"kind": "User", "apiGroup": RBAC[:-3], "name": "jane"}],
    }
    kubectl("auth", "reconcile", "-f", "-", stdin=[role("get"), binding])
    told = kubectl("auth", "reconcile", "-f", "-", stdin=[role("get", "list"), binding])
    assert f"role.{RBAC[:-3]}/r reconciled" in told
    rules = json.loads(kubectl("get", "role", "r", "-n", namespace, "-o", "json"))["rules"]
    assert sorted(verb for rule in rules for verb in rule["verbs"]) == ["get", "list"]
    other = {**binding, "roleRef": {**binding["roleRef"], "kind": "ClusterRole", "name": "view"}}
    kubectl("auth", "reconcile", "-f", "-", stdin=[other])  # deletes the binding and makes it anew
    assert "ClusterRole/view" in kubectl("get", "rolebinding", "b", "-n", namespace)
    assert "cannot change roleRef" in kubectl.fails(
        "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=[binding]
    )
