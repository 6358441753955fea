"""A real `tonnage apiserver` in a process of its own, and plain HTTPS to it: tests through the front door."""

from __future__ import annotations

import json
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tonnage.testing.programs import Program, spawn


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
    process: Program | subprocess.Popen[str]

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
        if isinstance(self.process, subprocess.Popen) and self.process.stdout is not None:
            self.process.stdout.close()
        return code


def start_cluster(folder: Path, *flags: str) -> Cluster:
    """Start a server on a free port and wait until it says it serves."""
    log = folder / "stderr.log"
    process = spawn("apiserver", "--data-dir", str(folder), "--secure-port", "0", *flags, log=log)
    line = process.readline()
    assert line.startswith("ready https://"), log.read_text()
    return Cluster(folder, line.split()[1], process)


@dataclass
class Up(Cluster):
    """A running `tonnage up`: a whole cluster, and the pids of its programs."""

    def pid(self, program: str) -> int:
        """The process that plays `apiserver`, `scheduler`, `controllers`, `csi-driver`, `provisioner` or `node`.

        Raises FileNotFoundError while it is away.
        """
        return int((self.folder / "run" / f"{program}.pid").read_text())

    def log(self, program: str) -> str:
        return (self.folder / "logs" / f"{program}.log").read_text()


def start_up(folder: Path, *flags: str) -> Up:
    """Start a whole cluster on a free port and wait until it says that it is ready."""
    command = [sys.executable, "-m", "tonnage", "up", "--data-dir", str(folder), "--secure-port", "0", *flags]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "up.log").open("a") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.startswith("ready https://"):
        process.kill()  # it has said why, and what it started ends with it
        process.communicate()
        raise AssertionError((folder / "up.log").read_text())
    return Up(folder, line.split()[1], process)
