"""A user of the cluster, by a certificate that the cluster's own authority signed, reads the scheduler's metrics.

The scheduler shows a certificate that it was given.
"""

from __future__ import annotations

import signal
import ssl
import urllib.error
import urllib.request
from pathlib import Path

from support.eventually import eventually
from support.http import free_port
from support.pki import Authority
from support.processes import ApiServerProcess
from support.programs import spawn

RBAC = "/apis/rbac.authorization.k8s.io/v1"


def test_the_clusters_authority_is_found_and_its_users_are_known(cluster: ApiServerProcess, tmp_path: Path) -> None:
    pair = Authority.of(cluster.kubeconfig.parent / "pki").sign("prometheus")
    (tmp_path / "prom.pem").write_bytes(pair.certificate + pair.key)
    rules = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "metrics"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "prometheus"}
    assert cluster.post(f"{RBAC}/clusterroles", {"metadata": {"name": "metrics"}, "rules": rules}).code == 201
    binding = {"metadata": {"name": "metrics"}, "roleRef": role, "subjects": [subject]}
    assert cluster.post(f"{RBAC}/clusterrolebindings", binding).code == 201
    port, log = free_port(), tmp_path / "scheduler.log"
    servers = Authority("servers")
    own = servers.sign("scheduler", "127.0.0.1")
    (tmp_path / "tls.crt").write_bytes(own.certificate)
    (tmp_path / "tls.key").write_bytes(own.key)
    tls = (f"--tls-cert-file={tmp_path / 'tls.crt'}", f"--tls-private-key-file={tmp_path / 'tls.key'}")
    flags = ("--leader-elect=false", f"--secure-port={port}", *tls, "--tls-min-version=VersionTLS13")
    process = spawn("scheduler", f"--kubeconfig={cluster.kubeconfig}", *flags, log=log)

    def read(path: str, *, as_prometheus: bool = False) -> int:
        context = ssl.create_default_context(cadata=servers.pem.decode())
        if as_prometheus:
            context.load_cert_chain(tmp_path / "prom.pem")
        try:
            with urllib.request.urlopen(f"https://127.0.0.1:{port}{path}", context=context, timeout=30) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as exc:
            with exc:
                return exc.code
        except OSError:  # it has not begun to listen
            return 0

    try:
        eventually(lambda: read("/readyz") == 200, "the scheduler to be ready", details=log.read_text)
        assert [read("/metrics"), read("/metrics", as_prometheus=True), read("/configz", as_prometheus=True)] == [
            403,
            200,
            403,
        ], log.read_text()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.wait(timeout=30)
