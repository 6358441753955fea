"""Read a kubeconfig: merge the files, choose a context, and report every problem before the first request.

Accepts what kubectl accepts, except `proxy-url`, `auth-provider`, and a server without `https://` or `http://`. Only
the chosen context's entries are checked. Of several files the first to name an entry or a current context wins.
`load_in_cluster` uses the pod's service account, as client-go's rest.InClusterConfig.
"""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlsplit

import msgspec

from tonnage.client.config import connection
from tonnage.client.config.connection import ExecPlugin, KubeconfigCluster, KubeconfigUser, ServerConnection
from tonnage.client.errors import InvalidKubeconfig
from tonnage.errors import TonnageError
from tonnage.objects.document import Doc
from tonnage.objects.texts.yaml_text import InvalidYaml, documents

_EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_EXEC_EXTENSION = "client.authentication.k8s.io/exec"

S = TypeVar("S", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class KubeconfigEntry:
    """A cluster, user or context as written in a file, unchecked: an unused entry may be wrong."""

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
        """The path `name`, relative to the file's own folder."""
        return self.file.absolute().parent / name

    def content(self, field: str, name: str) -> bytes:
        path = self.beside(name)
        try:
            return path.read_bytes()
        except (OSError, ValueError) as exc:  # ValueError: a NUL in the name
            self.wrong(field, f"cannot read {path}: {getattr(exc, 'strerror', exc)}", hint="name a readable file")


class Context(msgspec.Struct):
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
    interactive_mode: connection.InteractiveMode | None = None


def read_cluster(entry: KubeconfigEntry) -> KubeconfigCluster:
    """A cluster with its CA read and parsed. Raises InvalidKubeconfig."""
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
    if seen.certificate_authority_data:  # data wins over a file, here and below, as upstream documents
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
        entry.wrong(field, f"this is not a certificate in PEM form ({exc})")
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
    """A user whose files exist. Raises InvalidKubeconfig."""
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
        impersonation=connection.Impersonation(seen.as_, seen.as_uid, seen.as_groups, seen.as_user_extra),
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
        entry.wrong("client-certificate", f"this is not a certificate with its key in PEM form ({exc})")
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
            hint=f"use {' or '.join(_EXEC_VERSIONS)}; most plugins choose it by a flag or by their version",
        )
    mode = seen.interactive_mode
    if mode is None:
        if seen.api_version == _EXEC_VERSIONS[0]:
            entry.wrong("interactiveMode", "is not set", hint="set it to Never, IfAvailable or Always")
        mode = "IfAvailable"  # what a missing value meant before the field existed
    for number, variable in enumerate(seen.env):
        if not variable.name:
            entry.wrong(f"env[{number}].name", "is empty")
    return ExecPlugin(
        # A bare name is looked up on PATH; anything else is a path like the others of this file.
        command=str(entry.beside(seen.command)) if "/" in seen.command else seen.command,
        api_version=seen.api_version,
        args=seen.args,
        env={variable.name: variable.value for variable in seen.env},
        install_hint=seen.install_hint,
        provide_cluster_info=seen.provide_cluster_info,
        interactive_mode=mode,
    )


SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its service account."""


def is_possible(environ: Mapping[str, str] = os.environ, *, folder: Path = SERVICE_ACCOUNT) -> bool:
    """True if this process seems to run in a pod."""
    return bool(_server(environ)) and (folder / "token").is_file()


def load_in_cluster(environ: Mapping[str, str] = os.environ, *, folder: Path = SERVICE_ACCOUNT) -> ServerConnection:
    """The connection of our own pod. Raises TonnageError outside of a pod."""
    server = _server(environ)
    if not server:
        raise TonnageError(
            "not running in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not both set",
            hint="name a kubeconfig with --kubeconfig, or set $KUBECONFIG",
        )
    _read_mounted(folder, "token")
    cluster = KubeconfigCluster(server, ca_pem=_read_mounted(folder, "ca.crt"))
    try:
        connection.context_of(cluster)
    except (ssl.SSLError, ValueError) as exc:
        raise InvalidKubeconfig(str(folder / "ca.crt"), "", f"this is not a certificate in PEM form ({exc})") from exc
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


def _read_mounted(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError as exc:
        raise InvalidKubeconfig(
            str(folder / name),
            "",
            f"cannot be read: {exc.strerror}",
            hint="does the pod have automountServiceAccountToken: false? name a kubeconfig with --kubeconfig",
        ) from exc


class NoKubeconfig(TonnageError):
    """No kubeconfig was named, and none of the usual places has one."""


def files_meant(path: Path | None = None, *, environ: Mapping[str, str] = os.environ) -> list[Path]:
    """The kubeconfig files to read: `path`, else those of $KUBECONFIG, else ~/.kube/config."""
    if path is not None:
        return [path]
    listed = [Path(name) for name in environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    return listed or [Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"]


def load(path: Path | None = None, *, context: str = "", environ: Mapping[str, str] = os.environ) -> ServerConnection:
    """The connection of a context, by default the current one. Raises InvalidKubeconfig or NoKubeconfig.

    Without a path: the files of $KUBECONFIG, else ~/.kube/config, else the service account of our own pod.
    """
    if path is not None:
        return _chosen([_read(path)], context)
    looked_at = files_meant(environ=environ)
    files = [_read(file) for file in looked_at if file.exists()]
    if files:
        return _chosen(files, context)
    if is_possible(environ):
        return load_in_cluster(environ)
    raise NoKubeconfig(
        f"no kubeconfig: {', '.join(map(str, looked_at))} {'does' if len(looked_at) == 1 else 'do'} not exist, "
        "and this program does not run in a pod",
        hint="name one with --kubeconfig, or set $KUBECONFIG",
    )


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    current_context: str
    lists: tuple[dict[str, KubeconfigEntry], ...]
    """Clusters, users and contexts, each by name."""


def _read(path: Path) -> _File:
    file = str(path)
    try:
        data = path.read_bytes()
        text = data.decode(json.detect_encoding(data)).removeprefix("\ufeff")
        doc = next((document.value for document in documents(text)), None)
    except OSError as exc:
        raise InvalidKubeconfig(
            file, "", f"cannot be read: {exc.strerror}", hint="name a readable kubeconfig with --kubeconfig"
        ) from exc
    except UnicodeDecodeError as exc:
        raise InvalidKubeconfig(file, "", f"is not YAML: byte {exc.start} is not {exc.encoding.upper()} text") from exc
    except InvalidYaml as exc:
        raise InvalidKubeconfig(file, "", f"is not YAML: {exc.message.removeprefix('yaml: ')}") from exc
    doc = {} if doc is None else _without_nulls(doc)
    if not isinstance(doc, dict):
        raise InvalidKubeconfig(file, "", f"is not a kubeconfig: expected a map, found a {type(doc).__name__}")
    if doc.get("kind", "Config") != "Config":
        raise InvalidKubeconfig(file, "kind", f'this is a "{doc["kind"]}"; a kubeconfig is of kind Config')
    current = doc.get("current-context", "")
    if not isinstance(current, str):
        raise InvalidKubeconfig(file, "current-context", f"expected a name, found {current!r}")
    return _File(path, current, tuple(_entries(path, doc, key) for key in ("clusters", "users", "contexts")))


def _entries(path: Path, doc: Doc, key: str) -> dict[str, KubeconfigEntry]:
    """The entries of one of the three lists by name; a name given twice is refused, as upstream."""
    items = doc.get(key, [])
    found: dict[str, KubeconfigEntry] = {}
    for index, item in enumerate(items if isinstance(items, list) else [items]):
        name = item.get("name") if isinstance(item, dict) else None
        if not isinstance(name, str):
            raise InvalidKubeconfig(str(path), f"{key}[{index}]", "expected an entry with a name")
        if name in found:
            raise InvalidKubeconfig(str(path), f"{key}[{name}]", "there are two of this name", hint="rename one")
        found[name] = KubeconfigEntry(path, f"{key}[{name}]", item.get(key.removesuffix("s"), {}))
    return found


def _chosen(files: list[_File], wanted: str) -> ServerConnection:
    # The first file to name an entry wins, so that it comes last.
    merged = zip(*(file.lists for file in reversed(files)), strict=True)
    clusters, users, contexts = (dict(chain.from_iterable(each.items() for each in lists)) for lists in merged)
    where = ", ".join(str(file.path) for file in files)
    name = wanted or next((file.current_context for file in files if file.current_context), "")
    if not name:
        hint = f"choose one with --context; {_there_are(contexts)}"
        raise InvalidKubeconfig(where, "current-context", "is not set", hint=hint)
    if name not in contexts:
        raise InvalidKubeconfig(where, f"contexts[{name}]", "there is no such context", hint=_there_are(contexts))
    entry = contexts[name]
    context = entry.read_as(Context)
    if context.cluster not in clusters:
        entry.wrong("cluster", _no_such("cluster", context.cluster), hint=_there_are(clusters))
    if context.user and context.user not in users:
        entry.wrong("user", _no_such("user", context.user), hint=_there_are(users))
    return ServerConnection(
        cluster=read_cluster(clusters[context.cluster]),
        user=read_user(users[context.user]) if context.user else KubeconfigUser(),
        namespace=context.namespace or "default",
    )


def _no_such(what: str, name: str) -> str:
    return f'there is no {what} "{name}"' if name else f"no {what} is named"


def _there_are(entries: Mapping[str, KubeconfigEntry]) -> str:
    return f"the file has {', '.join(entries)}" if entries else "the file has none"


def _without_nulls(value: Any) -> Any:
    """The value without nulls: some programs write `env: null` and mean nothing by it."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value if item is not None]
    return value
