"""Bytes that are no text, wherever a request should have text: the answer is one of the 400s, or an ordinary one.

Raw requests over TLS, for no library would send them. Nothing of it may be a 500, or end the connection unanswered.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from support.processes import ApiServerProcess, start_cluster
from tonnage.objects.small_groups import LEASE_HEADER

ODD = [b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\xe2\x80\xa8", b"\x80\x81", b"\xf4\x90\x80\x80"]
ENCODED = [
    b"%ff",
    b"%00",
    b"%c3%28",
    b"%ed%a0%80",
    b"%",
    b"%zz",
    b"%2f",
    b"%2e%2e",
    b"%0d%0a",
    b"%e2%80%ae",
    b"+",
    b"%25ff",
]
MAPS = b"/api/v1/namespaces/default/configmaps"
BODY = b'{"metadata":{"generateName":"odd-"}}'


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServerProcess]:
    server = start_cluster(tmp_path_factory.mktemp("server"))
    yield server
    server.stop()


def ask(cluster: ApiServerProcess, head: bytes, *headers: bytes, body: bytes = b"", token: bytes | None = None) -> int:
    """The code of the answer to a request in these very bytes; 0 when there is none."""
    host, _, port = cluster.url.removeprefix("https://").rpartition(":")
    given = cluster.token.encode() if token is None else token
    lines = [head + b" HTTP/1.1", b"Host: x", b"Authorization: Bearer " + given, b"Connection: close", *headers]
    if body:
        lines += [b"Content-Length: %d" % len(body)]
    with (
        socket.create_connection((host, int(port)), timeout=20) as plain,
        cluster.tls.wrap_socket(plain, server_hostname=host) as tls,
    ):
        tls.sendall(b"\r\n".join([*lines, b"", b""]) + body)
        answer = b""
        while chunk := tls.recv(65536):
            answer += chunk
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/") else 0


def test_tokens(cluster: ApiServerProcess) -> None:
    assert {odd: ask(cluster, b"GET /api/v1/nodes", token=odd) for odd in ODD} == dict.fromkeys(ODD, 401)


@pytest.mark.parametrize("header", [b"User-Agent", b"X-Anything", b"Accept-Language", b"Cookie"])
def test_headers_that_say_nothing_about_the_answer(cluster: ApiServerProcess, header: bytes) -> None:
    for odd in ODD:
        wanted = {200, 201, 400}
        assert ask(cluster, b"GET " + MAPS, header + b": a" + odd) in wanted, (header, odd)
        json = b"Content-Type: application/json"
        assert ask(cluster, b"POST " + MAPS, header + b": a" + odd, json, body=BODY) in wanted | {422}, (header, odd)


@pytest.mark.parametrize(
    "header", [b"Accept", b"Content-Type", b"Content-Encoding", b"If-None-Match", b"Expect", LEASE_HEADER.encode()]
)
def test_headers_that_do(cluster: ApiServerProcess, header: bytes) -> None:
    for odd in ODD:
        for value in (odd, b"application/json;" + odd, b"application/" + odd + b", application/json"):
            code = ask(cluster, b"POST " + MAPS, header + b": " + value, body=BODY)
            assert 200 <= code < 500, (header, value, code)
            code = ask(cluster, b"GET /openapi/v3", header + b": " + value)
            assert 200 <= code < 500, (header, value, code)


def test_paths(cluster: ApiServerProcess) -> None:
    places = [b"/api/v1/nodes/a%s", b"/api/v1/namespaces/a%s/pods", b"/apis/a%s/v1/pods", b"/readyz/%s", b"/%s"]
    places += [b"/openapi/v3/%s", b"/api/v1/namespaces/default/pods/a%s/status"]
    for place in places:
        for odd in (*ODD, *ENCODED):
            code = ask(cluster, b"GET " + place.replace(b"%s", odd))
            assert 200 <= code < 500, (place, odd, code)


@pytest.mark.parametrize(
    "name",
    [
        *(b"labelSelector", b"fieldSelector", b"limit", b"continue", b"resourceVersion", b"resourceVersionMatch"),
        *(b"pretty", b"includeObject", b"fieldManager", b"fieldValidation", b"dryRun"),
    ],
)
def test_queries(cluster: ApiServerProcess, name: bytes) -> None:
    for odd in (*ODD, *ENCODED):
        for value in (odd, b"a=" + odd, b"metadata.name%3d" + odd):
            code = ask(cluster, b"GET " + MAPS + b"?" + name + b"=" + value + b"&timeoutSeconds=1")
            assert 200 <= code < 500, (name, value, code)
    for odd in (*ODD, *ENCODED):
        code = ask(cluster, b"POST " + MAPS + b"?" + name + b"=" + odd, b"Content-Type: application/json", body=BODY)
        assert 200 <= code < 500, (name, odd, code)


def test_names_of_query_parameters_and_methods(cluster: ApiServerProcess) -> None:
    for odd in (*ODD, *ENCODED):
        code = ask(cluster, b"GET " + MAPS + b"?" + odd + b"=1")
        assert 200 <= code < 500, (odd, code)
    for odd in ODD:
        assert ask(cluster, b"G" + odd + b"T " + MAPS) in (0, 400, 405), odd
