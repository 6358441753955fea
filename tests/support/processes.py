"""A real `tonnage apiserver` in a process of its own, and plain HTTPS to it."""

from __future__ import annotations

import signal
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Final

from support.http import ApiClient
from support.programs import RunningProgram, spawn
from support.rights_audit import calls_in

AUDIT_LOG: Final = "audit.log"
_PROGRAM: Final = "system:serviceaccount:kube-system:tonnage-"
_AGENTS: Final = ("tonnage", "kubelet")
"""Of our programs, by their User-Agent; a test that tries a program's rights with kubectl is another matter."""


class ApiServerProcess(ApiClient):
    """A running `tonnage apiserver` process, and the administrator's HTTPS to it."""

    def __init__(self, folder: Path, url: str, process: RunningProgram | subprocess.Popen[str]) -> None:
        tls = ssl.create_default_context(cafile=str(folder / "pki" / "ca.crt"))
        token = folder / "token"  # a server with a file of tokens makes none of its own
        super().__init__(url, token.read_text().strip() if token.exists() else "", tls=tls)
        self.folder = folder
        self.process = process

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        code = self.process.wait(timeout=20)
        if isinstance(self.process, subprocess.Popen) and self.process.stdout is not None:
            self.process.stdout.close()
        return code


def start_cluster(folder: Path, *flags: str) -> ApiServerProcess:
    """Start a server on a free port and wait until it says it serves."""
    log = folder / "stderr.log"
    process = spawn("apiserver", "--data-dir", str(folder), "--secure-port", "0", *flags, log=log)
    line = process.readline()
    assert line.startswith("ready https://"), log.read_text()
    return ApiServerProcess(folder, line.split()[1], process)


class Up(ApiServerProcess):
    """A running `tonnage up`: a whole cluster, and the pids of its programs."""

    def pid(self, program: str) -> int:
        """The process that plays `apiserver`, `scheduler`, `controllers`, `csi-driver`, `provisioner` or `node`.

        Raises FileNotFoundError while it is away.
        """
        return int((self.folder / "run" / f"{program}.pid").read_text())

    def log(self, program: str) -> str:
        return (self.folder / "logs" / f"{program}.log").read_text()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it. Raises AssertionError when one of its programs was refused what it asked for."""
        code = super().stop(number)
        refused = refused_calls(self.folder)
        assert not refused, "\n".join(refused)
        return code


def refused_calls(folder: Path) -> list[str]:
    """What programs of the cluster in this folder asked for and may not, each once: a right is missing."""
    found: dict[str, None] = {}
    for file in sorted(folder.glob(f"{AUDIT_LOG.removesuffix('.log')}*.log")):
        with file.open() as lines:
            likely = (line for line in lines if '"code":403' in line and _PROGRAM in line)
            found |= dict.fromkeys(
                str(call) for call in calls_in(likely) if call.is_refused and call.agent.startswith(_AGENTS)
            )
    return list(found)


def start_up(folder: Path, *flags: str) -> Up:
    """Start a whole cluster on a free port and wait until it says that it is ready; its requests are audited."""
    command = [sys.executable, "-m", "tonnage", "up", "--data-dir", str(folder), "--secure-port", "0", *flags]
    command += ["--audit-log-path", str(folder / AUDIT_LOG)]
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
