"""Certificates for tests: an authority, and what it signs."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class KeyPair:
    certificate: bytes
    key: bytes


class Authority:
    """A CA, made anew for each test that wants one."""

    def __init__(self, name: str = "test CA") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._certificate = self._builder(self._name, self._key, is_ca=True).sign(self._key, hashes.SHA256())

    @classmethod
    def of(cls, folder: Path) -> Authority:
        """The one whose `ca.crt` and `ca.key` lie in a folder."""
        made = cls()
        made._certificate = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
        key = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), password=None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        made._key, made._name = key, made._certificate.subject
        return made

    @property
    def pem(self) -> bytes:
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def sign(self, name: str, *hosts: str, groups: tuple[str, ...] = ()) -> KeyPair:
        """A certificate for a user, or for a server that has these names and addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        members = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*members, x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(subject, key, is_ca=False)
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([_general(host) for host in hosts]), False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return KeyPair(
            certificate.public_bytes(serialization.Encoding.PEM),
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ),
        )

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, is_ca: bool) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), True)
        )


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
