"""What a cluster begins with, and how an older one gets what it misses."""

from __future__ import annotations

from typing import Any

from support.virtual_clock import VirtualClock
from tonnage.documents.access.bootstrap_policy import bootstrap_policy, must_be_recreated, reconciled
from tonnage.documents.creation import strategies
from tonnage.gates import Gates
from tonnage.objects.document import copy
from tonnage.objects.resources import BY_KIND

Doc = dict[str, Any]


def named(name: str, kind: str = "ClusterRole") -> Doc:
    return next(doc for doc in bootstrap_policy() if (doc["kind"], doc["metadata"]["name"]) == (kind, name))


def test_every_role_and_binding_is_legal_and_there_once() -> None:
    rules = strategies(Gates(), VirtualClock())
    seen = set()
    for doc in bootstrap_policy():
        resource = BY_KIND[doc["apiVersion"], doc["kind"]]
        assert rules[resource.group, resource.plural].validate(doc) == []
        assert doc["metadata"]["labels"]["kubernetes.io/bootstrapping"] == "rbac-defaults"
        seen.add((doc["kind"], doc["metadata"].get("namespace"), doc["metadata"]["name"]))
    assert len(seen) == len(bootstrap_policy())


def test_every_binding_names_a_role_that_is_there() -> None:
    docs = bootstrap_policy()
    roles = {(doc["kind"], doc["metadata"]["name"]) for doc in docs if "roleRef" not in doc}
    assert {(doc["roleRef"]["kind"], doc["roleRef"]["name"]) for doc in docs if "roleRef" in doc} <= roles


def test_admin_has_what_edit_has_and_edit_what_view_has() -> None:
    view, edit, admin = (named(name)["rules"] for name in ("view", "edit", "admin"))
    assert all(rule in edit for rule in view) and all(rule in admin for rule in edit)
    assert len(view) < len(edit) < len(admin)


def test_rules_that_are_missing_are_added_and_others_stay() -> None:
    expected = named("system:volume-scheduler")
    existing = copy(expected)
    dropped = existing["rules"].pop()
    existing["rules"].append({"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["mine"]})
    mended = reconciled(existing, expected)
    assert mended is not None
    assert mended["rules"][: len(existing["rules"])] == existing["rules"]
    added = mended["rules"][len(existing["rules"]) :]
    assert {(rule["verbs"][0], rule["resources"][0]) for rule in added} == {
        (verb, dropped["resources"][0]) for verb in dropped["verbs"]
    }
    assert reconciled(mended, expected) is None


def test_subjects_labels_and_selectors_that_are_missing_are_added() -> None:
    binding = named("cluster-admin", "ClusterRoleBinding")
    other = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "me"}
    mended = reconciled({**binding, "subjects": [other]}, binding)
    assert mended is not None and mended["subjects"] == [other, *binding["subjects"]]
    view = named("view")
    bare = {**copy(view), "metadata": {"name": "view"}, "aggregationRule": {"clusterRoleSelectors": []}}
    mended = reconciled(bare, view)
    assert mended is not None and mended["aggregationRule"] == view["aggregationRule"]
    assert mended["metadata"]["labels"] == view["metadata"]["labels"]


def test_what_is_not_to_be_updated_is_left_alone() -> None:
    expected = named("system:volume-scheduler")
    existing = copy(expected)
    existing["rules"] = []
    existing["metadata"]["annotations"] = {"rbac.authorization.kubernetes.io/autoupdate": "false"}
    assert reconciled(existing, expected) is None


def test_a_binding_of_another_role_is_made_anew() -> None:
    binding = named("system:discovery", "ClusterRoleBinding")
    other = {**binding, "roleRef": {**binding["roleRef"], "name": "view"}}
    assert must_be_recreated(other, binding) and not must_be_recreated(binding, binding)
