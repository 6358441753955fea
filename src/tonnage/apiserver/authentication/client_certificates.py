"""Users by client certificate: the common name is the user, the organisations are the groups.

TLS asks for a certificate and takes none for an answer (`any_certificate`); whether one is good is judged here, by the
server's clock and at each request, since a connection may outlive the certificate it began with. An authority signs
certificates of clients directly: one in between has to be named among the authorities itself.
"""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Callable
from datetime import datetime
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID, NameOID, ObjectIdentifier

from tonnage.apiserver.authentication.any_certificate import take_any_certificate
from tonnage.documents.access.user import CREDENTIAL_ID, User

MAX_REMEMBERED: Final = 1024
_UID: Final = ObjectIdentifier("1.3.6.1.4.1.57683.2")
"""Kubernetes' own attribute of a subject."""
_UNDERSTOOD: Final = frozenset(
    {
        ExtensionOID.BASIC_CONSTRAINTS,
        ExtensionOID.EXTENDED_KEY_USAGE,
        ExtensionOID.KEY_USAGE,
        ExtensionOID.SUBJECT_ALTERNATIVE_NAME,
    }
)
"""Extensions of a client's certificate that may be critical: they are looked at, or say nothing about clients."""
_PURPOSES: Final = frozenset({ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE})
_OF_AUTHORITIES: Final = frozenset({ExtensionOID.BASIC_CONSTRAINTS, ExtensionOID.KEY_USAGE})
_BROKEN: Final = (hashes.MD5, hashes.SHA1)


class InvalidCertificate(Exception):
    """Why a certificate proves nothing."""


class _Known(NamedTuple):
    user: User | None
    begins_at: datetime
    ends_at: datetime


class ClientCertificates:
    """Users by the certificates that one authority, or several, have signed."""

    def __init__(self, ca_pem: bytes, now: Callable[[], datetime]) -> None:
        self._now = now
        self._followers: list[Callable[[], None]] = []
        self.trust(ca_pem)

    def trust(self, ca_pem: bytes) -> None:
        """Believe these authorities from now on, and no others. Raises ValueError for what holds no certificate."""
        self._authorities = [each for each in x509.load_pem_x509_certificates(ca_pem) if _may_sign(each)]
        self._known: dict[bytes, _Known] = {}
        self.ca_pem = ca_pem
        for follower in self._followers:
            follower()

    def follow(self, follower: Callable[[], None]) -> None:
        """Have `follower` called when the authorities are others."""
        self._followers.append(follower)

    def ask_for(self, context: ssl.SSLContext) -> None:
        """Have a server's TLS ask clients for a certificate."""
        context.load_verify_locations(cadata=self.ca_pem.decode())
        if not take_any_certificate(context):
            context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN  # any authority is one, root or not
            context.verify_mode = ssl.CERT_OPTIONAL

    def authenticate(self, der: bytes) -> User | None:
        """The user that a certificate names; None when it names nobody. Raises InvalidCertificate."""
        digest = hashlib.sha256(der).digest()
        known = self._known.pop(digest, None)
        if known is None:
            try:
                known = self._judged(x509.load_der_x509_certificate(der), digest.hex())
            except (ValueError, UnsupportedAlgorithm) as exc:
                raise InvalidCertificate("x509: malformed certificate") from exc
            if len(self._known) >= MAX_REMEMBERED:
                del self._known[next(iter(self._known))]
        self._known[digest] = known
        if not known.begins_at <= self._now() <= known.ends_at:
            raise InvalidCertificate("x509: certificate has expired or is not yet valid")
        return known.user

    def _judged(self, found: x509.Certificate, fingerprint: str) -> _Known:
        """Everything about a certificate that time does not change."""
        authority = self._authority_of(found)
        for extension in found.extensions:
            if extension.critical and extension.oid not in _UNDERSTOOD:
                raise InvalidCertificate("x509: unhandled critical extension")
            if isinstance(extension.value, x509.ExtendedKeyUsage) and _PURPOSES.isdisjoint(extension.value):
                raise InvalidCertificate("x509: certificate specifies an incompatible key usage")
        return _Known(
            _user(found.subject, fingerprint),
            max(found.not_valid_before_utc, authority.not_valid_before_utc),
            min(found.not_valid_after_utc, authority.not_valid_after_utc),
        )

    def _authority_of(self, found: x509.Certificate) -> x509.Certificate:
        for authority in self._authorities:
            if authority.subject != found.issuer or isinstance(found.signature_hash_algorithm, _BROKEN):
                continue
            try:
                found.verify_directly_issued_by(authority)
                return authority
            except (InvalidSignature, TypeError, ValueError):
                continue  # another authority of the same name
        raise InvalidCertificate("x509: certificate signed by unknown authority")


def _may_sign(authority: x509.Certificate) -> bool:
    """Is it an authority at all, without limits that nobody here looks at?"""
    try:
        extensions = authority.extensions
        if not extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            return False
    except (x509.ExtensionNotFound, ValueError):
        return False
    usage = next((each.value for each in extensions if isinstance(each.value, x509.KeyUsage)), None)
    limits = {each.oid for each in extensions if each.critical} - _OF_AUTHORITIES
    return not limits and (usage is None or usage.key_cert_sign)


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
