"""An API server that is of no use: it refuses everything, in one of the ways servers do, and counts how often.

    with HopelessServer(500, folder) as server:
        run("scheduler", "--kubeconfig", str(server.kubeconfig))
        server.wait_for(100)

`answer` is a status code, or how else it fails: "page" (an HTML page and 502, as of a load balancer), "silent" (takes
the request and never answers), "stranger" (its certificate is of an authority that nobody named), "away" (nobody
listens).
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

from support.eventually import eventually
from support.http import free_port
from support.pki import Authority

_STATUS = {
    401: ("Unauthorized", "Unauthorized"),
    403: ("Forbidden", '{} is forbidden: User "x" cannot list resource "{}" in API group "" at the cluster scope'),
    429: ("TooManyRequests", "Too many requests, please try again later."),
    500: ("InternalError", "Internal error occurred: etcdserver: request timed out"),
    503: ("ServiceUnavailable", "apiserver not ready"),
}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients hang up whenever they like."""


class HopelessServer:
    """Listens on a free port of loopback, over TLS; use it as a context manager."""

    def __init__(self, answer: int | str, folder: Path) -> None:
        self._answer = answer
        self._folder = folder
        self.refused = 0
        self.programs: set[str] = set()
        self._ended = threading.Event()
        self._counting = threading.Lock()
        authority = Authority("servers")
        pair = authority.sign("server", "127.0.0.1")
        (folder / "server.pem").write_bytes(pair.certificate + pair.key)
        self._trusted = (Authority("others") if answer == "stranger" else authority).pem
        self._server = _Server(("127.0.0.1", 0), self._handler())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "server.pem")
        plain = self._server.socket
        self._server.socket = context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        self.port = free_port() if answer == "away" else self._server.server_address[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def kubeconfig(self) -> Path:
        """A file by which a program finds the server."""
        authority = base64.b64encode(self._trusted).decode()
        cluster = {"server": f"https://127.0.0.1:{self.port}", "certificate-authority-data": authority}
        found = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }
        path = self._folder / "kubeconfig"
        path.write_text(json.dumps(found))
        path.chmod(0o600)
        return path

    def wait_for(self, requests: int, *, programs: int = 1) -> None:
        """Return when so many requests were refused, of so many programs."""
        eventually(
            lambda: self.refused >= requests and len(self.programs) >= programs,
            f"{requests} requests of {programs} programs to be refused",
            details=lambda: f"{self.refused} of {sorted(self.programs)}",
        )

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def refuse(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                with outer._counting:
                    outer.refused += 1
                    # A program has several agents: "tonnage-scheduler", "tonnage-scheduler/leader-election".
                    outer.programs.add((self.headers.get("User-Agent") or "").partition("/")[0])
                if outer._answer == "silent":
                    outer._ended.wait()
                    return
                code, kind, body = outer._refusal(self.path)
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = refuse

            def log_message(self, format: str, *args: object) -> None:
                """Nothing: there may be thousands."""

        return Handler

    def _refusal(self, path: str) -> tuple[int, str, bytes]:
        if not isinstance(self._answer, int):
            return 502, "text/html", f"<html>request {self.refused} went wrong</html>".encode()
        reason, message = _STATUS[self._answer]
        resource = path.partition("?")[0].rpartition("/")[2]
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message.format(resource, resource),
            "reason": reason,
            "code": self._answer,
        }
        return self._answer, "application/json", json.dumps(status).encode()
