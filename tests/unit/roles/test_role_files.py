"""The role files: what stands in them, and how they are read."""

from __future__ import annotations

import pytest

from tonnage.objects.resources import RESOURCES
from tonnage.roles import OWN_NAMESPACE, PROGRAMS, account_of, documents_of, rules_of
from tonnage.whatif.scheduler_memory import ASSUMED, NOMINATIONS, RESERVATIONS

ELSEWHERE = {
    ("local.openebs.io", "lvmnodes"),
    ("longhorn.io", "nodes"),
    ("longhorn.io", "settings"),
    ("directpv.min.io", "directpvdrives"),
    ("hwameistor.io", "localstoragenodes"),
    ("zfs.openebs.io", "zfsnodes"),
    ("snapshot.storage.k8s.io", "volumesnapshots"),
    ("snapshot.storage.k8s.io", "volumesnapshotcontents"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("*", "*"),
}
"""Kinds that are in no table of ours, and the wildcard of the garbage collector."""


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_has_an_account_a_role_and_a_binding_of_its_name(program: str) -> None:
    found = {(doc["kind"], doc["metadata"]["name"]) for doc in documents_of(program)}
    for kind in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding"):
        assert (kind, account_of(program)) in found


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_role_is_bound_to_the_programs_account_and_to_nobody_else(program: str) -> None:
    docs = documents_of(program)
    roles = {(each["kind"], each["metadata"]["name"]) for each in docs if each["kind"] in ("ClusterRole", "Role")}
    bound = set()
    for each in docs:
        if each["kind"].endswith("Binding"):
            reference = each["roleRef"]
            bound.add((reference["kind"], reference["name"]))
            subject = {"kind": "ServiceAccount", "name": account_of(program), "namespace": OWN_NAMESPACE}
            assert each["subjects"] == [subject]
    assert roles <= bound
    assert bound - roles <= {("Role", "extension-apiserver-authentication-reader")}


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_rule_has_a_reason(program: str) -> None:
    assert all(rule.reason for rule in rules_of(program))


@pytest.mark.parametrize("program", ["dashboard", "reader"])
def test_who_shows_a_cluster_may_ask_the_scheduler_what_only_it_knows(program: str) -> None:
    allowed = {url for rule in rules_of(program) if rule.verbs == ("get",) for url in rule.urls}
    assert allowed >= {RESERVATIONS, ASSUMED, NOMINATIONS}


@pytest.mark.parametrize("program", PROGRAMS)
def test_rules_name_resources_that_exist(program: str) -> None:
    known = {(each.group, each.plural) for each in RESOURCES} | ELSEWHERE
    for rule in rules_of(program):
        for group in rule.groups:
            for resource in rule.resources:
                assert (group, resource.partition("/")[0]) in known


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_rule_allows_every_verb(program: str) -> None:
    assert not any("*" in rule.verbs for rule in rules_of(program))


def test_the_namespace_of_the_program_is_handed_in_and_kube_system_stays() -> None:
    found = {
        (doc["kind"], doc["metadata"]["name"]): doc["metadata"].get("namespace")
        for doc in documents_of("scheduler", namespace="storage")
    }
    assert found["ServiceAccount", "tonnage-scheduler"] == "storage"
    assert found["Role", "tonnage-scheduler-lease"] == "storage"
    assert found["Role", "tonnage-scheduler-kube-scheduler-lease"] == "kube-system"
    assert found["ClusterRole", "tonnage-scheduler"] is None


def test_what_a_program_can_do_without_can_be_left_out_with_its_binding() -> None:
    rights = dict.fromkeys(rule.right for rule in rules_of("scheduler") if rule.right)
    assert tuple(rights) == ("preemption", "leader-election", "only-scheduler", "serving")
    names = {doc["metadata"]["name"] for doc in documents_of("scheduler", without=rights)}
    assert names == {"tonnage-scheduler"}


def test_the_comment_above_a_rule_is_its_reason() -> None:
    rules = {(rule.verbs, rule.resources): rule for rule in rules_of("scheduler")}
    binding, events = rules[("create",), ("pods/binding",)], rules[("create", "patch"), ("events",)]
    assert (binding.reason, binding.is_needed) == ("Pods are bound to nodes.", True)
    assert (events.reason, events.is_needed) == (
        "people are told by events; those that repeat are counted.",
        False,
    )


def test_a_program_without_a_file_is_an_error_that_names_those_with_one() -> None:
    with pytest.raises(ValueError, match='no role file of "kubelet"; there are: scheduler, '):
        documents_of("kubelet")
