"""An HTTP proxy in front of an API server that refuses some requests: what a program does with less than it asks for.

    with RefusingProxy(cluster.url, cluster.token, {("GET", "/metrics"): 403}) as proxy:
        run("doctor", "--kubeconfig", str(proxy.kubeconfig(folder)))
    assert proxy.writes == []

Refusals are by (method, start of a path), a code each, and come as a Status. Requests are written down. It speaks plain
HTTP on loopback and shows the server a token of its own, so that any server will do, Kubernetes' own too; to see what a
program sends to `tonnage apiserver` over TLS there is `recording_proxy.py`.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

_CHUNK_BYTES = 1 << 16
_REASONS = {401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 503: "ServiceUnavailable"}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients hang up whenever they like."""


class RefusingProxy:
    """Listens on a free port of loopback; use it as a context manager. `requests` are (method, path with query)."""

    def __init__(self, url: str, token: str, refusals: Mapping[tuple[str, str], int] | None = None) -> None:
        self.requests: list[tuple[str, str]] = []
        self._target, self._token, self._refusals = urlsplit(url), token, dict(refusals or {})
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

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

            def _pass_on(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                proxy.requests.append((self.command, self.path))
                for (method, start), code in proxy._refusals.items():
                    if self.command == method and self.path.startswith(start):
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
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        there = http.client.HTTPSConnection(self._target.hostname or "", self._target.port or 443, context=tls)
        kept = {name: value for name, value in handler.headers.items() if name.lower() in ("accept", "content-type")}
        user_agent = handler.headers.get("User-Agent", "")
        with contextlib.closing(there):
            there.request(
                handler.command,
                handler.path,
                body or None,
                {**kept, "User-Agent": user_agent, "Authorization": f"Bearer {self._token}"},
            )
            with there.getresponse() as answer:
                handler.send_response(answer.status)
                handler.send_header("Content-Type", answer.getheader("Content-Type", "application/json"))
                handler.send_header("Transfer-Encoding", "chunked")
                handler.end_headers()
                while chunk := answer.read1(_CHUNK_BYTES):
                    handler.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
                    handler.wfile.flush()
                handler.wfile.write(b"0\r\n\r\n")
