"""Credentials that somebody made up: raw requests to a server in a process of its own. None gets in, none breaks it."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import time
from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from support.processes import ApiServerProcess, start_cluster
from tonnage.apiserver.authentication.service_account_tokens import SigningKey, ensure_signing_key

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
ISSUER = "https://kubernetes.default.svc.cluster.local"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServerProcess]:
    server = start_cluster(tmp_path_factory.mktemp("server"))
    assert server.post(ACCOUNTS, {"metadata": {"name": "db"}}).code == 201
    yield server
    assert server.stop() == 0


def ask(cluster: ApiServerProcess, *headers: bytes, path: bytes = b"/api/v1/nodes") -> int:
    """The code of the answer to a request with these headers; 0 when there is none."""
    host, _, port = cluster.url.removeprefix("https://").rpartition(":")
    tls = ssl.create_default_context(cafile=str(cluster.folder / "pki" / "ca.crt"))
    with (
        socket.create_connection((host, int(port)), timeout=20) as plain,
        tls.wrap_socket(plain, server_hostname=host) as secure,
    ):
        secure.sendall(
            b"\r\n".join([b"GET " + path + b" HTTP/1.1", b"Host: x", b"Connection: close", *headers, b"", b""])
        )
        answer = b""
        while chunk := secure.recv(65536):
            answer += chunk
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/") else 0


def bearer(token: str | bytes) -> bytes:
    return b"Authorization: Bearer " + (token if isinstance(token, bytes) else token.encode())


def claims(cluster: ApiServerProcess, **changed: object) -> bytes:
    """What a good token of the account `db` would say, with changes; None takes a claim out."""
    at, uid = int(time.time()), cluster.get(f"{ACCOUNTS}/db").meta["uid"]
    said = {
        "aud": [ISSUER],
        "exp": at + 3600,
        "iat": at,
        "nbf": at,
        "iss": ISSUER,
        "sub": "system:serviceaccount:default:db",
        "kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "db", "uid": uid}},
    }
    return json.dumps({name: value for name, value in (said | changed).items() if value is not None}).encode()


def test_a_token_that_its_own_key_has_signed_is_let_in(cluster: ApiServerProcess) -> None:
    """Or all of the refusals below would say nothing."""
    key = ensure_signing_key(cluster.folder / "pki" / "sa.key")
    assert ask(cluster, bearer(key.signed(claims(cluster)))) == 403  # known, and without any right


@pytest.mark.parametrize(
    "changed",
    [
        {"exp": 1},
        {"exp": None},
        {"exp": "never"},
        {"exp": 1e400},
        {"nbf": 1 << 40},
        {"iat": 1 << 40},
        {"aud": ["vault"]},
        {"aud": "vault"},
        {"aud": 7},
        {"iss": "https://elsewhere"},
        {"iss": "kubernetes/serviceaccount"},
        {"iss": None},
        {"kubernetes.io": None},
        {"kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "db"}}},
        {"kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "db", "uid": "another"}}},
        {"kubernetes.io": {"namespace": "../kube-system", "serviceaccount": {"name": "db", "uid": ""}}},
        {"kubernetes.io": []},
    ],
    ids=str,
)
def test_what_the_key_signed_must_still_be_true(cluster: ApiServerProcess, changed: dict[str, object]) -> None:
    key = ensure_signing_key(cluster.folder / "pki" / "sa.key")
    assert ask(cluster, bearer(key.signed(claims(cluster, **changed)))) == 401


def test_no_other_key_gets_in(cluster: ApiServerProcess) -> None:
    said = claims(cluster)
    assert ask(cluster, bearer(SigningKey(ec.generate_private_key(ec.SECP256R1())).signed(said))) == 401
    part = base64.urlsafe_b64encode(said).rstrip(b"=")
    for head in (b'{"alg":"none"}', b'{"alg":"HS256"}', b'{"alg":"ES256"}'):
        assert ask(cluster, bearer(base64.urlsafe_b64encode(head).rstrip(b"=") + b"." + part + b".")) == 401


@pytest.mark.parametrize(
    "token",
    [b"x" * 30_000, b"." * 30_000, b"a.b." + b"c" * 20_000, b"\xff\xfe", b"e30.e30.e30", b"{}", b"a." * 10_000],
    ids=["long", "dots", "long signature", "bytes", "empty objects", "json", "parts"],
)
def test_nonsense_is_a_401(cluster: ApiServerProcess, token: bytes) -> None:
    assert ask(cluster, bearer(token)) == 401


def test_of_two_headers_the_first_counts(cluster: ApiServerProcess) -> None:
    good = bearer(cluster.token)
    assert ask(cluster, bearer("wrong"), good) in (400, 401)
    assert ask(cluster, good, bearer("wrong")) in (200, 400)


@pytest.mark.parametrize("path", [b"/healthz", b"/readyz", b"/livez/ping"])
def test_health_is_open_to_those_without_credentials_and_closed_to_bad_ones(
    cluster: ApiServerProcess, path: bytes
) -> None:
    assert ask(cluster, path=path) == 200
    assert ask(cluster, bearer("wrong"), path=path) == 401


@pytest.mark.parametrize(
    "headers",
    [
        [b"X-Remote-User: admin", b"X-Remote-Group: system:masters"],
        [b"Impersonate-User: admin", b"Impersonate-Group: system:masters"],
        [b"Cookie: token=x"],
        [b"Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.eA"],
    ],
    ids=lambda headers: headers[0].decode().partition(":")[0],
)
def test_headers_that_only_say_who_one_is(cluster: ApiServerProcess, headers: list[bytes]) -> None:
    assert ask(cluster, *headers) == 401


@pytest.mark.parametrize("value", [b"\xff\xfe", b"a\tb", b"x" * 20_000, b"system:serviceaccount:", b"%00"])
def test_whoever_an_administrator_says_he_is(cluster: ApiServerProcess, value: bytes) -> None:
    """Nobody with rights, whatever the bytes."""
    assert ask(cluster, bearer(cluster.token), b"Impersonate-User: " + value) == 403
    extra = b"Impersonate-Extra-" + (b"%ff" if value == b"\xff\xfe" else b"a") + b": " + value
    assert ask(cluster, bearer(cluster.token), b"Impersonate-User: jo", extra) == 403


def test_tokens_leave_no_trace_in_the_log(cluster: ApiServerProcess) -> None:
    key = ensure_signing_key(cluster.folder / "pki" / "sa.key")
    tokens = [key.signed(claims(cluster)), key.signed(claims(cluster, exp=1)), "a-secret-of-nobody"]
    for token in tokens:
        ask(cluster, bearer(token))
    told = (cluster.folder / "stderr.log").read_text()
    assert not any(token in told for token in (*tokens, cluster.token))
