"""A proxy in front of an API server that writes down every request: what a program asks of a cluster, and nothing else.

    with RecordingProxy(cluster) as proxy:
        run("shadow", "--kubeconfig", str(proxy.kubeconfig(folder / "kubeconfig")))
    assert {method for method, _ in proxy.requests} == {"GET"}

It shows the server's own certificate to programs, and speaks TLS to the server, so that it reads what passes.
"""

from __future__ import annotations

import contextlib
import re
import select
import socket
import ssl
import threading
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit

from support.processes import ApiServerProcess

_CHUNK_BYTES: Final = 1 << 16
_REQUEST: Final = re.compile(rb"([A-Z]+) (/\S*) HTTP/1\.[01]\r\n")
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class RecordingProxy:
    """Listens on a free port of loopback; use it as a context manager. `requests` are (method, path with query)."""

    def __init__(self, cluster: ApiServerProcess) -> None:
        self.requests: list[tuple[str, str]] = []
        self._original = cluster.kubeconfig
        url = urlsplit(cluster.url)
        self._target = (str(url.hostname), int(url.port or 443))
        self._tls = ssl.create_default_context(cafile=str(cluster.folder / "pki" / "ca.crt"))
        self._shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._shown.load_cert_chain(cluster.folder / "pki" / "apiserver.crt", cluster.folder / "pki" / "apiserver.key")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def kubeconfig(self, copy: Path) -> Path:
        """A kubeconfig by which the server is reached through here."""
        text, changes = re.subn(r"server: \S+", f"server: https://127.0.0.1:{self.port}", self._original.read_text())
        assert changes == 1, text
        copy.touch(mode=0o600)
        copy.write_text(text)
        return copy

    def cut(self) -> None:
        """End all connections; new ones are made as before."""
        with self._lock:
            sockets, self._sockets = self._sockets, set()
        for each in sockets:
            _end(each)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, plain: socket.socket) -> None:
        try:
            plain.settimeout(10)
            near = self._shown.wrap_socket(plain, server_side=True)
            far = self._tls.wrap_socket(
                socket.create_connection(self._target, timeout=10), server_hostname=self._target[0]
            )
        except OSError:
            plain.close()
            return
        with self._lock:
            self._sockets |= {near, far}
        with contextlib.suppress(OSError, ValueError):
            self._pass_on(near, far)
        with self._lock:
            self._sockets -= {near, far}
        _end(near)
        _end(far)

    def _pass_on(self, near: ssl.SSLSocket, far: ssl.SSLSocket) -> None:
        """Both ways in one thread: a TLS connection is not to be read and written at the same time."""
        near.setblocking(False)
        far.setblocking(False)
        heads = _Heads()
        while True:
            select.select([near, far], [], [])
            for source, sink in ((near, far), (far, near)):
                while (data := _received(source)) is not None:
                    if not data:
                        return
                    if source is near:
                        self.requests += heads.read(data)
                    _sent(sink, data)


class _Heads:
    """Finds the requests in what a client sends on one connection; bodies are passed over by their length."""

    def __init__(self) -> None:
        self._kept = b""
        self._body_bytes = 0

    def read(self, data: bytes) -> list[tuple[str, str]]:
        self._kept += data
        found: list[tuple[str, str]] = []
        while True:
            skipped = min(self._body_bytes, len(self._kept))
            self._kept, self._body_bytes = self._kept[skipped:], self._body_bytes - skipped
            head, end, rest = self._kept.partition(b"\r\n\r\n")
            if self._body_bytes or not end:
                return found
            request, length = _REQUEST.match(head + end), _LENGTH.search(head)
            assert request is not None, head
            found.append((request[1].decode(), request[2].decode()))
            self._kept, self._body_bytes = rest, int(length[1]) if length is not None else 0


def _received(source: ssl.SSLSocket) -> bytes | None:
    """What is there to be read; None for nothing yet, b"" at the end."""
    try:
        return source.recv(_CHUNK_BYTES)
    except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return None


def _sent(sink: ssl.SSLSocket, data: bytes) -> None:
    while data:
        try:
            data = data[sink.send(data) :]
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            select.select([], [sink], [], 1.0)


def _end(connected: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)
    with contextlib.suppress(OSError):
        connected.close()
