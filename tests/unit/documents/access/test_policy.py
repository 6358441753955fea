"""What the index says, and why: reasons and errors are upstream's sentences."""

from __future__ import annotations

from typing import Any

from support.held_memory import entries_held
from tonnage.documents.access.attributes import Attributes
from tonnage.documents.access.policy import MAX_SHEETS, AccessPolicy
from tonnage.objects.users import User, service_account_user

READ_PODS = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
JANE = User("jane", groups=("dev",))


def binding(name: str, role: str, *subjects: dict[str, str], namespace: str = "") -> dict[str, Any]:
    kind, _, role_name = role.partition("/")
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"metadata": meta, "roleRef": {"kind": kind, "name": role_name}, "subjects": list(subjects)}


def policy(*documents: dict[str, Any]) -> AccessPolicy:
    made = AccessPolicy()
    for doc in documents:
        (made.put_binding if "roleRef" in doc else made.put_role)(doc)
    return made


def get_pods(user: User = JANE, namespace: str = "shop", name: str = "") -> Attributes:
    return Attributes(user, "get", resource="pods", namespace=namespace, name=name)


def test_a_cluster_role_binding_is_the_reason_told() -> None:
    made = policy(
        {"metadata": {"name": "reader"}, "rules": [READ_PODS]},
        binding("readers", "ClusterRole/reader", {"kind": "User", "name": "joe"}, {"kind": "Group", "name": "dev"}),
    )
    told = 'RBAC: allowed by ClusterRoleBinding "readers" of ClusterRole "reader" to Group "dev"'
    assert made.authorize(get_pods()).reason == told


def test_a_role_binding_is_told_with_its_namespace_and_so_is_an_account() -> None:
    made = policy(
        {"metadata": {"name": "reader", "namespace": "shop"}, "rules": [READ_PODS]},
        binding("b", "Role/reader", {"kind": "ServiceAccount", "name": "web"}, namespace="shop"),
    )
    web = service_account_user("shop", "web")
    told = 'RBAC: allowed by RoleBinding "b/shop" of Role "reader" to ServiceAccount "web/shop"'
    assert made.authorize(get_pods(web)).reason == told
    assert not made.authorize(get_pods(web, "ops")).allowed
    assert not made.authorize(get_pods(service_account_user("ops", "web"))).allowed


def test_roles_that_are_not_there_are_told_when_nothing_else_allows_it() -> None:
    subject = {"kind": "User", "name": "jane"}
    made = policy(
        binding("a", "ClusterRole/gone", subject),
        binding("b", "ClusterRole/gone", subject),
        binding("c", "Role/lost", subject, namespace="shop"),
    )
    gone = 'clusterrole.rbac.authorization.k8s.io "gone" not found'
    lost = 'role.rbac.authorization.k8s.io "lost" not found'
    assert made.authorize(get_pods(namespace="")).reason == f"RBAC: {gone}"
    assert made.authorize(get_pods()).reason == f"RBAC: [{gone}, {lost}]"
    made.put_role({"metadata": {"name": "gone"}, "rules": [READ_PODS]})
    assert made.authorize(get_pods()).allowed


def test_names_limit_a_rule_and_leave_nothing_for_what_has_no_name() -> None:
    made = policy(
        {"metadata": {"name": "one"}, "rules": [{**READ_PODS, "verbs": ["*"], "resourceNames": ["db-0"]}]},
        binding("b", "ClusterRole/one", {"kind": "User", "name": "jane"}),
    )
    assert made.authorize(get_pods(name="db-0")).allowed
    assert not made.authorize(get_pods(name="db-1")).allowed
    assert not made.authorize(Attributes(JANE, "create", resource="pods", namespace="shop")).allowed


def test_a_change_is_in_force_at_once_and_a_deletion_too() -> None:
    role = {"metadata": {"name": "reader"}, "rules": [READ_PODS]}
    made = policy(role, binding("b", "ClusterRole/reader", {"kind": "User", "name": "jane"}))
    assert made.authorize(get_pods()).allowed
    made.put_role({**role, "rules": []})
    assert not made.authorize(get_pods()).allowed
    made.put_role(role)
    assert made.authorize(get_pods()).allowed
    made.drop_binding("", "b")
    assert not made.authorize(get_pods()).allowed


def test_questions_about_users_that_nobody_heard_of_do_not_fill_the_memory() -> None:
    made = policy()
    before = entries_held(made)
    for number in range(MAX_SHEETS + 10):
        made.authorize(get_pods(User(f"user-{number}")))
    assert entries_held(made) <= before + 1 * MAX_SHEETS
