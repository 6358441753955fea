"""Flags of a program's own HTTPS endpoint: where it listens, which certificate it shows, how old TLS may be.

Names and meaning are those of kube-scheduler and kube-controller-manager (apiserver's SecureServingOptions). Two
defaults are ours: --bind-address is loopback, and a certificate that is made is kept in --cert-dir alone.

The flags about which metrics are shown there are component-base's.
"""

from __future__ import annotations

import csv
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from tonnage.cli.flags.go_flags import FILE, FOLDER, ignored, refused, switch, texts
from tonnage.cli.options import PORT, Flags, Option, options, setting
from tonnage.clock import SystemClock
from tonnage.errors import TonnageError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from tonnage.serving.server_tls import ServerTls, TlsRules


_VERSIONS: Final = {
    "": ssl.TLSVersion.TLSv1_2,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}
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


def serving_options(*, port: int) -> Option:
    return options(
        setting("--bind-address", str, "127.0.0.1", "Where health, metrics and debug are served."),
        setting("--secure-port", PORT, port, "0 serves none."),
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


def is_loopback(address: str) -> bool:
    """Only this machine reaches it."""
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def checked(flags: Flags) -> TlsRules:
    """What the flags say about TLS. Raises UsageError for what does not go together or is not there."""
    from tonnage.serving.server_tls import TlsRules

    if (flags["tls_cert_file"] is None) != (flags["tls_private_key_file"] is None):
        raise click.UsageError("--tls-cert-file and --tls-private-key-file go together")
    told = flags["tls_min_version"]
    if told in _TOO_OLD:
        raise click.UsageError(f"--tls-min-version={told} is not supported: TLS 1.2 is the oldest that is spoken here")
    if told not in _VERSIONS:
        raise click.UsageError(f'--tls-min-version "{told}" is none of VersionTLS12 and VersionTLS13')
    return TlsRules(_VERSIONS[told], _ciphers(flags["tls_cipher_suites"]))


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
    flags: Flags, client_authorities: Callable[[], bytes], *, more_names: tuple[str, ...] = ()
) -> Iterator[ServerTls]:
    """TLS with the certificate of the flags, else with one that the program signs itself, as upstream does.
    `more_names` are names of the program besides its address, for that certificate."""
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


Allowed = dict[tuple[str, str], frozenset[str]]

_PREVIOUS: Final = "1.35"
"""The release before the one whose behaviour we follow: upstream allows no other value."""


def _hidden(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value and value != _PREVIOUS:
        raise click.UsageError(
            f"--show-hidden-metrics-for-version must be omitted or have the value '{_PREVIOUS}'. Only the previous "
            "minor version is allowed",
            ctx,
        )


metric_options: Final = options(
    texts("--disabled-metrics", help="Metrics that are not shown, by their whole names."),
    click.option(
        "--allow-metric-labels",
        multiple=True,
        metavar="METRIC,LABEL=A,B",
        help="Values of a label that are shown; others become `unexpected`.",
    ),
    click.option(
        "--allow-metric-labels-manifest",
        type=FILE,
        help="The same from a file, under allowListMapping.",
    ),
    # No metric of ours is hidden, so that there is nothing to show beside the others.
    click.option("--show-hidden-metrics-for-version", default=None, callback=_hidden, expose_value=False, hidden=True),
)


def chosen_metrics(flags: Flags, registry: CollectorRegistry) -> CollectorRegistry:
    """The registry as the flags want it seen. Raises UsageError, TonnageError."""
    from tonnage.metrics import ChosenMetrics

    allowed = allowed_labels(flags)
    if not flags["disabled_metrics"] and not allowed:
        return registry
    return ChosenMetrics(registry, disabled=flags["disabled_metrics"], allowed=allowed)


def allowed_labels(flags: Flags) -> Allowed:
    """Agreed values by metric and label; flags count before the file. Raises UsageError, TonnageError."""
    pairs: dict[str, str] = {}
    for given in flags["allow_metric_labels"]:
        # pflag's StringToString: one pair as it stands, several as fields of a line of CSV.
        for pair in [given] if given.count("=") == 1 else next(csv.reader([given]), []):
            key, equals, values = pair.strip().partition("=")
            if not equals:
                raise click.UsageError(f'--allow-metric-labels: "{pair}" is not METRIC,LABEL=VALUE,VALUE')
            pairs[key] = values.strip("'")
    path = flags["allow_metric_labels_manifest"]
    if path is not None and not pairs:
        pairs = dict(_manifest(path))
    allowed: Allowed = {}
    for key, values in pairs.items():
        metric, comma, label = key.strip().partition(",")
        if not comma or not metric or not label or "," in label:
            raise click.UsageError(f'--allow-metric-labels: "{key}" is not METRIC,LABEL')
        allowed[metric, label] = frozenset(values.split(","))
    return allowed


def _manifest(path: Path) -> Mapping[str, str]:
    from tonnage.objects.texts.yaml_text import documents

    try:
        found = next((each.value for each in documents(path.read_text(encoding="utf-8"))), None)
    except (OSError, UnicodeDecodeError) as exc:
        raise TonnageError(f"{path} cannot be read: {getattr(exc, 'strerror', None) or exc}") from exc
    mapping = found.get("allowListMapping", found) if isinstance(found, dict) else None
    if not isinstance(mapping, dict) or not all(isinstance(each, str) for each in mapping.values()):
        raise TonnageError(
            f"{path} says nothing about labels", hint='write allowListMapping: {"metric,label": "value,value"}'
        )
    return mapping
