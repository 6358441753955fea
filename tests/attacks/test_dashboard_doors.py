"""The dashboard's doors under attack: pages from elsewhere, foreign names, wrong tokens, and what is told to whom."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from dashboard_door import BEARER, PAGE, TOKEN, Answer, Door, opened

from support.virtual_clock import VirtualClock
from tonnage.clock import SystemClock
from tonnage.dashboard.server import access
from tonnage.dashboard.server.access import AT_ONCE, Access, RequestRefused
from tonnage.dashboard.server.app import SECURITY_HEADERS
from tonnage.errors import TonnageError
from tonnage.serving.server_tls import ServerTls, ServingCertificate


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    async with opened() as found:
        yield found


# -- who asks, and from where -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lines",
    [
        (),
        ("Authorization: Bearer wrong",),
        ("Authorization: Bearer ",),
        (f"Authorization: Basic {TOKEN}",),
        (f"Authorization: Bearer {TOKEN}x",),
        (f"Authorization: Bearer {TOKEN[:-1]}",),
        ("Authorization: Bearer \udcff\udcfe",),
        ("Cookie: tonnage-dashboard-80=x",),
        (f"Cookie: tonnage-dashboard-{{port}}={TOKEN}",),
        ("Cookie: tonnage-dashboard-{port}=\udcff; ;=;a",),
    ],
)
async def test_nothing_about_the_cluster_is_told_without_the_token(door: Door, lines: tuple[str, ...]) -> None:
    lines = tuple(each.replace("{port}", str(door.port)) for each in lines)
    for path in ("/api/v1/state", "/api/v1/changes", "/api/v1/about", "/api/v1/nothing", "/nothing"):
        answer = await door.ask(f"{path}?token={TOKEN}", *lines)
        assert answer.code in (401, 429), path
        assert b"nodes" not in answer.body


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "LOCALHOST:{port}", "my.localhost:1", "[::1]:8080", "127.1.2.3"]
)
async def test_loopback_by_any_name_and_any_port_is_ours(door: Door, host: str) -> None:
    answer = await door.ask("/api/v1/about", BEARER, host=host.replace("{port}", str(door.port)))
    assert answer.code == 200


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("evil.example:{port}", 421),  # a name that resolves to 127.0.0.1
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example", 421),
        ("10.0.0.1", 421),
        ("evil.example@127.0.0.1", 400),
        ("127.0.0.1/x", 400),
        ("127.0.0.1:99999", 400),
        ("127.0.0.1:x", 400),
        ("[::1", 400),
        ("[::1]evil.example:{port}", 400),
        ("evil.example[::1]", 400),
        ("[::1%25evil.example]", 400),
        ("[fe80::1]", 421),
        ("[evil.example]", 400),
        ("127.0.0.1\t.evil.example", 400),
        ("127.0.0.1%00.evil.example", 400),
        ("127.0.0.1\\.evil.example", 400),
        ("127.0.0.1?.evil.example", 400),
        ("127.0.0.1:80:80", 400),
        ("127.0.0.1:+80", 400),
        ("127.0.0.1.", 421),
        ("127.1", 421),
        ("2130706433", 421),
        ("0.0.0.0:{port}", 421),
        ("localhost.", 421),
        ("a, b", 400),
        (None, 400),
    ],
)
async def test_a_foreign_name_that_leads_to_us_is_refused(door: Door, host: str | None, code: int) -> None:
    host = host.replace("{port}", str(door.port)) if host else host
    for path in ("/", "/api/v1/state", "/healthz"):
        assert (await door.ask(path, BEARER, host=host)).code == code


async def test_an_absolute_target_is_judged_by_the_host_too(door: Door) -> None:
    assert (await door.ask(f"http://{door.host}/api/v1/about", BEARER)).code == 200
    assert (await door.ask("http://evil.example/api/v1/about", BEARER, host="evil.example")).code == 421
    assert (await door.ask(f"http://{door.host}/api/v1/about", BEARER, host="evil.example")).code == 421
    assert (await door.ask("http://evil.example/api/v1/about")).code == 401


async def test_two_hosts_are_none(door: Door) -> None:
    assert (await door.ask("/api/v1/about", BEARER, "Host: evil.example")).code == 400


@pytest.mark.parametrize(
    "lines",
    [
        ("Origin: http://evil.example",),
        ("Origin: null",),
        ("Origin: http://[",),
        ("Origin: https://{host}",),  # TLS is another origin
        ("Origin: http://127.0.0.1:1",),
        ("Origin: http://localhost:{port}",),
        ("Sec-Fetch-Site: cross-site",),
        ("Sec-Fetch-Site: same-site",),  # another port of this host
        ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"),
        ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: script"),
    ],
)
async def test_a_page_from_elsewhere_is_not_answered_with_the_cookie_of_ours(
    door: Door, lines: tuple[str, ...]
) -> None:
    cookie = await door.cookie()
    lines = tuple(each.replace("{host}", door.host).replace("{port}", str(door.port)) for each in lines)
    for path in ("/api/v1/state", "/api/v1/changes"):
        answer = await door.ask(path, cookie, *lines)
        assert (answer.code, "access-control-allow-origin" in answer.headers) == (403, False)


async def test_a_link_from_elsewhere_leads_to_the_pages_and_to_nothing_else(door: Door) -> None:
    link = ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document")
    assert (await door.ask("/", *link)).code == 200
    assert (await door.ask("/", *link[:2], "Sec-Fetch-Dest: iframe")).code == 403
    assert (await door.ask("/js/main.js", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Dest: script")).code == 403
    assert (await door.ask("/api/v1/about", BEARER, *link)).code == 403


async def test_what_a_form_can_send_is_not_taken(door: Door) -> None:
    cookie = await door.cookie()
    for body, kind in ((json.dumps({"token": TOKEN}), "text/plain"), (f"token={TOKEN}", "multipart/form-data")):
        answer = await door.post("/login", body, cookie, f"Content-Type: {kind}")
        assert (answer.code, "set-cookie" in answer.headers) == (403, False)
    assert (await door.ask("/api/v1/state", cookie, method="OPTIONS")).code == 403
    assert (await door.ask("/api/v1/state", cookie, method="TRACE")).code == 403


async def test_the_cookie_is_for_browsers_alone_and_shows_no_token(door: Door) -> None:
    answer = await door.post("/login", json.dumps({"token": TOKEN}), PAGE)
    name, *parts = answer.headers["set-cookie"].split("; ")
    assert name.startswith(f"tonnage-dashboard-{door.port}=") and TOKEN not in name
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(parts) and "Secure" not in parts
    assert not any(each.startswith("Domain") for each in parts)
    assert (await door.ask("/api/v1/state", f"Cookie: {name}")).code == 200


async def test_a_cookie_that_another_user_of_this_machine_was_sent_is_worth_nothing(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A browser sends it to every port of 127.0.0.1, whoever listens there."""
    cookie = await door.cookie()
    assert (await door.ask("/api/v1/about", cookie)).code == 200
    value = cookie.partition("=")[2]
    forged = [f"1001.{value.partition('.')[2]}", f".{value.partition('.')[2]}", value.partition(".")[2]]
    for each in forged:
        assert (await door.ask("/api/v1/about", f"Cookie: tonnage-dashboard-{door.port}={each}")).code == 401
    monkeypatch.setattr(access, "owner_of", lambda peer, own: "1001")
    assert (await door.ask("/api/v1/about", cookie)).code == 401
    assert (await door.ask("/api/v1/about", await door.cookie())).code == 200


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="this kernel does not tell whose a connection is")
@pytest.mark.parametrize(
    ("family", "host", "listens_at"),
    [
        (socket.AF_INET, "127.0.0.1", "127.0.0.1"),
        (socket.AF_INET6, "::1", "::1"),
        (socket.AF_INET6, "::ffff:127.0.0.1", "127.0.0.1"),  # a program that knows IPv6 alone
    ],
)
def test_the_kernel_tells_whose_a_connection_is(family: int, host: str, listens_at: str) -> None:
    try:
        server = socket.create_server((listens_at, 0), family=socket.AF_INET6 if ":" in listens_at else socket.AF_INET)
    except OSError as exc:
        pytest.skip(f"no such address here: {exc}")
    with server, socket.socket(family, socket.SOCK_STREAM) as client:
        client.connect((host, server.getsockname()[1]))
        accepted, peer = server.accept()
        with accepted:
            assert access.owner_of(peer, accepted.getsockname()) == str(os.geteuid())
            assert access.owner_of(accepted.getsockname(), ("127.0.0.1", 1)) == ""
    assert access.owner_of(("192.0.2.1", 5), ("127.0.0.1", 1)) == ""


async def test_cookies_of_other_servers_are_passed_over(door: Door) -> None:
    """Cookies know no ports: what else runs on this host sets its own, in any form."""
    own = (await door.cookie()).removeprefix("Cookie: ")
    odd = 'Cookie: {"a":1}=[x; =; ;;"; a b=c; tonnage-dashboard-80=1; ' + f"tonnage-dashboard-{door.port}=tossed; {own}"
    assert (await door.ask("/api/v1/about", odd)).code == 200


async def test_wrong_tokens_are_bounded_and_who_has_the_right_one_is_not_held_up(door: Door) -> None:
    cookie = await door.cookie()
    codes = [(await door.post("/login", json.dumps({"token": str(each)}), PAGE)).code for each in range(AT_ONCE + 5)]
    assert codes[:AT_ONCE] == [401] * AT_ONCE
    refused = await door.ask("/api/v1/about", "Authorization: Bearer wrong")
    assert (codes[-1], refused.code, int(refused.headers["retry-after"])) == (429, 429, 1)
    assert (await door.ask("/api/v1/about", cookie)).code == 200
    assert (await door.ask("/api/v1/about", BEARER)).code == 200
    assert (await door.ask("/api/v1/about", await door.cookie())).code == 200


def test_the_right_token_is_never_held_off_and_wrong_ones_may_be_tried_again_after_a_while() -> None:
    clock = VirtualClock()
    access = Access(TOKEN, clock=clock)
    for _ in range(AT_ONCE):
        assert not access.is_token("wrong")
    for _ in range(1_000):  # without a pause, for as long as somebody likes
        with pytest.raises(RequestRefused):
            access.is_token("wrong")
        assert access.is_token(TOKEN)
    clock.advance(1.0)
    assert not access.is_token("wrong")


# -- what is told to whom ---------------------------------------------------------------------------------------------


async def test_every_answer_has_the_headers_that_browsers_obey(door: Door) -> None:
    answers = [
        await door.ask("/"),
        await door.ask("/", method="HEAD"),
        await door.ask("/js/main.js"),
        await door.ask("/healthz"),
        await door.ask("/api/v1/state"),
        await door.ask("/api/v1/state", BEARER),
        await door.ask("/api/v1/state", BEARER, PAGE, method="DELETE"),
        await door.ask("/api/v1/nothing", BEARER),
        await door.ask("/api/v1/changes", BEARER, method="HEAD"),
        await door.ask("/", host="evil.example"),
        await door.post("/login", "{", PAGE),
        await door.post("/login", json.dumps({"token": TOKEN}), PAGE),
        await door.post("/logout", "", PAGE),
    ]
    reader = await door.connect("/api/v1/changes", BEARER)
    answers.append(Answer(await reader.readuntil(b"\r\n\r\n")))
    door.writer.close()
    for each in answers:
        assert {name: each.headers.get(name.lower()) for name in SECURITY_HEADERS} == SECURITY_HEADERS
    assert [each.code for each in answers] == [200, 200, 200, 200, 401, 200, 405, 404, 200, 421, 400, 200, 200, 200]
    policy = SECURITY_HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy and "*" not in policy and "http" not in policy
    about_cluster = [answers[4], answers[5], answers[7], answers[-1]]
    assert all(each.headers["cache-control"] == "no-store" for each in about_cluster)


async def test_the_token_is_in_no_log(
    door: Door, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    await door.post("/login", json.dumps({"token": TOKEN}), PAGE)
    await door.post("/login", json.dumps({"token": TOKEN + "x"}), PAGE)
    await door.post("/login", f'{{"token": "{TOKEN}"', PAGE)
    await door.ask(f"/api/v1/state?token={TOKEN}", BEARER)
    out, err = capfd.readouterr()
    assert TOKEN not in caplog.text + out + err


@pytest.mark.parametrize(
    "path",
    [
        "/../pyproject.toml",
        "/js/../../__init__.py",
        "/js/..%2f..%2f__init__.py",
        "/%2e%2e/%2e%2e/__init__.py",
        "//etc/passwd",
        "/js//main.js",
        "/js/main.js%00",
        "/js/main.js/",
        "/JS/main.js",
        "/index.html/../../app.py",
        "/css",
        "/js/views/",
        "/static/..\\..\\x",
        "/%ff%fe",
        "/api/v1/../../js/main.js",
    ],
)
async def test_a_path_leads_to_the_files_of_the_pages_and_nowhere_else(door: Door, path: str) -> None:
    answer = await door.ask(path, BEARER)
    assert answer.code in (400, 404) or (answer.code == 200 and b"import" in answer.body), path
    assert b"__future__" not in answer.body and b"root:" not in answer.body


# -- where others can reach it ----------------------------------------------------------------------------------------


async def test_an_address_that_is_not_loopback_is_never_served_without_tls() -> None:
    with pytest.raises(TonnageError) as told:
        async with opened(host="0.0.0.0"):
            pass
    assert told.value.message == "0.0.0.0 is not this machine alone: a dashboard is served there with TLS only"


async def test_a_name_of_loopback_that_leads_elsewhere_is_not_served_without_tls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    elsewhere = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 0))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: [elsewhere])
    with pytest.raises(TonnageError, match="with TLS only"):
        async with opened(host="dashboard.localhost"):
            pass


async def test_with_tls_the_cookie_is_secure_and_only_addresses_and_allowed_names_are_ours(tmp_path: Path) -> None:
    tls = ServerTls(ServingCertificate(tmp_path / "tls", ("127.0.0.1", "storage.example"), SystemClock()))
    async with opened(host="0.0.0.0", tls=tls, allowed_hosts=("storage.example",)) as door:
        assert door.address.startswith(f"https://storage.example:{door.port}/#token=")
        trusting = ssl.create_default_context(cafile=str(tmp_path / "tls" / "ca.crt"))
        codes = {}
        for host in ("127.0.0.1", "10.1.2.3", "storage.example", "evil.example"):
            codes[host] = await _login_over_tls(door, trusting, f"{host}:{door.port}")
    assert [code for code, _ in codes.values()] == [200, 200, 200, 421]
    name, *parts = codes["storage.example"][1].split("; ")
    assert name.startswith(f"__Host-tonnage-dashboard-{door.port}=")
    assert {"HttpOnly", "SameSite=Strict", "Path=/", "Secure"} <= set(parts)
    certificate, authority = tls.fingerprints()
    assert re.fullmatch("([0-9A-F]{2}:){31}[0-9A-F]{2}", certificate) and certificate != authority


async def _login_over_tls(door: Door, trusting: ssl.SSLContext, host: str) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port, ssl=trusting, server_hostname="127.0.0.1")
    body = json.dumps({"token": TOKEN})
    lines = ["POST /login HTTP/1.1", f"Host: {host}", f"Origin: https://{host}", PAGE, f"Content-Length: {len(body)}"]
    writer.write("\r\n".join([*lines, "Connection: close", "", body]).encode())
    answer = Answer(await asyncio.wait_for(reader.read(), 20))
    writer.close()
    return answer.code, answer.headers.get("set-cookie", "")
