"""Flags of a program's own HTTPS endpoint: where it listens, which certificate it shows, how old TLS may be.

Names and meaning are those of kube-scheduler and kube-controller-manager (apiserver's SecureServingOptions). Two
defaults are ours: --bind-address is loopback, and a certificate that is made is kept in --cert-dir alone.
"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar

import click

from tonnage.cli.flags.go_flags import FILE, FOLDER, ignored, refused, switch, texts
from tonnage.clock import SystemClock
from tonnage.errors import TonnageError

if TYPE_CHECKING:
    from tonnage.serving.server_tls import ServerTls, TlsRules

F = TypeVar("F", bound=Callable[..., Any])

_VERSIONS: Final = {"": ssl.TLSVersion.TLSv1_2, "VersionTLS12": ssl.TLSVersion.TLSv1_2}
_VERSIONS_13: Final = {"VersionTLS13": ssl.TLSVersion.TLSv1_3}
_TOO_OLD: Final = ("VersionTLS10", "VersionTLS11")

CIPHER_SUITES: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
}
"""Go's names of the suites of TLS 1.2 that it does not call insecure, and OpenSSL's."""
_SUITES_OF_13: Final = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
"""TLS 1.3 has these always; naming them chooses nothing, with Go as with us."""
INSECURE_SUITES: Final = (
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
)


class ServingFlags(TypedDict):
    """As click hands them over."""

    bind_address: str
    secure_port: int
    cert_dir: Path | None
    tls_cert_file: Path | None
    tls_private_key_file: Path | None
    tls_min_version: str
    tls_cipher_suites: tuple[str, ...]
    permit_port_sharing: bool


def serving_options(*, port: int) -> Callable[[F], F]:
    """The flags; `port` is the program's default."""
    options = (
        click.option(
            "--bind-address", default="127.0.0.1", show_default=True, help="Where health, metrics and debug are served."
        ),
        click.option(
            "--secure-port", type=click.IntRange(0, 65535), default=port, show_default=True, help="0 serves none."
        ),
        click.option(
            "--cert-dir",
            type=FOLDER,
            help="Where the serving certificate is kept; ca.crt in it is whom to trust.  [default: made for each run]",
        ),
        click.option("--tls-cert-file", type=FILE, help="The certificate to serve with; read again when it changes."),
        click.option("--tls-private-key-file", type=FILE, help="Its key."),
        click.option(
            "--tls-min-version", default="", metavar="VersionTLS12|VersionTLS13", help="The oldest TLS.  [default: 1.2]"
        ),
        texts("--tls-cipher-suites", help="Cipher suites of TLS 1.2, in Go's names.  [default: OpenSSL's]"),
        switch("--permit-port-sharing", help="Others may listen on the same port (SO_REUSEPORT)."),
        # What upstream has and is always so here, or not at all.
        ignored("--permit-address-sharing", because="SO_REUSEADDR is always set"),
        ignored("--disable-http2-serving", because="HTTP/1.1 is spoken"),
        ignored("--http2-max-streams-per-connection", because="HTTP/1.1 is spoken"),
        refused(
            "--tls-sni-cert-key",
            because="one certificate is shown, whatever name is asked for",
            instead="put all names into the certificate of --tls-cert-file",
        ),
        refused(
            "--tls-curve-preferences",
            because="OpenSSL chooses the key exchange",
            instead="leave it out; --tls-min-version VersionTLS13 leaves modern ones alone",
        ),
    )

    def of(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return of


def is_loopback(address: str) -> bool:
    """Only this machine reaches it."""
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def checked(flags: ServingFlags) -> TlsRules:
    """What the flags say about TLS. Raises UsageError for what does not go together or is not there."""
    from tonnage.serving.server_tls import TlsRules

    if (flags["tls_cert_file"] is None) != (flags["tls_private_key_file"] is None):
        raise click.UsageError("--tls-cert-file and --tls-private-key-file go together")
    told = flags["tls_min_version"]
    if told in _TOO_OLD:
        raise click.UsageError(f"--tls-min-version={told} is not supported: TLS 1.2 is the oldest that is spoken here")
    versions = {**_VERSIONS, **_VERSIONS_13}
    if told not in versions:
        raise click.UsageError(f'--tls-min-version "{told}" is none of VersionTLS12 and VersionTLS13')
    return TlsRules(versions[told], _ciphers(flags["tls_cipher_suites"]))


def _ciphers(names: tuple[str, ...]) -> tuple[str, ...]:
    found: list[str] = []
    for name in names:
        if name in INSECURE_SUITES:
            raise click.UsageError(f"--tls-cipher-suites: {name} is insecure and not spoken here; leave it out")
        if name not in CIPHER_SUITES and name not in _SUITES_OF_13:
            known = ", ".join((*CIPHER_SUITES, *_SUITES_OF_13))
            raise click.UsageError(f'--tls-cipher-suites: there is no "{name}"; there are {known}')
        if name in CIPHER_SUITES:
            found.append(CIPHER_SUITES[name])
    return tuple(found)


@contextmanager
def tls_of(
    flags: ServingFlags, client_authorities: Callable[[], bytes], *, more_names: tuple[str, ...] = ()
) -> Iterator[ServerTls]:
    """TLS with the certificate of the flags, else with one that the program signs itself, as upstream does.

    `more_names` are names of the program besides its address, for that certificate.
    """
    from tonnage.serving.server_tls import GivenCertificate, ServerTls, ServingCertificate

    rules, clock = checked(flags), SystemClock()
    certificate, key = flags["tls_cert_file"], flags["tls_private_key_file"]
    if certificate is not None and key is not None:
        given = GivenCertificate(certificate, key, clock)
        yield ServerTls(given, rules=rules, client_authorities=client_authorities)
        return
    names = (flags["bind_address"], "localhost", *more_names)
    if flags["cert_dir"] is not None:
        try:
            own = ServingCertificate(flags["cert_dir"], names, clock)
        except OSError as exc:
            raise TonnageError(
                f"no certificate can be kept in {flags['cert_dir']}: {(exc.strerror or str(exc)).lower()}",
                hint="name a folder that this program may write to with --cert-dir, or give --tls-cert-file and "
                "--tls-private-key-file",
            ) from exc
        yield ServerTls(own, rules=rules, client_authorities=client_authorities)
        return
    with tempfile.TemporaryDirectory() as folder:
        own = ServingCertificate(Path(folder), names, clock)
        yield ServerTls(own, rules=rules, client_authorities=client_authorities)
