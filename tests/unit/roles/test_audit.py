"""Calls compared with rules: what is beyond them, and what of them nobody used."""

from __future__ import annotations

import json

from support.rights_audit import AuditedCall, audit, call_of, calls_in
from tonnage.roles import RoleRule

USER = "system:serviceaccount:kube-system:tonnage-test"


def rule(verbs: str, resources: str, group: str = "", *, names: str = "", namespace: str = "") -> RoleRule:
    return RoleRule(
        "tonnage-test",
        namespace,
        "",
        tuple(verbs.split()),
        groups=(group,),
        resources=tuple(resources.split()),
        names=tuple(names.split()),
    )


def call(
    verb: str, resource: str, group: str = "", *, namespace: str = "", name: str = "", code: int = 200
) -> AuditedCall:
    plural, _, subresource = resource.partition("/")
    return AuditedCall(USER, verb, group, plural, subresource, namespace, name, code=code)


def test_each_verb_on_each_resource_is_a_right_of_its_own() -> None:
    found = audit([call("list", "pods"), call("watch", "nodes")], [rule("list watch", "pods nodes")])
    assert [str(each) for each in found.unused] == ["tonnage-test: list nodes", "tonnage-test: watch pods"]
    assert (found.refused, found.beyond) == ((), ())


def test_a_call_that_was_refused_is_named_even_where_a_rule_allows_it() -> None:
    refused = call("get", "pods", namespace="shop", name="db-0", code=403)
    found = audit([refused], [rule("get", "pods")])
    assert found.refused == (refused,)
    assert str(refused) == f"{USER} get pods shop/db-0: 403"


def test_a_call_that_was_allowed_and_refused_by_admission_is_no_missing_right() -> None:
    event = {
        "stage": "ResponseComplete",
        "verb": "create",
        "user": {"username": USER},
        "objectRef": {"resource": "pods", "namespace": "going"},
        "responseStatus": {"code": 403},
        "annotations": {"authorization.k8s.io/decision": "allow"},
    }
    assert audit([call_of(event)], [rule("create", "pods")]).refused == ()
    assert audit([call_of({**event, "annotations": {}})], [rule("create", "pods")]).refused != ()


def test_a_call_that_no_rule_allows_is_beyond_them_whatever_the_answer_was() -> None:
    asked = call("delete", "pods")
    assert audit([asked], [rule("get", "pods"), rule("delete", "pods/status")]).beyond == (asked,)


def test_a_resource_does_not_allow_its_subresources() -> None:
    asked = call("patch", "pods/status")
    assert audit([asked], [rule("patch", "pods")]).beyond == (asked,)
    assert audit([asked], [rule("patch", "pods/status")]).beyond == ()
    assert audit([asked], [rule("patch", "*/status")]).beyond == ()


def test_a_star_is_every_resource_and_subresource_of_every_group() -> None:
    calls = [call("patch", "pods/status"), call("patch", "leases", "coordination.k8s.io")]
    found = audit(calls, [rule("patch delete", "*", "*")])
    assert found.beyond == ()
    assert [str(each) for each in found.unused] == ["tonnage-test: delete *.*"]


def test_a_rule_with_names_is_about_those_objects_and_each_is_a_right() -> None:
    leases = rule("get", "leases", "coordination.k8s.io", names="a b")
    asked = [call("get", "leases", "coordination.k8s.io", name=name) for name in ("a", "c")]
    found = audit(asked, [leases])
    assert found.beyond == (asked[1],)
    assert [str(each) for each in found.unused] == ["tonnage-test: get leases.coordination.k8s.io b"]


def test_a_role_holds_in_its_namespace() -> None:
    here, there = call("get", "pods", namespace="a"), call("get", "pods", namespace="b")
    found = audit([here, there], [rule("get", "pods", namespace="a")])
    assert found.beyond == (there,)
    assert found.unused == ()


def test_paths_are_allowed_by_themselves_or_by_how_they_begin() -> None:
    rules = [RoleRule("tonnage-test", "", "", ("get",), urls=("/metrics", "/debug/*", "/logs"))]
    calls = [AuditedCall(USER, "get", path=path) for path in ("/metrics", "/debug/assumed", "/secret")]
    found = audit(calls, rules)
    assert found.beyond == (calls[2],)
    assert [str(each) for each in found.unused] == ["tonnage-test: get /logs"]


def test_what_everybody_may_ask_needs_no_rule() -> None:
    calls = [
        AuditedCall(USER, "get", path="/apis/storage.k8s.io/v1"),
        AuditedCall(USER, "get", path="/version"),
        call("create", "selfsubjectaccessreviews", "authorization.k8s.io"),
    ]
    assert audit(calls, []).beyond == ()


def test_calls_are_read_off_an_audit_log() -> None:
    event = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "stage": "ResponseComplete",
        "requestURI": "/api/v1/namespaces/shop/pods/db-0/status?fieldManager=x",
        "verb": "patch",
        "user": {"username": "admin"},
        "impersonatedUser": {"username": USER},
        "userAgent": "tonnage-test/1",
        "objectRef": {
            "resource": "pods",
            "namespace": "shop",
            "name": "db-0",
            "apiVersion": "v1",
            "subresource": "status",
        },
        "responseStatus": {"code": 200},
    }
    other = {**event, "stage": "RequestReceived"}
    path = {"stage": "ResponseComplete", "verb": "get", "requestURI": "/metrics?x=1", "user": {"username": "admin"}}
    assert list(calls_in([json.dumps(event), json.dumps(other), "", json.dumps(path)])) == [
        AuditedCall(USER, "patch", "", "pods", "status", "shop", "db-0", code=200, agent="tonnage-test/1"),
        AuditedCall("admin", "get", path="/metrics", code=0),
    ]
    assert call_of(event).resource_path == "pods/status"
