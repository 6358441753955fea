"""Flags of a program's own HTTPS endpoint: address, certificate, access, and metrics.

Names and meaning are those of kube-scheduler and kube-controller-manager (SecureServingOptions, delegated
authentication and authorisation, component-base's metrics). What differs: --bind-address defaults to loopback, and a
generated certificate is stored only with --cert-dir. Without --authentication-kubeconfig and --authorization-kubeconfig
we use the program's own connection, where upstream treats every token as anonymous and forbids everything.
--unauthenticated-on-loopback opens all pages to every local user.
"""

from __future__ import annotations

import csv
import random
import secrets
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from tonnage.cli.flags.flag_table import flag_table
from tonnage.cli.flags.go_flags import ignored, refused
from tonnage.cli.output import Flags, Option, from_flags, options
from tonnage.client.delegated_access import OPEN_PATHS, OpenPaths
from tonnage.clock import Clock, SystemClock
from tonnage.errors import TonnageError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from tonnage.client.config.connection import ServerConnection
    from tonnage.client.delegated_access.access import DelegatedAccess
    from tonnage.serving.server_tls import ServerTls


_VERSIONS: Final = {
    "": ssl.TLSVersion.TLSv1_2,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}
_TOO_OLD: Final = ("VersionTLS10", "VersionTLS11")

CIPHER_SUITES: Final = {
    f"TLS_ECDHE_{key}_WITH_{name}": f"ECDHE-{key}-{openssl}"
    for name, openssl in (
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("CHACHA20_POLY1305", "CHACHA20-POLY1305"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
        ("AES_128_CBC_SHA", "AES128-SHA"),
        ("AES_256_CBC_SHA", "AES256-SHA"),
    )
    for key in ("ECDSA", "RSA")
}
"""TLS 1.2 cipher suites that Go does not call insecure: Go's name to OpenSSL's."""
_SUITES_OF_13: Final = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
"""TLS 1.3 always offers these; as in Go, naming them has no effect."""
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


def certificate_options(who: str) -> Option:
    """Where the certificate comes from; `who` connects."""
    return flag_table(f"""
        --cert-dir FOLDER?  Folder for a self-signed certificate, when --tls-cert-file is not given; {who} trust ca.crt
            in it. [default: a temporary folder]
        --tls-cert-file FILE?  Certificate to serve with (PEM); read again when it changes.
        --tls-private-key-file FILE?  Private key of --tls-cert-file (PEM).
    """)


def serving_options(*, port: int) -> Option:
    return options(
        flag_table(f"""
            --bind-address TEXT=127.0.0.1  Address to serve health, metrics and debug pages on.
            --secure-port PORT={port}  Port to serve health, metrics and debug pages on; 0 serves none.
        """),
        certificate_options("clients"),
        flag_table("""
            --tls-min-version TEXT= <VersionTLS12|VersionTLS13>  Oldest TLS version to accept. [default: VersionTLS12]
            --tls-cipher-suites TEXTS  Cipher suites to accept with TLS 1.2, by Go's names. [default: OpenSSL's choice]
            --permit-port-sharing SWITCH=false  Let other processes listen on the same port (SO_REUSEPORT).
        """),
        # Upstream's flags that are ignored or refused here.
        ignored("--permit-address-sharing", because="SO_REUSEADDR is always set"),
        ignored("--disable-http2-serving", because="HTTP/1.1 is spoken"),
        ignored("--http2-max-streams-per-connection", because="HTTP/1.1 is spoken"),
        refused(
            "--tls-sni-cert-key",
            because="one certificate is served for every name",
            instead="put all names into the certificate of --tls-cert-file",
        ),
        refused(
            "--tls-curve-preferences",
            because="OpenSSL chooses the key exchange",
            instead="leave it out; --tls-min-version VersionTLS13 allows only modern ones",
        ),
    )


def tls_rules(flags: Flags) -> tuple[ssl.TLSVersion, tuple[str, ...]]:
    """The oldest protocol and the cipher suites of the flags. Raises UsageError for unknown or conflicting values."""
    if (flags["tls_cert_file"] is None) != (flags["tls_private_key_file"] is None):
        raise click.UsageError("--tls-cert-file and --tls-private-key-file go together")
    told = flags["tls_min_version"]
    if told in _TOO_OLD:
        raise click.UsageError(f"--tls-min-version={told} is not supported: TLS 1.2 is the oldest supported version")
    if told not in _VERSIONS:
        raise click.UsageError(f'--tls-min-version "{told}" is neither VersionTLS12 nor VersionTLS13')
    return _VERSIONS[told], _ciphers(flags["tls_cipher_suites"])


def _ciphers(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name in INSECURE_SUITES:
            raise click.UsageError(f"--tls-cipher-suites: {name} is insecure and not supported; leave it out")
        if name not in CIPHER_SUITES and name not in _SUITES_OF_13:
            known = ", ".join((*CIPHER_SUITES, *_SUITES_OF_13))
            raise click.UsageError(f'--tls-cipher-suites: there is no "{name}"; the cipher suites are {known}')
    return tuple(CIPHER_SUITES[name] for name in names if name in CIPHER_SUITES)


@contextmanager
def tls_of(
    flags: Flags, client_authorities: Callable[[], bytes], *, more_names: tuple[str, ...] = ()
) -> Iterator[ServerTls]:
    """TLS with the flags' certificate, else, as upstream, with a self-signed one that is also for `more_names`."""
    from tonnage.serving.server_tls import GivenCertificate, ServerTls, ServingCertificate

    (minimum, ciphers), clock = tls_rules(flags), SystemClock()
    names = (flags["bind_address"], "localhost", *more_names)
    shown: GivenCertificate | ServingCertificate
    with ExitStack() as stack:
        if flags["tls_cert_file"] is not None:
            shown = GivenCertificate(flags["tls_cert_file"], flags["tls_private_key_file"], clock)
        else:
            folder = flags["cert_dir"] or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            try:
                shown = ServingCertificate(folder, names, clock)
            except OSError as exc:
                raise TonnageError(
                    f"no certificate can be kept in {folder}: {(exc.strerror or str(exc)).lower()}",
                    hint="name a folder that this program may write to with --cert-dir, or give --tls-cert-file and "
                    "--tls-private-key-file",
                ) from exc
        yield ServerTls(shown, minimum=minimum, ciphers=ciphers, client_authorities=client_authorities)


Allowed = dict[tuple[str, str], frozenset[str]]

_PREVIOUS: Final = "1.35"
"""The release before the one whose behaviour we follow: the only value upstream accepts."""


def _hidden(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value and value != _PREVIOUS:
        raise click.UsageError(
            f"--show-hidden-metrics-for-version must be omitted or have the value '{_PREVIOUS}'. Only the previous "
            "minor version is allowed",
            ctx,
        )


metric_options: Final = options(
    flag_table("""
        --disabled-metrics TEXTS  Metrics to leave out, by their full names.
        --allow-metric-labels TEXT... <METRIC,LABEL=A,B>  Values to show for a metric's label; other values are shown
            as `unexpected`.
        --allow-metric-labels-manifest FILE?  File with the same as --allow-metric-labels, under allowListMapping.
    """),
    # We hide no metrics, so the flag is only checked.
    click.option("--show-hidden-metrics-for-version", default=None, callback=_hidden, expose_value=False, hidden=True),
)


def chosen_metrics(flags: Flags, registry: CollectorRegistry) -> CollectorRegistry:
    """The registry without disabled metrics, and with only allowed label values. Raises UsageError, TonnageError."""
    from tonnage.metrics import ChosenMetrics

    allowed = allowed_labels(flags)
    if not flags["disabled_metrics"] and not allowed:
        return registry
    return ChosenMetrics(registry, disabled=flags["disabled_metrics"], allowed=allowed)


def allowed_labels(flags: Flags) -> Allowed:
    """Allowed values by metric and label. The file counts only without the flag. Raises UsageError, TonnageError."""
    pairs: dict[str, str] = {}
    for given in flags["allow_metric_labels"]:
        # pflag's StringToString: a single pair is taken literally, several are a line of CSV.
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
        found = next((document.value for document in documents(path.read_text(encoding="utf-8"))), None)
    except (OSError, UnicodeDecodeError) as exc:
        raise TonnageError(f"{path} cannot be read: {getattr(exc, 'strerror', None) or exc}") from exc
    mapping = found.get("allowListMapping", found) if isinstance(found, dict) else None
    if not isinstance(mapping, dict) or not all(isinstance(each, str) for each in mapping.values()):
        raise TonnageError(
            f"{path} has no allowListMapping", hint='write allowListMapping: {"metric,label": "value,value"}'
        )
    return mapping


_PROXY_FLAGS: Final = {
    "username_headers": "username-headers",
    "uid_headers": "uid-headers",
    "group_headers": "group-headers",
    "extra_prefixes": "extra-headers-prefix",
    "allowed_names": "allowed-names",
}
"""Fields of FrontProxies and their flags, --requestheader-…"""

access_options: Final = flag_table(f"""
    --unauthenticated-on-loopback SWITCH=false  Serve metrics and debug pages to every user of this machine without
        a token; --bind-address must be loopback. (Tonnage only; not in kube-scheduler)
    --authentication-kubeconfig FILE?  Kubeconfig of the API server that checks bearer tokens (TokenReview).
        [default: the program's own connection]
    --authentication-skip-lookup SWITCH=false  Do not read the CA of client certificates from the cluster.
    --authentication-tolerate-lookup-failure as tolerates_failure SWITCH=true  If the CA of client certificates
        cannot be read from the cluster, go on without client certificates.
    --authentication-token-webhook-cache-ttl as token_ttl_s DURATION=10s  How long the answer about a token is
        cached.
    --authorization-kubeconfig FILE?  Kubeconfig of the API server that checks permissions (SubjectAccessReview).
        [default: the program's own connection]
    --authorization-always-allow-paths as open_paths TEXTS={",".join(OPEN_PATHS)}  Paths that need no permission; a *
        at the end matches any rest.
    --authorization-webhook-cache-authorized-ttl as allow_ttl_s DURATION=10s  How long an allowed request is
        cached.
    --authorization-webhook-cache-unauthorized-ttl as deny_ttl_s DURATION=10s  How long a denied request is cached.
    --client-ca-file FILE?  CA of client certificates. [default: the cluster's]
    --requestheader-client-ca-file as front_proxy_ca_file FILE?  CA of front proxies, which name the user in
        headers. [default: the cluster's]
    --requestheader-allowed-names as allowed_names TEXTS  Common names that a front proxy's certificate may have.
        [default: any]
    --requestheader-username-headers as username_headers HEADERS=x-remote-user  Headers in which a front proxy names
        the user.
    --requestheader-uid-headers as uid_headers HEADERS  Headers in which a front proxy names the user's uid.
    --requestheader-group-headers as group_headers HEADERS=x-remote-group  Headers in which a front proxy names the
        user's groups.
    --requestheader-extra-headers-prefix as extra_prefixes HEADERS=x-remote-extra-  Prefixes of headers in which a
        front proxy sends other facts about the user.
""")


def endpoint_options(*, port: int) -> Option:
    return options(serving_options(port=port), access_options, metric_options)


def check_endpoint(flags: Flags) -> None:
    """Check the flags before anything starts. Raises UsageError, TonnageError."""
    tls_rules(flags)
    from tonnage.serving.request_host import is_loopback

    if flags["unauthenticated_on_loopback"] and not is_loopback(flags["bind_address"]):
        raise click.UsageError(
            f"--unauthenticated-on-loopback needs a loopback --bind-address, and {flags['bind_address']} is not: "
            "leave it out, or bind to 127.0.0.1"
        )
    for into, name in _PROXY_FLAGS.items():
        if any(not given.strip() for given in flags[into]):
            raise click.UsageError(f'empty value in "requestheader-{name}"')
    if flags["uid_headers"] and "x-remote-uid" not in flags["uid_headers"]:
        raise click.UsageError(
            "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header - API aggregation "
            "will not work"
        )
    try:
        OpenPaths(flags["open_paths"])
    except TonnageError as exc:
        raise click.UsageError(f"--authorization-always-allow-paths: {exc.message}") from exc
    allowed_labels(flags)


def access_of(flags: Flags, own: ServerConnection, *, clock: Clock, user_agent: str) -> DelegatedAccess | None:
    """The flags' access check, by default over `own`; None if all pages are open. Raises TonnageError."""
    from tonnage.client.config import kubeconfig
    from tonnage.client.delegated_access.access import AccessSettings, DelegatedAccess
    from tonnage.client.delegated_access.authorities import AuthoritySources, FrontProxies
    from tonnage.client.errors import InvalidKubeconfig

    if flags["unauthenticated_on_loopback"]:
        return None

    def connection(name: str) -> ServerConnection:
        path = flags[f"{name}_kubeconfig"]
        try:
            return own if path is None else kubeconfig.load(path)
        except InvalidKubeconfig as exc:
            told = f"name a kubeconfig with --{name}-kubeconfig, or leave it out to ask the server of --kubeconfig"
            raise TonnageError(exc.message, hint=told) from exc

    looks_up, proxies = not flags["authentication_skip_lookup"], from_flags(FrontProxies, flags)
    authorities = from_flags(AuthoritySources, flags, front_proxies=proxies, looks_up=looks_up)
    settings = from_flags(AccessSettings, flags, authorities=authorities)
    return DelegatedAccess(
        connection("authentication"),
        connection("authorization"),
        settings,
        clock=clock,
        rng=random.Random(secrets.randbits(64)),
        user_agent=user_agent,
    )
