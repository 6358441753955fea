"""Who one is to a server, and how one proves it: tokens of ServiceAccounts, reviews, impersonation, refusals."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from support.api_servers import ServerApi
from support.eventually import eventually
from support.http import Doc, Reply

REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
ROLES = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture
def account(api: ServerApi, ns: str) -> str:
    """The path of a fresh ServiceAccount named `db`."""
    path = f"/api/v1/namespaces/{ns}/serviceaccounts"
    api.create(path, {"metadata": {"name": "db"}})
    return f"{path}/db"


def request(api: ServerApi, account: str, spec: Doc | None = None, **rest: Any) -> Reply:
    body = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": spec or {}, **rest}
    return api.post(f"{account}/token", body)


def token_of(api: ServerApi, account: str, **spec: Any) -> str:
    reply = request(api, account, spec)
    assert reply.code == 201, reply.body
    return str(reply["status"]["token"])


def claims_in(token: str) -> Doc:
    payload = token.split(".")[1]
    found: Doc = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return found


def whoami(api: ServerApi, token: str | None = None, **headers: str) -> Reply:
    extra = {f"Impersonate-{name.replace('_', '-')}": value for name, value in headers.items()}
    body = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}
    return api.request("POST", SELF, body, token=token, extra=extra)


def review(api: ServerApi, token: str, **spec: Any) -> Doc:
    body = {"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": {"token": token, **spec}}
    reply = api.post(REVIEWS, body)
    assert reply.code == 201, reply.body
    return dict(reply["status"])


def may(api: ServerApi, ns: str, verbs: list[str], resources: list[str], *, group: str = "") -> None:
    """Let the ServiceAccount `db` of a namespace do something in it."""
    rules = [{"apiGroups": [group], "resources": resources, "verbs": verbs}]
    api.create(f"{ROLES}/namespaces/{ns}/roles", {"metadata": {"name": "may"}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": "db", "namespace": ns}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "may"}
    api.create(
        f"{ROLES}/namespaces/{ns}/rolebindings", {"metadata": {"name": "may"}, "roleRef": ref, "subjects": [subject]}
    )


# -- tokens of ServiceAccounts ----------------------------------------------------------------------------------------


def test_a_token_is_an_accounts_for_an_hour(api: ServerApi, ns: str, account: str) -> None:
    reply = request(api, account)
    assert reply.code == 201
    uid = api.get(account).meta["uid"]
    assert (reply.meta["name"], reply.meta["namespace"], reply.meta["uid"]) == ("db", ns, uid)
    assert reply["spec"]["expirationSeconds"] == 3600 and reply["spec"]["boundObjectRef"] is None
    said = claims_in(reply["status"]["token"])
    assert said["sub"] == f"system:serviceaccount:{ns}:db" and said["aud"] == reply["spec"]["audiences"] == [
        said["iss"]
    ]
    assert said["exp"] - said["iat"] == 3600 and said["nbf"] == said["iat"] and said["jti"]
    assert said["kubernetes.io"] == {"namespace": ns, "serviceaccount": {"name": "db", "uid": uid}}


def test_whose_token_it_is(api: ServerApi, ns: str, account: str) -> None:
    token = token_of(api, account)
    user = whoami(api, token)["status"]["userInfo"]
    assert (user["username"], user["uid"]) == (f"system:serviceaccount:{ns}:db", api.get(account).meta["uid"])
    assert user["groups"] == ["system:serviceaccounts", f"system:serviceaccounts:{ns}", "system:authenticated"]
    assert user["extra"] == {"authentication.kubernetes.io/credential-id": [f"JTI={claims_in(token)['jti']}"]}
    found = review(api, token)
    assert found["authenticated"] is True and found["user"] == user
    assert found["audiences"] == claims_in(token)["aud"]


def test_a_token_is_for_its_audiences(api: ServerApi, account: str) -> None:
    token = token_of(api, account, audiences=["vault", "other"])
    assert api.get("/api/v1/pods", token=token).code == 401
    refused = review(api, token)
    assert not refused.get("authenticated") and "is invalid for the target audiences" in refused["error"]
    assert 'token audiences ["vault" "other"]' in refused["error"]
    found = review(api, token, audiences=["nobody", "vault"])
    assert found["authenticated"] is True and found["audiences"] == ["vault"]


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (599, "Invalid value: 599: may not specify a duration less than 10 minutes"),
        (0, "Invalid value: 0: may not specify a duration less than 10 minutes"),
        (-1, "Invalid value: -1: may not specify a duration less than 10 minutes"),
        ((1 << 32) + 1, "Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds"),
    ],
)
def test_how_long_a_token_may_last(api: ServerApi, account: str, seconds: int, told: str) -> None:
    refused = request(api, account, {"expirationSeconds": seconds})
    assert refused.code == 422
    assert refused.message == f'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: {told}'


@pytest.mark.parametrize("seconds", [600, 1 << 32])
def test_the_limits_themselves_are_within(api: ServerApi, account: str, seconds: int) -> None:
    said = claims_in(token_of(api, account, expirationSeconds=seconds))
    assert said["exp"] - said["iat"] == seconds


def test_a_token_of_nobody_is_not_made(api: ServerApi, account: str) -> None:
    refused = request(api, account.removesuffix("db") + "nobody")
    assert (refused.code, refused.message) == (404, 'serviceaccounts "nobody" not found')


def test_a_request_means_the_account_of_its_path(api: ServerApi, ns: str, account: str) -> None:
    refused = request(api, account, metadata={"name": "other"})
    assert refused.code == 422
    assert refused.causes == [
        ("metadata.name", 'Invalid value: "other": must match the service account name if specified')
    ]
    refused = request(api, account, metadata={"uid": "other"})
    uid = api.get(account).meta["uid"]
    assert (refused.code, refused.message) == (
        409,
        'Operation cannot be fulfilled on TokenRequest.authentication.k8s.io "db": the UID in the token request (other)'
        f" does not match the UID of the service account ({uid})",
    )
    assert request(api, account, metadata={"uid": uid, "name": "db", "namespace": ns}).code == 201


def test_a_token_is_bound_to_a_secret_and_ends_with_it(api: ServerApi, ns: str, account: str) -> None:
    secrets = f"/api/v1/namespaces/{ns}/secrets"
    secret = api.create(secrets, {"metadata": {"name": "key"}})
    bound = {"kind": "Secret", "apiVersion": "v1", "name": "key"}
    tokens = [token_of(api, account, boundObjectRef=bound) for _ in range(2)]
    assert claims_in(tokens[0])["kubernetes.io"]["secret"] == {"name": "key", "uid": secret.meta["uid"]}
    assert whoami(api, tokens[0]).code == 201
    api.delete(f"{secrets}/key")
    eventually(lambda: whoami(api, tokens[1]).code == 401, "the token to have ended")
    assert "service account token has been invalidated" in review(api, tokens[1])["error"]


def test_a_token_is_bound_to_a_pod_and_names_its_node(api: ServerApi, ns: str, account: str, pods: str) -> None:
    spec = {"serviceAccountName": "db", "containers": [{"name": "c", "image": "i"}], "nodeName": f"node-of-{ns}"}
    pod = api.create(pods, {"metadata": {"name": "p"}, "spec": spec})
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": pod.meta["uid"]}
    token = token_of(api, account, boundObjectRef=bound)
    assert claims_in(token)["kubernetes.io"]["pod"] == {"name": "p", "uid": pod.meta["uid"]}
    assert claims_in(token)["kubernetes.io"]["node"] == {"name": f"node-of-{ns}"}
    extra = whoami(api, token)["status"]["userInfo"]["extra"]
    assert extra["authentication.kubernetes.io/pod-name"] == ["p"]
    assert extra["authentication.kubernetes.io/pod-uid"] == [pod.meta["uid"]]
    assert extra["authentication.kubernetes.io/node-name"] == [f"node-of-{ns}"]


def test_a_pods_token_for_3607_seconds_lasts_a_year_and_warns_after_that(
    api: ServerApi, account: str, pods: str
) -> None:
    spec = {"serviceAccountName": "db", "containers": [{"name": "c", "image": "i"}]}
    api.create(pods, {"metadata": {"name": "p"}, "spec": spec})
    reply = request(
        api, account, {"expirationSeconds": 3607, "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p"}}
    )
    said = claims_in(reply["status"]["token"])
    assert said["exp"] - said["iat"] == 365 * 24 * 3600
    assert said["kubernetes.io"]["warnafter"] - said["iat"] == 3607


def test_a_token_is_bound_to_a_node(api: ServerApi, ns: str, account: str) -> None:
    node = api.create("/api/v1/nodes", {"metadata": {"name": ns}})
    token = token_of(api, account, boundObjectRef={"kind": "Node", "apiVersion": "v1", "name": ns})
    assert claims_in(token)["kubernetes.io"]["node"] == {"name": ns, "uid": node.meta["uid"]}
    assert whoami(api, token)["status"]["userInfo"]["extra"]["authentication.kubernetes.io/node-uid"] == [
        node.meta["uid"]
    ]
    another = token_of(api, account, boundObjectRef={"kind": "Node", "apiVersion": "v1", "name": ns})
    api.delete(f"/api/v1/nodes/{ns}")
    eventually(lambda: whoami(api, another).code == 401, "the token to have ended")


def test_what_a_token_cannot_be_bound_to(api: ServerApi, ns: str, account: str, pods: str) -> None:
    api.create(pods, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    secret = api.create(f"/api/v1/namespaces/{ns}/secrets", {"metadata": {"name": "key"}})
    refusals = {
        ("ConfigMap", "v1", "x", ""): (400, "cannot bind token to object of type /v1, Kind=ConfigMap"),
        ("Pod", "apps/v1", "p", ""): (400, "cannot bind token to object of type apps/v1, Kind=Pod"),
        ("Pod", "v1", "nobody", ""): (404, 'pods "nobody" not found'),
        ("Pod", "v1", "p", ""): (
            400,
            'cannot bind token for serviceaccount "db" to pod running with different serviceaccount name.',
        ),
        ("Secret", "v1", "key", "other"): (
            409,
            'Operation cannot be fulfilled on Secret "key": the UID in the bound object reference (other) does not '
            "match the UID in record. The object might have been deleted and then recreated",
        ),
    }
    for (kind, version, name, uid), expected in refusals.items():
        bound = {"kind": kind, "apiVersion": version, "name": name, **({"uid": uid} if uid else {})}
        refused = request(api, account, {"boundObjectRef": bound})
        assert (refused.code, refused.message) == expected
    assert secret.code == 201


def test_a_token_ends_with_its_account(api: ServerApi, account: str) -> None:
    token = token_of(api, account)
    api.delete(account)
    eventually(lambda: whoami(api, token).code == 401, "the token to have ended")
    api.create(account.removesuffix("/db"), {"metadata": {"name": "db"}})
    assert whoami(api, token).code == 401  # another account of the same name


def test_a_token_that_somebody_changed_is_nobodys(api: ServerApi, account: str) -> None:
    head, said, signature = token_of(api, account).split(".")
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    forged = base64.urlsafe_b64encode(json.dumps({**claims_in(f".{said}."), "sub": "admin"}).encode()).decode()
    for token in (f"{none}.{said}.", f"{head}.{forged.rstrip('=')}.{signature}", f"{head}.{said}.{signature[:-4]}AAAA"):
        assert api.get("/api/v1/pods", token=token).code == 401
        assert not review(api, token).get("authenticated")


# -- reviews ----------------------------------------------------------------------------------------------------------


def test_who_the_administrator_is(api: ServerApi) -> None:
    user = whoami(api)["status"]["userInfo"]
    assert user["username"] == "admin" and user["groups"] == ["system:masters", "system:authenticated"]


def test_a_token_of_a_file_is_for_the_server_alone(api: ServerApi) -> None:
    found = review(api, api.token)
    assert found["authenticated"] is True and found["user"]["username"] == "admin" and len(found["audiences"]) == 1
    assert review(api, api.token, audiences=["vault"]) == {"user": {}, "error": "invalid bearer token"}


def test_a_token_of_nobodys_is_an_answer(api: ServerApi) -> None:
    assert review(api, "nonsense") == {"user": {}, "error": "invalid bearer token"}


def test_a_review_in_protobuf(api: ServerApi) -> None:
    """As client-go sends it: kube-scheduler asks so whose token it was shown."""
    spec = b"\x0a\x08nonsense"
    raw = b"\x0a\x00\x12" + bytes([len(spec)]) + spec
    kind = b"\x0a\x18authentication.k8s.io/v1\x12\x0bTokenReview"
    body = b"k8s\x00\x0a" + bytes([len(kind)]) + kind + b"\x12" + bytes([len(raw)]) + raw
    reply = api.request("POST", REVIEWS, body, content_type="application/vnd.kubernetes.protobuf")
    assert (reply.code, reply["status"]) == (201, {"user": {}, "error": "invalid bearer token"})


def test_a_review_needs_a_token(api: ServerApi) -> None:
    body = {"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": {}}
    refused = api.post(REVIEWS, body)
    assert (refused.code, refused.message) == (400, "token is required for TokenReview in authentication")


@pytest.mark.parametrize("path", [REVIEWS, SELF])
def test_reviews_are_only_created(api: ServerApi, path: str) -> None:
    assert api.get(path).code == 405
    assert api.get(f"{path}/x").code == 404


def test_clients_find_the_reviews_and_the_token(api: ServerApi) -> None:
    found = {each["name"]: each for each in api.get("/apis/authentication.k8s.io/v1")["resources"]}
    assert {name: each["kind"] for name, each in found.items()} == {
        "selfsubjectreviews": "SelfSubjectReview",
        "tokenreviews": "TokenReview",
    }
    core = {each["name"]: each for each in api.get("/api/v1")["resources"]}["serviceaccounts/token"]
    assert core == {
        "name": "serviceaccounts/token",
        "singularName": "",
        "namespaced": True,
        "group": "authentication.k8s.io",
        "version": "v1",
        "kind": "TokenRequest",
        "verbs": ["create"],
    }


def test_others_can_check_tokens_by_themselves(api: ServerApi, account: str) -> None:
    said = token_of(api, account)
    found = api.get("/.well-known/openid-configuration")
    assert found["issuer"] == claims_in(said)["iss"] and found["jwks_uri"].endswith("/openid/v1/jwks")
    head = said.split(".")[0]
    header = json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    keys = json.loads(api.get("/openid/v1/jwks", accept="application/jwk-set+json").body)["keys"]
    assert [(key["kid"], key["alg"]) for key in keys] == [(header["kid"], header["alg"])]
    assert found["id_token_signing_alg_values_supported"] == [header["alg"]]


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/healthz", "/api/v1/nodes", "/version", "/nope"])
def test_a_wrong_token_is_refused_even_where_none_is_needed(api: ServerApi, path: str) -> None:
    refused = api.get(path, token="wrong")
    assert (refused.code, refused.message) == (401, "Unauthorized")


def test_a_token_in_the_query_is_not_looked_at(api: ServerApi) -> None:
    assert api.get(f"/api/v1/nodes?access_token={api.token}&token={api.token}", token="").code == 401


@pytest.mark.parametrize("header", ["Basic abc", "Token {}", "Bearer", "Bearer  {}", "{}", "bearer{}"])
def test_what_is_no_bearer_token_is_no_credential(api: ServerApi, header: str) -> None:
    extra = {"Authorization": header.format(api.token)}
    assert api.request("GET", "/api/v1/nodes", token="", extra=extra).code == 401


@pytest.mark.parametrize("header", ["bearer {}", "BEARER {}", "  Bearer {}", "Bearer {} more"])
def test_how_a_bearer_token_may_be_written(api: ServerApi, header: str) -> None:
    extra = {"Authorization": header.format(api.token)}
    assert api.request("GET", "/api/v1/nodes", token="", extra=extra).code == 200


def test_a_user_without_rights_is_told_which_one_is_missing(api: ServerApi, ns: str, account: str) -> None:
    token, who = token_of(api, account), f'User "system:serviceaccount:{ns}:db"'
    refusals = {
        (
            "GET",
            f"/api/v1/namespaces/{ns}/pods",
        ): f'pods is forbidden: {who} cannot list resource "pods" in API group "" in the namespace "{ns}"',
        ("GET", "/api/v1/nodes"): f'nodes is forbidden: {who} cannot list resource "nodes" in API group "" at the '
        "cluster scope",
        ("GET", "/api/v1/nodes?watch=1"): f'nodes is forbidden: {who} cannot watch resource "nodes" in API group "" at '
        "the cluster scope",
        ("GET", f"/api/v1/namespaces/{ns}"): f'namespaces "{ns}" is forbidden: {who} cannot get resource "namespaces" '
        f'in API group "" in the namespace "{ns}"',
        ("DELETE", f"/api/v1/namespaces/{ns}/pods"): f"pods is forbidden: {who} cannot deletecollection resource "
        f'"pods" in API group "" in the namespace "{ns}"',
        ("PUT", f"/apis/apps/v1/namespaces/{ns}/deployments/web/scale"): f'deployments.apps "web" is forbidden: {who} '
        f'cannot update resource "deployments/scale" in API group "apps" in the namespace "{ns}"',
        ("GET", "/metrics"): f'forbidden: {who} cannot get path "/metrics"',
        ("GET", "/apis/nobody.example/v1/things/x"): f'things.nobody.example "x" is forbidden: {who} cannot get '
        'resource "things" in API group "nobody.example" at the cluster scope',
        ("GET", "/api/v1/watch/nodes"): f'nodes is forbidden: {who} cannot watch resource "nodes" in API group "" at '
        "the cluster scope",
    }
    for (method, path), message in refusals.items():
        refused = api.request(method, path, {} if method == "PUT" else None, token=token)
        assert (refused.code, refused.reason, refused.message) == (403, "Forbidden", message)
    assert api.get("/metrics", token=token)["details"] == {}
    assert api.get("/version", token=token).code == 200
    assert api.get("/healthz", token=token).code == 200


def test_an_apply_that_creates_needs_the_right_to_create(api: ServerApi, ns: str, account: str, maps: str) -> None:
    may(api, ns, ["patch", "update", "get"], ["configmaps"])
    token = token_of(api, account)
    eventually(lambda: api.get(f"{maps}/none", token=token).code == 404, "the rule to hold")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}}
    url = f"{maps}/made?fieldManager=me"
    refused = api.request("PATCH", url, body, content_type="application/apply-patch+yaml", token=token)
    assert (refused.code, refused.message) == (
        403,
        f'configmaps "made" is forbidden: User "system:serviceaccount:{ns}:db" cannot create resource "configmaps" in '
        f'API group "" in the namespace "{ns}"',
    )
    no_kind = {"metadata": {"name": "made"}}  # what makes no sense is told first: nothing would be created
    senseless = api.request("PATCH", url, no_kind, content_type="application/apply-patch+yaml", token=token)
    assert (senseless.code, senseless.message) == (400, "invalid object type: /, Kind=")
    api.create(maps, body)
    assert api.request("PATCH", url, body, content_type="application/apply-patch+yaml", token=token).code == 200


def test_a_put_that_creates_needs_the_right_to_create(api: ServerApi, ns: str, account: str) -> None:
    may(api, ns, ["update", "get"], ["leases"], group="coordination.k8s.io")
    token = token_of(api, account)
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"
    eventually(lambda: api.get(f"{leases}/none", token=token).code == 404, "the rule to hold")
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "made"}}
    refused = api.request("PUT", f"{leases}/made", body, token=token)
    assert (refused.code, refused.message) == (
        403,
        f'leases.coordination.k8s.io "made" is forbidden: User "system:serviceaccount:{ns}:db" cannot create resource '
        f'"leases" in API group "coordination.k8s.io" in the namespace "{ns}"',
    )


def test_the_kinds_of_identity_are_described(api: ServerApi) -> None:
    schemas = api.get("/openapi/v3/apis/authentication.k8s.io/v1")["components"]["schemas"]
    for kind in ("TokenReview", "SelfSubjectReview"):
        (told,) = schemas[f"io.k8s.api.authentication.v1.{kind}"]["x-kubernetes-group-version-kind"]
        assert told == {"group": "authentication.k8s.io", "version": "v1", "kind": kind}


# -- impersonation ----------------------------------------------------------------------------------------------------


def test_an_administrator_may_be_anybody(api: ServerApi, ns: str) -> None:
    user = whoami(api, User="jo", Group="dev", Uid="u-1", **{"Extra_acme.io%2fproject": "a"})["status"]["userInfo"]
    assert user == {
        "username": "jo",
        "uid": "u-1",
        "groups": ["dev", "system:authenticated"],
        "extra": {"acme.io/project": ["a"]},
    }
    user = whoami(api, User=f"system:serviceaccount:{ns}:db")["status"]["userInfo"]
    assert user["groups"] == ["system:serviceaccounts", f"system:serviceaccounts:{ns}", "system:authenticated"]
    user = whoami(api, User="system:anonymous")
    assert user.code == 403 or user["status"]["userInfo"]["groups"] == ["system:unauthenticated"]
    assert whoami(api, User="jo", Group="system:masters")["status"]["userInfo"]["username"] == "jo"


def test_what_the_other_may_not_is_refused_in_his_name(api: ServerApi) -> None:
    refused = api.request("GET", "/api/v1/nodes", extra={"Impersonate-User": "jo"})
    assert (refused.code, refused.message) == (
        403,
        'nodes is forbidden: User "jo" cannot list resource "nodes" in API group "" at the cluster scope',
    )


def test_who_may_not_speak_for_others_is_told_so(api: ServerApi, ns: str, account: str) -> None:
    token = token_of(api, account)
    refused = api.request("GET", "/api/v1/nodes", token=token, extra={"Impersonate-User": "jo"})
    assert (refused.code, refused.message) == (
        403,
        f'nodes is forbidden: User "system:serviceaccount:{ns}:db" cannot impersonate-on:user-info:list resource '
        '"nodes" in API group "" at the cluster scope',
    )


def test_half_a_user_is_a_bad_request(api: ServerApi) -> None:
    refused = api.request("GET", "/api/v1/nodes", extra={"Impersonate-Group": "dev"})
    assert (refused.code, refused.message) == (
        400,
        'requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"dev"}, Extra:map[string][]string(nil)} without '
        "impersonating a user name",
    )
