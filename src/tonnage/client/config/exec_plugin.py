"""Credentials from a program: client-go's exec plugins, client.authentication.k8s.io/v1 and v1beta1.

The program is told what is wanted in $KUBERNETES_EXEC_INFO and answers with an ExecCredential on stdout: a token, a
client certificate, or both, and when they expire. It runs once at a time, when there is nothing yet, when what it gave
has expired, and after the server said 401. Its words on stderr go into our error, unless it may talk to a person at a
terminal: then it has the terminal's stderr and stdin to itself.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
from dataclasses import dataclass, field
from datetime import datetime

from tonnage.client.config.connection import Cluster, ExecPlugin
from tonnage.client.errors import NoCredentials
from tonnage.client.transport import tls
from tonnage.client.transport.tls import Certificate
from tonnage.clock import Clock
from tonnage.objects import codec
from tonnage.objects.decode_errors import Unreadable
from tonnage.objects.document import Doc, encode
from tonnage.objects.meta import Record, Time

_WAYS_TO_LEARN = (
    "see https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins"
)
_SHOWN_STDERR = 500


@dataclass(frozen=True, slots=True)
class PluginAnswer:
    """What a plugin gave; without `expires_at` it lasts until it is refused."""

    token: str = field(default="", repr=False)
    certificate: Certificate | None = None
    expires_at: datetime | None = None


class ExecCredentials:
    """One plugin, and what it gave last."""

    def __init__(self, plugin: ExecPlugin, cluster: Cluster, *, clock: Clock) -> None:
        self._plugin = plugin
        self._cluster = cluster
        self._clock = clock
        self._given: PluginAnswer | None = None
        self._one_at_a_time = asyncio.Lock()

    async def current(self) -> PluginAnswer:
        """What is good now, from the plugin when need be. Raises NoCredentials."""
        async with self._one_at_a_time:
            given = self._given
            if given is None or (given.expires_at is not None and given.expires_at <= self._clock.now()):
                self._given = given = await self._run()
            return given

    async def renew(self) -> None:
        """What was given is refused: ask again, unless somebody else has asked meanwhile."""
        refused = self._given
        async with self._one_at_a_time:
            if self._given is refused:
                self._given = await self._run()

    async def _run(self) -> PluginAnswer:
        plugin = self._plugin
        interactive = self._is_interactive()
        environment = {**os.environ, **plugin.env, "KUBERNETES_EXEC_INFO": encode(self._info(interactive)).decode()}
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command,
                *plugin.args,
                env=environment,
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=None if interactive else asyncio.subprocess.PIPE,
            )
        except OSError as exc:
            problem = f"executable {plugin.command} not found"
            if not isinstance(exc, FileNotFoundError):
                problem = f"{plugin.command}: {exc.strerror}"
            raise NoCredentials(
                f"getting credentials: exec: {problem}",
                hint=plugin.install_hint or f"install the credential plugin; {_WAYS_TO_LEARN}",
            ) from exc
        try:
            out, said = await process.communicate()
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        if process.returncode != 0:
            words = " ".join((said or b"").decode(errors="replace").split())[-_SHOWN_STDERR:]
            raise NoCredentials(
                f"getting credentials: exec: executable {plugin.command} failed with exit code {process.returncode}"
                + (f": {words}" if words else "")
            )
        return _read(out, plugin)

    def _is_interactive(self) -> bool:
        at_terminal = sys.stdin is not None and sys.stdin.isatty()
        if self._plugin.interactive_mode == "Always" and not at_terminal:
            raise NoCredentials(
                f"getting credentials: exec plugin {self._plugin.command} cannot support interactive mode: standard "
                "input is not a terminal",
                hint="run this at a terminal, or use credentials that need none",
            )
        return self._plugin.interactive_mode != "Never" and at_terminal

    def _info(self, interactive: bool) -> Doc:
        spec: Doc = {"interactive": interactive}
        if self._plugin.provide_cluster_info:
            cluster = self._cluster
            shown = {
                "server": cluster.server,
                "tls-server-name": cluster.tls_server_name,
                "insecure-skip-tls-verify": cluster.skip_tls_verify,
                "certificate-authority-data": cluster.ca_pem,  # bytes are written as base64, as Go does
                "disable-compression": not cluster.compress,
                "config": cluster.exec_config,
            }
            spec["cluster"] = {name: value for name, value in shown.items() if value}
        return {"kind": "ExecCredential", "apiVersion": self._plugin.api_version, "spec": spec}


class _Status(Record):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: Time | None = None


class _ExecCredential(Record):
    kind: str = ""
    api_version: str = ""
    status: _Status | None = None


def _read(out: bytes, plugin: ExecPlugin) -> PluginAnswer:
    """What a plugin printed. Raises NoCredentials."""
    try:
        answer = codec.decode(_ExecCredential, out)
    except Unreadable as exc:
        # The text itself is not shown: it may hold a token.
        raise _useless(plugin, "did not print an ExecCredential") from exc
    if answer.kind != "ExecCredential" or answer.api_version != plugin.api_version:
        raise _useless(
            plugin,
            f"is configured to use API version {plugin.api_version}, plugin returned version "
            f"{answer.api_version or 'none'} (kind {answer.kind or 'none'})",
        )
    status = answer.status
    if status is None:
        raise _useless(plugin, "didn't return a status field")
    if not (status.token or status.client_certificate_data or status.client_key_data):
        raise _useless(plugin, "didn't return a token or cert/key pair")
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise _useless(plugin, "returned only certificate or key, not both")
    certificate = None
    if status.client_certificate_data:
        certificate = Certificate(status.client_certificate_data.encode(), status.client_key_data.encode())
        try:
            tls.context_of(Cluster("", skip_tls_verify=True), certificate)
        except (ssl.SSLError, ValueError) as exc:
            raise _useless(plugin, f"returned no certificate with its key in PEM form ({exc})") from exc
    return PluginAnswer(status.token, certificate, status.expiration_timestamp)


def _useless(plugin: ExecPlugin, problem: str) -> NoCredentials:
    return NoCredentials(f"getting credentials: exec plugin {plugin.command} {problem}")
