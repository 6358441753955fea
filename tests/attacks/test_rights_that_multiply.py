"""Roles, bindings and reviews of a few bytes that stand for very many rights: judged by their bytes, told in short.

A namespace's own administrator can write all of these. What is counted is steps, characters and bytes that stay, so a
busy machine makes no difference; `test_server_stays_responsive.py` sends some of them to a server.
"""

from __future__ import annotations

import random
import sys
import tracemalloc
from typing import Any

import pytest

from tonnage.documents.access.attributes import MAX_ANSWERED_CHARS, Attributes, rules_status
from tonnage.documents.access.bootstrap_policy import bootstrap_policy
from tonnage.documents.access.escalation import TooManySteps, refuse_escalation, uncovered
from tonnage.documents.access.policy import AccessPolicy
from tonnage.documents.access.rules import Rule, RuleIndex, aggregated_rules, rules_of
from tonnage.errors import Forbidden
from tonnage.objects.document import encode
from tonnage.objects.resources import BY_PLURAL, RBAC
from tonnage.objects.users import User

Doc = dict[str, Any]
JANE = User("jane", groups=("system:authenticated",))
SUBJECT = {"kind": "User", "name": "jane"}
READ_PODS: Doc = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
TOLD_BYTES = 64 * 1024


def bound(role: Doc, name: str = "b") -> Doc:
    kind = "Role" if "namespace" in role["metadata"] else "ClusterRole"
    reference = {"apiGroup": RBAC, "kind": kind, "name": role["metadata"]["name"]}
    return {"metadata": {"name": name, "namespace": "shop"}, "roleRef": reference, "subjects": [SUBJECT]}


def role(name: str, *rules: Doc) -> Doc:
    return {"metadata": {"name": name, "namespace": "shop"}, "rules": list(rules)}


@pytest.fixture
def policy() -> AccessPolicy:
    """A cluster with Kubernetes' own roles, in which jane is the administrator of one namespace."""
    made = AccessPolicy()
    for doc in bootstrap_policy():
        (made.put_binding if "roleRef" in doc else made.put_role)(doc)
    made.put_binding(bound({"metadata": {"name": "admin"}}))
    return made


def write(policy: AccessPolicy, doc: Doc) -> None:
    resource = BY_PLURAL[RBAC, "rolebindings" if "roleRef" in doc else "roles"]
    refuse_escalation(resource, "shop", "", doc, None, user=JANE, rights=policy)


def multiplied(count: int, **fields: list[str]) -> Doc:
    """A rule of so many groups, resources, verbs and names: their product in rights."""
    names = {"apiGroups": "g", "resources": "r", "verbs": "v", "resourceNames": "n"}
    return {field: [f"{letter}{i}" for i in range(count)] for field, letter in names.items()} | fields


@pytest.mark.parametrize(
    "rule",
    [
        multiplied(20),
        multiplied(35),
        multiplied(2_000),
        multiplied(35, apiGroups=["", "apps", "batch"], resources=["pods", "secrets", "jobs", "x"], verbs=["get", "x"]),
        multiplied(50_000, apiGroups=[""], resources=["pods", "nodes"], verbs=["get", "list", "x"]),
        multiplied(10, apiGroups=["*"], resources=["*", "*/status", "pods/status"], verbs=["*"]),
        multiplied(1_000, nonResourceURLs=[f"/u{i}/*" for i in range(1_000)]),
    ],
)
def test_a_rule_is_judged_by_its_bytes_and_refused_in_short(policy: AccessPolicy, rule: Doc) -> None:
    held = policy.sheet(JANE, "shop").roles
    steps = 20 * len(encode(rule)) + 10_000
    assert uncovered(held, rules_of(role("x", rule)), max_steps=steps)
    with pytest.raises(Forbidden) as refused:
        write(policy, role("x", rule))
    assert "is attempting to grant RBAC permissions not currently held:\n{" in refused.value.message
    assert len(refused.value.message) < TOLD_BYTES


def test_a_refusal_counts_what_it_does_not_list(policy: AccessPolicy) -> None:
    with pytest.raises(Forbidden) as refused:
        write(policy, role("x", multiplied(35)))
    lines = refused.value.message.splitlines()
    # 35 groups x 35 resources x 35 names, each with its verbs; one line says who, and one how many more there are.
    assert lines[-1] == f"and {35**3 - (len(lines) - 2)} more"


def test_rules_that_were_written_to_cut_a_box_into_pieces_are_given_up_and_refused() -> None:
    rng = random.Random(1)
    sides = [[f"{letter}{i}" for i in range(30)] for letter in "vgrn"]
    held = tuple(Rule(*(tuple(rng.sample(side, 15)) for side in sides)) for _ in range(300))
    with pytest.raises(TooManySteps):
        uncovered([RuleIndex(held)], [Rule(*map(tuple, sides))], max_steps=20_000)


def test_many_rules_and_many_that_are_held_are_compared_by_what_they_share(policy: AccessPolicy) -> None:
    names = [{**READ_PODS, "resourceNames": [f"n{i}"]} for i in range(2_000)]
    odd = [{"verbs": [f"v{i}"], "apiGroups": [f"g{i}"], "resources": [f"r{i}"]} for i in range(2_000)]
    equal = [READ_PODS] * 20_000
    policy.put_role(role("names", *names))
    policy.put_role(role("odd", *odd))
    policy.put_binding(bound(role("names"), "names"))
    policy.put_binding(bound(role("odd"), "odd"))
    held = policy.sheet(JANE, "shop").roles
    for rules in (names, odd, equal):
        assert not uncovered(held, rules_of(role("x", *rules)), max_steps=100_000)
    write(policy, bound(role("names"), "again"))


def test_questions_about_long_roles_leave_nothing_behind(policy: AccessPolicy) -> None:
    """Each answer once had a set of its own of all the names in a rule."""
    policy.put_role(role("long", {**READ_PODS, "resources": ["*"], "resourceNames": [f"n{i}" for i in range(50_000)]}))
    policy.put_binding(bound(role("long"), "long"))
    asked = [Attributes(JANE, "get", resource=f"r{i}", namespace="shop", name="n1") for i in range(400)]
    assert policy.authorize(asked[0]).allowed
    tracemalloc.start()
    try:
        assert all(policy.authorize(attributes).allowed for attributes in asked)
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
        crowd = tuple(f"group-{i}" for i in range(2_000))
        for i in range(25):
            user = User(f"user-{i}", groups=crowd)
            assert not policy.authorize(Attributes(user, "get", resource="pods", namespace="shop")).allowed
            policy.authorize(Attributes(JANE, "get", path=f"/{i}/" + "x" * 60_000))
        assert tracemalloc.get_traced_memory()[0] < 3_000_000
    finally:
        tracemalloc.stop()


def test_a_change_in_one_namespace_leaves_the_answers_about_others(policy: AccessPolicy) -> None:
    sheet = policy.sheet(JANE, "other")
    policy.put_role(role("mine", READ_PODS))
    policy.put_binding(bound(role("mine"), "mine"))
    assert policy.sheet(JANE, "other") is sheet
    policy.put_role({"metadata": {"name": "everywhere"}})
    assert policy.sheet(JANE, "other") is not sheet


def test_what_one_may_is_an_answer_of_bounded_size(policy: AccessPolicy) -> None:
    for i in range(20):
        policy.put_role(role(f"large-{i}", {**READ_PODS, "resourceNames": [f"{i}-" + "n" * 200_000]}))
        policy.put_binding(bound(role(f"large-{i}"), f"large-{i}"))
    status = rules_status(policy.sheet(JANE, "shop").rules)
    assert status["incomplete"] and len(encode(status)) < MAX_ANSWERED_CHARS * 1.2
    assert any("pods/log" in rule["resources"] for rule in status["resourceRules"])


def test_bindings_of_thousands_of_roles_that_never_were(policy: AccessPolicy) -> None:
    for i in range(2_000):
        policy.put_binding(bound(role(f"gone-{i}"), f"gone-{i}"))
    denied = policy.authorize(Attributes(JANE, "get", resource="nodes", namespace="shop"))
    assert len(denied.reason) < 4_096 and denied.reason.endswith("and 1984 more]")
    with pytest.raises(Forbidden) as refused:
        write(policy, role("x", multiplied(2)))
    assert len(refused.value.message) < TOLD_BYTES


def test_gathering_twenty_thousand_rules() -> None:
    """Each rule was once compared with all before it: 200 million comparisons."""
    labels = {"a": "b"}
    rules = [{**READ_PODS, "resourceNames": [f"n{i}"]} for i in range(20_000)]
    others = [{"metadata": {"name": f"r{i}", "labels": labels}, "rules": rules} for i in range(2)]
    gathering = {"metadata": {"name": "all"}, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": labels}]}}
    assert aggregated_rules(gathering, others) == rules


def test_thousands_of_roles_that_say_nothing_about_what_is_asked(policy: AccessPolicy) -> None:
    """Each is passed over in a few calls; anybody may bind them to everybody in his namespace."""
    for i in range(1_000):
        policy.put_role(role(f"r{i}", {**READ_PODS, "resourceNames": [f"n{i}"]}))
        policy.put_binding(bound(role(f"r{i}"), f"r{i}"))
    calls = 0

    def called(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    assert not policy.authorize(Attributes(JANE, "get", resource="nodes", namespace="shop")).allowed
    sys.setprofile(called)
    try:
        policy.authorize(Attributes(JANE, "get", resource="other", namespace="shop"))
        policy.authorize(Attributes(JANE, "get", resource="pods", namespace="shop", name="other"))
    finally:
        sys.setprofile(None)
    assert calls < 20 * 1_000
