"""Events of an audit log, as kube-apiserver writes them at level Metadata."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tonnage.apiserver.audit_log import AuditedRequest, cut, event_of, outcome_of, source_ips
from tonnage.documents.access.attributes import AccessDecision, Attributes
from tonnage.objects.users import User, service_account_user

AT = datetime(2026, 11, 15, 2, 29, 13, tzinfo=UTC)
NODE = service_account_user("kube-system", "tonnage-node", "u-1")


def asked(**more: object) -> AuditedRequest:
    return AuditedRequest("id-1", "PATCH", "/api/v1/nodes/n1/status?x=1", "kubelet/1", ("127.0.0.1",), AT, **more)  # type: ignore[arg-type]


def test_an_event_tells_who_what_and_how_it_ended() -> None:
    about = Attributes(NODE, "patch", "", "v1", "nodes", "status", "", "n1")
    request = asked(
        user=NODE, attributes=about, decision=AccessDecision(True, 'RBAC: allowed by ClusterRoleBinding "x"')
    )
    assert event_of(request, "ResponseComplete", outcome_of(200), AT + timedelta(milliseconds=3)) == {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": "id-1",
        "stage": "ResponseComplete",
        "requestURI": "/api/v1/nodes/n1/status?x=1",
        "verb": "patch",
        "user": {
            "username": "system:serviceaccount:kube-system:tonnage-node",
            "uid": "u-1",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"],
        },
        "sourceIPs": ["127.0.0.1"],
        "userAgent": "kubelet/1",
        "objectRef": {"resource": "nodes", "name": "n1", "apiVersion": "v1", "subresource": "status"},
        "responseStatus": {"metadata": {}, "code": 200},
        "requestReceivedTimestamp": "2026-11-15T02:29:13.000000Z",
        "stageTimestamp": "2026-11-15T02:29:13.003000Z",
        "annotations": {
            "authorization.k8s.io/decision": "allow",
            "authorization.k8s.io/reason": 'RBAC: allowed by ClusterRoleBinding "x"',
        },
    }


def test_a_refusal_has_its_reason_and_message() -> None:
    about = Attributes(NODE, "get", path="/metrics")
    request = asked(user=NODE, attributes=about, decision=AccessDecision(False))
    event = event_of(request, "ResponseComplete", outcome_of(403, reason="Forbidden", message="no"), AT)
    assert event["responseStatus"] == {
        "metadata": {},
        "status": "Failure",
        "message": "no",
        "reason": "Forbidden",
        "code": 403,
    }
    assert event["annotations"]["authorization.k8s.io/decision"] == "forbid"
    assert "objectRef" not in event


def test_who_speaks_for_another_is_told_beside_the_other() -> None:
    admin = User("admin", extra={"scopes": ("a", "b")})
    event = event_of(asked(user=admin, attributes=Attributes(NODE, "list")), "ResponseComplete", outcome_of(200), AT)
    assert event["user"] == {"username": "admin", "extra": {"scopes": ["a", "b"]}}
    assert event["impersonatedUser"]["username"] == NODE.name


def test_a_request_without_a_user_has_an_empty_one() -> None:
    event = event_of(asked(), "ResponseComplete", outcome_of(401, reason="Unauthorized", message="Unauthorized"), AT)
    assert (event["user"], event["verb"]) == ({}, "patch")
    assert "impersonatedUser" not in event


def test_a_token_in_the_query_is_not_written() -> None:
    request = asked()
    request.uri = "/api/v1/pods?access_token=s3cret&limit=5"
    event = event_of(request, "ResponseComplete", outcome_of(200), AT)
    assert event["requestURI"] == "/api/v1/pods?access_token=REDACTED&limit=5"


def test_a_long_user_agent_is_cut() -> None:
    assert cut("x" * 1024) == "x" * 1024
    assert cut("x" * 1025) == "x" * 1024 + "...TRUNCATED"


def test_source_addresses_are_those_of_proxies_then_the_peer() -> None:
    assert source_ips({}, "127.0.0.1") == ("127.0.0.1",)
    forwarded = {"X-Forwarded-For": "10.0.0.1, junk, 10.0.0.2", "X-Real-Ip": "10.0.0.9"}
    assert source_ips(forwarded, "127.0.0.1") == ("10.0.0.1", "10.0.0.2", "10.0.0.9", "127.0.0.1")
    assert source_ips({"X-Forwarded-For": "::1"}, "::1") == ("::1",)
    assert source_ips({}, None) == ()
