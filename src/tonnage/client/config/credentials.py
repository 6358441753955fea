"""A user's credentials, kept fresh.

Token and certificate files are read again once a minute; an unreadable file keeps its last content. After a 401
everything is fetched again, once. An exec plugin (client.authentication.k8s.io/v1 and v1beta1) runs once at a time, and
its answer is used until it expires. A plugin that hangs or prints without end is killed.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import selectors
import signal
import ssl
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from tonnage.client.config import connection
from tonnage.client.config.connection import Certificate, ExecPlugin, KubeconfigCluster, ServerConnection
from tonnage.client.errors import NoCredentials
from tonnage.clock import Clock, within
from tonnage.objects import codec, decode_errors, meta
from tonnage.objects.document import Doc, encode

_WAYS_TO_LEARN = (
    "see https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins"
)
_SHOWN_STDERR = 500
TIMEOUT_S = 30.0
"""A plugin's timeout: as long as a request's. Cloud plugins take a few seconds. client-go waits for ever."""
INTERACTIVE_TIMEOUT_S = 600.0
"""The timeout of a plugin that may ask a person, who has to find a telephone or a browser."""
MAX_OUTPUT_BYTES = 1 << 20
"""Credentials are a few KiB: a token, and a certificate with its chain."""


@dataclass(frozen=True, slots=True)
class ShownIdentity:
    """The Authorization header of requests, and the client certificate of connections."""

    authorization: str = field(default="", repr=False)
    certificate: Certificate | None = None


PluginAnswer = tuple[ShownIdentity, datetime | None]
"""Whom a plugin says that we are, and until when; None: until the server refuses it."""


class ExecCredentials:
    def __init__(self, plugin: ExecPlugin, cluster: KubeconfigCluster, *, clock: Clock) -> None:
        self._plugin = plugin
        self._cluster = cluster
        self._clock = clock
        self._given: PluginAnswer | None = None
        self._running: asyncio.Task[PluginAnswer] | None = None
        self._waiting = 0
        """How many callers wait for the current run."""

    async def current(self) -> ShownIdentity:
        """The valid identity, from a new run of the plugin if needed. Raises NoCredentials."""
        identity, expires_at = self._given or (None, None)
        if identity is None or (expires_at is not None and expires_at <= self._clock.now()):
            return await self.renew()
        return identity

    async def renew(self) -> ShownIdentity:
        """Run the plugin. Callers during a run share its answer or failure, because the plugin may ask a person.

        The plugin is killed when no caller waits any more.
        """
        run = self._running
        if run is None:
            run = self._running = asyncio.create_task(self._run(), name=f"exec plugin {self._plugin.command}")
            run.add_done_callback(self._has_run)
        self._waiting += 1
        try:
            return (await asyncio.shield(run))[0]
        finally:
            self._waiting -= 1
            if not self._waiting and not run.done():
                run.cancel()
                self._running = None

    def _has_run(self, run: asyncio.Task[PluginAnswer]) -> None:
        if self._running is run:
            self._running = None
        if not run.cancelled() and run.exception() is None:
            self._given = run.result()

    async def _run(self) -> PluginAnswer:
        plugin, interactive = self._plugin, self._is_interactive()
        process = self._started(interactive)
        limit_s = INTERACTIVE_TIMEOUT_S if interactive else TIMEOUT_S
        try:
            out, said = await within(self._clock, limit_s, _printed_by(process))
        except TimeoutError as exc:
            raise NoCredentials(
                f"getting credentials: exec: executable {plugin.command} did not end within {limit_s:g} s and was "
                "ended",
                hint="run the plugin by hand to see what it waits for; a kubeconfig names it under users[].user.exec",
            ) from exc
        if len(out) > MAX_OUTPUT_BYTES:
            raise _useless(plugin, f"printed more than {MAX_OUTPUT_BYTES} bytes and was ended")
        if process.returncode != 0:
            words = " ".join(said.decode(errors="replace").split())[-_SHOWN_STDERR:]
            code = process.returncode
            raise NoCredentials(
                f"getting credentials: exec: executable {plugin.command} "
                + (f"failed with exit code {code}" if code > 0 else f"was ended by signal {-code}")
                + (f": {words}" if words else ""),
                hint="run the plugin by hand to see what it needs; a kubeconfig names it under users[].user.exec",
            )
        return _read(out, plugin)

    def _started(self, interactive: bool) -> subprocess.Popen[bytes]:
        plugin = self._plugin
        try:
            return subprocess.Popen(
                [plugin.command, *plugin.args],
                env={**os.environ, **plugin.env, "KUBERNETES_EXEC_INFO": encode(self._info(interactive)).decode()},
                stdin=None if interactive else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=None if interactive else subprocess.PIPE,
                # In a group of its own it can be killed with all that it starts. A plugin that uses the terminal must
                # stay in ours: another group would be stopped as soon as it reads.
                start_new_session=not interactive,
            )
        except (OSError, ValueError) as exc:  # ValueError: a NUL in a name or in the environment
            problem = f"executable {plugin.command} not found"
            if not isinstance(exc, FileNotFoundError):
                problem = f"{plugin.command}: {getattr(exc, 'strerror', None) or exc}"
            raise NoCredentials(
                f"getting credentials: exec: {problem}",
                hint=plugin.install_hint or f"install the credential plugin; {_WAYS_TO_LEARN}",
            ) from exc

    def _is_interactive(self) -> bool:
        at_terminal = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
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


async def _printed_by(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """The output of a process until it ends; the process is killed when this is cancelled.

    A thread waits for it: asyncio's own subprocesses, cancelled while they start, wait for ever.
    """
    loop = asyncio.get_running_loop()
    printed: asyncio.Future[tuple[bytes, bytes]] = loop.create_future()

    def deliver(out: bytes, said: bytes) -> None:
        if not printed.done():
            printed.set_result((out, said))

    def wait() -> None:
        out, said = _read_all(process)
        with suppress(RuntimeError):  # the loop may be closed by now
            loop.call_soon_threadsafe(deliver, out, said)

    threading.Thread(target=wait, name=f"exec plugin {process.pid}", daemon=True).start()
    try:
        return await printed
    except asyncio.CancelledError:
        _kill(process)
        raise


def _read_all(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """Read until the process and all holders of its pipes are done; one that prints without end is killed."""
    out, said = bytearray(), bytearray()
    with selectors.DefaultSelector() as pipes, process:
        for pipe, kept in ((process.stdout, out), (process.stderr, said)):
            if pipe is not None:
                pipes.register(pipe, selectors.EVENT_READ, kept)
        while pipes.get_map():
            for key, _ in pipes.select():
                data = os.read(key.fd, 1 << 16)
                if not data:
                    pipes.unregister(key.fileobj)
                    continue
                key.data.extend(data)
                if key.data is said:
                    del said[:-MAX_OUTPUT_BYTES]  # the last words are the ones that are reported
                elif len(out) > MAX_OUTPUT_BYTES:
                    _kill(process)
                    return bytes(out), bytes(said)
        process.wait()
    return bytes(out), bytes(said)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a plugin, and the processes it started if it leads its own group."""
    with suppress(ProcessLookupError, PermissionError):
        if os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


class _Status(meta.Record):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: meta.Time | None = None


class _ExecCredential(meta.Record):
    kind: str = ""
    api_version: str = ""
    status: _Status | None = None


def _read(out: bytes, plugin: ExecPlugin) -> PluginAnswer:
    try:
        answer = codec.decode(_ExecCredential, out)
    except decode_errors.Unreadable as exc:
        # The text is not shown: it may hold a token.
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
            connection.context_of(KubeconfigCluster("", skip_tls_verify=True), certificate)
        except (ssl.SSLError, ValueError) as exc:
            raise _useless(plugin, f"returned no certificate with its key in PEM form ({exc})") from exc
    identity = ShownIdentity(f"Bearer {status.token}" if status.token else "", certificate)
    return identity, status.expiration_timestamp


def _useless(plugin: ExecPlugin, problem: str) -> NoCredentials:
    return NoCredentials(f"getting credentials: exec plugin {plugin.command} {problem}")


_REREAD_AFTER_S = 50.0
"""client-go's minute minus its leeway of ten seconds."""
_MAX_FILE_BYTES = 1 << 20
"""Tokens and certificates are a few KiB."""

_log = logging.getLogger(__name__)


class Credentials:
    def __init__(self, connection: ServerConnection, *, clock: Clock) -> None:
        user = connection.user
        self._files: dict[Path, _File] = {
            path: _File(path, clock) for path in (user.token_file, user.certificate_file, user.key_file) if path
        }
        self._user = user
        # As upstream, an exec plugin is asked only if there is no other credential.
        says_more = user.token or user.token_file or user.username or user.certificate_pem or user.certificate_file
        self._exec: ExecCredentials | None = None
        if user.exec is not None and not says_more:
            self._exec = ExecCredentials(user.exec, connection.cluster, clock=clock)

    async def identity(self) -> ShownIdentity:
        """The current identity. Raises NoCredentials."""
        if self._exec is not None:
            return await self._exec.current()
        return ShownIdentity(self._authorization(), self._certificate())

    async def renew(self, refused: ShownIdentity) -> bool:
        """After a 401: fetch everything again. True when the identity has changed."""
        for file in self._files.values():
            file.forget()
        if self._exec is not None:
            await self._exec.renew()
        return await self.identity() != refused

    def _authorization(self) -> str:
        user = self._user
        if user.token_file is not None:
            token = self._files[user.token_file].text()
            if not token and not user.token:
                raise NoCredentials(f"the token file {user.token_file} is empty", hint="write the token into it")
            return f"Bearer {token or user.token}"
        if user.token:
            return f"Bearer {user.token}"
        if user.username or user.password:
            return f"Basic {base64.b64encode(f'{user.username}:{user.password}'.encode()).decode()}"
        return ""

    def _certificate(self) -> Certificate | None:
        user = self._user
        if user.certificate_pem:
            return Certificate(user.certificate_pem, user.key_pem)
        if user.certificate_file is not None and user.key_file is not None:
            return Certificate(self._files[user.certificate_file].content(), self._files[user.key_file].content())
        return None


class _File:
    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._content: bytes | None = None
        self._read_at = 0.0

    def content(self) -> bytes:
        now = self._clock.monotonic()
        if self._content is None or now - self._read_at >= _REREAD_AFTER_S:
            self._read_at = now
            problem = self._read()
            if problem and self._content is None:
                raise NoCredentials(
                    f"cannot read {self._path}: {problem}", hint="the kubeconfig names this file; is it there?"
                )
            if problem:
                _log.warning("cannot read %s again: %s; what was read before is still used", self._path, problem)
        return self._content or b""

    def _read(self) -> str:
        """Read the file. Returns the problem, or ""."""
        try:
            with self._path.open("rb") as file:
                content = file.read(_MAX_FILE_BYTES + 1)
        except (OSError, ValueError) as exc:
            return getattr(exc, "strerror", None) or str(exc)
        if len(content) > _MAX_FILE_BYTES:
            return f"it is longer than {_MAX_FILE_BYTES} bytes"
        if self._content and not content.strip():
            return "it is empty"  # it is just being written
        self._content = content
        return ""

    def text(self) -> str:
        return self.content().decode(errors="replace").strip()

    def forget(self) -> None:
        self._read_at = float("-inf")
