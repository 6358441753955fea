"""The certificate a listener shows, kept valid while it runs.

    certificate = ServingCertificate(folder / "pki", hosts, clock)
    async with listening(…, tls=certificate.context), certificate.renewed():

A certificate lasts a year and is renewed in its last month; a server may run for longer than that. The files are looked
at once a minute, so that one that somebody else renewed, or put in their place, is shown too. Each connection asks for
the context when it comes, and those that are open keep theirs.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from tonnage.background import in_background, repeatedly
from tonnage.certificates import Identity, ensure_identity
from tonnage.clock import Clock
from tonnage.errors import TonnageError
from tonnage.private_files import read_own

_CHECK_S: Final = 60.0
_WARN_BEFORE: Final = timedelta(days=90)
"""How long before its authority expires a server begins to say so, once a day."""
_WARN_EVERY_S: Final = 24 * 3600.0

_log = logging.getLogger(__name__)


class ServingCertificate:
    """One identity in a folder and the TLS context made of it. Raises TonnageError when there can be none."""

    def __init__(
        self,
        folder: Path,
        hosts: tuple[str, ...],
        clock: Clock,
        *,
        prepare: Callable[[ssl.SSLContext], None] = lambda context: None,
    ) -> None:
        """`prepare` is shown each context before it is used: who else is to be asked for a certificate, and by whom."""
        self._folder = folder
        self._hosts = hosts
        self._clock = clock
        self._warned_s: float | None = None
        self.identity = ensure_identity(folder, hosts, clock.now())
        self._shown = _pair(self.identity)
        self._prepare = prepare
        self._context = self._new_context(self.identity)
        self._warn(clock.now())

    def context(self) -> ssl.SSLContext:
        return self._context

    def chain(self) -> tuple[Path, Path]:
        """The files of the certificate that is shown, and of its key."""
        return self.identity.cert_path, self.identity.key_path

    def renewed(self) -> AbstractAsyncContextManager[None]:
        """Look after it while the block runs."""
        return in_background(repeatedly(self._clock, _CHECK_S, self.refresh), "serving certificate")

    def refresh(self) -> None:
        """Renew what is about to expire, and show what the files hold now. What does not work leaves the old one."""
        now = self._clock.now()
        try:
            if read_own(self._folder / "ca.crt") != self.identity.ca_pem:
                raise TonnageError("ca.crt is another one; whoever trusts the first would not trust a new certificate")
            identity = ensure_identity(self._folder, self._hosts, now)
            pair = _pair(identity)
            if pair != self._shown:
                self._context = self._new_context(identity)  # a context of its own: half a pair must not spoil the old
                self._shown, self.identity = pair, identity
                _log.info("The serving certificate in %s was renewed and is shown from now on", self._folder)
        except (TonnageError, OSError, ValueError) as exc:  # ssl.SSLError is an OSError; a broken PEM a ValueError
            _log.error("The serving certificate in %s cannot be renewed, the old one is kept: %s", self._folder, exc)
        self._warn(now)

    def remake_context(self) -> None:
        """Have what `prepare` does be done anew, for connections that come from now on."""
        self._context = self._new_context(self.identity)

    def _new_context(self, identity: Identity) -> ssl.SSLContext:
        context = identity.server_context()
        self._prepare(context)
        return context

    def _warn(self, now: datetime) -> None:
        expires_at, now_s = self.identity.ca_expires_at, self._clock.monotonic()
        if now < expires_at - _WARN_BEFORE or (self._warned_s is not None and now_s - self._warned_s < _WARN_EVERY_S):
            return
        self._warned_s = now_s
        _log.warning(
            "The certificate authority in %s expires on %s: move the folder away and start again before that day, and "
            "hand out every kubeconfig anew",
            self._folder,
            expires_at.date(),
        )


def _pair(identity: Identity) -> tuple[bytes, bytes]:
    return read_own(identity.cert_path), read_own(identity.key_path)
