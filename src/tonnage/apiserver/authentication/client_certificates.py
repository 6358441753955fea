"""Users by client certificate: the common name is the user, the organisations are the groups.

TLS asks for a certificate and takes none for an answer; OpenSSL checks the chain against the client authority and that
the certificate is one for clients, before there is a request. What is left to be judged here is time, by the server's
clock and at each request: a connection may outlive the certificate it began with.
"""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Callable
from datetime import datetime
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.x509.oid import NameOID, ObjectIdentifier

from tonnage.documents.access.user import CREDENTIAL_ID, User

MAX_REMEMBERED: Final = 1024
_UID: Final = ObjectIdentifier("1.3.6.1.4.1.57683.2")
"""Kubernetes' own attribute of a subject."""
_NO_CHECK_TIME: Final = 0x200000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME: who shows an old certificate is told by an answer, not by a broken handshake."""


class InvalidCertificate(Exception):
    """Why a certificate proves nothing."""


class _Known(NamedTuple):
    user: User | None
    begins_at: datetime
    ends_at: datetime


class ClientCertificates:
    """Users by the certificates that one authority, or several, have signed."""

    def __init__(self, ca_pem: bytes, now: Callable[[], datetime]) -> None:
        self._ca_pem = ca_pem
        self._now = now
        self._authorities = x509.load_pem_x509_certificates(ca_pem)
        self._known: dict[bytes, _Known] = {}

    def ask_for(self, context: ssl.SSLContext) -> None:
        """Have a server's TLS ask clients for a certificate. One that no authority of ours has signed ends there."""
        context.load_verify_locations(cadata=self._ca_pem.decode())
        context.verify_flags |= _NO_CHECK_TIME  # which Python has no name for
        context.verify_mode = ssl.CERT_OPTIONAL

    def authenticate(self, der: bytes) -> User | None:
        """The user that a certificate names, whose chain TLS has checked; None when it names nobody.

        Raises InvalidCertificate.
        """
        digest = hashlib.sha256(der).digest()
        known = self._known.pop(digest, None)
        if known is None:
            known = self._read(der, digest.hex())
            if len(self._known) >= MAX_REMEMBERED:
                del self._known[next(iter(self._known))]
        self._known[digest] = known
        if not known.begins_at <= self._now() <= known.ends_at:
            raise InvalidCertificate("x509: certificate has expired or is not yet valid")
        return known.user

    def _read(self, der: bytes, fingerprint: str) -> _Known:
        try:
            found = x509.load_der_x509_certificate(der)
            subject, issuer = found.subject, found.issuer
            user = _user(subject, fingerprint)
        except ValueError as exc:
            raise InvalidCertificate("x509: malformed certificate") from exc
        begins_at, ends_at = found.not_valid_before_utc, found.not_valid_after_utc
        for authority in self._authorities:
            if authority.subject == issuer:  # none when there is another in between, which OpenSSL has seen
                begins_at = max(begins_at, authority.not_valid_before_utc)
                ends_at = min(ends_at, authority.not_valid_after_utc)
        return _Known(user, begins_at, ends_at)


def _user(subject: x509.Name, fingerprint: str) -> User | None:
    """Mirrors CommonNameUserConversion. Of several common names the last counts, as in Go."""
    names = _texts(subject, NameOID.COMMON_NAME)
    if not names or not names[-1]:
        return None
    uids = _texts(subject, _UID)
    if len(uids) > 1:
        raise InvalidCertificate(f"expected 1 UID, but found multiple: [{' '.join(uids)}]")
    if uids and not uids[0]:
        raise InvalidCertificate("UID cannot be an empty string")
    extra = {CREDENTIAL_ID: (f"X509SHA256={fingerprint}",)}
    return User(names[-1], uids[0] if uids else "", _texts(subject, NameOID.ORGANIZATION_NAME), extra)


def _texts(subject: x509.Name, oid: ObjectIdentifier) -> tuple[str, ...]:
    return tuple(each.value for each in subject.get_attributes_for_oid(oid) if isinstance(each.value, str))
