"""The certificate that a client showed, and whom it makes the client.

TLS has judged the certificate before any request comes: dates, signatures, what it may be used for, and that it leads
to one of the authorities that were known then (`server_tls`). What is left to ask, each time, is under which of them it
stands: the authority of users and that of front proxies are not the same, and both change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from aiohttp import web
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from tonnage.client.delegated_access.remote_user import RemoteUser

CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"
_UID: Final = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")
"""Where a certificate tells its user's uid."""
_DER: Final = 2
"""ENCODING_DER of Python's _ssl."""


@dataclass(frozen=True, slots=True)
class PeerCertificate:
    """A client's certificate, and the others of the chain that TLS found; it may know of none."""

    leaf: x509.Certificate
    above: tuple[bytes, ...] = ()

    @property
    def common_name(self) -> str:
        return (_texts(self.leaf.subject, NameOID.COMMON_NAME) or [""])[-1]  # of several, the last, as Go has it

    def stands_under(self, authorities: Iterable[x509.Certificate], now: datetime) -> bool:
        """Whether it leads to one of these, and is valid now. A connection may be older than either answer."""
        if not self.leaf.not_valid_before_utc <= now <= self.leaf.not_valid_after_utc:
            return False
        return any(
            authority.public_bytes(Encoding.DER) in self.above or _is_issued_by(self.leaf, authority)
            for authority in authorities
        )

    def user(self) -> RemoteUser | None:
        """Name, groups and uid that stand in it. Mirrors x509.CommonNameUserConversion; None when it names nobody."""
        name, uids = self.common_name, _texts(self.leaf.subject, _UID)
        if not name or len(uids) > 1:
            return None
        fingerprint = hashlib.sha256(self.leaf.public_bytes(Encoding.DER)).hexdigest()
        extra = {CREDENTIAL_ID: (f"X509SHA256={fingerprint}",)}
        groups = _texts(self.leaf.subject, NameOID.ORGANIZATION_NAME)
        return RemoteUser(name, "".join(uids), tuple(groups), extra)


def peer_certificate(request: web.BaseRequest) -> PeerCertificate | None:
    """What the client of a request showed when it connected; None for no TLS and for no certificate."""
    transport = request.transport
    tls: Any = transport.get_extra_info("ssl_object") if transport is not None else None
    der = tls.getpeercert(binary_form=True) if tls is not None else None
    if not der:
        return None
    return PeerCertificate(x509.load_der_x509_certificate(der), _verified_chain(tls)[1:])


@lru_cache(maxsize=8)
def certificates_of(pem: bytes) -> tuple[x509.Certificate, ...]:
    """The certificates in a PEM file; none for one that is empty or broken."""
    try:
        return tuple(x509.load_pem_x509_certificates(pem)) if pem else ()
    except ValueError:
        return ()


def _verified_chain(tls: Any) -> tuple[bytes, ...]:
    """The certificates by which TLS came to trust the client, its own first; empty where Python does not tell.

    It does from 3.13 on, and before that by a name that is not public. Without it, only a certificate that an authority
    has signed itself is known to stand under that authority.
    """
    told = getattr(tls, "get_verified_chain", None)
    if told is not None:
        return tuple(told())
    told = getattr(getattr(tls, "_sslobj", None), "get_verified_chain", None)
    return tuple(each.public_bytes(_DER) for each in told() or ()) if told is not None else ()


def _is_issued_by(leaf: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        leaf.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _texts(name: x509.Name, oid: x509.ObjectIdentifier) -> list[str]:
    values = [each.value for each in name.get_attributes_for_oid(oid)]
    return [value if isinstance(value, str) else value.decode(errors="replace") for value in values]
