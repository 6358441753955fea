"""Roles and bindings, and what follows from them: on every server the same answers, in the same words.

Users are those that an administrator says he is (`Impersonate-User`); names are of the test, since a server has one set
of ClusterRoles for all.
"""

from __future__ import annotations

from typing import Any

import pytest

from support.api_servers import ServerApi
from support.eventually import eventually
from support.http import Reply

Doc = dict[str, Any]
GROUP = "rbac.authorization.k8s.io"
RBAC = f"/apis/{GROUP}/v1"
REVIEWS = "/apis/authorization.k8s.io/v1"
READ_PODS: Doc = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}
WRITE_ROLES: Doc = {
    "verbs": ["get", "create", "update", "patch"],
    "apiGroups": [GROUP],
    "resources": ["roles", "rolebindings", "clusterroles", "clusterrolebindings"],
}


class Cast:
    """One user of a test, and what an administrator does for and asks about him."""

    def __init__(self, api: ServerApi, ns: str) -> None:
        self.api, self.ns, self.user = api, ns, f"user-{ns}"

    @property
    def headers(self) -> dict[str, str]:
        return {"Impersonate-User": self.user}

    def role(self, *rules: Doc, name: str = "") -> str:
        name = name or f"role:{self.ns}"
        self.api.create(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": list(rules)})
        return name

    def bind(self, role: str, *, everywhere: bool = False, name: str = "b", kind: str = "ClusterRole") -> None:
        path = f"{RBAC}/clusterrolebindings" if everywhere else f"{RBAC}/namespaces/{self.ns}/rolebindings"
        name = f"{name}-{self.ns}"
        subject = {"kind": "User", "name": self.user}
        self.api.create(
            path, {"metadata": {"name": name}, "roleRef": {"kind": kind, "name": role}, "subjects": [subject]}
        )

    def asks(self, verb: str, resource: str, *, name: str = "", namespace: str | None = None, group: str = "") -> Doc:
        """What the server says to: may he?"""
        resource, _, subresource = resource.partition("/")
        asked = {"verb": verb, "group": group, "resource": resource, "subresource": subresource, "name": name}
        asked["namespace"] = self.ns if namespace is None else namespace
        spec = {"user": self.user, "resourceAttributes": {key: value for key, value in asked.items() if value}}
        answered = self.api.post(f"{REVIEWS}/subjectaccessreviews", {"spec": spec})
        assert answered.code == 201, answered.body
        return dict(answered["status"])

    def may(self, verb: str, resource: str, **where: Any) -> bool:
        return bool(self.asks(verb, resource, **where)["allowed"])

    def settled(self, verb: str, resource: str, **where: Any) -> None:
        """Wait until rules are in force; here they are at once, upstream's authorizer hears of them a moment later."""
        if self.api.is_embedded:
            assert self.may(verb, resource, **where)
        eventually(lambda: self.may(verb, resource, **where), f"{self.user} to be allowed to {verb} {resource}")


@pytest.fixture
def cast(api: ServerApi, ns: str) -> Cast:
    return Cast(api, ns)


# -- rules ------------------------------------------------------------------------------------------------------------

RULES: list[tuple[str, Doc, list[str], list[str]]] = [
    ("a verb on a resource", READ_PODS, ["get pods", "list pods"], ["watch pods", "get pods/status", "get nodes"]),
    ("every verb", {**READ_PODS, "verbs": ["*"]}, ["get pods", "frob pods", "create pods"], ["get pods/log"]),
    ("every group", {**READ_PODS, "apiGroups": ["*"]}, ["get pods", "get pods.example.com"], ["get nodes"]),
    ("another group", {**READ_PODS, "apiGroups": ["apps"]}, ["get pods.apps"], ["get pods"]),
    ("every resource", {**READ_PODS, "resources": ["*"]}, ["get pods", "get nodes/status"], ["get pods.apps"]),
    ("a subresource", {**READ_PODS, "resources": ["pods/status"]}, ["get pods/status"], ["get pods", "get pods/log"]),
    ("one of all", {**READ_PODS, "resources": ["*/status"]}, ["get pods/status", "get nodes/status"], ["get pods"]),
    ("no such thing", {**READ_PODS, "resources": ["pods/*"]}, [], ["get pods", "get pods/status"]),
    ("names", {**READ_PODS, "resourceNames": ["a"]}, ["get pods a"], ["get pods", "get pods b", "list pods"]),
]


@pytest.mark.parametrize(("about", "rule", "allowed", "denied"), RULES, ids=[row[0] for row in RULES])
def test_a_rule_allows_what_it_says(cast: Cast, about: str, rule: Doc, allowed: list[str], denied: list[str]) -> None:
    cast.bind(cast.role(rule, {"verbs": ["settle"], "apiGroups": [""], "resources": ["pods"]}), everywhere=True)
    cast.settled("settle", "pods")

    def answer(question: str) -> bool:
        verb, what, name = (*question.split(), "")[:3]
        plural, slash, subresource = what.partition("/")
        resource, _, group = plural.partition(".")
        return cast.may(verb, f"{resource}{slash}{subresource}", group=group, name=name)

    assert {question: answer(question) for question in (*allowed, *denied)} == (
        dict.fromkeys(allowed, True) | dict.fromkeys(denied, False)
    )


def test_paths_that_are_no_resources(cast: Cast) -> None:
    urls = ["/one", "/all/*", "/pre*"]
    cast.bind(cast.role({"verbs": ["get"], "nonResourceURLs": urls}, READ_PODS), everywhere=True)
    cast.settled("get", "pods")

    def may(path: str, verb: str = "get") -> bool:
        spec = {"user": cast.user, "nonResourceAttributes": {"path": path, "verb": verb}}
        return bool(cast.api.post(f"{REVIEWS}/subjectaccessreviews", {"spec": spec})["status"]["allowed"])

    assert all(may(path) for path in ("/one", "/all/", "/all/x/y", "/pre", "/prefix"))
    assert not any(may(path) for path in ("/one/", "/all", "/", "/metrics")) and not may("/one", "post")
    refused = cast.api.get("/two?x=y", extra=cast.headers)
    assert refused.code == 403
    assert refused.message == f'forbidden: User "{cast.user}" cannot get path "/two"'


def test_a_role_binding_counts_in_its_namespace_and_a_cluster_role_binding_everywhere(cast: Cast) -> None:
    role = cast.role(READ_PODS)
    cast.bind(role)
    cast.settled("get", "pods")
    assert not cast.may("get", "pods", namespace="default") and not cast.may("get", "pods", namespace="")
    told = f'RBAC: allowed by RoleBinding "b-{cast.ns}/{cast.ns}" of ClusterRole "{role}" to User "{cast.user}"'
    assert cast.asks("get", "pods") == {"allowed": True, "reason": told}
    cast.bind(role, everywhere=True)
    cast.settled("get", "pods", namespace="default")
    assert cast.may("get", "pods", namespace="")


def test_groups_and_accounts_are_subjects_too(api: ServerApi, ns: str) -> None:
    base = f"{RBAC}/namespaces/{ns}"
    api.create(f"{base}/roles", {"metadata": {"name": "r"}, "rules": [READ_PODS]})
    subjects = [{"kind": "Group", "name": f"g-{ns}"}, {"kind": "ServiceAccount", "name": "web"}]
    made = api.create(
        f"{base}/rolebindings",
        {"metadata": {"name": "b"}, "roleRef": {"kind": "Role", "name": "r"}, "subjects": subjects},
    )
    assert made["roleRef"]["apiGroup"] == GROUP
    assert made["subjects"] == [{"kind": "Group", "apiGroup": GROUP, "name": f"g-{ns}"}, subjects[1]]

    def status(**who: Any) -> Doc:
        spec = {**who, "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": ns}}
        return dict(api.post(f"{REVIEWS}/subjectaccessreviews", {"spec": spec})["status"])

    eventually(lambda: status(groups=[f"g-{ns}"])["allowed"], "the binding to be in force")
    told = f'RBAC: allowed by RoleBinding "b/{ns}" of Role "r" to'
    assert status(groups=["x", f"g-{ns}"])["reason"] == f'{told} Group "g-{ns}"'
    assert status(user=f"system:serviceaccount:{ns}:web")["reason"] == f'{told} ServiceAccount "web/{ns}"'
    assert status(user="system:serviceaccount:default:web") == {"allowed": False}
    assert status(user=f"g-{ns}") == {"allowed": False}


def test_requests_are_judged_and_refused_in_upstreams_words(cast: Cast) -> None:
    api, ns = cast.api, cast.ns
    listed = api.get(f"/api/v1/namespaces/{ns}/pods", extra=cast.headers)
    told = f'User "{cast.user}" cannot list resource "pods" in API group "" in the namespace "{ns}"'
    assert (listed.code, listed.reason, listed.message) == (403, "Forbidden", f"pods is forbidden: {told}")
    one = api.get(f"/apis/storage.k8s.io/v1/csinodes/{ns}", extra=cast.headers)
    told = f'User "{cast.user}" cannot get resource "csinodes" in API group "storage.k8s.io" at the cluster scope'
    assert one.message == f'csinodes.storage.k8s.io "{ns}" is forbidden: {told}'
    cast.bind(cast.role(READ_PODS))
    cast.settled("list", "pods")
    assert api.get(f"/api/v1/namespaces/{ns}/pods", extra=cast.headers).names == []


def test_a_binding_of_a_role_that_is_not_there_is_told(cast: Cast) -> None:
    cast.bind(f"gone-{cast.ns}", everywhere=True)
    told = f'RBAC: clusterrole.{GROUP} "gone-{cast.ns}" not found'
    eventually(lambda: cast.asks("get", "pods").get("reason") == told, "the binding to be seen")
    assert cast.asks("get", "pods") == {"allowed": False, "reason": told}
    refused = cast.api.get(f"/api/v1/namespaces/{cast.ns}/pods/x", extra=cast.headers)
    assert refused.message.endswith(f'in the namespace "{cast.ns}": {told}')


def test_what_is_taken_away_is_gone(cast: Cast) -> None:
    role = cast.role(READ_PODS)
    cast.bind(role)
    cast.settled("get", "pods")
    cast.api.patch(f"{RBAC}/clusterroles/{role}", {"rules": []})
    if cast.api.is_embedded:
        assert not cast.may("get", "pods")
    eventually(lambda: not cast.may("get", "pods"), "the rule to be gone")


# -- escalation -------------------------------------------------------------------------------------------------------


def missing(cast: Cast, *rules: str) -> str:
    who = f'user "{cast.user}" (groups=["system:authenticated"])'
    return f"{who} is attempting to grant RBAC permissions not currently held:\n" + "\n".join(rules)


def as_user(cast: Cast, method: str, path: str, body: Doc, **options: Any) -> Reply:
    return cast.api.request(method, path, body, extra=cast.headers, **options)


def test_nobody_writes_a_role_with_rights_that_he_has_not(cast: Cast) -> None:
    cast.bind(cast.role(WRITE_ROLES, READ_PODS), everywhere=True)
    cast.settled("create", "roles", group=GROUP)
    roles = f"{RBAC}/namespaces/{cast.ns}/roles"
    beyond = {**READ_PODS, "resources": ["pods", "secrets"]}
    told = missing(cast, '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}')
    refused = as_user(cast, "POST", roles, {"metadata": {"name": "r"}, "rules": [beyond]})
    assert (refused.code, refused.message) == (403, f'roles.{GROUP} "r" is forbidden: {told}')
    assert as_user(cast, "POST", roles, {"metadata": {"name": "r"}, "rules": [READ_PODS]}).code == 201
    bodies = {"kind": "Role", "apiVersion": f"{GROUP}/v1", "metadata": {"name": "r"}, "rules": [beyond]}
    for method, media in (
        ("PUT", "application/json"),
        ("PATCH", "application/merge-patch+json"),
        ("PATCH", "application/strategic-merge-patch+json"),
    ):
        refused = as_user(cast, method, f"{roles}/r", bodies, content_type=media)
        assert (refused.code, refused.message) == (403, f'roles.{GROUP} "r" is forbidden: {told}'), media
    for name in ("r", "applied"):
        applied = {**bodies, "metadata": {"name": name}}
        path = f"{roles}/{name}?fieldManager=m&force=true"
        refused = as_user(cast, "PATCH", path, applied, content_type="application/apply-patch+yaml")
        assert (refused.code, refused.message) == (403, f'roles.{GROUP} "{name}" is forbidden: {told}')
    put = {**bodies, "metadata": {"name": "put"}}
    assert as_user(cast, "PUT", f"{roles}/put", put).message == f'roles.{GROUP} "put" is forbidden: {told}'
    assert (
        as_user(
            cast,
            "PATCH",
            f"{roles}/r",
            {"metadata": {"labels": {"a": "b"}}},
            content_type="application/merge-patch+json",
        ).code
        == 200
    )
    twice = {"verbs": ["get"], "nonResourceURLs": ["/x"]}, {**READ_PODS, "verbs": ["*"], "resourceNames": ["a"]}
    refused = as_user(cast, "POST", f"{RBAC}/clusterroles", {"metadata": {"name": cast.ns}, "rules": [*twice, {}]})
    rules = [
        '{APIGroups:[""], Resources:["pods"], ResourceNames:["a"], Verbs:["*"]}',
        '{NonResourceURLs:["/x"], Verbs:["get"]}',
    ]
    assert refused.message == f'clusterroles.{GROUP} "{cast.ns}" is forbidden: {missing(cast, *rules)}'


def test_what_the_garbage_collector_does_to_a_role_gives_nothing_away(cast: Cast) -> None:
    cast.bind(cast.role(WRITE_ROLES), everywhere=True)
    cast.settled("patch", "roles", group=GROUP)
    roles = f"{RBAC}/namespaces/{cast.ns}/roles"
    cast.api.create(roles, {"metadata": {"name": "r", "finalizers": ["example.com/a"]}, "rules": [READ_PODS]})
    merge = {"content_type": "application/merge-patch+json"}
    assert as_user(cast, "PATCH", f"{roles}/r", {"metadata": {"finalizers": None}}, **merge).code == 200
    same = cast.api.get(f"{roles}/r").body
    assert as_user(cast, "PUT", f"{roles}/r", same).code == 200
    assert as_user(cast, "PATCH", f"{roles}/r", {"metadata": {"labels": {"a": "b"}}}, **merge).code == 403


def test_a_name_that_is_to_be_made_up_is_not_told(cast: Cast) -> None:
    cast.bind(cast.role(WRITE_ROLES), everywhere=True)
    cast.settled("create", "roles", group=GROUP)
    roles = f"{RBAC}/namespaces/{cast.ns}/roles"
    refused = as_user(cast, "POST", roles, {"metadata": {"generateName": "r-"}, "rules": [READ_PODS]})
    told = missing(cast, '{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}')
    assert (refused.code, refused.message) == (403, f"roles.{GROUP} is forbidden: {told}")


def test_the_verb_escalate_allows_it(cast: Cast) -> None:
    escalate = {"verbs": ["escalate"], "apiGroups": [GROUP], "resources": ["roles"], "resourceNames": ["r"]}
    cast.bind(cast.role(WRITE_ROLES, escalate), everywhere=True)
    cast.settled("escalate", "roles", group=GROUP, name="r")
    roles = f"{RBAC}/namespaces/{cast.ns}/roles"
    body = {"metadata": {"name": "r"}, "rules": [READ_PODS]}
    assert as_user(cast, "POST", roles, body).code == 403  # the URL of a creation has no name
    cast.api.create(roles, {"metadata": {"name": "r"}})
    assert as_user(cast, "PUT", f"{roles}/r", body).code == 200


def test_nobody_binds_a_role_whose_rights_he_has_not_unless_he_may_bind_it(cast: Cast) -> None:
    target = cast.role(READ_PODS, name=f"target:{cast.ns}")
    bind = {"verbs": ["bind"], "apiGroups": [GROUP], "resources": ["clusterroles"], "resourceNames": ["view"]}
    cast.bind(cast.role(WRITE_ROLES, bind), everywhere=True)
    cast.settled("bind", "clusterroles", group=GROUP, name="view")
    bindings = f"{RBAC}/namespaces/{cast.ns}/rolebindings"

    def body(role: str, name: str = "new", kind: str = "ClusterRole") -> Doc:
        return {"metadata": {"name": name}, "roleRef": {"kind": kind, "name": role}}

    told = missing(cast, '{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}')
    refused = as_user(cast, "POST", bindings, body(target))
    assert (refused.code, refused.message) == (403, f'rolebindings.{GROUP} "new" is forbidden: {told}')
    refused = as_user(cast, "POST", f"{RBAC}/clusterrolebindings", body(target, cast.ns))
    assert refused.message == f'clusterrolebindings.{GROUP} "{cast.ns}" is forbidden: {told}'
    absent = as_user(cast, "POST", bindings, body("gone", kind="Role"))
    assert (absent.code, absent.message) == (404, f'rolebindings.{GROUP} "gone" not found')  # sic
    assert as_user(cast, "POST", bindings, body("view")).code == 201
    odd = as_user(cast, "POST", bindings, body("gone", kind="Banana"))
    assert (odd.code, odd.message) == (500, 'unsupported role reference kind: "Banana"')
    nowhere = as_user(cast, "POST", f"{RBAC}/clusterrolebindings", body("any", kind="Role"))  # which namespace's?
    assert (nowhere.code, nowhere.message) == (400, "Namespace parameter required.")
    cast.bind(f"lost-{cast.ns}", everywhere=True, name="lost")
    seen = f'{told}; resolution errors: [rolebindings.{GROUP} "lost-{cast.ns}" not found]'
    refused = as_user(cast, "POST", bindings, body(target))
    assert refused.message == f'rolebindings.{GROUP} "new" is forbidden: {seen}'
    cast.api.delete(f"{RBAC}/clusterrolebindings/lost-{cast.ns}")
    cast.api.create(bindings, body(target, "other"))
    subjects = {"subjects": [{"kind": "User", "name": "x", "apiGroup": GROUP}]}
    refused = as_user(cast, "PATCH", f"{bindings}/other", subjects, content_type="application/merge-patch+json")
    assert refused.message == f'rolebindings.{GROUP} "other" is forbidden: {told}'


def test_an_aggregation_rule_needs_every_right(cast: Cast) -> None:
    cast.bind(cast.role(WRITE_ROLES), everywhere=True)
    cast.settled("create", "clusterroles", group=GROUP)
    gathers = {"clusterRoleSelectors": [{"matchLabels": {"no": "such"}}]}
    refused = as_user(cast, "POST", f"{RBAC}/clusterroles", {"metadata": {"name": cast.ns}, "aggregationRule": gathers})
    told = "must have cluster-admin privileges to use the aggregationRule"
    assert (refused.code, refused.message) == (403, f'clusterroles.{GROUP} "{cast.ns}" is forbidden: {told}')


# -- what a document may say -------------------------------------------------------------------------------------------

ONE_SELECTOR = {"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "Is"}]}]}
STRANGE_SUBJECTS = [
    {"kind": "Robot", "name": "x"},
    {"kind": "User", "name": "", "apiGroup": "x"},
    {"kind": "ServiceAccount", "name": "a", "apiGroup": GROUP},
]
BOTH = "rules cannot apply to both regular resources and non-resource URLs"
NO_VERBS = ("rules[0].verbs", "Required value: verbs must contain at least one value")
WRONG: list[tuple[str, Doc, list[tuple[str, str]]]] = [
    (
        "*roles",
        {"rules": [{}]},
        [
            NO_VERBS,
            ("rules[0].apiGroups", "Required value: resource rules must supply at least one api group"),
            ("rules[0].resources", "Required value: resource rules must supply at least one resource"),
        ],
    ),
    (
        "*roles",
        {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"], "resources": ["pods"]}]},
        [
            (
                "rules[0].nonResourceURLs",
                'Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs',
            ),
            ("rules[0].nonResourceURLs", f'Invalid value: ["/x"]: {BOTH}'),
        ],
    ),
    (
        "clusterroles",
        {"rules": [{"verbs": [], "nonResourceURLs": ["/x"], "resourceNames": ["a"]}]},
        [NO_VERBS, ("rules[0].nonResourceURLs", f'Invalid value: ["/x"]: {BOTH}')],
    ),
    (
        "clusterroles",
        {"aggregationRule": {}},
        [
            (
                "aggregationRule.clusterRoleSelectors",
                "Required value: at least one clusterRoleSelector required if aggregationRule is non-nil",
            )
        ],
    ),
    (
        "clusterroles",
        {"aggregationRule": ONE_SELECTOR},
        [
            (
                "aggregationRule.clusterRoleSelectors[0].matchExpressions[0].operator",
                'Invalid value: "Is": not a valid selector operator',
            ),
            ("aggregationRule.clusterRoleSelectors[0]", "Invalid value: null: invalid label selector."),
        ],
    ),
    (
        "*rolebindings",
        {"roleRef": {"kind": "Banana", "name": "a/b", "apiGroup": "x"}},
        [
            ("roleRef.apiGroup", f'Unsupported value: "x": supported values: "{GROUP}"'),
            ("roleRef.kind", 'Unsupported value: "Banana": supported values: "Role", "ClusterRole"'),
            ("roleRef.name", "Invalid value: \"a/b\": may not contain '/'"),
        ],
    ),
    ("*rolebindings", {"roleRef": {"kind": "Role", "name": ""}}, [("roleRef.name", "Required value")]),
    (
        "clusterrolebindings",
        {"roleRef": {"kind": "Role", "name": ".."}},
        [
            ("roleRef.kind", 'Unsupported value: "Role": supported values: "ClusterRole"'),
            ("roleRef.name", "Invalid value: \"..\": may not be '..'"),
        ],
    ),
    (
        "*rolebindings",
        {"roleRef": {"kind": "Role", "name": "r"}, "subjects": STRANGE_SUBJECTS},
        [
            ("subjects[0].kind", 'Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"'),
            ("subjects[1].name", "Required value"),
            ("subjects[1].apiGroup", f'Unsupported value: "x": supported values: "{GROUP}"'),
            ("subjects[2].apiGroup", f'Unsupported value: "{GROUP}": supported values: ""'),
        ],
    ),
    (
        "clusterrolebindings",
        {"roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [{"kind": "ServiceAccount", "name": "x"}]},
        [("subjects[0].namespace", "Required value")],
    ),
]


@pytest.mark.parametrize(("plural", "body", "causes"), WRONG)
def test_what_is_wrong_is_told_field_by_field(
    api: ServerApi, ns: str, plural: str, body: Doc, causes: list[tuple[str, str]]
) -> None:
    scope = f"/namespaces/{ns}" if plural.startswith("*") else ""
    refused = api.post(f"{RBAC}{scope}/{plural.strip('*')}", {"metadata": {"name": "wrong"}, **body})
    assert (refused.code, refused.causes) == (422, causes)


def test_a_name_may_have_colons_and_a_role_reference_never_changes(api: ServerApi, ns: str) -> None:
    path = f"{RBAC}/namespaces/{ns}/rolebindings"
    api.create(path, {"metadata": {"name": "a:B c"}, "roleRef": {"kind": "Role", "name": "x:Y"}})
    assert api.get(f"{path}/a:B%20c").meta["name"] == "a:B c"
    refused = api.post(path, {"metadata": {"name": "a/b"}, "roleRef": {"kind": "Role", "name": "r"}})
    assert refused.causes == [("metadata.name", "Invalid value: \"a/b\": may not contain '/'")]
    refused = api.patch(f"{path}/a:B%20c", {"roleRef": {"kind": "ClusterRole"}})
    shown = f'{{"APIGroup":"{GROUP}","Kind":"ClusterRole","Name":"x:Y"}}'
    assert (refused.code, refused.causes) == (422, [("roleRef", f"Invalid value: {shown}: cannot change roleRef")])
