"""Users by client certificate: the common name is the user, the organisations are the groups.

TLS asks for a certificate and takes none for an answer (`serving/any_certificate.py`); whether one is good is judged at
each request (`serving/certificate_judging.py`), by the server's clock, since a connection may outlive the certificate
it began with. An authority signs certificates of clients directly: one in between has to be named among the authorities
itself.
"""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Callable
from datetime import datetime
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.x509.oid import NameOID, ObjectIdentifier

from tonnage.objects.users import CREDENTIAL_ID, User
from tonnage.serving.any_certificate import ask_for_any
from tonnage.serving.certificate_judging import InvalidCertificate, Validity, judged, may_sign, read

MAX_REMEMBERED: Final = 1024
_UID: Final = ObjectIdentifier("1.3.6.1.4.1.57683.2")
"""Kubernetes' own attribute of a subject."""


class _Known(NamedTuple):
    validity: Validity
    user: User | None


class ClientCertificates:
    """Users by the certificates that one authority, or several, have signed."""

    def __init__(self, ca_pem: bytes, now: Callable[[], datetime]) -> None:
        self._now = now
        self._followers: list[Callable[[], None]] = []
        self.trust(ca_pem)

    def trust(self, ca_pem: bytes) -> None:
        """Believe these authorities from now on, and no others. Raises ValueError for what holds no certificate."""
        self._authorities = [each for each in x509.load_pem_x509_certificates(ca_pem) if may_sign(each)]
        self._known: dict[bytes, _Known] = {}
        self.ca_pem = ca_pem
        for follower in self._followers:
            follower()

    def follow(self, follower: Callable[[], None]) -> None:
        """Have `follower` called when the authorities are others."""
        self._followers.append(follower)

    def ask_for(self, context: ssl.SSLContext) -> None:
        """Have a server's TLS ask clients for a certificate."""
        ask_for_any(context, self.ca_pem)

    def authenticate(self, der: bytes) -> User | None:
        """The user that a certificate names; None when it names nobody. Raises InvalidCertificate."""
        digest = hashlib.sha256(der).digest()
        known = self._known.pop(digest, None)
        if known is None:
            found = read(der)
            known = _Known(judged(found, self._authorities), _user(found.subject, digest.hex()))
            if len(self._known) >= MAX_REMEMBERED:
                del self._known[next(iter(self._known))]
        self._known[digest] = known
        known.validity.check(self._now())
        return known.user


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
