"""The content of a kubeconfig: a server, the CA that proves it, and our user. No `repr` shows secrets.

TLS contexts are built by hand: `ssl.create_default_context` of later Pythons is stricter than Go, and refuses CAs that
kubectl accepts.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

InteractiveMode = Literal["Never", "IfAvailable", "Always"]


@dataclass(frozen=True, slots=True)
class KubeconfigCluster:
    """A server. Without a CA of its own, the system's CAs verify it."""

    server: str
    """`https://host:port`, with a path prefix if the API has one; no slash at the end."""
    ca_pem: bytes = b""
    skip_tls_verify: bool = False
    tls_server_name: str = ""
    compress: bool = True
    exec_config: Any = None
    """The cluster's data for an exec plugin: its extension `client.authentication.k8s.io/exec`."""


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A program that prints credentials; `command` is looked up on PATH unless it is a path."""

    command: str
    api_version: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: InteractiveMode = "IfAvailable"


@dataclass(frozen=True, slots=True)
class Impersonation:
    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KubeconfigUser:
    """Our user. Files are read again when they change; certificate and key are both data or both files."""

    token: str = field(default="", repr=False)
    token_file: Path | None = None
    certificate_pem: bytes = b""
    key_pem: bytes = field(default=b"", repr=False)
    certificate_file: Path | None = None
    key_file: Path | None = None
    username: str = ""
    password: str = field(default="", repr=False)
    exec: ExecPlugin | None = None
    impersonation: Impersonation = Impersonation()


@dataclass(frozen=True, slots=True)
class ServerConnection:
    """Everything needed to reach one server; `namespace` is the context's, the default of commands."""

    cluster: KubeconfigCluster
    user: KubeconfigUser = KubeconfigUser()
    namespace: str = "default"


@dataclass(frozen=True, slots=True)
class Certificate:
    certificate_pem: bytes
    key_pem: bytes = field(repr=False)


def context_of(cluster: KubeconfigCluster, certificate: Certificate | None = None) -> ssl.SSLContext:
    """The TLS context for one server. Raises ssl.SSLError or ValueError for bad PEM or a key that does not match."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if cluster.skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif cluster.ca_pem:
        context.load_verify_locations(cadata=cluster.ca_pem.decode("ascii"))
    else:
        context.load_default_certs()
    if certificate is None:
        return context
    # Python reads certificates from files only. The folder is ours alone (0700) and is removed once they are read.
    with TemporaryDirectory(prefix="tonnage-") as folder:
        pair = Path(folder) / "pair.pem"
        pair.touch(mode=0o600)
        pair.write_bytes(certificate.key_pem.rstrip() + b"\n" + certificate.certificate_pem)
        # An encrypted key would make OpenSSL ask on the terminal; with the empty password it fails instead.
        context.load_cert_chain(pair, password=lambda: "")
    return context
