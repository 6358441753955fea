"""What a URL asks for, in an authorizer's words. Cases of upstream's TestGetAPIRequestInfo, and what people try."""

from __future__ import annotations

import pytest

from tonnage.apiserver.requests import is_possible, locate
from tonnage.documents.access.attributes import Attributes, attributes_of, forbidden
from tonnage.objects.users import User

JO = User("jo")


def asked(line: str) -> tuple[str, ...]:
    method, _, url = line.partition(" ")
    path, _, text = url.partition("?")
    query = dict(pair.partition("=")[::2] for pair in text.split("&")) if text else {}
    found = attributes_of(JO, method, path, query)
    if not found.is_resource_request:
        return found.verb, found.path
    return found.verb, found.group, found.resource_path, found.namespace, found.name


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("GET /api/v1/namespaces", ("list", "", "namespaces", "", "")),
        ("GET /api/v1/namespaces/other", ("get", "", "namespaces", "other", "other")),
        ("PUT /api/v1/namespaces/other/finalize", ("update", "", "namespaces/finalize", "other", "other")),
        ("PUT /api/v1/namespaces/other/status", ("update", "", "namespaces/status", "other", "other")),
        ("GET /api/v1/namespaces/other/pods", ("list", "", "pods", "other", "")),
        ("GET /api/v1/namespaces/other/pods/foo", ("get", "", "pods", "other", "foo")),
        ("HEAD /api/v1/namespaces/other/pods/foo", ("get", "", "pods", "other", "foo")),
        ("GET /api/v1/pods", ("list", "", "pods", "", "")),
        ("GET /api/v1/pods?watch=true", ("watch", "", "pods", "", "")),
        ("GET /api/v1/pods?watch=", ("watch", "", "pods", "", "")),
        ("GET /api/v1/pods?watch=0", ("list", "", "pods", "", "")),
        ("GET /api/v1/namespaces/other/pods/foo?watch=1", ("get", "", "pods", "other", "foo")),
        ("GET /api/v1/watch/pods", ("watch", "", "pods", "", "")),
        ("POST /api/v1/watch/namespaces/other/pods", ("watch", "", "pods", "other", "")),
        ("GET /api/v1/watch/namespaces/other/pods/foo", ("watch", "", "pods", "other", "foo")),
        ("GET /api/v1/proxy/namespaces/other/pods/foo", ("proxy", "", "pods", "other", "foo")),
        ("GET /api/v1/namespaces/other/pods/foo/proxy/sub/path", ("get", "", "pods/proxy", "other", "foo")),
        ("POST /api/v1/namespaces/other/pods", ("create", "", "pods", "other", "")),
        ("POST /api/v1/namespaces/other/bindings", ("create", "", "bindings", "other", "")),
        ("POST /api/v1/namespaces/other/pods/foo/eviction", ("create", "", "pods/eviction", "other", "foo")),
        ("PATCH /apis/apps/v1/namespaces/a/deployments/b/scale", ("patch", "apps", "deployments/scale", "a", "b")),
        ("DELETE /api/v1/namespaces/other/pods", ("deletecollection", "", "pods", "other", "")),
        ("DELETE /api/v1/namespaces/other/pods/foo", ("delete", "", "pods", "other", "foo")),
        ("GET /apis/nobody.example/v2/things", ("list", "nobody.example", "things", "", "")),
        ("GET /api/v1/pods?fieldSelector=metadata.name=one", ("list", "", "pods", "", "one")),
        ("GET /api/v1/pods?watch=1&fieldSelector=metadata.name=one", ("watch", "", "pods", "", "one")),
        ("GET /api/v1/pods?fieldSelector=metadata.name!=one", ("list", "", "pods", "", "")),
        ("GET /api/v1/pods?fieldSelector=metadata.name=a/b", ("list", "", "pods", "", "")),
        ("GET /", ("get", "/")),
        ("GET /api", ("get", "/api")),
        ("GET /api/v1", ("get", "/api/v1")),
        ("GET /apis/apps/v1", ("get", "/apis/apps/v1")),
        ("GET /apis/apps/v1/", ("get", "/apis/apps/v1/")),
        ("POST /metrics", ("post", "/metrics")),
        ("GET /api/v1//pods", ("get", "", "", "", "pods")),
        ("POST /api/v1//namespaces/a/pods", ("create", "", "/a", "", "namespaces")),
        ("DELETE /api/v1/namespaces/a//pods", ("delete", "", "", "a", "pods")),
    ],
)
def test_a_url_asks_for(line: str, expected: tuple[str, ...]) -> None:
    assert asked(line) == expected


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/pods",
        "/api/v1/namespaces",
        "/api/v1/namespaces/a",
        "/api/v1/namespaces/a/status",
        "/api/v1/namespaces/a/finalize",
        "/api/v1/namespaces/status/pods/x",
        "/api/v1/namespaces/a/pods",
        "/api/v1/namespaces/a/pods/x",
        "/api/v1/namespaces/a/pods/x/status",
        "/api/v1/namespaces/a/pods/x/binding",
        "/api/v1/namespaces/a/bindings",
        "/api/v1/watch/pods",
        "/api/v1/watch/namespaces/a/pods/x",
        "/api/v1/watch/namespaces",
        "/apis/apps/v1/namespaces/a/deployments/x/scale",
        "/apis/storage.k8s.io/v1/csinodes/x",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    ],
)
def test_what_is_judged_is_what_is_done(method: str, path: str) -> None:
    at = locate(path)
    assert at is not None
    for query in ({}, {"watch": "true"}):
        asked = attributes_of(JO, method, path, query)
        if is_possible(method, asked.verb, at) and asked.resource != "bindings":
            judged = (asked.group, asked.resource, asked.subresource, asked.name)
            assert judged == (at.resource.group, at.resource.plural, at.subresource, at.name)
            assert asked.namespace == (at.name if at.resource.kind == "Namespace" else at.namespace)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("HEAD /api/v1/pods", False),
        ("POST /api/v1/pods", False),
        ("POST /api/v1/nodes", True),
        ("POST /api/v1/nodes/x", False),
        ("PUT /api/v1/nodes", False),
        ("DELETE /api/v1/namespaces/a/pods", True),
        ("POST /api/v1/watch/namespaces/a/pods", False),
        ("GET /api/v1/watch/namespaces/a/pods/x", True),
    ],
)
def test_a_method_means_a_verb_only_where_it_can(line: str, expected: bool) -> None:
    method, _, path = line.partition(" ")
    at = locate(path)
    assert at is not None
    assert is_possible(method, attributes_of(JO, method, path, {}).verb, at) is expected


@pytest.mark.parametrize(
    ("attributes", "reason", "message"),
    [
        (
            Attributes(User("x"), "list", "", "v1", "pods", "", "default"),
            "",
            'pods is forbidden: User "x" cannot list resource "pods" in API group "" in the namespace "default"',
        ),
        (
            Attributes(User("x"), "get", "apps", "v1", "deployments", "scale", "a", "web"),
            "",
            'deployments.apps "web" is forbidden: User "x" cannot get resource "deployments/scale" in API group '
            '"apps" in the namespace "a"',
        ),
        (
            Attributes(User("x"), "watch", "", "v1", "nodes"),
            'RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found',
            'nodes is forbidden: User "x" cannot watch resource "nodes" in API group "" at the cluster scope: '
            'RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found',
        ),
        (
            Attributes(User("x"), "create", "apps", "v1", "", "", "a", "pods"),
            "",
            '.apps "pods" is forbidden: User "x" cannot create resource "" in API group "apps" in the namespace "a"',
        ),
        (Attributes(User("x"), "get", path="/metrics"), "", 'forbidden: User "x" cannot get path "/metrics"'),
        (
            Attributes(User('<b>"\n\x01'), "get", path="/a"),
            "",
            'forbidden: User "&lt;b&gt;\\"\\n\\x01" cannot get path "/a"',
        ),
    ],
)
def test_who_may_not_is_told_in_these_words(attributes: Attributes, reason: str, message: str) -> None:
    assert forbidden(attributes, reason).message == message
