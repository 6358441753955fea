"""The front door under attack, mostly by somebody without a token: half-sent requests, slow bodies, bombs, no readers.

The server is a process of its own. That of the floods may open 128 files, so that a few hundred connections are what a
thousand are to a usual one.
"""

from __future__ import annotations

import gzip
import json
import os
import socket
import ssl
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support.processes import ApiServerProcess, start_cluster

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServerProcess]:
    """A server that may open 128 files and cannot have more."""
    folder = tmp_path_factory.mktemp("small")
    command = f'ulimit -n 128; exec {sys.executable} -m tonnage apiserver --data-dir "$0" --secure-port 0'
    with (folder / "stderr.log").open("w") as log:
        process = subprocess.Popen(["sh", "-c", command, str(folder)], stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("ready https://"), (folder / "stderr.log").read_text()
    running = ApiServerProcess(folder, line.split()[1], process)
    yield running
    assert running.stop() == 0


def unknown(cluster: ApiServerProcess) -> socket.socket:
    """A connection on which nothing has been said yet."""
    at = urlsplit(cluster.url)
    return socket.create_connection((at.hostname or "", at.port or 0), timeout=20)


def connect(cluster: ApiServerProcess) -> ssl.SSLSocket:
    """A TLS connection."""
    trusting = ssl.create_default_context(cafile=str(cluster.folder / "pki" / "ca.crt"))
    return trusting.wrap_socket(unknown(cluster), server_hostname="127.0.0.1")


def head(cluster: ApiServerProcess, method: str, path: str, *lines: str, token: bool = True) -> bytes:
    shown = (f"Authorization: Bearer {(cluster.folder / 'token').read_text().strip()}",) if token else ()
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", *shown, *lines, "", ""]).encode("latin-1")


def answer(connection: socket.socket) -> bytes:
    """Everything until the server closes, or says nothing for a while."""
    came = b""
    with suppress(ConnectionError, ssl.SSLError):
        while piece := connection.recv(65536):
            came += piece
            if b"\r\n\r\n" in came:
                connection.settimeout(3.0)
    return came


def exchange(cluster: ApiServerProcess, sent: bytes) -> tuple[int, bytes]:
    """The code and all of the answer; the server must close afterwards, for else this fails by time-out."""
    with connect(cluster) as connection:
        with suppress(ConnectionError, ssl.SSLError):
            connection.sendall(sent)
        came = answer(connection)
    return int(came.split(b" ", 2)[1]), came


def config_map(name: str, **fields: object) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **fields}


def cpu_s(cluster: ApiServerProcess) -> float:
    fields = Path(f"/proc/{cluster.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_bytes(cluster: ApiServerProcess) -> int:
    lines = Path(f"/proc/{cluster.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


# -- connections ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("begun", ["nothing", "handshake", "half a head"])
def test_more_half_sent_requests_than_descriptors_shut_nobody_out(small: ApiServerProcess, begun: str):
    log = small.folder / "stderr.log"
    written_before, cpu_before = log.stat().st_size, cpu_s(small)
    with ExitStack() as stack:
        trusting = ssl.create_default_context(cafile=str(small.folder / "pki" / "ca.crt"))
        for _ in range(160):  # more than it has descriptors
            connection = stack.enter_context(unknown(small))
            if begun == "nothing":
                continue
            with suppress(OSError):  # the first are closed while the last come
                connection = stack.enter_context(trusting.wrap_socket(connection, server_hostname="127.0.0.1"))
                if begun == "half a head":
                    connection.sendall(b"GET /api HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        started = time.monotonic()
        assert small.get("/readyz").code == 200
        assert small.create(CONFIG_MAPS, {"metadata": {"generateName": "during-"}}).code == 201
        took_s = time.monotonic() - started
    assert took_s < 8.0
    assert log.stat().st_size - written_before < 10_000
    assert cpu_s(small) - cpu_before < 4.0


def test_whoever_has_shown_a_token_stays_through_a_flood(small: ApiServerProcess):
    with connect(small) as held, ExitStack() as stack:
        held.sendall(head(small, "GET", "/api/v1/namespaces/default"))
        assert held.recv(65536).startswith(b"HTTP/1.1 200")
        for _ in range(100):
            stack.enter_context(unknown(small))
        assert small.get("/readyz").code == 200
        held.sendall(head(small, "GET", "/api/v1/namespaces/default"))
        assert held.recv(65536).startswith(b"HTTP/1.1 200")


@pytest.mark.slow
def test_a_head_that_does_not_come_is_not_waited_for(small: ApiServerProcess):
    started = time.monotonic()
    with unknown(small) as silent, connect(small) as shaken, connect(small) as half:
        half.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\n")
        for each in (silent, shaken, half):
            each.settimeout(20.0)
            assert answer(each) == b""
    assert 8.0 < time.monotonic() - started < 15.0


@pytest.mark.slow
def test_a_head_of_one_byte_a_second_is_ended_in_time_too(small: ApiServerProcess):
    started = time.monotonic()
    with connect(small) as slow, suppress(OSError):
        for byte in b"GET /readyz HTTP/1.1\r\nHost: example.org\r\n":
            slow.sendall(bytes([byte]))
            time.sleep(1.0)
    assert time.monotonic() - started < 15.0


def test_the_soft_limit_of_files_is_raised_to_the_hard_one(cluster: ApiServerProcess):
    limits = Path(f"/proc/{cluster.process.pid}/limits").read_text()
    soft, hard = next(line.split()[3:5] for line in limits.splitlines() if line.startswith("Max open files"))
    assert soft == hard


# -- malformed requests -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "sent"),
    [
        (400, b"NONSENSE\r\n\r\n"),
        (400, b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n"),
        (400, b"GET /readyz HTTP/1.1\r\n\r\n"),
        (400, b"GET /readyz HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        (400, b"GET /readyz HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc"),
        (400, b"GET /readyz HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n"),
        (400, b"GET /readyz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
        (400, b"GET /readyz HTTP/1.1\r\nHost: x\r\nBad Name: 1\r\n\r\n"),
        (400, b"GET /readyz HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n"),
        (414, b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"),
        (431, b"GET /readyz HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 40_000 + b"\r\n\r\n"),
        (431, b"GET /readyz HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 200 + b"\r\n"),
        (431, b"GET /readyz HTTP/1.1\r\nHost: x\r\n" + (b"X: " + b"a" * 20_000 + b"\r\n") * 20),
    ],
    ids=lambda value: str(value[:60]) if isinstance(value, bytes) else str(value),
)
def test_what_is_no_http_is_refused_and_closed(cluster: ApiServerProcess, code: int, sent: bytes):
    found, came = exchange(cluster, sent)
    assert found == code, came[:300]


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/\xff",
        "/api/v1/pods?labelSelector=\xff",
        "/api/v1/namespaces/a%00b",
        "/\xff\xfe",
        "/api/v1/%0d",
    ],
)
def test_bytes_in_a_url_that_are_no_text_are_a_bad_request(cluster: ApiServerProcess, path: str):
    code, came = exchange(cluster, head(cluster, "GET", path, "Connection: close"))
    assert code == 400, came[:300]


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/%ff", "/api/v1/namespaces/%", "/api/v1/namespaces/%zz/pods", "/%ff%fe", "//api//v1", "*",
        "/api/v1/pods?labelSelector=%ff", "/api/v1/../v1/pods",
        "/api/v1/pods?%ff=%ff",
        "/api/v1/pods?limit=" + "9" * 5000, "/apis/%2e%2e/v1/pods", "/openapi/v2?timeout=%ff",
    ],
)  # fmt: skip
def test_odd_urls_are_the_clients_fault(cluster: ApiServerProcess, path: str):
    code, came = exchange(cluster, head(cluster, "GET", path, "Connection: close"))
    assert code < 500, came[:300]


@pytest.mark.parametrize("name", ["Authorization: Bearer", "User-Agent:", "Accept:", "Content-Type:", "Expect:"])
def test_bytes_in_a_header_that_are_no_text_are_the_clients_fault(cluster: ApiServerProcess, name: str):
    body = json.dumps(config_map("odd-header"))
    lines = (f"{name} \xff\xfe", f"Content-Length: {len(body)}", "Connection: close")
    shown = name.startswith("Authorization")
    code, came = exchange(cluster, head(cluster, "POST", CONFIG_MAPS, *lines, token=not shown) + body.encode())
    assert code < 500, came[:300]
    cluster.delete(f"{CONFIG_MAPS}/odd-header")


def test_paths_that_strangers_make_up_are_not_counted_apart(cluster: ApiServerProcess):
    for number in range(20):
        assert cluster.get(f"/healthz-{number}", token="").code == 401
        assert cluster.get(f"/made-up-{number}").code == 404
        cluster.get(f"/readyz/{number}", token="")
    told = cluster.get("/metrics").body
    assert "made-up" not in told
    assert "healthz-" not in told


def test_an_upgrade_is_not_taken_up_and_the_request_is_answered(cluster: ApiServerProcess):
    for protocol in ("websocket", "h2c", "SPDY/3.1"):
        lines = (f"Upgrade: {protocol}", "Connection: Upgrade, close")
        code, came = exchange(cluster, head(cluster, "GET", "/api/v1/namespaces/default", *lines))
        assert code == 200, came[:300]


def test_connect_is_refused(cluster: ApiServerProcess):
    code, _ = exchange(cluster, b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n")
    assert 400 <= code < 500


def test_http_1_0_is_answered_and_closed(cluster: ApiServerProcess):
    code, came = exchange(cluster, b"GET /readyz HTTP/1.0\r\n\r\n")
    assert code == 200 and came.endswith(b"ok")


def test_malformed_requests_by_the_hundred_are_a_line_of_log(cluster: ApiServerProcess):
    log = cluster.folder / "stderr.log"
    before = log.stat().st_size
    for number in range(200):
        exchange(cluster, b"NONSENSE %d\r\n\r\n" % number)
    assert log.stat().st_size - before < 2_000


def test_what_is_no_tls_is_closed_without_a_word(cluster: ApiServerProcess):
    log = cluster.folder / "stderr.log"
    before = log.stat().st_size
    for number in range(50):
        with unknown(cluster) as connection:
            connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n" if number % 2 else os.urandom(300))
            answer(connection)
    assert cluster.get("/readyz").code == 200
    assert log.stat().st_size - before < 1_000


# -- bodies -----------------------------------------------------------------------------------------------------------


def post(cluster: ApiServerProcess, body: bytes, *lines: str, token: bool = True) -> tuple[int, bytes]:
    sized = (f"Content-Length: {len(body)}", "Content-Type: application/json", "Connection: close", *lines)
    return exchange(cluster, head(cluster, "POST", CONFIG_MAPS, *sized, token=token) + body)


def test_a_strangers_body_is_not_read(cluster: ApiServerProcess):
    bomb = gzip.compress(bytes(200_000_000), 9)
    cpu_before = cpu_s(cluster)
    for encoding in ("gzip", "deflate", "identity"):
        code, came = post(cluster, bomb, f"Content-Encoding: {encoding}", token=False)
        assert code == 401 and b"connection: close" in came.lower()
    assert cpu_s(cluster) - cpu_before < 0.5


def test_a_stranger_is_refused_before_the_body_comes(cluster: ApiServerProcess):
    with connect(cluster) as connection:
        connection.sendall(head(cluster, "POST", CONFIG_MAPS, "Content-Length: 3000000", token=False))
        assert answer(connection).startswith(b"HTTP/1.1 401")


def test_a_stranger_who_goes_on_sending_is_cut_off(cluster: ApiServerProcess):
    cpu_before = cpu_s(cluster)
    with connect(cluster) as connection:
        connection.sendall(head(cluster, "POST", CONFIG_MAPS, "Content-Length: 3000000000", token=False))
        with pytest.raises(OSError):
            for _ in range(500):
                connection.sendall(bytes(1 << 20))
    assert cpu_s(cluster) - cpu_before < 0.5


@pytest.mark.parametrize(
    ("code", "encoding", "body"),
    [
        (400, "gzip", b"this is no gzip"),
        (400, "gzip", gzip.compress(b"{}")[:-9]),
        (400, "gzip", gzip.compress(b"{}") + b"rubbish"),
        (400, "gzip", gzip.compress(b"") * 20_000),
        (413, "gzip", lambda: gzip.compress(bytes(300_000_000), 9)),  # when it is wanted: every worker reads this list
        (413, "gzip", gzip.compress(bytes(3_000_000)) * 10),
        (415, "gzip, gzip", gzip.compress(gzip.compress(b"{}"))),
        (415, "deflate", zlib.compress(b"{}")),
        (415, "br", b"\x0b"),
        (415, "zstd", b"\x28\xb5\x2f\xfd"),
    ],
    ids=["no gzip", "cut", "with rubbish", "20,000 members", "bomb", "bombs", "twice", "deflate", "br", "zstd"],
)  # fmt: skip
def test_a_compressed_body_is_undone_within_limits(
    cluster: ApiServerProcess, code: int, encoding: str, body: bytes | Callable[[], bytes]
):
    sent = body if isinstance(body, bytes) else body()
    cpu_before = cpu_s(cluster)
    found, came = post(cluster, sent, f"Content-Encoding: {encoding}")
    assert found == code, came[:300]
    assert cpu_s(cluster) - cpu_before < 3.0


def test_gzip_of_a_proper_size_is_read(cluster: ApiServerProcess):
    body = json.dumps(config_map("from-gzip", data={"key": "v" * 500_000})).encode()
    code, came = post(cluster, gzip.compress(body), "Content-Encoding: gzip")
    assert code == 201, came[:300]
    half = len(body) // 2  # two files, one behind the other, are one
    code, came = post(cluster, gzip.compress(body[:half]) + gzip.compress(body[half:]), "Content-Encoding: gzip")
    assert code == 409, came[:300]
    cluster.delete(f"{CONFIG_MAPS}/from-gzip")


@pytest.mark.parametrize("chunk", [b"-5\r\n", b"1_0\r\n", b"zz\r\n", b"ffffffffffffffffff\r\n", b"1\r\nab"])
def test_a_chunk_that_is_none_ends_the_request_at_once(cluster: ApiServerProcess, chunk: bytes):
    lines = ("Transfer-Encoding: chunked", "Content-Type: application/json")
    with connect(cluster) as connection:
        connection.sendall(head(cluster, "POST", CONFIG_MAPS, *lines) + b"2\r\n{}\r\n")
        time.sleep(0.05)
        connection.sendall(chunk)
        came = answer(connection)
    assert came.startswith(b"HTTP/1.1 400"), came[:300]  # and not 408, which would have been waited for
    assert came.count(b"HTTP/1.1") == 1


def test_too_large_a_body_is_refused_by_its_length_and_by_its_bytes(cluster: ApiServerProcess):
    with connect(cluster) as connection:
        connection.sendall(head(cluster, "POST", CONFIG_MAPS, "Content-Length: 99999999999"))
        assert answer(connection).startswith(b"HTTP/1.1 413")
    code, _ = exchange(
        cluster,
        head(cluster, "POST", CONFIG_MAPS, "Transfer-Encoding: chunked") + b"100000\r\n" + bytes(0x100000) + b"\r\n" * 1
        + (b"100000\r\n" + bytes(0x100000) + b"\r\n") * 3,
    )  # fmt: skip
    assert code == 413


def test_a_client_that_asks_whether_to_go_on_is_told(cluster: ApiServerProcess):
    body = json.dumps(config_map("expected")).encode()
    lines = (f"Content-Length: {len(body)}", "Expect: 100-continue", "Connection: close")
    with connect(cluster) as connection:
        connection.sendall(head(cluster, "POST", CONFIG_MAPS, *lines))
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        assert answer(connection).startswith(b"HTTP/1.1 201")
    with connect(cluster) as connection:  # a stranger is told no, and need not send it
        connection.sendall(head(cluster, "POST", CONFIG_MAPS, *lines, token=False))
        assert answer(connection).startswith(b"HTTP/1.1 401")
    assert (
        exchange(
            cluster,
            head(cluster, "POST", CONFIG_MAPS, "Expect: cake", "Content-Length: 2", "Connection: close") + b"{}",
        )[0]
        == 417
    )
    cluster.delete(f"{CONFIG_MAPS}/expected")


def test_slow_bodies_hold_their_connections_and_nobody_elses_writes(cluster: ApiServerProcess):
    with ExitStack() as stack:
        for _ in range(210):  # ten more than writes may be under way
            connection = stack.enter_context(connect(cluster))
            connection.sendall(head(cluster, "POST", CONFIG_MAPS, "Content-Length: 1000") + b"{")
        assert cluster.create(CONFIG_MAPS, config_map("beside-slow-ones")).code == 201
    cluster.delete(f"{CONFIG_MAPS}/beside-slow-ones")


@pytest.mark.slow
def test_a_body_that_stops_is_given_up(cluster: ApiServerProcess):
    started = time.monotonic()
    with connect(cluster) as connection:
        connection.settimeout(30.0)
        connection.sendall(head(cluster, "POST", CONFIG_MAPS, "Content-Length: 1000") + b"{")
        assert answer(connection).startswith(b"HTTP/1.1 408")
    assert 9.0 < time.monotonic() - started < 15.0


# -- answers that nobody takes ----------------------------------------------------------------------------------------


def narrow(cluster: ApiServerProcess) -> ssl.SSLSocket:
    """A connection whose side of the kernel's buffers is small."""
    at = urlsplit(cluster.url)
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.settimeout(20.0)
    raw.connect((at.hostname, at.port))
    trusting = ssl.create_default_context(cafile=str(cluster.folder / "pki" / "ca.crt"))
    return trusting.wrap_socket(raw, server_hostname="127.0.0.1")


def is_gone(cluster: ApiServerProcess, port: int) -> bool:
    """No socket of the server speaks to this port of ours any more."""
    return not any(
        line.split()[1].endswith(f":{urlsplit(cluster.url).port:04X}") and line.split()[2].endswith(f":{port:04X}")
        and line.split()[3] == "01"
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
    )  # fmt: skip


def wait_gone(cluster: ApiServerProcess, port: int, within_s: float) -> float:
    started = time.monotonic()
    while not is_gone(cluster, port):
        assert time.monotonic() - started < within_s, "the connection is still there"
        time.sleep(0.1)
    return time.monotonic() - started


@pytest.fixture(scope="module")
def heavy(cluster: ApiServerProcess) -> str:
    """A namespace with 16 objects of 900 KB."""
    name = "heavy"
    cluster.create("/api/v1/namespaces", {"metadata": {"name": name}})
    path = f"/api/v1/namespaces/{name}/configmaps"
    for number in range(16):
        cluster.create(path, config_map(f"c{number}", data={"key": "v" * 900_000}))
    return path


def test_a_watcher_that_never_reads_ends_with_its_timeout(cluster: ApiServerProcess, heavy: str):
    with narrow(cluster) as watcher:
        asked = f"{heavy}?watch=1&timeoutSeconds=2&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        watcher.sendall(head(cluster, "GET", f"{asked}&allowWatchBookmarks=true"))
        assert wait_gone(cluster, watcher.getsockname()[1], within_s=8.0) > 0.5


@pytest.mark.slow
def test_a_watcher_that_never_reads_does_not_grow_the_server(cluster: ApiServerProcess, heavy: str):
    before = rss_bytes(cluster)
    highest = 0
    with ExitStack() as stack:
        for _ in range(10):
            watcher = stack.enter_context(narrow(cluster))
            watcher.sendall(head(cluster, "GET", f"{heavy}?watch=1"))
        for number in range(200):
            text = f"{number:06}" + "v" * 900_000
            assert cluster.patch(f"{heavy}/c{number % 16}", {"data": {"key": text}}, "merge").code == 200
            highest = max(highest, rss_bytes(cluster) - before)
    # Shared by all: 64 MiB of window, their frames as much again, what lies 32 MiB behind; and what is not freed yet.
    assert highest < 400 << 20


@pytest.mark.slow
def test_whoever_does_not_take_a_large_list_is_ended(cluster: ApiServerProcess, heavy: str):
    with narrow(cluster) as reader:
        reader.sendall(head(cluster, "GET", heavy))
        assert wait_gone(cluster, reader.getsockname()[1], within_s=90.0) > 30.0


def test_a_slow_reader_of_a_large_list_gets_all_of_it(cluster: ApiServerProcess, heavy: str):
    with narrow(cluster) as reader:
        reader.sendall(head(cluster, "GET", heavy, "Connection: close"))
        came = b""
        while piece := reader.recv(1 << 20):
            came += piece
        assert len(json.loads(came.partition(b"\r\n\r\n")[2])["items"]) == 16


def sent_and_answered(connection: socket.socket, asked: bytes) -> bytes:
    """Send and read by turns, until the server hangs up. Two threads must not use one TLS connection: it may stall."""
    connection.settimeout(0.05)
    came, ends_at = b"", time.monotonic() + 60
    while time.monotonic() < ends_at:
        with suppress(TimeoutError):
            asked = asked[connection.send(asked[:4096]) :] if asked else b""
        with suppress(TimeoutError):
            read = connection.recv(65536)
            if not read:
                break
            came += read
    return came


def test_pipelined_requests_are_answered_in_order_and_no_more_are_taken_in_than_fit(cluster: ApiServerProcess):
    with connect(cluster) as connection:
        many = head(cluster, "GET", "/readyz") * 500 + head(cluster, "GET", "/version", "Connection: close")
        came = sent_and_answered(connection, many)
    assert came.count(b"HTTP/1.1 200") == 501


@pytest.mark.slow
def test_clients_that_do_not_read_or_send_do_not_keep_a_server_from_stopping(tmp_path: Path):
    running = start_cluster(tmp_path)
    for number in range(12):
        running.create(CONFIG_MAPS, config_map(f"c{number}", data={"key": "v" * 900_000}))
    with ExitStack() as stack:
        initial = "watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
        for asked in (CONFIG_MAPS, f"{CONFIG_MAPS}?{initial}"):
            stack.enter_context(narrow(running)).sendall(head(running, "GET", asked))
        slow = stack.enter_context(connect(running))
        slow.sendall(head(running, "POST", CONFIG_MAPS, "Content-Length: 1000") + b"{")
        stack.enter_context(unknown(running))
        time.sleep(0.5)
        started = time.monotonic()
        assert running.stop() == 0
        assert time.monotonic() - started < 8.0
