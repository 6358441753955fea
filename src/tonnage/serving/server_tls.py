"""TLS of a listener: its certificate, the oldest protocol, and the CAs of client certificates.

    tls = ServerTls(GivenCertificate(cert_file, key_file, clock), client_authorities=access.client_authorities)
    async with listening(…, tls=tls.context), tls.renewed():

Every new connection asks for the current context; open connections keep theirs. Our own certificate
(`ServingCertificate`) lasts a year and is renewed in its last month; given files (`GivenCertificate`) are read again
when they change. Client certificates are optional: a client without one, or with one of an unknown CA, may still send a
token. TLS accepts any certificate; `certificate_judging` verifies it.

Python's `ssl` cannot accept unverified certificates, OpenSSL can, by a verify callback that always says yes. So
`take_any_certificate` sets it directly, at the address that CPython since 3.6 keeps behind the object's head. On any
other Python, or without OpenSSL's functions, it does nothing and TLS refuses such certificates. No safety depends on
it.
"""

from __future__ import annotations

import _ssl
import ctypes
import logging
import ssl
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509 import load_pem_x509_certificate

from tonnage.certificates import ensure_identity
from tonnage.clock import Clock, in_background, repeatedly
from tonnage.errors import TonnageError
from tonnage.private_files import read_own

_KNOWN: Final = (3, 11) <= sys.version_info < (3, 14) and sys.implementation.name == "cpython"
"""The versions on which the first field of CPython's SSLContext was tested to be `SSL_CTX *ctx`."""
_VERIFY_PEER: Final = 1
_Verify = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)


_kept: Final[list[Any]] = []
"""The callback, which must outlive every context."""


def take_any_certificate(context: ssl.SSLContext) -> bool:
    """Ask clients for a certificate and accept any; False, with nothing changed, where that is not possible."""
    file = getattr(_ssl, "__file__", None)
    if not _KNOWN or type(context) is not ssl.SSLContext or file is None:
        return False
    try:
        library = ctypes.CDLL(file)  # its symbols include those of the OpenSSL it was linked with
        get_mode, set_verify = library.SSL_CTX_get_verify_mode, library.SSL_CTX_set_verify
        clear_errors = library.ERR_clear_error
    except (OSError, AttributeError):
        return False
    get_mode.argtypes, get_mode.restype = [ctypes.c_void_p], ctypes.c_int
    set_verify.argtypes, set_verify.restype = [ctypes.c_void_p, ctypes.c_int, _Verify], None
    clear_errors.argtypes, clear_errors.restype = [], None
    if not _kept:

        def accept(is_verified: int, store: int | None) -> int:
            clear_errors()  # or the next read on this thread would take the verification's error for its own
            return 1

        _kept.append(_Verify(accept))
    address = ctypes.c_void_p.from_address(id(context) + object.__basicsize__)
    if get_mode(address) != context.verify_mode:
        return False
    set_verify(address, _VERIFY_PEER, _kept[0])
    return True


def ask_for_any(context: ssl.SSLContext, authorities: bytes) -> None:
    """Ask clients for a certificate of these CAs (PEM), and accept any other. Raises ssl.SSLError."""
    context.load_verify_locations(cadata=authorities.decode("ascii", errors="ignore"))
    if not take_any_certificate(context):
        context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN  # as Go: any CA is trusted, root or not
        context.verify_mode = ssl.CERT_OPTIONAL


_CHECK_S: Final = 60.0
"""How often given files are checked: upstream's interval of dynamic certificates."""

_log = logging.getLogger(__name__)


class ShownCertificate:
    """A listener's certificate, from two files that are read again once a minute. `content` is the last good pair: one
    that does not match, as half a renewal leaves it, is not used."""

    def __init__(self, certificate_file: Path, key_file: Path, clock: Clock) -> None:
        self.files = (certificate_file, key_file)
        self._clock = clock
        self.content = self._read()
        server_context(*self.files)

    def renewed(self) -> AbstractAsyncContextManager[None]:
        return in_background(repeatedly(self._clock, _CHECK_S, self.refresh), "serving certificate")

    def refresh(self) -> None:
        """Renew the certificate if it is ours and about to expire, and read the files. On failure the old one stays."""
        try:
            self._renew()
            found = self._read()
            if found != self.content:
                server_context(*self.files)  # half a pair is refused
                self.content = found
                _log.info("The serving certificate %s has changed and is shown from now on", self.files[0])
        except (TonnageError, OSError, ValueError) as exc:  # ssl.SSLError is an OSError; a broken PEM a ValueError
            _log.error(
                "The serving certificate %s cannot be renewed, the old one is kept: %s", self.files[0], _words(exc)
            )

    def _renew(self) -> None:
        """Given files are renewed by somebody else."""

    def _read(self) -> tuple[bytes, bytes]:
        return self.files[0].read_bytes(), self.files[1].read_bytes()


class GivenCertificate(ShownCertificate):
    """A given certificate and key. Raises TonnageError at the start."""

    def __init__(self, certificate_file: Path, key_file: Path, clock: Clock) -> None:
        try:
            super().__init__(certificate_file, key_file, clock)
        except (OSError, ValueError) as exc:
            raise TonnageError(
                f"the certificate {certificate_file} cannot be served with the key {key_file}: {_words(exc)}",
                hint="--tls-cert-file and --tls-private-key-file are PEM files, the key matching the certificate",
            ) from exc


class ServerTls:
    """One listener's TLS. Raises TonnageError if it cannot be set up."""

    def __init__(
        self,
        shown: ShownCertificate,
        *,
        minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2,
        ciphers: Sequence[str] = (),
        client_authorities: Callable[[], bytes] = lambda: b"",
    ) -> None:
        """`ciphers`: TLS 1.2's cipher suites in OpenSSL's names; empty: its choice. `client_authorities`: the CAs, as
        PEM, whose client certificates are asked for; empty: none are.
        """
        self._shown = shown
        self._minimum, self._ciphers = minimum, ciphers
        self._authorities = client_authorities
        self._made_of = shown.content, client_authorities()
        try:
            self._context = self._make(self._made_of[1])
        except (OSError, ValueError) as exc:
            raise TonnageError(f"TLS cannot be served: {_words(exc)}") from exc

    def context(self) -> ssl.SSLContext:
        made_of = self._shown.content, self._authorities()
        if made_of != self._made_of:
            try:
                self._context = self._make(made_of[1])
            except (OSError, ValueError) as exc:  # half a pair, or a broken CA: the old one is kept
                _log.error("TLS goes on with the old certificates: %s", _words(exc))
            self._made_of = made_of
        return self._context

    def renewed(self) -> AbstractAsyncContextManager[None]:
        return self._shown.renewed()

    def fingerprints(self) -> tuple[str, ...]:
        """SHA-256 of the certificate, and of our own CA if it signed it. Raises OSError, ValueError."""
        certificate = self._shown.files[0]
        authority = certificate.parent / "ca.crt"
        found = [load_pem_x509_certificate(file.read_bytes()) for file in (certificate, authority) if file.exists()]
        return tuple(each.fingerprint(SHA256()).hex(":").upper() for each in found)

    def _make(self, authorities: bytes) -> ssl.SSLContext:
        context = server_context(*self._shown.files)
        context.minimum_version = self._minimum
        if self._ciphers:
            try:
                context.set_ciphers(":".join(self._ciphers))
            except ssl.SSLError as exc:
                told = ", ".join(self._ciphers)
                raise TonnageError(f"none of the cipher suites {told} can be used here") from exc
        if authorities:
            ask_for_any(context, authorities)
        return context


def server_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """The TLS context of every listener of ours. Raises OSError, including ssl.SSLError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION  # of TLS 1.2: a handshake costs the server more than its client
    context.load_cert_chain(certificate, key, password=lambda: b"")  # else an encrypted key would ask the terminal
    return context


def _words(exc: BaseException) -> str:
    if isinstance(exc, ssl.SSLError):
        return (exc.reason or str(exc)).replace("_", " ").lower()
    return f"{exc.strerror.lower()}" if isinstance(exc, OSError) and exc.strerror else str(exc)


_WARN_BEFORE: Final = timedelta(days=90)
"""How long before its CA expires a server begins to log it, once a day."""
_WARN_EVERY_S: Final = 24 * 3600.0


class ServingCertificate(ShownCertificate):
    """Our own certificate in a folder, renewed before it expires. Raises TonnageError if it cannot be made."""

    def __init__(self, folder: Path, hosts: tuple[str, ...], clock: Clock) -> None:
        self._folder = folder
        self._hosts = hosts
        self._warned_s: float | None = None
        self.identity = ensure_identity(folder, hosts, clock.now())
        super().__init__(self.identity.cert_path, self.identity.key_path, clock)
        self._warn(clock.now())

    def refresh(self) -> None:
        super().refresh()
        self._warn(self._clock.now())

    def _renew(self) -> None:
        if read_own(self._folder / "ca.crt") != self.identity.ca_pem:
            raise TonnageError("ca.crt is another one; whoever trusts the first would not trust a new certificate")
        self.identity = ensure_identity(self._folder, self._hosts, self._clock.now())

    def _read(self) -> tuple[bytes, bytes]:
        return read_own(self.files[0]), read_own(self.files[1])

    def _warn(self, now: datetime) -> None:
        expires_at, now_s = self.identity.ca_expires_at, self._clock.monotonic()
        if now < expires_at - _WARN_BEFORE or (self._warned_s is not None and now_s - self._warned_s < _WARN_EVERY_S):
            return
        self._warned_s = now_s
        _log.warning(
            "The certificate authority in %s expires on %s: move the folder away and start again before that day, and "
            "hand out every kubeconfig again",
            self._folder,
            expires_at.date(),
        )
