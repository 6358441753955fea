"""A cluster whose programs run under their own identities, on a server that writes down every request.

    with rights_stage(folder, embedded_server) as stage:
        stage.start("csi-driver", "controllers", "scheduler", "provisioner", "node")
        ...
    audit(stage.calls_of("scheduler"), rules_of("scheduler", "kube-system"))

The programs have the command lines of `tonnage up`, and kubeconfigs that lead through a proxy: it refuses watches that
begin with the state, as older servers do, so that states are listed too, and it can lose the answer of a request. The
server is `tonnage apiserver` or Kubernetes' own.
"""

from __future__ import annotations

import asyncio
import random
import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from support.api_servers import ServerApi
from support.eventually import eventually
from support.programs import RunningProgram, spawn
from support.refusing_proxy import RefusingProxy
from support.rights_audit import AuditedCall, calls_in
from tonnage.certificates import ensure_identity
from tonnage.client.config.connection import KubeconfigCluster, KubeconfigUser, ServerConnection
from tonnage.client.http import Client
from tonnage.clock import SystemClock
from tonnage.faults import Fault, FaultFile
from tonnage.objects.resources import BY_KIND
from tonnage.plane.bootstrap import Identities, starter_objects
from tonnage.plane.settings import CommandLines, PlaneSettings
from tonnage.private_files import own_folder
from tonnage.serving.server_tls import server_context

Doc = dict[str, Any]
NAMESPACE = "rights"
PATIENCE_S = 90.0


@dataclass
class Trouble:
    """On the way to the server, by method and pattern of a path: `lost` and `twice` once each, `blind` until undone.

    What is `blind` cannot be watched: an informer there knows what it has listed, and nothing newer.
    """

    lost: list[tuple[str, str]] = field(default_factory=list)
    twice: list[tuple[str, str]] = field(default_factory=list)
    blind: list[str] = field(default_factory=list)

    def refuses(self, method: str, path: str) -> int:
        if "sendInitialEvents=true" in path:
            return 422  # a server that does not know it
        return 503 if "watch=" in path and any(re.search(each, path) for each in self.blind) else 0

    def loses(self, method: str, path: str) -> bool:
        return _taken(self.lost, method, path)

    def doubles(self, method: str, path: str) -> bool:
        return _taken(self.twice, method, path)


def _taken(due: list[tuple[str, str]], method: str, path: str) -> bool:
    for each in tuple(due):
        if each[0] == method and re.search(each[1], path.partition("?")[0]):
            due.remove(each)
            return True
    return False


@dataclass
class RightsStage:
    """One cluster, and the trouble that its programs have with their server."""

    folder: Path
    api: ServerApi
    audit_log: Path
    proxy: RefusingProxy
    ca_pem: bytes
    trouble: Trouble
    nodes: int = 3
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    scheduler_config: Path | None = None
    programs: dict[str, RunningProgram] = field(default_factory=dict)
    shown: list[str] = field(default_factory=list)
    """Pages of programs that the reader was let into: no API server is asked for those."""

    def __post_init__(self) -> None:
        settings = PlaneSettings(
            data_dir=self.folder,
            nodes=self.nodes,
            pools=("3x100Gi",),
            extra=self.extra,
            scheduler_config=self.scheduler_config,
        )
        resolved = settings.resolved()
        sockets = own_folder(settings.socket_dir())
        self.commands = CommandLines(settings, resolved, sockets)
        self.faults = FaultFile(settings.faults)

    # -- programs -----------------------------------------------------------------------------------------------------

    def identities(self, commands: Mapping[str, Sequence[str]]) -> None:
        """Accounts, roles, bindings and kubeconfigs for programs with these command lines."""
        asyncio.run(self._ensure(commands))

    async def _ensure(self, commands: Mapping[str, Sequence[str]]) -> None:
        connection = ServerConnection(
            KubeconfigCluster(self.proxy.url, self.ca_pem), KubeconfigUser(token=self.api.token)
        )
        clock = SystemClock()
        async with Client.connect(connection, clock=clock) as client:
            made = Identities(self.commands.identities, client, ca_pem=self.ca_pem, clock=clock, rng=random.Random(1))
            await made.ensure(commands)

    def kubeconfig(self, program: str) -> Path:
        return self.commands.identities / f"{program}.kubeconfig"

    def start(self, *names: str) -> None:
        """Start programs of `tonnage up`, and wait until they say that they are ready."""
        for name in names:
            self.programs[name] = spawn(*self.commands.of(name), log=self.folder / "logs" / f"{name}.log")
        for name in names:
            line = self.programs[name].readline()
            assert line.startswith("ready"), self.log(name)

    def run(self, name: str, *args: str, program: str = "", kubeconfig: str = "") -> RunningProgram:
        """Start another program, under the identity of that name."""
        found = self.kubeconfig(kubeconfig or program or name)
        process = spawn(program or name, "--kubeconfig", str(found), *args, log=self.folder / "logs" / f"{name}.log")
        self.programs[name] = process
        return process

    def stop(self, *names: str, number: int = signal.SIGTERM) -> None:
        for name in names or tuple(self.programs):
            process = self.programs.pop(name)
            process.send_signal(number)
            process.wait()

    def log(self, name: str) -> str:
        return (self.folder / "logs" / f"{name}.log").read_text()

    # -- objects ------------------------------------------------------------------------------------------------------

    def path(self, kind: str, name: str = "", *, namespace: str = NAMESPACE, sub: str = "") -> str:
        resource = next(each for key, each in BY_KIND.items() if key[1] == kind and not key[0].startswith("events"))
        root = resource.path(namespace) if resource.namespaced else resource.path()
        return "/".join(part for part in (root, name, sub) if part)

    def apply(self, *docs: Doc) -> None:
        for doc in docs:
            resource = BY_KIND[doc["apiVersion"], doc["kind"]]
            metadata = doc["metadata"]
            root = resource.path(metadata.get("namespace", NAMESPACE)) if resource.namespaced else resource.path()
            reply = self.api.apply(f"{root}/{metadata['name']}", doc, query="&force=true")
            assert reply.code in (200, 201), reply.body

    def get(self, kind: str, name: str, **options: Any) -> Doc | None:
        reply = self.api.get(self.path(kind, name, **options))
        return reply.body if reply.code == 200 else None

    def objects(self, kind: str, *, namespace: str = NAMESPACE, query: str = "") -> list[Doc]:
        found: list[Doc] = self.api.get(self.path(kind, namespace=namespace) + query).body["items"]
        return found

    def patch(self, kind: str, name: str, change: Doc, patch_type: str = "merge", **options: Any) -> None:
        reply = self.api.patch(self.path(kind, name, **options), change, patch_type)
        assert reply.code == 200, reply.body

    def delete(self, kind: str, name: str, body: Doc | None = None, **options: Any) -> None:
        reply = self.api.delete(self.path(kind, name, **options), body)
        assert reply.code in (200, 202, 404), reply.body

    def define(self, group: str, version: str, plural: str, kind: str, scope: str) -> None:
        """A kind of somebody else's, which takes anything."""
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        self.apply(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {
                    "name": f"{plural}.{group}",
                    "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
                },
                "spec": {
                    "group": group,
                    "names": {"plural": plural, "kind": kind},
                    "scope": scope,
                    "versions": [
                        {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
                    ],
                },
            }
        )

    def fault(self, *faults: Fault) -> None:
        """Make these go wrong, and nothing else."""
        self.faults.write(faults)

    # -- waits --------------------------------------------------------------------------------------------------------

    def until(self, holds: Callable[[], object], what: str) -> None:
        eventually(holds, what, within_s=PATIENCE_S)

    def running(self, *names: str) -> None:
        for name in names:
            self.until(partial(self._runs, name), f"pod {name} to run")

    def _runs(self, name: str) -> bool:
        return self.phase(name) == "Running"

    def phase(self, name: str) -> str:
        found = self.get("Pod", name)
        return str(found["status"].get("phase")) if found is not None else ""

    def gone(self, kind: str, name: str, **options: Any) -> None:
        self.until(lambda: self.get(kind, name, **options) is None, f"{kind} {name} to be gone")

    def told(self, name: str, reason: str) -> bool:
        """Whether there is an event of that reason about an object of that name."""
        items = self.api.get(f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events").body["items"]
        return any((each["regarding"]["name"], each["reason"]) == (name, reason) for each in items)

    # -- what was asked -----------------------------------------------------------------------------------------------

    def calls(self) -> list[AuditedCall]:
        files = sorted(self.audit_log.parent.glob("audit*.log"))
        return [call for file in files for call in calls_in(_whole_lines(file))]

    def calls_of(self, program: str) -> list[AuditedCall]:
        user = f"system:serviceaccount:kube-system:tonnage-{program}"
        shown = [AuditedCall(user, "get", path=path) for path in self.shown] if program == "reader" else []
        return [each for each in self.calls() if each.user == user] + shown

    def has_asked(self, program: str, verb: str, resource: str) -> bool:
        """Whether a program has asked for this and was not refused, whatever there was."""
        return any(
            (each.verb, each.resource_path) == (verb, resource) and each.code != 403 for each in self.calls_of(program)
        )

    def asked(self, program: str, verb: str, resource: str, *, name: str = "") -> bool:
        """Whether a program has asked for this, successfully."""
        return any(
            (each.verb, each.resource_path) == (verb, resource) and each.code < 300 and name in ("", each.name)
            for each in self.calls_of(program)
        )


@contextmanager
def staged(
    folder: Path,
    api: ServerApi,
    audit_log: Path,
    *,
    nodes: int = 3,
    extra: Mapping[str, tuple[str, ...]] | None = None,
    scheduler_config: Path | None = None,
) -> Iterator[RightsStage]:
    """A stage on a server that runs and writes this audit log; its programs end with the block."""
    trouble = Trouble()

    with ExitStack() as stack:
        own_folder(folder)
        shown = ensure_identity(folder / "proxy", ("127.0.0.1",), SystemClock().now())
        tls = server_context(shown.cert_path, shown.key_path)
        proxy = stack.enter_context(
            RefusingProxy(api.url, "", refuses=trouble.refuses, loses=trouble.loses, doubles=trouble.doubles, tls=tls)
        )
        stage = RightsStage(folder, api, audit_log, proxy, shown.ca_pem, trouble, nodes, extra or {}, scheduler_config)
        for doc in starter_objects(1, "best-fit"):
            if doc["kind"] == "CSIDriver":  # a server that does not know the field keeps the annotation
                doc["metadata"]["annotations"]["tonnage.dev/volume-rebuilding"] = "true"
            api.create(stage.path(doc["kind"]), doc)
        stage.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        try:
            yield stage
        finally:
            for process in stage.programs.values():
                process.kill()
            for process in stage.programs.values():
                process.wait()


def _whole_lines(log: Path) -> list[str]:
    """The lines of a log that is being written: the last one may not be all there yet."""
    return log.read_text().rpartition("\n")[0].splitlines()
