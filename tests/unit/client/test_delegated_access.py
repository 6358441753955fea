"""The gate over real TLS: who is let in, who is refused and with which words, with a scripted API server behind it."""

from __future__ import annotations

import asyncio
import json
import random
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry
from scripted_reviews import ScriptedServer

from support.pki import Authority, KeyPair
from support.virtual_clock import VirtualClock
from tonnage.client.config.connection import KubeconfigCluster, ServerConnection
from tonnage.client.delegated_access.access import AccessSettings, DelegatedAccess
from tonnage.client.delegated_access.authorities import AuthoritySources, FrontProxies
from tonnage.clock import SystemClock
from tonnage.errors import TonnageError
from tonnage.health import served
from tonnage.serving.server_tls import GivenCertificate, ServerTls, take_any_certificate

NEEDS_ANY_CERTIFICATE = pytest.mark.skipif(
    not take_any_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)),
    reason="of this Python TLS breaks off the handshake by itself",
)
SERVERS, USERS, PROXIES, STRANGERS = (Authority(name) for name in ("servers", "users", "proxies", "strangers"))
METRICS_FORBIDDEN = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": 'forbidden: User "system:anonymous" cannot get path "/metrics"',
    "reason": "Forbidden",
    "details": {},
    "code": 403,
}
UNAUTHORIZED = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "Unauthorized",
    "reason": "Unauthorized",
    "code": 401,
}


@dataclass
class Door:
    url: str
    folder: Path
    api: ScriptedServer
    clock: VirtualClock
    access: DelegatedAccess

    async def get(
        self, path: str, *, token: str = "", pair: KeyPair | None = None, method: str = "GET", **headers: str
    ) -> tuple[int, Any]:
        context = ssl.create_default_context(cadata=SERVERS.pem.decode())
        if pair is not None:
            certificate, key = self.folder / "client.crt", self.folder / "client.key"
            certificate.write_bytes(pair.certificate)
            key.write_bytes(pair.key)
            context.load_cert_chain(certificate, key)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            sent["Authorization"] = f"Bearer {token}"
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, self.url + path, ssl=context, headers=sent) as answer,
        ):
            body = await answer.text()
            is_json = answer.headers["Content-Type"].startswith("application/json")
            return answer.status, json.loads(body) if is_json else body


@asynccontextmanager
async def door(folder: Path, settings: AccessSettings | None = None, **config_map: str) -> AsyncIterator[Door]:
    """A program's endpoint whose gate asks a scripted API server."""
    api, clock = ScriptedServer(), VirtualClock(datetime.now(UTC))  # certificates of tests are valid today
    api.users["good"] = {"username": "prom", "groups": ["system:serviceaccounts"]}
    api.users["poor"] = {"username": "poor"}
    api.readers["prom"] = {"/metrics", "/debug/x"}
    api.config_map = {name.replace("_", "-"): value for name, value in config_map.items()} or None
    pair = SERVERS.sign("server", "127.0.0.1")
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.key)
    own = ServerConnection(KubeconfigCluster("https://unused"))
    access = DelegatedAccess(
        own, own, settings or AccessSettings(), clock=clock, rng=random.Random(1), user_agent="test", transport=api
    )
    async with access:
        shown = GivenCertificate(folder / "tls.crt", folder / "tls.key", SystemClock())
        tls = ServerTls(shown, client_authorities=access.client_authorities)
        async with served(
            host="127.0.0.1",
            port=0,
            tls=tls,
            registry=CollectorRegistry(),
            is_healthy=lambda: True,
            is_ready=lambda: True,
            debug={"/debug/x": lambda: {"x": 1}},
            gate=access.gate,
        ) as url:
            yield Door(url, folder, api, clock, access)


async def test_health_is_open_and_the_rest_is_not(tmp_path):
    async with door(tmp_path) as at:
        for path in ("/healthz", "/livez", "/readyz"):
            assert await at.get(path) == (200, "ok")
            assert await at.get(path, token="wrong") == (200, "ok")
        assert at.api.count("TokenReview") == at.api.count("SubjectAccessReview") == 0
        assert await at.get("/metrics") == (403, METRICS_FORBIDDEN)
        for path in ("/debug/x", "/configz", "/no/such/page", "/healthz/ping"):
            code, told = await at.get(path)
            assert (code, told["message"]) == (
                403,
                f'forbidden: User "system:anonymous" cannot get path "{path}"',
            )


async def test_a_token_opens_what_its_user_may_read(tmp_path):
    async with door(tmp_path) as at:
        assert (await at.get("/metrics", token="good"))[0] == 200
        assert await at.get("/debug/x", token="good") == (200, {"x": 1})
        code, told = await at.get("/configz", token="good")
        assert (code, told["message"]) == (403, 'forbidden: User "prom" cannot get path "/configz"')
        code, told = await at.get("/metrics", token="poor")
        assert (code, told["message"]) == (403, 'forbidden: User "poor" cannot get path "/metrics"')
        assert await at.get("/metrics", token="wrong") == (401, UNAUTHORIZED)
        asked = [each["spec"] for each in at.api.asked if each["kind"] == "SubjectAccessReview"]
        assert asked[0]["groups"] == ["system:serviceaccounts", "system:authenticated"]


async def test_another_verb_is_another_question(tmp_path):
    async with door(tmp_path) as at:
        code, told = await at.get("/metrics", token="good", method="POST")
        assert (code, told["message"]) == (403, 'forbidden: User "prom" cannot post path "/metrics"')


async def test_a_right_that_is_taken_away_is_gone_when_the_answer_is_old(tmp_path):
    async with door(tmp_path) as at:
        assert (await at.get("/metrics", token="good"))[0] == 200
        at.api.readers.clear()
        assert (await at.get("/metrics", token="good"))[0] == 200
        await at.clock.run_for(10.5)
        assert (await at.get("/metrics", token="good"))[0] == 403
        at.api.users.clear()
        await at.clock.run_for(10.5)
        assert await at.get("/metrics", token="good") == (401, UNAUTHORIZED)


async def test_while_the_server_is_away_tokens_are_refused_and_questions_fail(tmp_path):
    async with door(tmp_path) as at:
        at.api.is_away = True
        assert await at.get("/metrics", token="good") == (401, UNAUTHORIZED)
        code, told = await at.get("/metrics?a=<b>")
        assert (code, told) == (
            500,
            'Internal Server Error: "/metrics?a=%3Cb%3E": POST https://scripted: connection refused\n',
        )
        assert await at.get("/healthz") == (200, "ok")


async def test_paths_that_are_open_are_for_the_flags_to_say(tmp_path):
    async with door(tmp_path, AccessSettings(open_paths=("/metrics", "/debug/*"))) as at:
        assert (await at.get("/metrics"))[0] == 200
        assert (await at.get("/debug/x"))[0] == 200
        assert (await at.get("/healthz"))[0] == 403


def users_of(door: Door) -> list[dict[str, Any]]:
    return [each["spec"] for each in door.api.asked if each["kind"] == "SubjectAccessReview"]


async def test_a_client_certificate_of_the_clusters_authority_is_a_user(tmp_path):
    async with door(tmp_path, client_ca_file=USERS.pem.decode()) as at:
        assert (await at.get("/metrics", pair=USERS.sign("prom", groups=("monitoring",))))[0] == 200
        (spec,) = users_of(at)
        assert (spec["user"], spec["groups"]) == ("prom", ["monitoring", "system:authenticated"])
        assert spec["extra"]["authentication.kubernetes.io/credential-id"][0].startswith("X509SHA256=")
        assert (await at.get("/metrics", pair=USERS.sign("root", groups=("system:masters",))))[0] == 200
        assert len(users_of(at)) == 1
        code, told = await at.get("/metrics", pair=USERS.sign("mary"))
        assert (code, told["message"]) == (403, 'forbidden: User "mary" cannot get path "/metrics"')


@NEEDS_ANY_CERTIFICATE
@pytest.mark.parametrize("path", ["/metrics", "/nothing"])
async def test_a_certificate_of_another_authority_is_nobodys_and_a_token_still_counts(tmp_path, path):
    async with door(tmp_path, client_ca_file=USERS.pem.decode()) as at:
        stranger = STRANGERS.sign("prom", groups=("system:masters",))
        code, told = await at.get(path, pair=stranger)
        assert (code, told["message"]) == (401, "Unauthorized")
        assert (await at.get(path, pair=stranger, token="bad"))[0] == 401
        assert users_of(at) == []
        assert (await at.get(path, pair=stranger, token="good"))[0] == (200 if path == "/metrics" else 403)
        assert [each["user"] for each in users_of(at)] == ["prom"]
        assert (await at.get("/healthz", pair=stranger))[0] == 200


@NEEDS_ANY_CERTIFICATE
async def test_the_name_of_an_authority_is_not_its_signature(tmp_path):
    """Who makes an authority of the same name, and shows it or the true one, is nobody all the same."""
    twin = Authority("users")
    forged = twin.sign("prom", groups=("system:masters",))
    async with door(tmp_path, client_ca_file=USERS.pem.decode()) as at:
        for beside in (b"", twin.pem, USERS.pem, twin.pem + USERS.pem):
            assert (await at.get("/metrics", pair=KeyPair(forged.certificate + beside, forged.key)))[0] == 401
        good = USERS.sign("prom")
        assert (await at.get("/metrics", pair=KeyPair(good.certificate + twin.pem, good.key)))[0] == 200


async def test_where_no_authority_is_known_no_certificate_is_asked_for(tmp_path):
    async with door(tmp_path) as at:
        assert await at.get("/metrics", pair=STRANGERS.sign("prom")) == (403, METRICS_FORBIDDEN)
        assert (await at.get("/metrics", pair=STRANGERS.sign("prom"), token="good"))[0] == 200


FRONT: dict[str, Any] = {
    "requestheader_client_ca_file": PROXIES.pem.decode(),
    "requestheader_username_headers": '["X-Remote-User"]',
    "requestheader_group_headers": '["X-Remote-Group"]',
    "requestheader_extra_headers_prefix": '["X-Remote-Extra-"]',
    "requestheader_allowed_names": '["front-proxy"]',
}
SAYS_PROM: dict[str, Any] = {"X_Remote_User": "prom", "X_Remote_Group": "g", "X_Remote_Extra_Scope": "a"}


async def test_a_front_proxy_says_who_asks(tmp_path):
    async with door(tmp_path, **FRONT) as at:
        assert (await at.get("/metrics", pair=PROXIES.sign("front-proxy"), **SAYS_PROM))[0] == 200
        (spec,) = users_of(at)
        assert (spec["user"], spec["groups"], spec["extra"]) == (
            "prom",
            ["g", "system:authenticated"],
            {"scope": ["a"]},
        )


async def test_nobody_else_is_believed_when_they_say_who_asks(tmp_path):
    async with door(tmp_path, client_ca_file=USERS.pem.decode(), **FRONT) as at:
        assert await at.get("/metrics", **SAYS_PROM) == (403, METRICS_FORBIDDEN)
        assert await at.get("/metrics", pair=PROXIES.sign("another-proxy"), **SAYS_PROM) == (401, UNAUTHORIZED)
        code, told = await at.get("/metrics", pair=USERS.sign("mary"), **SAYS_PROM)
        assert (code, told["message"]) == (403, 'forbidden: User "mary" cannot get path "/metrics"')
        # A proxy that names nobody is not a user either, and a token beside it still counts.
        assert await at.get("/metrics", pair=PROXIES.sign("front-proxy")) == (401, UNAUTHORIZED)
        assert (await at.get("/metrics", pair=PROXIES.sign("front-proxy"), token="good"))[0] == 200


@NEEDS_ANY_CERTIFICATE
async def test_authorities_are_looked_up_again_and_the_old_ones_end(tmp_path):
    async with door(tmp_path, client_ca_file=USERS.pem.decode()) as at:
        mary, max_ = USERS.sign("prom"), STRANGERS.sign("prom")
        assert (await at.get("/metrics", pair=mary))[0] == 200
        at.api.config_map = {"client-ca-file": STRANGERS.pem.decode()}
        await at.clock.run_for(70.0)
        assert (await at.get("/metrics", pair=max_))[0] == 200
        assert (await at.get("/metrics", pair=mary))[0] == 401
        at.api.is_away = True
        await at.clock.run_for(300.0)
        assert (
            at.access.client_authorities() == STRANGERS.pem.strip() or STRANGERS.pem in at.access.client_authorities()
        )


async def test_files_come_before_the_cluster_and_are_read_again(tmp_path):
    (tmp_path / "ca.crt").write_bytes(USERS.pem)
    sources = AuthoritySources(client_ca_file=tmp_path / "ca.crt")
    async with door(tmp_path, AccessSettings(authorities=sources), client_ca_file=STRANGERS.pem.decode()) as at:
        assert (await at.get("/metrics", pair=USERS.sign("prom")))[0] == 200
        (tmp_path / "ca.crt").write_bytes(STRANGERS.pem)
        await at.clock.run_for(70.0)
        assert (await at.get("/metrics", pair=STRANGERS.sign("prom")))[0] == 200


async def test_headers_of_flags_go_with_the_authority_of_flags(tmp_path):
    (tmp_path / "proxies.crt").write_bytes(PROXIES.pem)
    sources = AuthoritySources(
        front_proxy_ca_file=tmp_path / "proxies.crt", front_proxies=FrontProxies(username_headers=("x-who",))
    )
    async with door(tmp_path, AccessSettings(authorities=sources)) as at:
        assert (await at.get("/metrics", pair=PROXIES.sign("any"), X_Who="prom"))[0] == 200


@pytest.mark.parametrize("looks_up", [True, False])
async def test_a_lookup_that_fails_ends_the_start_only_where_it_must_not(tmp_path, looks_up):
    async def enter(**options: Any) -> DelegatedAccess:
        api = ScriptedServer()
        api.is_away = True
        settings = AccessSettings(authorities=AuthoritySources(looks_up=looks_up, **options))
        own = ServerConnection(KubeconfigCluster("https://unused"))
        made = DelegatedAccess(
            own, own, settings, clock=VirtualClock(), rng=random.Random(1), user_agent="test", transport=api
        )
        async with made:
            return made

    await enter()
    if looks_up:
        with pytest.raises(TonnageError, match="extension-apiserver-authentication cannot be read"):
            await enter(tolerates_failure=False)
    else:
        await enter(tolerates_failure=False)


async def test_a_file_that_is_no_authority_ends_the_start(tmp_path):
    (tmp_path / "ca.crt").write_text("nothing")
    with pytest.raises(TonnageError, match="holds no certificate"):
        async with door(tmp_path, AccessSettings(authorities=AuthoritySources(client_ca_file=tmp_path / "ca.crt"))):
            pass


async def test_many_who_hang_up_leave_nothing_behind(tmp_path):
    async with door(tmp_path) as at:
        asking = [asyncio.create_task(at.get("/metrics", token=f"t{number}")) for number in range(20)]
        await asyncio.sleep(0)
        for each in asking:
            each.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        assert (await at.get("/metrics", token="good"))[0] == 200
