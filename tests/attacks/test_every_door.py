"""Every door that speaks HTTP, the API server's, the dashboard's, that of health and metrics: what all have in common.

None says which versions run. What can be read in two ways is read in none, so that nothing is smuggled past a proxy.
What is sent without waiting for answers is queued by its sender. A plain page answers to names of its own alone.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from dashboard_door import BEARER, opened
from prometheus_client import CollectorRegistry, Gauge

from support.processes import ApiServerProcess
from tonnage import health

KINDS = ("API server", "dashboard", "health")
HAS_IPV6 = Path("/proc/net/if_inet6").exists()
STREAM = "/api/v1/pods?watch=1&timeoutSeconds=1"
METRIC = "tonnage_pods_by_name"


class HttpDoor:
    """Where a server listens, a path that answers without a token, and bytes to it and back."""

    def __init__(self, address: str, path: str, token: str = "", tls: ssl.SSLContext | None = None) -> None:
        self.at, self.path, self._tls = urlsplit(address), path, tls
        self.token = token

    def head(self, method: str = "GET", *lines: str, target: str = "") -> bytes:
        return "\r\n".join([f"{method} {target or self.path} HTTP/1.1", "Host: 127.0.0.1", *lines, "", ""]).encode()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        name = {"server_hostname": "127.0.0.1"} if self._tls else {}
        return await asyncio.open_connection(self.at.hostname, self.at.port, ssl=self._tls, **name)  # type: ignore[arg-type]

    async def send(self, sent: bytes, *, is_last: bool = False) -> bytes:
        """All that comes back until the server closes; a plain request behind it, which closes, shows that it lives."""
        reader, writer = await self.connect()
        try:
            writer.write(sent if is_last else sent + self.head("GET", "Connection: close"))
            await writer.drain()
            return await asyncio.wait_for(reader.read(), 20)
        except ConnectionError:
            return b""
        finally:
            writer.transport.abort()


@pytest.fixture(params=KINDS)
async def door(request: pytest.FixtureRequest) -> AsyncIterator[HttpDoor]:
    if request.param == "API server":
        cluster: ApiServerProcess = request.getfixturevalue("cluster")
        tls = ssl.create_default_context(cafile=str(cluster.folder / "pki" / "ca.crt"))
        yield HttpDoor(cluster.url, "/readyz", f"Authorization: Bearer {cluster.token}", tls)
    elif request.param == "dashboard":
        async with opened() as dashboard:
            yield HttpDoor(f"http://{dashboard.host}", "/healthz", BEARER)
    else:
        async with plain_pages("127.0.0.1") as address:
            yield HttpDoor(address, "/readyz")


def plain_pages(host: str) -> AbstractAsyncContextManager[str]:
    """Health and metrics as `tonnage provisioner`, `pools` and `node` serve them."""
    registry = CollectorRegistry()
    Gauge(METRIC, "What nobody from elsewhere is told.", registry=registry).set(1)
    return health.served(
        host=host,
        port=0,
        tls=None,
        registry=registry,
        is_healthy=lambda: True,
        is_ready=lambda: True,
        debug={"/debug/names": lambda: [METRIC]},
    )


def codes(came: bytes) -> list[int]:
    return [int(code) for code in re.findall(rb"HTTP/1\.[01] (\d{3}) ", came)]


async def test_no_answer_says_which_versions_of_what_run(door: HttpDoor) -> None:
    long = "a" * 70_000
    requests = {
        "plain": door.head("GET", "Connection: close"),
        "HEAD": door.head("HEAD", "Connection: close"),
        "HTTP/1.0": f"GET {door.path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".encode(),
        "not found": door.head("GET", door.token or "X: y", "Connection: close", target="/nothing"),
        "without a token": door.head("GET", "Connection: close", target="/api/v1/state"),
        "a method": door.head("TRACE", door.token or "X: y", "Connection: close"),
        "no HTTP": b"NONSENSE\r\n\r\n",
        "no TLS": b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
        "no Host": f"GET {door.path} HTTP/1.1\r\n\r\n".encode(),
        "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "a URL": door.head("GET", target=f"/{long}"),
        "a header": door.head("GET", f"X: {long}"),
        "many headers": door.head("GET", *["X: y"] * 200),
        "a head": door.head("GET", *["X: " + "a" * 20_000] * 20),
        "a wrong body": door.head("POST", "Transfer-Encoding: chunked", "Content-Length: 3"),
        "a stream": door.head("GET", door.token or "X: y", "Connection: close", target=STREAM),
        "what is expected": door.head("POST", "Expect: 100-continue", "Content-Length: 2", "Connection: close") + b"{}",
    }  # fmt: skip
    for what, sent in requests.items():
        came = await door.send(sent, is_last=True)
        assert codes(came) or what == "a head", what  # too much of which is unread, and then the connection is reset
        heads = came.lower()
        for word in (b"\r\nserver:", b"\r\nx-powered-by:", b"\r\nvia:", b"aiohttp", b"python"):
            assert word not in heads, (what, word)


@pytest.mark.parametrize(
    "lines",
    [
        "Content-Length: 6\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 6",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding:\x0bchunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: identity, chunked\r\nContent-Length: 2",
        "Content-Length: +3",
        "Content-Length: 0x3",
        "Content-Length: 1_0",
        "Content-Length: 3, 3",
        "Content-Length: 3\r\nContent-Length: 3",
        "Content-Length: 3\r\nContent-Length: 30",
        "Content-Length: 99999999999999999999999999",
        "Content-Length: \xb3",
        "X: a\r\n Content-Length: 3",
        "X: a\rContent-Length: 3",
        "X: a\nContent-Length: 3",
        "\x00X: a",
        "X\x00: a",
        ": a",
        "Host: 127.0.0.1",
    ],
)
async def test_a_head_that_can_be_read_in_two_ways_is_not_read(door: HttpDoor, lines: str) -> None:
    came = await door.send(
        f"POST {door.path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{lines}\r\n\r\n0\r\n\r\n".encode("latin-1")
    )
    assert codes(came) == [400], came[:300]


@pytest.mark.parametrize(
    "body",
    [
        b"3;a\nx\r\nabc\r\n0\r\n\r\n",
        b"3\nabc\n0\n\n",
        b"-3\r\nabc\r\n0\r\n\r\n",
        b"0x3\r\nabc\r\n0\r\n\r\n",
        b"3 \r\nabcd\r\n0\r\n\r\n",
        b"fffffffffffffffff\r\nabc\r\n0\r\n\r\n",
        b"3\r\nabcGET / HTTP/1.1\r\n\r\n",
        b"0\r\nContent-Length: 5\r\n\r\n",
        b"0\r\nHost: evil.example\r\n\r\n",
        b"0\r\nno header\r\n\r\n",
    ],
)
async def test_chunks_that_can_be_read_in_two_ways_end_the_connection(door: HttpDoor, body: bytes) -> None:
    """The request itself may have been answered by then; what is behind it is not."""
    came = await door.send(door.head("POST", "Transfer-Encoding: chunked", "Connection: keep-alive") + body)
    assert len(codes(came)) <= 1 or codes(came)[-1] == 400, came[:300]
    assert 200 not in codes(came)


async def test_a_body_is_never_the_next_request(door: HttpDoor) -> None:
    smuggled = door.head("GET", target="/smuggled")
    came = await door.send(door.head("GET", f"Content-Length: {len(smuggled)}") + smuggled)
    assert 404 not in codes(came) and len(codes(came)) <= 2, came[:300]


async def test_a_trailer_is_no_credential(door: HttpDoor) -> None:
    body = b"0\r\n" + (door.token or "Authorization: Bearer x").encode() + b"\r\nX-Tonnage-Dashboard: 1\r\n\r\n"
    came = await door.send(door.head("POST", "Transfer-Encoding: chunked", target="/api/v1/state") + body)
    assert not {200, 201} & set(codes(came)[:1]), came[:300]


@pytest.mark.parametrize("upgrade", ["h2c", "websocket", "TLS/1.3", "SPDY/3.1"])
async def test_no_upgrade_is_taken_up(door: HttpDoor, upgrade: str) -> None:
    lines = (f"Upgrade: {upgrade}", "Connection: Upgrade, HTTP2-Settings, close", "HTTP2-Settings: AAMAAABkAAQCAAAA")
    assert codes(await door.send(door.head("GET", *lines), is_last=True)) == [200]


@pytest.mark.parametrize(
    "line",
    [
        "GET http://127.0.0.1:99999{} HTTP/1.1", "GET http://[::1{} HTTP/1.1", "GET x:443 HTTP/1.1", "get {} HTTP/1.1",
        "G\xe9T {} HTTP/1.1", "MADE-UP {} HTTP/1.1", "GET {} HTTP/1.9", "GET {} HTTP/9.9", "GET {}\tHTTP/1.1",
        "GET {} HTTP/1.1 x",
    ],
)  # fmt: skip
async def test_odd_request_lines_are_refused(door: HttpDoor, line: str) -> None:
    sent = f"{line.format(door.path)}\r\nHost: 127.0.0.1\r\n\r\n".encode("latin-1")
    assert codes(await door.send(sent)) in ([400], [405, 200]), line


async def test_requests_without_waiting_for_answers_are_answered_in_order_and_queued_by_their_sender(
    door: HttpDoor,
) -> None:
    assert codes(await door.send(door.head() * 300)) == [200] * 301
    # Nobody takes the answers: what waits in the server is bounded, so that the sender has to wait before long.
    _, writer = await door.connect()
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    piece, sent = door.head("GET", *["X: y"] * 100) * 100, 0
    with pytest.raises(TimeoutError):
        while sent < 64 << 20:
            writer.write(piece)
            sent += len(piece)
            async with asyncio.timeout(0.5):
                await writer.drain()
    writer.transport.abort()
    assert codes(await door.send(door.head())) == [200, 200]


async def test_head_after_head_of_the_most_headers(door: HttpDoor) -> None:
    assert codes(await door.send(door.head("GET", *[f"X-{n}: {'v' * 200}" for n in range(120)]) * 100)) == [200] * 101


# -- plain HTTP: by which name ----------------------------------------------------------------------------------------

FOREIGN = [
    "evil.example", "evil.example:{port}", "127.0.0.1.evil.example", "localhost.evil.example", "evil.localhost.example",
    "metrics.svc.evil.example", "svc.example", "node.internal.example", "127.0.0.1.nip.io:{port}", "evil.example.",
    "EVIL.EXAMPLE",
]  # fmt: skip
NO_HOST = [
    "", "[::1", "[::1]evil.example", "evil.example[::1]", "[::1%25eth0]", "[evil.example]", "a, b", "127.0.0.1:x",
    "127.0.0.1:99999", "127.0.0.1:80:80", "evil.example@127.0.0.1", "127.0.0.1/x", "127.0.0.1?x", "[::g]", "[1]",
]  # fmt: skip
PATHS = ("/metrics", "/debug/names", "/readyz", "/nothing")


async def page(address: str, host: str, path: str) -> tuple[int, bytes]:
    at = urlsplit(address)
    door = HttpDoor(address, path)
    sent = f"GET {path} HTTP/1.1\r\nHost: {host.replace('{port}', str(at.port))}\r\nConnection: close\r\n\r\n".encode()
    came = await door.send(sent, is_last=True)
    return codes(came)[0], came


@pytest.mark.parametrize("bound_to", ["127.0.0.1", "localhost", "0.0.0.0", "::1", "::"])
async def test_a_foreign_name_that_leads_to_a_plain_page_is_refused(bound_to: str) -> None:
    if ":" in bound_to and not HAS_IPV6:
        pytest.skip("no IPv6 here")
    async with plain_pages(bound_to) as address:
        address = address.replace("0.0.0.0", "127.0.0.1").replace("[::]", "[::1]")
        for code, hosts in ((421, FOREIGN), (400, NO_HOST)):
            for host in hosts:
                for path in PATHS if host in (FOREIGN[0], NO_HOST[0]) else PATHS[:1]:
                    got, came = await page(address, host, path)
                    assert (got, METRIC.encode() in came) == (code, False), (host, path, came[:200])


@pytest.mark.parametrize(
    ("bound_to", "right", "wrong"),
    [
        (
            "127.0.0.1",
            ["127.0.0.1", "127.0.0.1:{port}", "localhost:{port}", "LOCALHOST", "[::1]:{port}", "[::ffff:127.0.0.1]"],
            ["10.0.0.1", "[fe80::1]", "provisioner", "pools.storage.svc", "node.local"],
        ),
        (
            "0.0.0.0",
            [
                "10.0.0.1:{port}",
                "[fd00::1]:{port}",
                "localhost",
                "pools",
                "pools.storage.svc:{port}",
                "pools.storage.svc.cluster.local",
                "ip-10-0-0-1.internal",
            ],
            ["pools.example", "svc.cluster.example"],
        ),
    ],
)
async def test_a_plain_page_answers_to_the_names_it_is_asked_by(
    bound_to: str, right: list[str], wrong: list[str]
) -> None:
    async with plain_pages(bound_to) as address:
        address = address.replace("0.0.0.0", "127.0.0.1")
        for host in right:
            got, came = await page(address, host, "/metrics")
            assert (got, METRIC.encode() in came) == (200, True), host
        for host in wrong:
            assert (await page(address, host, "/metrics"))[0] == 421, host
