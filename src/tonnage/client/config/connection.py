"""What a kubeconfig comes down to once a context is chosen: a server, how it proves itself, and who we are.

Plain data, made by `kubeconfig` and by `in_cluster`. `tls` and `credentials` turn it into what a connection needs.
Secrets are kept out of every `repr`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

InteractiveMode = Literal["Never", "IfAvailable", "Always"]


@dataclass(frozen=True, slots=True)
class KubeconfigCluster:
    """A server. Without a CA of its own it is judged by the authorities that the machine trusts."""

    server: str
    """`https://host:port`, with a path where the API has one in front; no slash at the end."""
    ca_pem: bytes = b""
    skip_tls_verify: bool = False
    tls_server_name: str = ""
    compress: bool = True
    exec_config: Any = None
    """What the cluster has to say to an exec plugin: its extension `client.authentication.k8s.io/exec`."""


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A program that is asked for credentials; `command` is looked for on PATH unless it is a path."""

    command: str
    api_version: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: InteractiveMode = "IfAvailable"


@dataclass(frozen=True, slots=True)
class Impersonation:
    """Whom the server is asked to take us for."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KubeconfigUser:
    """Who we are. Files are read again as they change; certificate and key come both as data or both as files."""

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
    """Everything needed to speak to one server; `namespace` is the context's own, for commands that want a default."""

    cluster: KubeconfigCluster
    user: KubeconfigUser = KubeconfigUser()
    namespace: str = "default"
