"""Nobody gives away what he does not have. The sentences are upstream's, word for word."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.documents.access.escalation import refuse_escalation
from tonnage.documents.access.policy import AccessPolicy
from tonnage.errors import ApiError, Forbidden, NotFound
from tonnage.objects.resources import BY_PLURAL, RBAC
from tonnage.objects.users import User

Doc = dict[str, Any]
JANE = User("jane", groups=("dev", "system:authenticated"))
ADMIN = User("root", groups=("system:masters",))
READ_PODS: Doc = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}
EVERYTHING: Doc = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
EVERY_PATH: Doc = {"verbs": ["*"], "nonResourceURLs": ["*"]}
WHO = (
    'user "jane" (groups=["dev" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n'
)


def held(*rules: Doc) -> AccessPolicy:
    """A cluster in which jane has these rights everywhere."""
    policy = AccessPolicy()
    policy.put_role({"metadata": {"name": "janes"}, "rules": list(rules)})
    policy.put_role({"metadata": {"name": "reader"}, "rules": [READ_PODS]})
    policy.put_role({"metadata": {"name": "owner"}, "rules": [EVERYTHING]})
    binding = {"roleRef": {"kind": "ClusterRole", "name": "janes"}, "subjects": [{"kind": "User", "name": "jane"}]}
    policy.put_binding({"metadata": {"name": "janes"}, **binding})
    return policy


def write(
    policy: AccessPolicy, plural: str, doc: Doc, *, old: Doc | None = None, user: User = JANE, name: str = ""
) -> None:
    resource = BY_PLURAL[RBAC, plural]
    namespace = "shop" if resource.namespaced else ""
    refuse_escalation(resource, namespace, name, doc, old, user=user, rights=policy)


def role(*rules: Doc, **fields: Any) -> Doc:
    return {"metadata": {"name": "new"}, "rules": list(rules), **fields}


def bound(kind: str, name: str) -> Doc:
    return {"metadata": {"name": "new"}, "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name}}


def test_a_role_within_ones_rights_may_be_written() -> None:
    write(held(READ_PODS), "roles", role(READ_PODS))
    write(held(READ_PODS), "clusterroles", role({**READ_PODS, "resourceNames": ["a"]}))


def test_what_is_missing_is_told_by_resource() -> None:
    wanted = role(
        {**READ_PODS, "resources": ["pods", "nodes"]}, {"verbs": ["get"], "resources": ["x"], "apiGroups": ["g"]}
    )
    with pytest.raises(Forbidden) as refused:
        write(held(READ_PODS), "roles", wanted)
    assert refused.value.message == (
        f'roles.{RBAC} "new" is forbidden: {WHO}'
        '{APIGroups:[""], Resources:["nodes"], Verbs:["get" "list"]}\n'
        '{APIGroups:["g"], Resources:["x"], Verbs:["get"]}'
    )


def test_a_verb_escalate_on_the_role_lets_one_write_anything() -> None:
    may: Doc = {"verbs": ["escalate"], "apiGroups": [RBAC], "resources": ["clusterroles"], "resourceNames": ["new"]}
    write(held(may), "clusterroles", role(EVERYTHING), old=role(), name="new")
    with pytest.raises(Forbidden):
        write(held(may), "clusterroles", role(EVERYTHING), old=role(), name="other")
    with pytest.raises(Forbidden):
        write(held(may), "clusterroles", role(EVERYTHING))  # of a creation the URL has no name


def test_members_of_system_masters_are_not_asked() -> None:
    write(held(), "clusterroles", role(EVERYTHING, EVERY_PATH), user=ADMIN)
    write(held(), "clusterrolebindings", bound("ClusterRole", "gone"), user=ADMIN)


def test_who_only_takes_owners_and_finalizers_away_gives_nothing_away() -> None:
    old = role(EVERYTHING) | {"metadata": {"name": "new", "finalizers": ["a/b"], "ownerReferences": [{"uid": "1"}]}}
    new = role(EVERYTHING)
    write(held(), "roles", new, old=old)
    with pytest.raises(Forbidden):
        write(held(), "roles", {**new, "metadata": {"name": "new", "labels": {"a": "b"}}}, old=old)


def test_a_binding_needs_the_rights_of_its_role_or_the_verb_bind() -> None:
    with pytest.raises(Forbidden) as refused:
        write(held(), "rolebindings", bound("ClusterRole", "reader"))
    rights = '{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}'
    assert refused.value.message == f'rolebindings.{RBAC} "new" is forbidden: {WHO}{rights}'
    write(held(READ_PODS), "rolebindings", bound("ClusterRole", "reader"))
    may: Doc = {"verbs": ["bind"], "apiGroups": [RBAC], "resources": ["clusterroles"], "resourceNames": ["reader"]}
    write(held(may), "clusterrolebindings", bound("ClusterRole", "reader"))
    with pytest.raises(Forbidden):
        write(held(may), "clusterrolebindings", bound("ClusterRole", "owner"))


def test_a_role_that_is_not_there_can_be_bound_by_nobody_who_may_not_bind_it() -> None:
    with pytest.raises(NotFound) as refused:
        write(held(READ_PODS), "rolebindings", bound("Role", "gone"))
    assert refused.value.message == f'rolebindings.{RBAC} "gone" not found'
    with pytest.raises(ApiError) as odd:
        write(held(READ_PODS), "rolebindings", bound("Banana", "gone"))
    assert odd.value.message == 'unsupported role reference kind: "Banana"'


def test_gathering_rules_needs_every_right_there_is() -> None:
    gathers = role(aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]})
    told = f'clusterroles.{RBAC} "new" is forbidden: must have cluster-admin privileges to use the aggregationRule'
    for new, old in ((gathers, None), (role(), gathers)):
        with pytest.raises(Forbidden) as refused:
            write(held(READ_PODS), "clusterroles", new, old=old)
        assert refused.value.message == told
    write(held(EVERYTHING), "clusterroles", gathers)  # `*` is the verb escalate, too


def test_bindings_of_missing_roles_are_told_beside_what_is_missing() -> None:
    policy = held()
    policy.put_binding({**bound("ClusterRole", "gone"), "subjects": [{"kind": "User", "name": "jane"}]})
    with pytest.raises(Forbidden) as refused:
        write(policy, "roles", role(READ_PODS))
    assert refused.value.message.endswith(f'Verbs:["get" "list"]}}; resolution errors: [roles.{RBAC} "gone" not found]')
