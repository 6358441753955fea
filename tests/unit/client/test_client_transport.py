"""HTTP over real sockets: what is sent, who is trusted, and what each kind of trouble is called."""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from support.http import free_port
from support.pki import Authority, KeyPair
from tonnage.client.config.connection import (
    ExecPlugin,
    Impersonation,
    KubeconfigCluster,
    KubeconfigUser,
    ServerConnection,
)
from tonnage.client.errors import Disconnected, NoCredentials, Untrusted
from tonnage.client.http import Client
from tonnage.errors import NotFound, Unauthorized
from tonnage.objects.core_v1 import ConfigMap, Node

CA = Authority()
SERVER = CA.sign("kube-apiserver", "127.0.0.1", "kubernetes")
NODE = b'{"kind":"Node","apiVersion":"v1","metadata":{"name":"n1"}}'

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass
class Site:
    """A server that does what a test tells it, and remembers what it was asked."""

    url: str
    seen: list[web.BaseRequest] = field(default_factory=list)

    def connection(self, user: KubeconfigUser | None = None, **cluster: Any) -> ServerConnection:
        return ServerConnection(
            KubeconfigCluster(self.url, **{"ca_pem": CA.pem, **cluster}), user or KubeconfigUser(token="t")
        )

    def client(self, user: KubeconfigUser | None = None, *, timeout_s: float = 10.0, **cluster: Any) -> Client:
        return Client.connect(self.connection(user, **cluster), user_agent="tests/1", timeout_s=timeout_s)


def context(pair: KeyPair, folder: Path, *, client_ca: bytes | None = None) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    (folder / "server.pem").write_bytes(pair.key + pair.certificate)
    made.load_cert_chain(folder / "server.pem")
    if client_ca is not None:
        made.verify_mode = ssl.CERT_REQUIRED
        made.load_verify_locations(cadata=client_ca.decode())
    return made


@asynccontextmanager
async def site(handler: Handler, tls: ssl.SSLContext | None):
    place = Site("")

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        place.seen.append(request)
        return await handler(request)

    runner = web.ServerRunner(web.Server(handle, access_log=None), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    port = runner.addresses[0][1]
    place.url = f"http{'s' if tls else ''}://127.0.0.1:{port}"
    try:
        yield place
    finally:
        await runner.cleanup()


async def answer_node(request: web.BaseRequest) -> web.Response:
    return web.Response(body=NODE, content_type="application/json")


@pytest.fixture
async def at(tmp_path):
    async with site(answer_node, context(SERVER, tmp_path)) as place:
        yield place


# -- what is sent -----------------------------------------------------------------------------------------------------


async def test_a_request_says_who_asks_and_what_is_understood(at):
    async with at.client() as client:
        assert (await client.get(Node, "n1")).name == "n1"
    headers = at.seen[0].headers
    assert {name: headers[name] for name in ("Authorization", "User-Agent", "Accept", "Accept-Encoding")} == {
        "Authorization": "Bearer t",
        "User-Agent": "tests/1",
        "Accept": "application/json",
        "Accept-Encoding": "identity",  # this is our own machine: nothing to save
    }


async def test_impersonation_is_asked_for_in_headers(at):
    whom = Impersonation("boss", "7", ("g1", "g2"), {"Acme.com/scope": ("a", "b")})
    async with at.client(KubeconfigUser(token="t", impersonation=whom)) as client:
        await client.get(Node, "n1")
    headers = at.seen[0].headers
    assert (headers["Impersonate-User"], headers["Impersonate-Uid"]) == ("boss", "7")
    assert headers.getall("Impersonate-Group") == ["g1", "g2"]
    assert headers.getall("Impersonate-Extra-acme.com%2Fscope") == ["a", "b"]


async def test_a_server_may_live_under_a_path(at):
    at.url += "/k8s/clusters/c-1"
    async with at.client() as client:
        await client.get(Node, "n1")
    assert at.seen[0].path == "/k8s/clusters/c-1/api/v1/nodes/n1"


async def test_a_connection_is_used_again(at):
    async with at.client() as client:
        for _ in range(5):
            await client.get(Node, "n1")
    assert len({id(request.protocol) for request in at.seen}) == 1


async def test_without_tls_no_credentials_are_sent(caplog):
    async with site(answer_node, None) as place, place.client() as client:
        await client.get(Node, "n1")
    assert "Authorization" not in place.seen[0].headers
    assert caplog.messages == [f"{place.url} is not TLS: credentials are not sent"]


async def test_a_redirect_is_not_followed(tmp_path):
    async def redirect(request: web.BaseRequest) -> web.Response:
        return web.Response(status=302, headers={"Location": "https://elsewhere.example/"})

    async with site(redirect, context(SERVER, tmp_path)) as place, place.client() as client:
        with pytest.raises(Exception, match=r"GET https://127\.0\.0\.1:\d+/api/v1/nodes/n1: the answer is 302"):
            await client.get(Node, "n1")


async def test_compressed_and_chunked_answers_are_understood(tmp_path):
    async def compressed(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Encoding": "gzip", "Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        data = gzip.compress(NODE)
        await response.write(data[:20])
        await response.write(data[20:])
        await response.write_eof()
        return response

    async with site(compressed, context(SERVER, tmp_path)) as place, place.client() as client:
        assert (await client.get(Node, "n1")).name == "n1"


async def test_a_large_answer_is_read_whole(tmp_path):
    items = [{"metadata": {"namespace": "a", "name": f"c{i}"}, "data": {"v": "x" * 1000}} for i in range(3000)]
    page = json.dumps({"kind": "ConfigMapList", "metadata": {"resourceVersion": "7"}, "items": items}).encode()

    async def large(request: web.BaseRequest) -> web.Response:
        return web.Response(body=page, content_type="application/json")

    async with site(large, context(SERVER, tmp_path)) as place, place.client() as client:
        assert len((await client.list(ConfigMap)).items) == 3000


# -- who is trusted ---------------------------------------------------------------------------------------------------


async def test_a_server_of_another_authority_is_not_trusted(at):
    async with at.client(ca_pem=Authority("another").pem) as client:
        with pytest.raises(Untrusted) as caught:
            await client.get(Node, "n1")
    assert caught.value.message == (
        f"GET {at.url}/api/v1/nodes/n1: the server's certificate is not accepted: "
        "unable to get local issuer certificate"
    )
    assert not caught.value.in_doubt and at.seen == []


async def test_the_machines_authorities_do_not_know_a_private_one(at):
    async with at.client(ca_pem=b"") as client:
        with pytest.raises(Untrusted):
            await client.get(Node, "n1")


async def test_verification_can_be_switched_off(at):
    async with at.client(ca_pem=b"", skip_tls_verify=True) as client:
        assert (await client.get(Node, "n1")).name == "n1"


async def test_a_name_may_be_expected_that_is_not_in_the_url(at):
    async with at.client(tls_server_name="kubernetes") as client:
        assert (await client.get(Node, "n1")).name == "n1"
    async with at.client(tls_server_name="somebody-else") as client:
        with pytest.raises(Untrusted) as caught:
            await client.get(Node, "n1")
    assert caught.value.detail == (
        "the server's certificate is not accepted: Hostname mismatch, certificate is not valid for 'somebody-else'."
    )


async def test_a_client_certificate_is_shown_and_a_new_one_after_it_changed(tmp_path):
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"

    def use(name: str) -> None:
        pair = CA.sign(name)
        certificate.write_bytes(pair.certificate)
        key.write_bytes(pair.key)

    names: list[str] = []

    async def who(request: web.BaseRequest) -> web.Response:
        peer = request.transport.get_extra_info("peercert")
        names.append(peer["subject"][0][0][1])
        # The first certificate is turned away, as one that has been withdrawn would be.
        if names[-1] == "first" and len(names) > 1:
            return web.Response(status=401, body=b"{}")
        return await answer_node(request)

    use("first")
    async with site(who, context(SERVER, tmp_path, client_ca=CA.pem)) as place:
        async with place.client(KubeconfigUser(certificate_file=certificate, key_file=key)) as client:
            await client.get(Node, "n1")
            use("second")
            await client.get(Node, "n1")
        assert names == ["first", "first", "second"]


async def test_a_server_that_wants_a_certificate_and_gets_none_hangs_up(tmp_path):
    async with site(answer_node, context(SERVER, tmp_path, client_ca=CA.pem)) as place, place.client() as client:
        with pytest.raises(Disconnected):
            await client.get(Node, "n1", retry=False)


# -- 401 --------------------------------------------------------------------------------------------------------------


async def test_a_401_is_tried_once_more_with_fresh_credentials(tmp_path):
    token = tmp_path / "token"
    token.write_text("old")

    async def strict(request: web.BaseRequest) -> web.Response:
        if request.headers["Authorization"] != "Bearer new":
            token.write_text("new")
            return web.Response(status=401, body=b'{"kind":"Status","code":401,"reason":"Unauthorized","message":"no"}')
        return await answer_node(request)

    async with (
        site(strict, context(SERVER, tmp_path)) as place,
        place.client(KubeconfigUser(token_file=token)) as client,
    ):
        assert (await client.patch(Node, "n1", {})).name == "n1"
        assert [request.headers["Authorization"] for request in place.seen] == ["Bearer old", "Bearer new"]


async def test_a_401_with_nothing_else_to_show_is_final(tmp_path):
    async def strict(request: web.BaseRequest) -> web.Response:
        return web.Response(
            status=401, body=b'{"kind":"Status","code":401,"reason":"Unauthorized","message":"Unauthorized"}'
        )

    async with site(strict, context(SERVER, tmp_path)) as place, place.client() as client:
        with pytest.raises(Unauthorized, match="Unauthorized"):
            await client.get(Node, "n1")
        with pytest.raises(Unauthorized, match="Unauthorized"):
            async with client.watch(Node):
                pass
        assert len(place.seen) == 2


async def test_credentials_that_cannot_be_had_are_told_and_nothing_is_sent(at):
    async with at.client(KubeconfigUser(exec=ExecPlugin("no-such-plugin", "x", interactive_mode="Never"))) as client:
        with pytest.raises(NoCredentials, match="executable no-such-plugin not found"):
            await client.get(Node, "n1")
    assert at.seen == []


# -- trouble ----------------------------------------------------------------------------------------------------------


async def test_a_server_that_does_not_listen_refuses_and_nothing_is_in_doubt():
    url = f"https://127.0.0.1:{free_port()}"
    async with Client.connect(ServerConnection(KubeconfigCluster(url, skip_tls_verify=True))) as client:
        with pytest.raises(Disconnected) as caught:
            await client.patch(Node, "n1", {})
    assert caught.value.message == f"PATCH {url}/api/v1/nodes/n1: connection refused"
    assert caught.value.hint == "is the API server running, and does the kubeconfig name its address?"
    assert not caught.value.in_doubt


async def test_a_name_that_does_not_exist_is_told():
    async with Client.connect(
        ServerConnection(KubeconfigCluster("https://no-such-host.invalid:1", skip_tls_verify=True))
    ) as client:
        with pytest.raises(Disconnected) as caught:
            await client.get(Node, "n1", retry=False)
    assert caught.value.detail.startswith("the server's name is not known: ")


async def test_a_server_that_hangs_up_leaves_a_write_in_doubt(tmp_path):
    async def hang_up(request: web.BaseRequest) -> web.Response:
        request.transport.abort()
        return await answer_node(request)

    async with site(hang_up, context(SERVER, tmp_path)) as place, place.client() as client:
        with pytest.raises(Disconnected) as caught:
            await client.patch(Node, "n1", {})
    assert caught.value.in_doubt and len(place.seen) == 1


async def test_an_answer_that_is_cut_short_is_no_answer(tmp_path):
    async def cut(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(NODE)
        request.transport.close()
        return response

    async with site(cut, context(SERVER, tmp_path)) as place, place.client() as client:
        with pytest.raises(Disconnected) as caught:
            await client.patch(Node, "n1", {})
    assert caught.value.detail == "the connection was cut in the middle of the answer" and caught.value.in_doubt


async def test_a_server_that_takes_too_long_is_given_up(tmp_path):
    never = asyncio.Event()

    async def slow(request: web.BaseRequest) -> web.Response:
        await never.wait()
        return await answer_node(request)

    async with site(slow, context(SERVER, tmp_path)) as place, place.client(timeout_s=0.05) as client:
        with pytest.raises(Disconnected) as caught:
            await client.patch(Node, "n1", {})
        never.set()
    assert caught.value.detail == "no answer within 0.05 s" and caught.value.in_doubt


async def test_a_stream_gives_lines_as_they_come_and_its_cut_is_told(tmp_path):
    go_on = asyncio.Event()

    async def stream(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(b'{"a":1}\n{"b":2}\n{"c"')
        await go_on.wait()
        await response.write(b":3}\n{")
        request.transport.abort()
        return response

    async with site(stream, context(SERVER, tmp_path)) as place, place.client() as client:
        told: list[bytes] = []
        with pytest.raises(Disconnected):
            async with client.watch(Node) as lines:
                async for batch in lines:
                    told += batch
                    go_on.set()
    assert told[:2] == [b'{"a":1}', b'{"b":2}'] and len(told) <= 3


async def test_a_refused_stream_raises_what_the_server_says(tmp_path):
    async def refuse(request: web.BaseRequest) -> web.Response:
        body = b'{"kind":"Status","code":404,"reason":"NotFound","message":"the server could not find it"}'
        return web.Response(status=404, body=body)

    async with site(refuse, context(SERVER, tmp_path)) as place, place.client() as client:
        with pytest.raises(NotFound, match="the server could not find it"):
            async with client.watch(Node):
                pass


async def test_many_watches_do_not_keep_a_request_waiting(tmp_path):
    never = asyncio.Event()

    async def both(request: web.BaseRequest) -> web.StreamResponse:
        if "watch" not in request.query:
            return await answer_node(request)
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        await never.wait()
        return response

    async with site(both, context(SERVER, tmp_path)) as place, place.client() as client:
        watches = [client.watch(Node) for _ in range(80)]
        for watch in watches:
            await watch.__aenter__()
        assert (await client.get(Node, "n1")).name == "n1"
        for watch in watches:
            await watch.__aexit__(None, None, None)
        never.set()
