"""The API server as a pod sees it: its address in the environment, its CA and our token in a mounted folder.

The token is rotated by the kubelet, so it is used as a file that is read again (`credentials`). Mirrors client-go's
rest.InClusterConfig, but for a CA that is missing: upstream logs that and goes on with the machine's authorities.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from pathlib import Path

from tonnage.client.config.connection import KubeconfigCluster, KubeconfigUser, ServerConnection
from tonnage.client.errors import InvalidKubeconfig
from tonnage.client.transport import tls
from tonnage.errors import TonnageError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its service account."""


def is_possible(environ: Mapping[str, str] = os.environ, *, folder: Path = SERVICE_ACCOUNT) -> bool:
    """Whether this looks like the inside of a pod."""
    return bool(_server(environ)) and (folder / "token").is_file()


def load(environ: Mapping[str, str] = os.environ, *, folder: Path = SERVICE_ACCOUNT) -> ServerConnection:
    """The connection of the pod that this program runs in. Raises TonnageError outside of one."""
    server = _server(environ)
    if not server:
        raise TonnageError(
            "this is no pod of a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not both set",
            hint="name a kubeconfig with --kubeconfig, or set $KUBECONFIG",
        )
    _read(folder, "token")
    cluster = KubeconfigCluster(server, ca_pem=_read(folder, "ca.crt"))
    try:
        tls.context_of(cluster)
    except (ssl.SSLError, ValueError) as exc:
        raise InvalidKubeconfig(str(folder / "ca.crt"), "", f"this is no certificate in PEM form ({exc})") from exc
    try:
        namespace = environ.get("POD_NAMESPACE", "") or (folder / "namespace").read_text().strip()
    except OSError:
        namespace = ""
    return ServerConnection(cluster, KubeconfigUser(token_file=folder / "token"), namespace or "default")


def _server(environ: Mapping[str, str]) -> str:
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        return ""
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def _read(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError as exc:
        raise InvalidKubeconfig(
            str(folder / name),
            "",
            f"cannot be read: {exc.strerror}",
            hint="does the pod have automountServiceAccountToken: false? name a kubeconfig with --kubeconfig",
        ) from exc
