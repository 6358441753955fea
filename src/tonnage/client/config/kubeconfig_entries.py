"""The clusters, users and contexts of a kubeconfig, read into plain data and judged.

The shapes are upstream's (clientcmd/api/v1); fields that nobody knows are passed over, as kubectl does. Every mistake
is told with the file and the path of the entry: `admin.conf: users[admin].tokenFile: cannot read …`.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlsplit

import msgspec

from tonnage.client.config import connection
from tonnage.client.config.connection import (
    ExecPlugin,
    Impersonation,
    InteractiveMode,
    KubeconfigCluster,
    KubeconfigUser,
)
from tonnage.client.errors import InvalidKubeconfig
from tonnage.objects.document import Doc

_EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_EXEC_EXTENSION = "client.authentication.k8s.io/exec"

S = TypeVar("S", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class KubeconfigEntry:
    """A cluster, user or context as it stands in a file, not looked at yet: what nobody uses may be wrong."""

    file: Path
    path: str
    body: Any

    def read_as(self, shape: type[S]) -> S:
        try:
            return msgspec.convert(self.body, shape)
        except msgspec.ValidationError as exc:
            problem, _, at = str(exc).partition(" - at `$")
            raise InvalidKubeconfig(str(self.file), self.path + at.rstrip("`"), problem) from exc

    def wrong(self, field: str, problem: str, *, hint: str | None = None) -> NoReturn:
        raise InvalidKubeconfig(str(self.file), f"{self.path}.{field}" if field else self.path, problem, hint=hint)

    def beside(self, name: str) -> Path:
        """A path that the file names: relative to the file's own folder."""
        return self.file.absolute().parent / name

    def content(self, field: str, name: str) -> bytes:
        path = self.beside(name)
        try:
            return path.read_bytes()
        except (OSError, ValueError) as exc:  # ValueError: a NUL in the name
            self.wrong(field, f"cannot read {path}: {getattr(exc, 'strerror', exc)}", hint="name a readable file")


class Context(msgspec.Struct):
    """Which user of which cluster."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _Cluster(msgspec.Struct, rename="kebab"):
    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: bytes = b""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: tuple[Doc, ...] = ()


class _User(msgspec.Struct, rename="kebab"):
    token: str = ""
    token_file: str = msgspec.field(name="tokenFile", default="")
    client_certificate: str = ""
    client_certificate_data: bytes = b""
    client_key: str = ""
    client_key_data: bytes = b""
    username: str = ""
    password: str = ""
    as_: str = msgspec.field(name="as", default="")
    as_uid: str = ""
    as_groups: tuple[str, ...] = ()
    as_user_extra: dict[str, tuple[str, ...]] = {}
    auth_provider: Doc | None = None
    exec: Any = None


class _EnvVar(msgspec.Struct):
    name: str
    value: str = ""


class _Exec(msgspec.Struct, rename="camel"):
    command: str = ""
    api_version: str = ""
    args: tuple[str, ...] = ()
    env: tuple[_EnvVar, ...] = ()
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: InteractiveMode | None = None


def read_context(entry: KubeconfigEntry) -> Context:
    return entry.read_as(Context)


def read_cluster(entry: KubeconfigEntry) -> KubeconfigCluster:
    """A cluster whose CA is read and found to be one. Raises InvalidKubeconfig."""
    seen = entry.read_as(_Cluster)
    if not _is_url_of_a_server(seen.server):
        entry.wrong("server", f'"{seen.server}" is not the URL of a server; write it like "https://10.0.0.1:6443"')
    if seen.proxy_url:
        entry.wrong(
            "proxy-url",
            f'Tonnage speaks to the server directly and cannot go through "{seen.proxy_url}"',
            hint="remove proxy-url, or point server at a tunnel such as ssh -L",
        )
    cluster = KubeconfigCluster(
        server=seen.server.rstrip("/"),
        skip_tls_verify=seen.insecure_skip_tls_verify,
        tls_server_name=seen.tls_server_name,
        compress=not seen.disable_compression,
        exec_config=next(
            (each.get("extension") for each in seen.extensions if each.get("name") == _EXEC_EXTENSION), None
        ),
    )
    if seen.certificate_authority_data:  # data wins over a file, here and below, as upstream says of itself
        field, ca_pem = "certificate-authority-data", seen.certificate_authority_data
    elif seen.certificate_authority:
        field = "certificate-authority"
        ca_pem = entry.content(field, seen.certificate_authority)
    else:
        return cluster
    if cluster.skip_tls_verify:
        entry.wrong("insecure-skip-tls-verify", f"{field} is set as well", hint="remove one of the two")
    cluster = replace(cluster, ca_pem=ca_pem)
    try:
        connection.context_of(cluster)
    except (ssl.SSLError, ValueError) as exc:
        entry.wrong(field, f"this is no certificate in PEM form ({exc})")
    return cluster


def _is_url_of_a_server(text: str) -> bool:
    try:
        url = urlsplit(text)
        has_port = url.port is None or url.port > 0  # above 65535 raises
    except ValueError:
        return False
    return (
        url.scheme in ("https", "http") and bool(url.hostname) and has_port and text.isprintable() and " " not in text
    )


def read_user(entry: KubeconfigEntry) -> KubeconfigUser:
    """A user whose files are there. Raises InvalidKubeconfig."""
    seen = entry.read_as(_User)
    if seen.auth_provider is not None:
        entry.wrong(
            "auth-provider",
            f'"{seen.auth_provider.get("name", "")}" is not supported',
            hint="use the exec plugin that has taken its place, such as kubelogin or gke-gcloud-auth-plugin",
        )
    if seen.token and (seen.username or seen.password):
        entry.wrong("", "there are a token and a username, and only one can be shown", hint="remove one of the two")
    if (seen.as_uid or seen.as_groups or seen.as_user_extra) and not seen.as_:
        entry.wrong("as", "as-uid, as-groups and as-user-extra need a user to go with them")
    if seen.token_file and not seen.token:
        entry.content("tokenFile", seen.token_file)
    user = KubeconfigUser(
        token=seen.token,
        token_file=entry.beside(seen.token_file) if seen.token_file else None,
        username=seen.username,
        password=seen.password,
        impersonation=Impersonation(seen.as_, seen.as_uid, seen.as_groups, seen.as_user_extra),
        exec=_exec(KubeconfigEntry(entry.file, f"{entry.path}.exec", seen.exec)) if seen.exec is not None else None,
    )
    if seen.client_certificate or seen.client_certificate_data:
        return _with_certificate(entry, seen, user)
    return user


def _with_certificate(entry: KubeconfigEntry, seen: _User, user: KubeconfigUser) -> KubeconfigUser:
    if not (seen.client_key or seen.client_key_data):
        entry.wrong("client-key", "a client certificate needs its key", hint="set client-key or client-key-data")
    certificate_pem = seen.client_certificate_data or entry.content("client-certificate", seen.client_certificate)
    key_pem = seen.client_key_data or entry.content("client-key", seen.client_key)
    try:
        connection.context_of(
            KubeconfigCluster("", skip_tls_verify=True), connection.Certificate(certificate_pem, key_pem)
        )
    except (ssl.SSLError, ValueError) as exc:
        entry.wrong("client-certificate", f"this is no certificate with its key in PEM form ({exc})")
    if seen.client_certificate_data or seen.client_key_data:
        return replace(user, certificate_pem=certificate_pem, key_pem=key_pem)
    return replace(user, certificate_file=entry.beside(seen.client_certificate), key_file=entry.beside(seen.client_key))


def _exec(entry: KubeconfigEntry) -> ExecPlugin:
    seen = entry.read_as(_Exec)
    if not seen.command:
        entry.wrong("command", "no command is named")
    if seen.api_version not in _EXEC_VERSIONS:
        entry.wrong(
            "apiVersion",
            f'"{seen.api_version}" is not known',
            hint=f"use {' or '.join(_EXEC_VERSIONS)}; most plugins are told by a flag or by their version",
        )
    mode = seen.interactive_mode
    if mode is None:
        if seen.api_version == _EXEC_VERSIONS[0]:
            entry.wrong("interactiveMode", "is not set", hint="set it to Never, IfAvailable or Always")
        mode = "IfAvailable"  # what it meant before it could be said
    for number, variable in enumerate(seen.env):
        if not variable.name:
            entry.wrong(f"env[{number}].name", "is empty")
    return ExecPlugin(
        # A bare name is looked for on PATH, anything else is a path like the others of this file.
        command=str(entry.beside(seen.command)) if "/" in seen.command else seen.command,
        api_version=seen.api_version,
        args=seen.args,
        env={variable.name: variable.value for variable in seen.env},
        install_hint=seen.install_hint,
        provide_cluster_info=seen.provide_cluster_info,
        interactive_mode=mode,
    )
