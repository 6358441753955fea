"""What a user shows to the server with each request, kept fresh.

A token or certificate in a file is read again once a minute: the kubelet renews a projected token when 80 % of its ten
minutes or more have passed, so a minute is soon enough. A file that cannot be read any more leaves what was read last.
What an exec plugin gave is used until it expires (`exec_plugin`). After a 401 everything is fetched anew, once.
"""

from __future__ import annotations

import base64
import logging
from dataclasses import dataclass, field
from pathlib import Path

from tonnage.client.config.connection import Certificate, ServerConnection
from tonnage.client.config.exec_plugin import ExecCredentials
from tonnage.client.errors import NoCredentials
from tonnage.clock import Clock

_REREAD_AFTER_S = 50.0
"""client-go's minute less its leeway of ten seconds."""
_MAX_FILE_BYTES = 1 << 20
"""Tokens and certificates are a few KiB."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ShownIdentity:
    """What is shown: the header `Authorization`, and a certificate when the connection is made."""

    authorization: str = field(default="", repr=False)
    certificate: Certificate | None = None


class Credentials:
    """One user's identity, renewed as it ages."""

    def __init__(self, connection: ServerConnection, *, clock: Clock) -> None:
        user = connection.user
        self._files: dict[Path, _File] = {
            path: _File(path, clock) for path in (user.token_file, user.certificate_file, user.key_file) if path
        }
        self._user = user
        # An exec plugin is asked only where nothing else says who we are, as upstream does.
        says_more = user.token or user.token_file or user.username or user.certificate_pem or user.certificate_file
        self._exec: ExecCredentials | None = None
        if user.exec is not None and not says_more:
            self._exec = ExecCredentials(user.exec, connection.cluster, clock=clock)

    async def identity(self) -> ShownIdentity:
        """What to show now. Raises NoCredentials."""
        if self._exec is not None:
            given = await self._exec.current()
            return ShownIdentity(f"Bearer {given.token}" if given.token else "", given.certificate)
        return ShownIdentity(self._authorization(), self._certificate())

    async def renew(self, refused: ShownIdentity) -> bool:
        """The server answered 401: fetch everything anew. True when there is now something else to show."""
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
    """A file that is read again when what was read is old."""

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
        """Take over what the file says now; what is wrong with it, if anything."""
        try:
            with self._path.open("rb") as file:
                content = file.read(_MAX_FILE_BYTES + 1)
        except (OSError, ValueError) as exc:
            return getattr(exc, "strerror", None) or str(exc)
        if len(content) > _MAX_FILE_BYTES:
            return f"it is longer than {_MAX_FILE_BYTES} bytes"
        if self._content and not content.strip():
            return "it is empty"  # somebody is just writing it
        self._content = content
        return ""

    def text(self) -> str:
        return self.content().decode(errors="replace").strip()

    def forget(self) -> None:
        """Read again next time, whatever the age."""
        self._read_at = float("-inf")
