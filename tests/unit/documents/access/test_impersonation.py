"""Speaking for another: which headers name whom, what is asked of the authorizer, and what the refusal says."""

from __future__ import annotations

import pytest

from tonnage.documents.access.attributes import AccessDecision, AllowAll, Attributes
from tonnage.documents.access.impersonation import impersonate, wanted_user
from tonnage.errors import BadRequest, Forbidden
from tonnage.objects.users import MASTERS, User

BOB = User("bob", groups=("system:authenticated",))
LIST_PODS = Attributes(BOB, "list", "", "v1", "pods", "", "shop")


class Rules:
    """Allows what is listed, as `verb resource name`, and remembers what it was asked."""

    def __init__(self, *allowed: str) -> None:
        self.allowed = set(allowed)
        self.asked: list[str] = []

    def authorize(self, attributes: Attributes) -> AccessDecision:
        about = f"{attributes.verb} {attributes.resource_path or attributes.path} {attributes.name}".strip()
        self.asked.append(about)
        return AccessDecision(about in self.allowed)


def wanted(**headers: str) -> User:
    found = wanted_user([(f"Impersonate-{name.replace('_', '-')}", value) for name, value in headers.items()])
    assert found is not None
    return found


def test_without_headers_nobody_is_meant() -> None:
    assert wanted_user([("Authorization", "Bearer x"), ("Impersonated", "y")]) is None


def test_headers_name_a_user_with_everything_that_belongs_to_one() -> None:
    found = wanted_user(
        [
            ("Impersonate-User", "jo"),
            ("impersonate-user", "a second one is not looked at"),
            ("Impersonate-Group", "dev"),
            ("IMPERSONATE-GROUP", "ops"),
            ("Impersonate-Uid", "u-1"),
            ("Impersonate-Extra-Acme.io%2fProject", "a"),
            ("Impersonate-Extra-acme.io%2Fproject", "b"),
            ("Impersonate-Extra-half%2", "c"),
        ]
    )
    assert found == User("jo", "u-1", ("dev", "ops"), {"acme.io/project": ("a", "b"), "half%2": ("c",)})


@pytest.mark.parametrize(
    ("header", "shown"),
    [
        (("Impersonate-Group", "dev"), 'Name:"", UID:"", Groups:[]string{"dev"}, Extra:map[string][]string(nil)'),
        (("Impersonate-Uid", "u"), 'Name:"", UID:"u", Groups:[]string(nil), Extra:map[string][]string(nil)'),
        (
            ("Impersonate-Extra-A", "x"),
            'Name:"", UID:"", Groups:[]string(nil), Extra:map[string][]string{"a":[]string{"x"}}',
        ),
    ],
)
def test_half_a_user_is_a_bad_request(header: tuple[str, str], shown: str) -> None:
    with pytest.raises(BadRequest) as refused:
        wanted_user([header])
    assert refused.value.message == f"requested &user.DefaultInfo{{{shown}}} without impersonating a user name"


@pytest.mark.parametrize(
    ("name", "groups", "expected"),
    [
        ("jo", (), ("system:authenticated",)),
        ("jo", ("dev",), ("dev", "system:authenticated")),
        ("jo", ("system:unauthenticated",), ("system:unauthenticated",)),
        ("system:anonymous", (), ("system:unauthenticated",)),
        ("system:anonymous", ("dev",), ("dev", "system:unauthenticated")),
        (
            "system:serviceaccount:shop:db",
            (),
            ("system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"),
        ),
        ("system:serviceaccount:shop:db", ("dev",), ("dev", "system:authenticated")),
        ("system:serviceaccount:shop", (), ("system:authenticated",)),
        ("system:node:node-1", (), ("system:nodes", "system:authenticated")),
        ("jo", (MASTERS,), (MASTERS, "system:authenticated")),
    ],
)
def test_groups_are_added_as_authentication_would(
    name: str, groups: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    assert impersonate(LIST_PODS, User(name, groups=groups), AllowAll()).groups == expected


def test_the_old_way_asks_for_every_part_of_a_user() -> None:
    rules = Rules(
        "impersonate users jo",
        "impersonate groups dev",
        "impersonate uids u",
        "impersonate userextras/acme.io/project a",
    )
    jo = User("jo", "u", ("dev",), {"acme.io/project": ("a",)})
    assert impersonate(LIST_PODS, jo, rules).name == "jo"
    for part in rules.allowed:
        with pytest.raises(Forbidden):
            impersonate(LIST_PODS, jo, Rules(*(rules.allowed - {part})))


def test_a_constrained_right_is_one_to_a_user_and_one_to_what_is_done() -> None:
    both = ("impersonate-on:user-info:list pods", "impersonate:user-info users jo")
    assert impersonate(LIST_PODS, User("jo"), Rules(*both)).name == "jo"
    for half in both:
        with pytest.raises(Forbidden):
            impersonate(LIST_PODS, User("jo"), Rules(half))


def test_a_constrained_right_never_reaches_masters() -> None:
    rules = Rules(
        "impersonate-on:user-info:list pods", "impersonate:user-info users jo", f"impersonate groups {MASTERS}"
    )
    rules.allowed.add(f"impersonate:user-info groups {MASTERS}")
    with pytest.raises(Forbidden, match="impersonating the system:masters group is not allowed"):
        impersonate(LIST_PODS, User("jo", groups=(MASTERS,)), rules)


def test_a_service_account_may_be_let_speak_for_the_node_its_pod_is_on() -> None:
    agent = User("system:serviceaccount:kube-system:agent", extra={"authentication.kubernetes.io/node-name": ("n1",)})
    asked = Attributes(agent, "list", "", "v1", "pods")
    rules = Rules("impersonate-on:associated-node:list pods", "impersonate:associated-node nodes *")
    assert impersonate(asked, User("system:node:n1"), rules).groups == ("system:nodes", "system:authenticated")
    with pytest.raises(Forbidden):
        impersonate(asked, User("system:node:n2"), rules)


@pytest.mark.parametrize(
    ("user", "message"),
    [
        (
            User("jo"),
            'pods is forbidden: User "bob" cannot impersonate-on:user-info:list resource "pods" in API group "" '
            'in the namespace "shop"',
        ),
        (
            User("system:serviceaccount:shop:db"),
            'pods is forbidden: User "bob" cannot impersonate-on:serviceaccount:list resource "pods" in API group "" '
            'in the namespace "shop"',
        ),
        (
            User("system:serviceaccount:shop:db", groups=("dev",)),
            'serviceaccounts "db" is forbidden: User "bob" cannot impersonate resource "serviceaccounts" in API group '
            '"" in the namespace "shop"',
        ),
    ],
)
def test_a_refusal_is_that_of_the_first_way_that_applies(user: User, message: str) -> None:
    with pytest.raises(Forbidden) as refused:
        impersonate(LIST_PODS, user, Rules())
    assert refused.value.message == message


@pytest.mark.parametrize(
    ("extra", "problem"),
    [
        ({"": ("a",)}, "impersonating the empty string key in extra is not allowed"),
        ({"scopes": ("a",)}, "must be a domain-prefixed path"),
        ({"acme.io/x": ("",)}, "impersonating the empty string value in extra is not allowed"),
        ({"acme_io/x": ("a",)}, "a lowercase RFC 1123 subdomain must consist of"),
        ({"acme.io/x y": ("a",)}, "Invalid path"),
    ],
)
def test_odd_extra_fields_are_for_the_old_way_alone(extra: dict[str, tuple[str, ...]], problem: str) -> None:
    allowed = ("impersonate-on:user-info:list pods", "impersonate:user-info users jo")
    with pytest.raises(Forbidden, match=problem):
        impersonate(LIST_PODS, User("jo", extra=extra), Rules(*allowed))
