"""The certificate that a client showed, and whom it makes the client.

TLS has seen that the client has the key of its certificate, and nothing else (`serving/any_certificate.py`). Under
which authority it stands, if any, is judged each time: that of users and that of front proxies are not the same, both
change, and a connection may outlive what it began with.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from tonnage.objects.users import User
from tonnage.serving.certificate_judging import MOST_BETWEEN, judged, read

CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"
_UID: Final = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")
"""Where a certificate tells its user's uid."""
_DER: Final = 2
"""ENCODING_DER of Python's _ssl."""


@dataclass(frozen=True, slots=True)
class PeerCertificate:
    """A client's certificate, and the others that it showed beside it, of which nobody knows yet what they are."""

    leaf: x509.Certificate
    shown_beside: tuple[x509.Certificate, ...] = ()

    @property
    def common_name(self) -> str:
        return (_texts(self.leaf.subject, NameOID.COMMON_NAME) or [""])[-1]  # of several, the last, as Go has it

    def check(self, authorities: Sequence[x509.Certificate], now: datetime) -> None:
        """Raises InvalidCertificate unless it leads to one of these, is one of a client's, and is valid now."""
        judged(self.leaf, authorities, shown_beside=self.shown_beside).check(now)

    def user(self) -> User | None:
        """Name, groups and uid that stand in it. Mirrors x509.CommonNameUserConversion; None when it names nobody."""
        name, uids = self.common_name, _texts(self.leaf.subject, _UID)
        if not name or len(uids) > 1:
            return None
        fingerprint = hashlib.sha256(self.leaf.public_bytes(Encoding.DER)).hexdigest()
        extra = {CREDENTIAL_ID: (f"X509SHA256={fingerprint}",)}
        groups = _texts(self.leaf.subject, NameOID.ORGANIZATION_NAME)
        return User(name, "".join(uids), tuple(groups), extra)


def peer_certificate(request: web.BaseRequest) -> PeerCertificate | None:
    """What the client of a request showed when it connected; None for no TLS and for no certificate.

    Raises InvalidCertificate for what is none.
    """
    transport = request.transport
    tls: Any = transport.get_extra_info("ssl_object") if transport is not None else None
    der = tls.getpeercert(binary_form=True) if tls is not None else None
    if not der:
        return None
    return PeerCertificate(read(der), tuple(read(each) for each in _shown(tls)[1 : MOST_BETWEEN + 1]))


@lru_cache(maxsize=8)
def certificates_of(pem: bytes) -> tuple[x509.Certificate, ...]:
    """The certificates in a PEM file; none for one that is empty or broken."""
    try:
        return tuple(x509.load_pem_x509_certificates(pem)) if pem else ()
    except ValueError:
        return ()


def _shown(tls: Any) -> tuple[bytes, ...]:
    """The certificates that a client sent, its own first; empty where Python does not tell.

    It does from 3.13 on, and before that by a name that is not public. Without it, only a certificate that an authority
    has signed itself is known to stand under that authority.
    """
    told = getattr(tls, "get_unverified_chain", None)
    if told is not None:
        return tuple(told())
    told = getattr(getattr(tls, "_sslobj", None), "get_unverified_chain", None)
    return tuple(each.public_bytes(_DER) for each in told() or ()) if told is not None else ()


def _texts(name: x509.Name, oid: x509.ObjectIdentifier) -> list[str]:
    values = [each.value for each in name.get_attributes_for_oid(oid)]
    return [value if isinstance(value, str) else value.decode(errors="replace") for value in values]
