"""Fixtures through the real doors: an API server in its own process, kubectl, the official client, plain HTTP."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

CLUSTER_NUMBERS = itertools.count(1)


@dataclass
class Reply:
    """An HTTP answer with its JSON read."""

    code: int
    body: Any
    headers: dict[str, str]
    warnings: list[str]

    @property
    def message(self) -> str:
        return str(self.body["message"])

    @property
    def causes(self) -> list[tuple[str, str]]:
        """(field, message) of every cause."""
        return [(cause.get("field", ""), cause["message"]) for cause in self.body["details"]["causes"]]


@dataclass
class Cluster:
    """A running `tonnage apiserver` process."""

    folder: Path
    url: str
    process: subprocess.Popen[str]

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def token(self) -> str:
        return (self.folder / "token").read_text().strip()

    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.folder / "pki" / "ca.crt"))

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
        token: str | None = None,
        agent: str = "tests/1",
    ) -> Reply:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        headers = {"Accept": accept, "User-Agent": agent, "Content-Type": content_type}
        given = self.token if token is None else token
        if given:
            headers["Authorization"] = f"Bearer {given}"
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=headers)
        try:
            answer = urllib.request.urlopen(request, context=self.tls(), timeout=30)
        except urllib.error.HTTPError as exc:
            answer = exc
        with answer:
            raw = answer.read()
            is_json = answer.headers.get("Content-Type", "").startswith("application/json")
            return Reply(
                answer.status,
                json.loads(raw) if is_json and raw else raw.decode(),
                dict(answer.headers.items()),
                answer.headers.get_all("Warning") or [],
            )

    def get(self, path: str, **options: Any) -> Reply:
        return self.request("GET", path, **options)

    def post(self, path: str, body: Any, **options: Any) -> Reply:
        return self.request("POST", path, body, **options)

    def put(self, path: str, body: Any, **options: Any) -> Reply:
        return self.request("PUT", path, body, **options)

    def patch(self, path: str, body: Any, kind: str = "merge", **options: Any) -> Reply:
        content_type = {
            "merge": "application/merge-patch+json",
            "json": "application/json-patch+json",
            "strategic": "application/strategic-merge-patch+json",
            "apply": "application/apply-patch+yaml",
        }[kind]
        return self.request("PATCH", path, body, content_type=content_type, **options)

    def delete(self, path: str, body: Any = None, **options: Any) -> Reply:
        return self.request("DELETE", path, body, **options)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        code = self.process.wait(timeout=20)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


def start_cluster(folder: Path, *flags: str) -> Cluster:
    """Start a server on a free port and wait until it says it serves."""
    command = [sys.executable, "-m", "tonnage", "apiserver", "--data-dir", str(folder), "--secure-port", "0", *flags]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "stderr.log").open("a") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("ready https://"), (folder / "stderr.log").read_text()
    return Cluster(folder, line.split()[1], process)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One server for the tests of a file; each test keeps to a namespace or to names of its own."""
    running = start_cluster(tmp_path_factory.mktemp("cluster"))
    yield running
    running.stop()


@pytest.fixture
def namespace(cluster: Cluster) -> str:
    """A fresh namespace."""
    name = f"ns-{next(CLUSTER_NUMBERS)}"
    assert cluster.post("/api/v1/namespaces", {"metadata": {"name": name}}).code == 201
    return name


class Kubectl:
    """The real kubectl against one cluster."""

    def __init__(self, cluster: Cluster, home: Path) -> None:
        self._base = ["kubectl", "--kubeconfig", str(cluster.kubeconfig), "--cache-dir", str(home / "cache")]
        self._home = home

    def command(self, *arguments: str) -> list[str]:
        return [*self._base, *arguments]

    def run(self, *arguments: str, stdin: Any = None) -> subprocess.CompletedProcess[str]:
        text = stdin if isinstance(stdin, str) or stdin is None else yaml.safe_dump_all(stdin)
        environment = {**os.environ, "HOME": str(self._home)}
        return subprocess.run(
            self.command(*arguments),
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
            env=environment,
            check=False,
        )

    def __call__(self, *arguments: str, stdin: Any = None) -> str:
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}\n{done.stdout}{done.stderr}"
        return done.stdout

    def fails(self, *arguments: str, stdin: Any = None) -> str:
        """Run what must be refused, and give what kubectl says about it."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode != 0, f"kubectl {' '.join(arguments)} was accepted:\n{done.stdout}"
        return done.stderr


@pytest.fixture
def kubectl(cluster: Cluster, tmp_path: Path) -> Kubectl:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not on PATH")
    return Kubectl(cluster, tmp_path)
