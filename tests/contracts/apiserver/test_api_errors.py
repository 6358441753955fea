"""What is no request: paths, methods, tokens, media types and bodies that lead nowhere."""

from __future__ import annotations

import json

import pytest
from contract_documents import config_map, pod

from support.api_servers import ServerApi

NOT_FOUND = "the server could not find the requested resource"
NOT_ALLOWED = "the server does not allow this method on the requested resource"


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/bogus",
        "/api/v1/namespaces/default/bogus",
        "/api/v1/namespaces/default/pods/a/bogus",
        "/api/v1/namespaces/default/nodes",
        "/api/v1/pods/a",
        "/api/v2",
        "/api/v2/pods",
        "/apis/apps/v9",
        "/apis/apps/v1/bogus",
        "/apis/apps/v1/deployments/x/scale",
        "/apis/apps/v1/namespaces/default/daemonsets/x/scale",
        "/apis/storage.k8s.io/v1/namespaces/default/csidrivers",
        "/apis/storage.k8s.io/v1/csistoragecapacities/x",
    ],
)
def test_below_a_group_that_is_served_a_resource_is_missing(api: ServerApi, path: str) -> None:
    refused = api.get(path)
    assert (refused.code, refused.reason, refused.message) == (404, "NotFound", NOT_FOUND)


@pytest.mark.parametrize("path", ["/nope", "/apis/bogus", "/apis/bogus/v1/things", "/healthz/bogus"])
def test_anywhere_else_it_is_a_page(api: ServerApi, path: str) -> None:
    refused = api.get(path)
    assert (refused.code, refused.body) == (404, "404 page not found\n")
    assert refused.headers["Content-Type"] == "text/plain; charset=utf-8"


def test_the_root_says_what_there_is(api: ServerApi) -> None:
    paths = api.get("/")["paths"]
    assert paths == sorted(paths)
    assert {"/api", "/api/v1", "/apis", "/apis/storage.k8s.io/v1", "/healthz", "/version"} <= set(paths)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/api/v1/nodes"),
        ("PATCH", "/api/v1/nodes"),
        ("POST", "/api/v1/nodes/a"),
        ("HEAD", "/api/v1/nodes"),
        ("OPTIONS", "/api/v1/nodes"),
        ("POST", "/api/v1/pods"),
        ("PUT", "/api/v1/pods"),
        ("POST", "/api/v1/namespaces/default/pods/a"),
        ("DELETE", "/api/v1/namespaces/default/pods/a/status"),
    ],
)
def test_a_method_that_means_nothing_here_is_not_allowed(api: ServerApi, method: str, path: str) -> None:
    refused = api.request(method, path, None if method == "HEAD" else {})
    assert refused.code == 405
    if method != "HEAD":
        assert (refused.reason, refused.message) == ("MethodNotAllowed", NOT_ALLOWED)


@pytest.mark.parametrize(
    ("name", "told"), [("..", "may not be '..'"), (".", "may not be '.'"), ("a%25b", "may not contain '%'")]
)
def test_a_name_has_to_fit_into_a_path(api: ServerApi, name: str, told: str) -> None:
    refused = api.get(f"/api/v1/namespaces/default/pods/{name}")
    shown = name.replace("%25", "%")
    assert (refused.code, refused.message) == (400, f'Name parameter invalid: "{shown}": {told}')


@pytest.mark.parametrize("token", ["", "wrong"])
def test_without_the_token_nothing_is_told(api: ServerApi, token: str) -> None:
    refused = api.get("/api/v1/nodes", token=token)
    assert (refused.code, refused.reason, refused.message) == (401, "Unauthorized", "Unauthorized")
    assert api.get("/nope", token=token).code == 401


def test_health_is_told_in_one_word(api: ServerApi) -> None:
    for path in ("/healthz", "/livez", "/readyz", "/livez/ping"):
        assert (api.get(path).code, api.get(path).body) == (200, "ok")


@pytest.mark.parametrize("media", ["text/plain", "application/xml", "application/merge-patch+json", "bogus"])
def test_a_body_is_json_yaml_or_protobuf(api: ServerApi, maps: str, media: str) -> None:
    refused = api.post(maps, config_map("a"), content_type=media)
    assert (refused.code, refused.reason) == (415, "UnsupportedMediaType")
    assert refused.message == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    )


@pytest.mark.parametrize("media", ["", "application/json", "application/json; charset=utf-8"])
def test_json_may_be_called_so_or_not_at_all(api: ServerApi, maps: str, media: str) -> None:
    assert api.post(maps, config_map("a"), content_type=media).code == 201


def test_yaml_is_read(api: ServerApi, maps: str) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: v\n"
    assert api.post(maps, text, content_type="application/yaml")["data"] == {"k": "v"}


def test_kind_and_version_may_be_left_out(api: ServerApi, maps: str) -> None:
    for number, head in enumerate(({}, {"kind": "ConfigMap"}, {"apiVersion": "v1"})):
        assert api.post(maps, {**head, "metadata": {"name": f"c{number}"}}).code == 201


def test_another_kind_has_no_place_here(api: ServerApi, maps: str) -> None:
    refused = api.post(maps, {**config_map("a"), "kind": "Node"})
    assert (refused.code, refused.message) == (
        400,
        'Node in version "v1" cannot be handled as a ConfigMap: converting (v1.Node) to (core.ConfigMap): '
        "unknown conversion",
    )
    refused = api.post(maps, {**config_map("a"), "kind": "Bogus"})
    assert refused.message.startswith(
        'Bogus in version "v1" cannot be handled as a ConfigMap: no kind "Bogus" is registered for version "v1" in '
    )
    refused = api.post(maps, {**config_map("a"), "apiVersion": "v9"})
    assert refused.message.startswith('ConfigMap in version "v9" cannot be handled as a ConfigMap: no kind ')


@pytest.mark.parametrize(
    ("doc", "told"),
    [
        (
            {"metadata": {"name": 3}},
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string",
        ),
        ({"spec": []}, "json: cannot unmarshal array into Go struct field Pod.spec of type v1.PodSpec"),
        (
            {"spec": {"containers": [{"ports": [{"containerPort": "x"}]}]}},
            "json: cannot unmarshal string into Go struct field ContainerPort.spec.containers.ports.containerPort "
            "of type int32",
        ),
        (
            {"spec": {"containers": [{"resources": {"requests": {"cpu": "1x"}}}]}},
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            {"metadata": {"creationTimestamp": "yesterday"}},
            'parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006"',
        ),
    ],
)
def test_a_value_of_a_wrong_type_is_told_as_go_tells_it(api: ServerApi, pods: str, doc: object, told: str) -> None:
    refused = api.post(pods, {"apiVersion": "v1", "kind": "Pod", **dict(doc)})  # type: ignore[call-overload]  # a literal above
    assert (refused.code, refused.message) == (400, f'Pod in version "v1" cannot be handled as a Pod: {told}')


@pytest.mark.parametrize("body", [b"", b"{", b'{"kind":"ConfigMap"'])
def test_a_body_that_ends_too_soon_is_refused(api: ServerApi, maps: str, body: bytes) -> None:
    refused = api.post(maps, body)
    assert (refused.code, refused.reason) == (400, "BadRequest")
    shown = body.decode() or "<empty>"
    assert refused.message == (
        "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; "
        f"json parse error: unexpected end of JSON input ({shown})"
    )


@pytest.mark.parametrize(
    ("method", "place", "media"),
    [
        ("POST", "", "application/json"),
        ("PUT", "/big", "application/json"),
        ("PATCH", "/big", "application/merge-patch+json"),
        ("DELETE", "/big", "application/json"),
    ],
)
def test_a_body_of_more_than_three_mebibytes_is_refused(
    api: ServerApi, maps: str, method: str, place: str, media: str
) -> None:
    body = json.dumps(config_map("big", {"k": "x" * (3 * 1024 * 1024)})).encode()
    refused = api.request(method, maps + place, body, content_type=media)
    assert (refused.code, refused.reason) == (413, "RequestEntityTooLarge")
    assert refused.message == "Request entity too large: limit is 3145728"


def test_a_config_map_holds_one_mebibyte(api: ServerApi, maps: str) -> None:
    refused = api.post(maps, config_map("big", {"k": "x" * (1024 * 1024 + 1)}))
    assert (refused.code, refused.causes) == (422, [("[]", "Too long: may not be more than 1048576 bytes")])


def test_an_error_is_a_status_of_a_known_shape(api: ServerApi, pods: str) -> None:
    refused = api.get(f"{pods}/nobody")
    assert refused.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'pods "nobody" not found',
        "reason": "NotFound",
        "details": {"name": "nobody", "kind": "pods"},
        "code": 404,
    }
    grouped = api.get("/apis/storage.k8s.io/v1/csinodes/nobody")
    assert grouped["details"] == {"name": "nobody", "group": "storage.k8s.io", "kind": "csinodes"}
    invalid = api.post(pods, pod("Bad_"))
    assert invalid["details"]["kind"] == "Pod"  # the kind here, the resource everywhere else


METHOD = "the server does not allow this method on the requested resource"


@pytest.mark.parametrize(
    ("method", "path", "code", "told"),
    [
        ("GET", "/api/v1//pods", 404, "the server could not find the requested resource"),
        ("PUT", "/api/v1/nodes", 405, METHOD),
        ("POST", "/.well-known/openid-configuration", 405, METHOD),
        ("DELETE", "/openid/v1/jwks", 405, METHOD),
    ],
)
def test_what_is_not_about_an_object_has_empty_details(
    api: ServerApi, method: str, path: str, code: int, told: str
) -> None:
    refused = api.request(method, path, {} if method in ("POST", "PUT") else None)
    assert (refused.code, refused.message, refused["details"]) == (code, told, {})


def test_a_path_has_one_slash_in_front(api: ServerApi) -> None:
    assert api.get("//api/v1/configmaps").code == 404


def test_a_path_with_an_empty_step_is_judged_as_a_resource_without_a_name(api: ServerApi) -> None:
    refused = api.get("/api/v1//pods", extra={"Impersonate-User": "jo"})
    told = 'forbidden: User "jo" cannot get resource "" in API group "" at the cluster scope'
    assert (refused.code, refused.message, refused["details"]) == (403, told, {"name": "pods"})
