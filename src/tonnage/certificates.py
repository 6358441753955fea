"""A server's own CA, and a serving certificate signed by it.

Both live in a folder of the server, keys with mode 0600. They are valid from a month before they were made, so that a
clock that is set back does not make them "not yet valid". `serving/server_tls.py` renews the serving certificate while
a server runs; the CA is never replaced, because every client would need the new one.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import datetime, timedelta
from inspect import signature
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tonnage.clock import MOST_SET_BACK
from tonnage.errors import TonnageError
from tonnage.private_files import own_folder, read_own, require_own_file, write_private

_CA_DAYS = 3650
_SERVING_DAYS = 365
_RENEW_BEFORE = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Identity:
    ca_pem: bytes
    cert_path: Path
    key_path: Path
    ca_expires_at: datetime


def ensure_identity(folder: Path, hosts: tuple[str, ...], now: datetime) -> Identity:
    """The CA and a serving certificate for these hosts, created or renewed where needed. Raises NotOurs."""
    own_folder(folder)
    ca_cert_path, ca_key_path = folder / "ca.crt", folder / "ca.key"
    cert_path, key_path = folder / "apiserver.crt", folder / "apiserver.key"
    for path in (ca_cert_path, ca_key_path, cert_path, key_path):
        require_own_file(path)  # a key that another user planted is known to that user
    if not (ca_cert_path.exists() and ca_key_path.exists()):
        key = ec.generate_private_key(ec.SECP256R1())
        write_private(ca_key_path, _key_pem(key))
        write_private(ca_cert_path, _ca(key, now).public_bytes(serialization.Encoding.PEM))
        cert_path.unlink(missing_ok=True)
    ca = x509.load_pem_x509_certificate(read_own(ca_cert_path))
    if now >= ca.not_valid_after_utc:
        raise TonnageError(
            f"the certificate authority {ca_cert_path} has expired on {ca.not_valid_after_utc:%Y-%m-%d}",
            hint=f"move {folder} away and start again to make a new one; every kubeconfig has to be handed out again",
        )
    if now < ca.not_valid_before_utc:
        raise TonnageError(
            f"the certificate authority {ca_cert_path} is valid from {ca.not_valid_before_utc:%Y-%m-%d} on, and today "
            f"is {now:%Y-%m-%d}",
            hint="set the machine's clock",
        )
    if not _still_good(cert_path, key_path, ca, hosts, now):
        ca_key = serialization.load_pem_private_key(read_own(ca_key_path), password=None)
        if not isinstance(ca_key, ec.EllipticCurvePrivateKey):
            raise TonnageError(f"{ca_key_path} is not an elliptic-curve key", hint=f"remove {folder} to make a new CA")
        key = ec.generate_private_key(ec.SECP256R1())
        write_private(key_path, _key_pem(key))
        write_private(cert_path, _serving(key, ca, ca_key, hosts, now).public_bytes(serialization.Encoding.PEM))
    return Identity(read_own(ca_cert_path), cert_path, key_path, ca.not_valid_after_utc)


def _ca(key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tonnage-ca")])
    usage = _usage("key_cert_sign", "crl_sign")
    return (
        _builder(name, name, key.public_key(), now, timedelta(days=_CA_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _serving(
    key: ec.EllipticCurvePrivateKey,
    ca: x509.Certificate,
    ca_key: ec.EllipticCurvePrivateKey,
    hosts: tuple[str, ...],
    now: datetime,
) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tonnage-apiserver")])
    return (
        _builder(
            name, ca.subject, key.public_key(), now, min(timedelta(days=_SERVING_DAYS), ca.not_valid_after_utc - now)
        )
        .add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage("digital_signature"), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(
                ca.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
            ),
            critical=False,
        )
        .sign(ca_key, hashes.SHA256())
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - MOST_SET_BACK)
        .not_valid_after(now + life)
    )


def _usage(*allowed: str) -> x509.KeyUsage:
    return x509.KeyUsage(**{name: name in allowed for name in signature(x509.KeyUsage).parameters})


def _still_good(cert_path: Path, key_path: Path, ca: x509.Certificate, hosts: tuple[str, ...], now: datetime) -> bool:
    try:
        cert = x509.load_pem_x509_certificate(read_own(cert_path))
        key = serialization.load_pem_private_key(read_own(key_path), password=None)
    except (FileNotFoundError, ValueError):
        return False
    if key.public_key() != cert.public_key():
        return False  # a server was killed between the two writes
    names = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    covered = all(_general_name(host) in names for host in hosts)
    # A certificate that lasts as long as its CA cannot be extended.
    lasts = now + _RENEW_BEFORE < cert.not_valid_after_utc or ca.not_valid_after_utc <= cert.not_valid_after_utc
    # A certificate made while the clock was far ahead is not valid yet.
    has_begun = cert.not_valid_before_utc <= now
    return covered and cert.issuer == ca.subject and has_begun and lasts


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
