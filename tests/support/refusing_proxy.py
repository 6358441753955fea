"""An HTTP proxy in front of an API server that refuses some requests: what a program does with less than it asks for.

    with RefusingProxy(cluster.url, cluster.token, {("GET", "/metrics"): 403}) as proxy:
        run("doctor", "--kubeconfig", str(proxy.kubeconfig(folder)))
    assert proxy.writes == []

Refusals are by (method, start of a path), a code each, or by a function of method and path; they come as a Status.
Answers that `loses` names are not handed on, after the server has done what was asked; what `doubles` names comes to
the server twice, and the second answer is handed on. Requests are written down.

It speaks plain HTTP or TLS on loopback and shows the server a token of its own or, without one, that of the client, so
that any server will do, Kubernetes' own too; to see what a program sends to `tonnage apiserver` over TLS there is
`recording_proxy.py`.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from support.http import unverified_tls

_CHUNK_BYTES = 1 << 16
_REASONS = {401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 422: "Invalid", 503: "ServiceUnavailable"}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # with five, a burst of connections waits for the kernel's repeats, of up to ten seconds

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients hang up whenever they like."""


class RefusingProxy:
    """Listens on a free port of loopback; use it as a context manager. `requests` are (method, path with query)."""

    def __init__(
        self,
        url: str,
        token: str,
        refusals: Mapping[tuple[str, str], int] | None = None,
        *,
        refuses: Callable[[str, str], int] = lambda _, __: 0,
        loses: Callable[[str, str], bool] = lambda _, __: False,
        doubles: Callable[[str, str], bool] = lambda _, __: False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`refuses` gives a code, or 0 for what is let through. Clients show a token of their own only over `tls`."""
        self.requests: list[tuple[str, str]] = []
        self._refuses, self._loses, self._doubles = refuses, loses, doubles
        self._server_tls = unverified_tls()
        self._target, self._token, self._refusals = urlsplit(url), token, dict(refusals or {})
        self._server = _Server(("127.0.0.1", 0), self._handler())
        if tls is not None:
            plain = self._server.socket
            self._server.socket = tls.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def kubeconfig(self, folder: Path) -> Path:
        """A kubeconfig by which the server is reached through here."""
        found: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": {}}],
        }
        file = folder / "proxied-kubeconfig"
        file.touch(mode=0o600)
        file.write_text(json.dumps(found))
        return file

    @property
    def writes(self) -> list[tuple[str, str]]:
        return [each for each in self.requests if each[0] not in ("GET", "HEAD")]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def _pass_on(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                proxy.requests.append((self.command, self.path))
                for (method, start), code in proxy._refusals.items():
                    if self.command == method and self.path.startswith(start):
                        self._refuse(code)
                        return
                if code := proxy._refuses(self.command, self.path):
                    self._refuse(code)
                    return
                proxy._ask(self, body)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _pass_on

            def _refuse(self, code: int) -> None:
                reason = _REASONS.get(code, "")
                status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
                answer = json.dumps({**status, "message": f"{self.path.partition('?')[0]} is refused"}).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler

    def _ask(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        handed_on = ("accept", "content-type", "user-agent", *(() if self._token else ("authorization",)))
        kept = {name: value for name, value in handler.headers.items() if name.lower() in handed_on}
        if self._token:
            kept["Authorization"] = f"Bearer {self._token}"
        with contextlib.closing(self._connection()) as there:
            if self._doubles(handler.command, handler.path):
                there.request(handler.command, handler.path, body or None, kept)
                with there.getresponse() as answer:
                    answer.read()
            there.request(handler.command, handler.path, body or None, kept)
            with there.getresponse() as answer:
                if self._loses(handler.command, handler.path):
                    answer.read()
                    handler.close_connection = True
                    return
                handler.send_response(answer.status)
                handler.send_header("Content-Type", answer.getheader("Content-Type", "application/json"))
                handler.send_header("Transfer-Encoding", "chunked")
                handler.end_headers()
                while chunk := answer.read1(_CHUNK_BYTES):
                    handler.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
                    handler.wfile.flush()
                handler.wfile.write(b"0\r\n\r\n")

    def _connection(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(
            self._target.hostname or "", self._target.port or 443, context=self._server_tls
        )
