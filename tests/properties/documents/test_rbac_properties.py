"""RBAC against slow twins: the index against a walk over all documents, covering against every request there is."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from math import prod
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from tonnage.documents.access.attributes import Attributes
from tonnage.documents.access.escalation import boxes_of, compacted, single_rights, uncovered
from tonnage.documents.access.policy import AccessPolicy
from tonnage.documents.access.rules import Rule, RuleIndex, document_of
from tonnage.objects.users import User

Doc = dict[str, Any]

VERBS = ["get", "create", "*"]
GROUPS = ["", "apps", "*"]
RESOURCES = ["pods", "pods/status", "nodes", "*/status", "*"]
NAMES = ["a", "b"]
URLS = ["/metrics", "/api", "/api/*", "/apis*", "*"]
NAMESPACES = ["shop", "ops"]


def some(values: list[str], least: int = 1) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(values), min_size=least, max_size=2, unique=True).map(tuple)


ABOUT_RESOURCES = st.builds(Rule, some(VERBS), some(GROUPS), some(RESOURCES), some(NAMES, 0))
ABOUT_PATHS = some(URLS).flatmap(lambda urls: some(VERBS).map(lambda verbs: Rule(verbs, non_resource_urls=urls)))
RULES = ABOUT_RESOURCES | ABOUT_PATHS
USERS = st.builds(
    lambda name, groups: User(name, groups=groups),
    st.sampled_from(["jane", "joe", "system:serviceaccount:shop:web", "system:serviceaccount:ops:web"]),
    some(["dev", "ops"], 0),
)
REQUESTS = st.builds(
    Attributes,
    USERS,
    st.sampled_from(["get", "create", "list"]),
    group=st.sampled_from(["", "apps"]),
    resource=st.sampled_from(["pods", "nodes"]),
    subresource=st.sampled_from(["", "status", "log"]),
    namespace=st.sampled_from(["", *NAMESPACES]),
    name=st.sampled_from(["", "a", "c"]),
) | st.builds(Attributes, USERS, st.sampled_from(["get", "post"]), path=st.sampled_from(["/metrics", "/api/v1", "/x"]))


def subjects() -> st.SearchStrategy[Doc]:
    users = st.sampled_from(["jane", "joe"]).map(lambda name: {"kind": "User", "name": name})
    groups = st.sampled_from(["dev", "ops"]).map(lambda name: {"kind": "Group", "name": name})
    accounts = st.sampled_from([{}, {"namespace": "shop"}, {"namespace": "ops"}]).map(
        lambda where: {"kind": "ServiceAccount", "name": "web", **where}
    )
    return users | groups | accounts


ROLES = st.tuples(
    st.sampled_from(["", *NAMESPACES]), st.sampled_from(["r", "s"]), st.lists(RULES.map(document_of), max_size=2)
)
BINDINGS = st.tuples(
    st.sampled_from(["", *NAMESPACES]),
    st.sampled_from(["x", "y"]),
    st.sampled_from(["Role", "ClusterRole"]),
    st.sampled_from(["r", "s", "gone"]),
    st.lists(subjects(), max_size=2),
)
STEPS = st.lists(
    st.tuples(st.just("role"), ROLES, st.booleans()) | st.tuples(st.just("binding"), BINDINGS, st.booleans()),
    max_size=12,
)


class Twin:
    """All documents, gone through for each question, as upstream's documentation tells it."""

    def __init__(self) -> None:
        self.roles: dict[tuple[str, str], Doc] = {}
        self.bindings: dict[tuple[str, str], Doc] = {}

    def allows(self, asked: Attributes) -> bool:
        for (namespace, _), binding in self.bindings.items():
            if namespace not in ("", asked.namespace) or not any(
                self.is_for(each, asked.user, namespace) for each in binding["subjects"]
            ):
                continue
            home = namespace if binding["roleRef"]["kind"] == "Role" else ""
            if binding["roleRef"]["kind"] == "Role" and not namespace:
                continue  # a ClusterRoleBinding has no namespace to find a Role in
            role = self.roles.get((home, binding["roleRef"]["name"]), {"rules": []})
            if any(self.rule_allows(rule, asked) for rule in role["rules"]):
                return True
        return False

    @staticmethod
    def is_for(subject: Doc, user: User, namespace: str) -> bool:
        if subject["kind"] == "Group":
            return subject["name"] in user.groups
        if subject["kind"] == "User":
            return bool(subject["name"] == user.name)
        home = subject.get("namespace", namespace)
        return bool(home) and user.name == f"system:serviceaccount:{home}:{subject['name']}"

    @staticmethod
    def rule_allows(rule: Doc, asked: Attributes) -> bool:
        def has(field: str, *values: str) -> bool:
            return any(value in rule.get(field, ()) for value in ("*", *values))

        if not has("verbs", asked.verb):
            return False
        if asked.path:
            return any(
                url == asked.path or (url.endswith("*") and asked.path.startswith(url.rstrip("*")))
                for url in rule.get("nonResourceURLs", ())
            )
        spelled = [asked.resource] if not asked.subresource else []
        if asked.subresource:
            spelled = [f"{asked.resource}/{asked.subresource}", f"*/{asked.subresource}"]
        names = rule.get("resourceNames", ())
        return has("apiGroups", asked.group) and has("resources", *spelled) and (not names or asked.name in names)


@settings(max_examples=tries(150))
@given(STEPS, st.lists(REQUESTS, min_size=1, max_size=6))
def test_the_index_answers_as_a_walk_over_all_documents_after_every_change(
    steps: list[tuple[str, Any, bool]], requests: list[Attributes]
) -> None:
    policy, twin = AccessPolicy(), Twin()
    for kind, what, is_dropped in steps:
        namespace, name = what[:2]
        meta = {"name": name} | ({"namespace": namespace} if namespace else {})
        if kind == "role":
            doc: Doc = {"metadata": meta, "rules": what[2]}
            known, put, drop = twin.roles, policy.put_role, policy.drop_role
        else:
            doc = {"metadata": meta, "roleRef": {"kind": what[2], "name": what[3]}, "subjects": what[4]}
            known, put, drop = twin.bindings, policy.put_binding, policy.drop_binding
        if is_dropped:
            known.pop((namespace, name), None)
            drop(namespace, name)
        else:
            known[namespace, name] = doc
            put(doc)
        for asked in requests:
            assert policy.authorize(asked).allowed is twin.allows(asked)


ASKER = User("u")
FRESH = "something-else"
EVERY_REQUEST = [
    Attributes(ASKER, verb, group=group, resource=resource, subresource=subresource, name=name)
    for verb, group, resource, subresource, name in product(
        ["get", "create", FRESH],
        ["", "apps", FRESH],
        ["pods", "nodes", FRESH],
        ["", "status", FRESH],
        ["", "a", "b", FRESH],
    )
] + [
    Attributes(ASKER, verb, path=path)
    for verb, path in product(
        ["get", "create", FRESH], ["/metrics", "/api", f"/api/{FRESH}", "/apis", f"/apis{FRESH}", f"/{FRESH}", FRESH]
    )
]
"""With a value in each place that no rule names: what a `*` stands for beside all the others."""


def allows(rules: Iterable[Rule], asked: Attributes) -> bool:
    return any(Twin.rule_allows(document_of(rule), asked) for rule in rules)


def taken_apart(rules: Iterable[Rule]) -> list[Rule]:
    """Every single right, by the product that `covering` never works out."""
    return [
        Rule((verb,), (group,), (resource,), names)
        for rule in rules
        for group, resource, verb in product(rule.api_groups, rule.resources, rule.verbs)
        for names in ([(name,) for name in rule.resource_names] if rule.resource_names else [()])
    ] + [
        Rule((verb,), non_resource_urls=(url,))
        for rule in rules
        for url, verb in product(rule.non_resource_urls, rule.verbs)
    ]


def covers(rule: Rule, right: Rule) -> bool:
    """Mirrors ruleCovers of component-helpers, for a single right."""

    def has(values: tuple[str, ...], asked: tuple[str, ...]) -> bool:
        return "*" in values or set(asked) <= set(values)

    def has_resource(resource: str) -> bool:
        _, slash, subresource = resource.partition("/")
        return has(rule.resources, (resource,)) or (bool(slash) and f"*/{subresource}" in rule.resources)

    def has_url(url: str) -> bool:
        return any(
            pattern == url or (pattern.endswith("*") and url.startswith(pattern.rstrip("*")))
            for pattern in rule.non_resource_urls
        )

    return (
        has(rule.verbs, right.verbs)
        and has(rule.api_groups, right.api_groups)
        and all(map(has_resource, right.resources))
        and (
            not rule.resource_names
            or (bool(right.resource_names) and set(right.resource_names) <= set(rule.resource_names))
        )
        and all(map(has_url, right.non_resource_urls))
    )


MIXED = st.builds(Rule, some(VERBS, 0), some(GROUPS, 0), some(RESOURCES, 0), some(NAMES, 0), some(URLS, 0))
"""Rules as they come in, before anybody has looked whether they make sense."""


@settings(max_examples=tries(300))
@given(st.lists(st.lists(RULES | MIXED, max_size=4), max_size=2), st.lists(RULES | MIXED, max_size=3))
def test_what_is_not_covered_is_what_the_product_of_all_rights_says(
    owned: list[list[Rule]], wanted: list[Rule]
) -> None:
    held = [rule for rules in owned for rule in rules]
    expected = [right for right in taken_apart(wanted) if not any(covers(rule, right) for rule in held)]
    left = uncovered([RuleIndex(tuple(rules)) for rules in owned], wanted)
    rights = [right for box in left for right in single_rights(box)]
    assert set(rights) == set(expected)
    for rule in wanted:
        alone = uncovered([RuleIndex(tuple(rules)) for rules in owned], [rule])
        assert sum(prod(map(len, box.values())) for box in alone) == len(set(taken_apart([rule])) & set(expected))


@settings(max_examples=tries(150))
@given(RULES, RULES)
def test_a_right_is_covered_by_a_rule_exactly_when_the_rule_allows_all_that_the_right_does(
    rule: Rule, other: Rule
) -> None:
    for right in taken_apart([other]):
        allowed = [asked for asked in EVERY_REQUEST if allows([right], asked)]
        assert (not uncovered([RuleIndex((rule,))], [right])) is all(allows([rule], asked) for asked in allowed), right


@settings(max_examples=tries(75))
@given(st.lists(RULES, max_size=4), st.integers(0, 8))
def test_compacting_rules_changes_nothing_of_what_they_allow_and_counts_what_it_leaves_out(
    rules: list[Rule], most: int
) -> None:
    boxes = [box for rule in rules for box in boxes_of(rule)]
    together, more = compacted(boxes, 1_000)
    assert not more and len(together) <= len(taken_apart(rules))
    for asked in EVERY_REQUEST:
        assert allows(together, asked) is allows(rules, asked)
    some_of_them, left_out = compacted(boxes, most)
    assert len(some_of_them) == min(most, len(together)) and set(some_of_them) <= set(together)
    assert left_out >= len(together) - len(some_of_them)


@given(RULES)
def test_a_rule_is_its_document(rule: Rule) -> None:
    assert msgspec.convert(document_of(rule), Rule) == rule
