"""Read a kubeconfig: files merged, a context chosen, and everything wrong with it said before the first request.

    connection = load()                                     $KUBECONFIG, ~/.kube/config, or the pod we run in
    connection = load(Path("admin.conf"), context="lab")    this file, that context

A file that kubectl accepts is accepted, but for three things: a `proxy-url` (we speak to servers directly), an
`auth-provider` (exec plugins have taken their place) and a server without `https://` or `http://`. Only what the chosen
context uses is judged. Relative paths are relative to the file they stand in. Of several files the first to name an
entry, or a current context, wins. What stands inside of clusters and users is read in `kubeconfig_entries`.

The API server as a pod sees it: its address in the environment, its CA and our token in a mounted folder.

The token is rotated by the kubelet, so it is used as a file that is read again (`credentials`). Mirrors client-go's
rest.InClusterConfig, but for a CA that is missing: upstream logs that and goes on with the machine's authorities.
"""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tonnage.client.config import connection
from tonnage.client.config.connection import KubeconfigCluster, KubeconfigUser, ServerConnection
from tonnage.client.config.kubeconfig_entries import KubeconfigEntry, read_cluster, read_context, read_user
from tonnage.client.errors import InvalidKubeconfig
from tonnage.errors import TonnageError
from tonnage.objects.document import Doc
from tonnage.objects.texts.yaml_text import InvalidYaml, documents

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its service account."""


def is_possible(environ: Mapping[str, str] = os.environ, *, folder: Path = SERVICE_ACCOUNT) -> bool:
    """Whether this looks like the inside of a pod."""
    return bool(_server(environ)) and (folder / "token").is_file()


def load_in_cluster(environ: Mapping[str, str] = os.environ, *, folder: Path = SERVICE_ACCOUNT) -> ServerConnection:
    """The connection of the pod that this program runs in. Raises TonnageError outside of one."""
    server = _server(environ)
    if not server:
        raise TonnageError(
            "this is no pod of a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not both set",
            hint="name a kubeconfig with --kubeconfig, or set $KUBECONFIG",
        )
    _read_mounted(folder, "token")
    cluster = KubeconfigCluster(server, ca_pem=_read_mounted(folder, "ca.crt"))
    try:
        connection.context_of(cluster)
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
    """None was named, and there is none in any of the usual places."""


def load(path: Path | None = None, *, context: str = "", environ: Mapping[str, str] = os.environ) -> ServerConnection:
    """The connection of a context, the current one unless it is named. Raises InvalidKubeconfig or NoKubeconfig.

    Without a path the files of $KUBECONFIG are merged, those that are missing left out; without that variable it is
    ~/.kube/config; and where no file is, the service account of the pod that this program runs in.
    """
    if path is not None:
        return _chosen([_read(path)], context)
    listed = [Path(name) for name in environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    looked_at = listed or [Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"]
    files = [_read(file) for file in looked_at if file.exists()]
    if files:
        return _chosen(files, context)
    if is_possible(environ):
        return load_in_cluster(environ)
    raise NoKubeconfig(
        f"no kubeconfig: {', '.join(map(str, looked_at))} {'is' if len(looked_at) == 1 else 'are'} not there, and this "
        "is no pod of a cluster",
        hint="name one with --kubeconfig, or set $KUBECONFIG",
    )


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    current_context: str
    clusters: dict[str, KubeconfigEntry]
    users: dict[str, KubeconfigEntry]
    contexts: dict[str, KubeconfigEntry]


def _read(path: Path) -> _File:
    file = str(path)
    try:
        data = path.read_bytes()
        text = data.decode(json.detect_encoding(data)).removeprefix("\ufeff")
        doc = next((each.value for each in documents(text)), None)
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
    return _File(path, current, *(_entries(path, doc, key) for key in ("clusters", "users", "contexts")))


def _entries(path: Path, doc: Doc, key: str) -> dict[str, KubeconfigEntry]:
    """The entries of one of the three lists, by name; upstream too refuses a list that names one twice."""
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
    clusters: dict[str, KubeconfigEntry] = {}
    users: dict[str, KubeconfigEntry] = {}
    contexts: dict[str, KubeconfigEntry] = {}
    for file in reversed(files):  # so that the first to name an entry has the last word
        clusters |= file.clusters
        users |= file.users
        contexts |= file.contexts
    where = ", ".join(str(file.path) for file in files)
    name = wanted or next((file.current_context for file in files if file.current_context), "")
    if not name:
        hint = f"choose one with --context; {_there_are(contexts)}"
        raise InvalidKubeconfig(where, "current-context", "is not set", hint=hint)
    if name not in contexts:
        raise InvalidKubeconfig(where, f"contexts[{name}]", "there is no such context", hint=_there_are(contexts))
    entry = contexts[name]
    context = read_context(entry)
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
    return f"there are: {', '.join(entries)}" if entries else "there are none"


def _without_nulls(value: Any) -> Any:
    """Programs that write kubeconfigs like to write `env: null` and mean nothing by it."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value if item is not None]
    return value
