"""TLS as a connection wants it: whom to believe, which name to expect, what to show.

The contexts are made by hand and not by `ssl.create_default_context`: later Pythons make that one stricter than Go, and
a CA that kubectl accepts must be good enough here.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from tonnage.client.config.connection import KubeconfigCluster


@dataclass(frozen=True, slots=True)
class Certificate:
    """A client certificate, with the chain that it may carry, and its key."""

    certificate_pem: bytes
    key_pem: bytes = field(repr=False)


def context_of(cluster: KubeconfigCluster, certificate: Certificate | None = None) -> ssl.SSLContext:
    """The context for one server. Raises ssl.SSLError or ValueError for what is no PEM, or no pair."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if cluster.skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif cluster.ca_pem:
        context.load_verify_locations(cadata=cluster.ca_pem.decode("ascii"))
    else:
        context.load_default_certs()
    if certificate is not None:
        _load(context, certificate)
    return context


def _load(context: ssl.SSLContext, certificate: Certificate) -> None:
    # Python reads certificates from files only. The folder is ours alone (0700) and gone as soon as they are read.
    with TemporaryDirectory(prefix="tonnage-") as folder:
        pair = Path(folder) / "pair.pem"
        pair.touch(mode=0o600)
        pair.write_bytes(certificate.key_pem.rstrip() + b"\n" + certificate.certificate_pem)
        # An encrypted key would make OpenSSL ask on the terminal; the empty password makes it fail instead.
        context.load_cert_chain(pair, password=lambda: "")
