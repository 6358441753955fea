"""`tonnage scheduler` beside whatever schedules already, as one would install it; asked over its HTTPS endpoint."""

from __future__ import annotations

import json
import signal
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.api_servers import ServerApi
from support.eventually import eventually
from support.http import free_port
from support.programs import spawn


@dataclass
class Second:
    """A running scheduler, asked over its HTTPS endpoint as Prometheus would."""

    api: ServerApi
    name: str
    port: int
    folder: Path

    @property
    def log(self) -> str:
        return (self.folder / "scheduler.log").read_text()

    def get(self, path: str, token: str = "", certificate: tuple[Path, Path] | None = None) -> tuple[int, str]:
        context = ssl.create_default_context(cafile=str(self.folder / "tls" / "ca.crt"))
        if certificate is not None:
            context.load_cert_chain(*certificate)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        request = urllib.request.Request(f"https://127.0.0.1:{self.port}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, context=context, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as exc:
            with exc:
                return exc.code, exc.read().decode()

    def refusal(self, path: str, token: str = "") -> tuple[int, str]:
        code, body = self.get(path, token)
        return code, json.loads(body)["message"]


@contextmanager
def second(
    api: ServerApi, folder: Path, name: str, *flags: str, elects: bool = True, is_awaited: bool = True
) -> Iterator[Second]:
    """`tonnage scheduler` for the pods of one schedulerName. It has to end well when it is told to stop.

    Without `is_awaited`, the block begins before the scheduler is ready.
    """
    kubeconfig = {
        "clusters": [{"name": "c", "cluster": {"server": api.url, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "u", "user": {"token": api.token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    (folder / "kubeconfig").write_text(json.dumps(kubeconfig))
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": name}],
    }
    (folder / "scheduler.yaml").write_text(json.dumps(configuration))
    port = free_port()
    process = spawn(
        "scheduler",
        f"--config={folder / 'scheduler.yaml'}",
        f"--kubeconfig={folder / 'kubeconfig'}",
        f"--leader-elect={str(elects).lower()}",
        f"--leader-elect-resource-name={name}",
        f"--secure-port={port}",
        f"--cert-dir={folder / 'tls'}",
        *flags,
        log=folder / "scheduler.log",
    )
    made = Second(api, name, port, folder)
    try:
        if is_awaited:
            eventually(lambda: is_serving(made), "the scheduler to be ready", details=lambda: made.log)
        yield made
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0, made.log
    finally:
        process.kill()
        process.wait(timeout=30)


def is_serving(made: Second) -> bool:
    try:
        return made.get("/readyz") == (200, "ok")
    except OSError:
        return False
