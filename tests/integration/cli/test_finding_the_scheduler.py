"""Commands find the scheduler that runs in a cluster: by its Service and its lease, or they say what to run."""

from __future__ import annotations

import asyncio
import http.server
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.pki import Authority
from support.processes import ApiServerProcess, start_cluster
from tonnage.client.config import kubeconfig
from tonnage.client.http import Client
from tonnage.clock import SystemClock
from tonnage.endpoints import Endpoint
from tonnage.whatif.scheduler_memory import SchedulerSearch
from tonnage_command import tonnage

NAME, NAMESPACE = "tonnage-scheduler", "tonnage-system"
HOST = f"{NAME}.{NAMESPACE}.svc"
LEADER = f"{NAME}-6d9f-x7k2p"


class Alive(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ApiServerProcess, int, Path]]:
    """A cluster with the Service and the lease of a scheduler, the port at which it answers, and its CA's file."""
    folder = tmp_path_factory.mktemp("installed")
    authority = Authority()
    pair = authority.sign(HOST, HOST)
    for name, data in (("tls.crt", pair.certificate), ("tls.key", pair.key), ("ca.crt", authority.pem)):
        (folder / name).write_bytes(data)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Alive) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        running = start_cluster(folder / "cluster")
        labels = {"app.kubernetes.io/name": "tonnage", "app.kubernetes.io/component": "scheduler"}
        port = server.server_address[1]
        for path, doc in (
            ("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}),
            (
                f"/api/v1/namespaces/{NAMESPACE}/services",
                {"metadata": {"name": NAME, "labels": labels}, "spec": {"ports": [{"port": port}]}},
            ),
            (
                f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases",
                {"metadata": {"name": NAME}, "spec": {"holderIdentity": f"{LEADER}_1"}},
            ),
        ):
            assert running.post(path, doc).code == 201
        yield running, port, folder / "ca.crt"
        running.stop()
        server.shutdown()


def test_a_command_says_what_to_run_where_it_cannot_be_reached(
    installed: tuple[ApiServerProcess, int, Path],
):
    cluster, port, _ = installed
    done = tonnage("explain", "--kubeconfig", str(cluster.kubeconfig), "--pending")
    kubectl = f"kubectl --kubeconfig {cluster.kubeconfig} --namespace {NAMESPACE}"
    assert (
        f"Run `{kubectl} port-forward pod/{LEADER} {port}` in another terminal and `{kubectl} exec pod/{LEADER} -- cat "
        f"/tmp/certs/ca.crt > ca.crt`, then add --scheduler-endpoint https://localhost:{port} --scheduler-ca ca.crt."
    ) in done.stderr


def test_inside_the_cluster_it_is_reached_by_its_service_if_it_is_trusted(
    installed: tuple[ApiServerProcess, int, Path], monkeypatch: pytest.MonkeyPatch
):
    cluster, port, ca_file = installed
    resolve = socket.getaddrinfo

    def resolved(host: Any, *rest: Any, **more: Any) -> Any:  # the cluster's DNS
        return resolve("127.0.0.1" if host in (HOST, HOST.encode()) else host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    connection = kubeconfig.load(cluster.kubeconfig)

    async def found(ca_pem: bytes) -> tuple[Endpoint | None, str]:
        async with Client.connect(connection, clock=SystemClock(), user_agent="test") as client:
            return await SchedulerSearch(ca_pem).find(client)

    trusted = ca_file.read_bytes()
    assert asyncio.run(found(trusted)) == (Endpoint(f"https://{HOST}:{port}", trusted), "")
    endpoint, note = asyncio.run(found(b""))
    assert endpoint is None and note.endswith("Its certificate is not trusted: add --scheduler-ca FILE.")
