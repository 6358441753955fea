"""Verifies client certificates: who signed them, for which purpose, and for how long.

Our servers accept any certificate in the TLS handshake (`ServerTls`), which only proves that the client has its key.
The rest is verified here, with Go's errors: a trusted CA signed it, directly or through certificates that the client
sent; it is for clients; it has no unknown critical extension. Validity times are returned, because a connection may
outlive them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID, NameOID, ObjectIdentifier

MOST_BETWEEN: Final = 4
"""Certificates between a client's and a CA: each costs signature checks, and strangers choose them."""
_UNDERSTOOD: Final = frozenset(
    {
        ExtensionOID.BASIC_CONSTRAINTS,
        ExtensionOID.EXTENDED_KEY_USAGE,
        ExtensionOID.KEY_USAGE,
        ExtensionOID.SUBJECT_ALTERNATIVE_NAME,
    }
)
"""Extensions of a client certificate that may be critical: they are checked, or do not concern clients."""
_PURPOSES: Final = frozenset({ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE})
_OF_AUTHORITIES: Final = frozenset({ExtensionOID.BASIC_CONSTRAINTS, ExtensionOID.KEY_USAGE})
_UID: Final = ObjectIdentifier("1.3.6.1.4.1.57683.2")
"""Kubernetes' own subject attribute."""
_BROKEN: Final = (hashes.MD5, hashes.SHA1)
_UNKNOWN: Final = "x509: certificate signed by unknown authority"
_MALFORMED: Final = "x509: malformed certificate"


class InvalidCertificate(Exception):
    """The reason why a certificate is not accepted."""


class Validity(NamedTuple):
    """The time in which a certificate and its whole chain are valid."""

    begins_at: datetime
    ends_at: datetime

    def check(self, now: datetime) -> None:
        """Raises InvalidCertificate."""
        if not self.begins_at <= now <= self.ends_at:
            raise InvalidCertificate("x509: certificate has expired or is not yet valid")


class CertificateSubject(NamedTuple):
    """Whom a certificate names. `credential_id` is its fingerprint, as upstream writes it."""

    name: str
    uid: str
    groups: tuple[str, ...]
    credential_id: str


def subject_of(found: x509.Certificate) -> CertificateSubject:
    """Mirrors x509.CommonNameUserConversion. Raises InvalidCertificate."""
    name, uids = common_name(found), _texts(found, _UID)
    if name and len(uids) > 1:
        raise InvalidCertificate(f"expected 1 UID, but found multiple: [{' '.join(uids)}]")
    if name and uids and not uids[0]:
        raise InvalidCertificate("UID cannot be an empty string")
    credential_id = f"X509SHA256={found.fingerprint(hashes.SHA256()).hex()}"
    return CertificateSubject(name, "".join(uids), _texts(found, NameOID.ORGANIZATION_NAME), credential_id)


def common_name(found: x509.Certificate) -> str:
    """Of several the last, as in Go."""
    return (_texts(found, NameOID.COMMON_NAME) or ("",))[-1]


def _texts(found: x509.Certificate, oid: ObjectIdentifier) -> tuple[str, ...]:
    return tuple(each.value for each in found.subject.get_attributes_for_oid(oid) if isinstance(each.value, str))


def judged(
    found: x509.Certificate, authorities: Sequence[x509.Certificate], *, shown_beside: Iterable[x509.Certificate] = ()
) -> Validity:
    """Verify everything but the time; returns the validity. Raises InvalidCertificate."""
    try:
        chain = _chain(found, [each for each in authorities if may_sign(each)], [*shown_beside][:MOST_BETWEEN])
        for extension in (extension for certificate in chain[:-1] for extension in certificate.extensions):
            if isinstance(extension.value, x509.ExtendedKeyUsage) and _PURPOSES.isdisjoint(extension.value):
                raise InvalidCertificate("x509: certificate specifies an incompatible key usage")
        for extension in found.extensions:
            if extension.critical and extension.oid not in _UNDERSTOOD:
                raise InvalidCertificate("x509: unhandled critical extension")
    except (ValueError, UnsupportedAlgorithm) as exc:
        raise InvalidCertificate(_MALFORMED) from exc
    return Validity(max(each.not_valid_before_utc for each in chain), min(each.not_valid_after_utc for each in chain))


def read(der: bytes) -> x509.Certificate:
    """Raises InvalidCertificate."""
    try:
        return x509.load_der_x509_certificate(der)
    except (ValueError, UnsupportedAlgorithm) as exc:
        raise InvalidCertificate(_MALFORMED) from exc


def may_sign(authority: x509.Certificate, *, below: int = 0) -> bool:
    """True if it is a CA for a chain with `below` CAs under it, without constraints that are not checked here."""
    try:
        extensions = authority.extensions
        limit = extensions.get_extension_for_class(x509.BasicConstraints).value
    except (x509.ExtensionNotFound, ValueError):
        return False
    if not limit.ca or (limit.path_length is not None and limit.path_length < below):
        return False
    usage = next((extension.value for extension in extensions if isinstance(extension.value, x509.KeyUsage)), None)
    limits = {extension.oid for extension in extensions if extension.critical} - _OF_AUTHORITIES
    return not limits and (usage is None or usage.key_cert_sign)


def _chain(
    found: x509.Certificate, authorities: list[x509.Certificate], between: list[x509.Certificate]
) -> list[x509.Certificate]:
    """The certificate, the intermediates and the CA, each signed by the next. Raises InvalidCertificate."""
    chain = [found]
    while True:
        below = len(chain) - 1
        for authority in authorities:
            if may_sign(authority, below=below) and _is_issued_by(chain[-1], authority):
                return [*chain, authority]
        for each in between:
            if each not in chain and may_sign(each, below=below) and _is_issued_by(chain[-1], each):
                chain.append(each)
                break
        else:
            raise InvalidCertificate(_UNKNOWN)


def _is_issued_by(found: x509.Certificate, authority: x509.Certificate) -> bool:
    if authority.subject != found.issuer or isinstance(found.signature_hash_algorithm, _BROKEN):
        return False
    try:
        found.verify_directly_issued_by(authority)
    except (InvalidSignature, TypeError, ValueError):
        return False  # another CA of the same name
    return True
