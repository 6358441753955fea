"""What a kubelet would do with rendered pods: their very arguments and environment, as their ServiceAccounts.

    cluster = Played(folder, api, audit_log)
    cluster.apply(overlay_objects("second-scheduler"))
    cluster.run_pod(pod, paths={"/csi": sockets})        # each container is a process
    cluster.refused() == []

Paths in a container become folders of the test, and ports free ones; nothing else is changed.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from rendered import Document, run

from support.api_servers import ServerApi
from support.eventually import eventually
from support.http import free_port
from support.rights_audit import calls_in

PATIENCE_S = 120.0


class Played:
    """A cluster without kubelets, and the processes that stand for its pods."""

    def __init__(self, folder: Path, api: ServerApi, audit_log: Path) -> None:
        self.folder, self.api, self.audit_log = folder, api, audit_log
        self.admin = folder / "admin.kubeconfig"
        self._write_kubeconfig(self.admin, {"token": api.token})
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.accounts: set[str] = set()

    def _write_kubeconfig(self, path: Path, user: dict[str, str]) -> None:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": self.api.url, "insecure-skip-tls-verify": True}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path.touch(mode=0o600)
        path.write_text(json.dumps(config))

    # -- objects -------------------------------------------------------------------------------------------------------

    def kubectl(self, *words: object, stdin: str = "") -> str:
        done = run("kubectl", *words, stdin=stdin, env={**os.environ, "KUBECONFIG": str(self.admin)})
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def apply(self, objects: list[Document]) -> None:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self.kubectl("apply", "-f", "-", stdin=text)

    def delete(self, objects: list[Document]) -> None:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self.kubectl("delete", "--ignore-not-found", "--wait=false", "-f", "-", stdin=text)

    def until(self, ask: Any, what: str) -> None:
        eventually(ask, what, within_s=PATIENCE_S, details=self.logs)

    # -- processes -----------------------------------------------------------------------------------------------------

    def run_admin(self, program: str, *arguments: object) -> None:
        """A program that the cluster has anyway, as administrator."""
        words = [str(each) for each in arguments]
        if program != "csi-driver":
            words += ["--kubeconfig", str(self.admin)]
        self._start(program, [program, *words], {})

    def run_pod(
        self,
        workload: Document,
        *,
        container: str = "",
        name: str = "",
        node: str = "node-1",
        paths: Mapping[str, Path] | None = None,
    ) -> dict[str, int]:
        """Start the containers of a workload's pod; the port that each of its named ports is."""
        namespace, spec = workload["metadata"]["namespace"], workload["spec"]["template"]["spec"]
        pod = name or f"{workload['metadata']['name']}-0"
        account = spec["serviceAccountName"]
        self.accounts.add(f"system:serviceaccount:{namespace}:{account}")
        kubeconfig = self._identity(namespace, account, pod)
        fields = {"metadata.namespace": namespace, "metadata.name": pod, "spec.nodeName": node}
        ports: dict[str, int] = {}
        for each in spec["containers"]:
            if container not in ("", each["name"]):
                continue
            told = {one["name"]: fields[one["valueFrom"]["fieldRef"]["fieldPath"]] for one in each["env"]}
            words = list(each["args"])
            for variable, value in told.items():
                words = [word.replace(f"$({variable})", value) for word in words]
            for inside, outside in (paths or {}).items():
                words = [word.replace(inside, str(outside)) for word in words]
            for port in each.get("ports", ()):
                ports[port["name"]] = free_port()
                number = str(port["containerPort"])
                words = [re.sub(rf"(?<=[=:]){number}$", str(ports[port["name"]]), word) for word in words]
            process = f"{pod}-{each['name']}"
            self._start(process, words, {**told, "KUBECONFIG": str(kubeconfig)}, probed="startupProbe" in each)
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                if probe in each:
                    self.until(partial(self._answers, process, each[probe]["httpGet"], ports), f"{process}: {probe}")
        return ports

    def _answers(self, process: str, probe: Document, ports: Mapping[str, int]) -> bool:
        """As a kubelet asks: without a token, and without a look at the certificate."""
        assert self.processes[process].poll() is None, self.log(process)
        where = ("127.0.0.1", ports[probe["port"]])
        trusting = ssl._create_unverified_context()
        connection = (
            http.client.HTTPSConnection(*where, timeout=30, context=trusting)
            if probe.get("scheme") == "HTTPS"
            else http.client.HTTPConnection(*where, timeout=30)
        )
        try:
            connection.request("GET", probe["path"])
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def _identity(self, namespace: str, account: str, pod: str) -> Path:
        """A kubeconfig with a token of the account and nothing else."""
        token = self.folder / f"{namespace}-{account}.token"
        token.touch(mode=0o600)
        token.write_text(self.kubectl("create", "token", account, "--namespace", namespace, "--duration", "1h"))
        path = self.folder / f"{pod}.kubeconfig"
        self._write_kubeconfig(path, {"tokenFile": str(token)})
        return path

    def _start(self, name: str, words: list[str], environment: Mapping[str, str], *, probed: bool = False) -> None:
        log = self.folder / f"{name}.log"
        with log.open("wb") as out:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "tonnage", *words],
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
            )
        if not probed:
            self.until(lambda: self.is_ready(name), f"{name} to be ready")

    def is_ready(self, name: str) -> bool:
        text = self.log(name)
        assert self.processes[name].poll() is None, text
        return any(line.startswith("ready") for line in text.splitlines())

    def stop(self, *names: str, number: int = signal.SIGTERM) -> None:
        for name in names or tuple(reversed(self.processes)):
            process = self.processes.pop(name)
            process.send_signal(number)
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text("utf-8", "replace")

    def logs(self) -> str:
        return "\n".join(
            f"--- {file.name}\n{file.read_text('utf-8', 'replace')[-1500:]}"
            for file in sorted(self.folder.glob("*.log"))
        )

    # -- what was asked for --------------------------------------------------------------------------------------------

    def calls(self, account: str) -> set[tuple[str, str]]:
        """Verb and resource of every call of an account."""
        with self.audit_log.open() as lines:
            return {(call.verb, call.resource_path) for call in calls_in(lines) if call.user.endswith(f":{account}")}

    def refused(self) -> list[str]:
        """Every call of the accounts that ran which the server did not allow, once."""
        with self.audit_log.open() as lines:
            found = (call for call in calls_in(lines) if call.user in self.accounts and call.code in (401, 403))
            return sorted({str(call) for call in found})
