"""Which values a flag may take, for TAB: each function has the form of click's `shell_complete`.

    @click.option("--pod", shell_complete=pods)

Values come from where the line says: a live cluster (--kubeconfig, --context, or what kubectl would use), the files of
-f, or the folder of a `tonnage up` cluster. All is loaded when it is asked for: the module itself costs nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from tonnage.cli.completion.sources import Named

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
WORKLOAD_KINDS = (
    "StatefulSet",
    "Deployment",
    "ReplicaSet",
    "ReplicationController",
    "DaemonSet",
    "Job",
    "CronJob",
)


def _never_fails(
    told: Callable[[click.Context, str], Iterable[str]],
) -> Complete:
    """Whatever goes wrong on a TAB is no values: the line is not finished, and nobody asked for an explanation."""

    @wraps(told)
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        with contextlib.suppress(Exception):
            return [CompletionItem(each) for each in told(ctx, incomplete) if each.startswith(incomplete)]
        return []

    return complete


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """What a shell knows itself."""
    return [CompletionItem(incomplete, type="file")]


@_never_fails
def pods(ctx: click.Context, incomplete: str) -> Iterable[str]:
    """NS/NAME of every pod; a name alone where the namespace was given."""
    return _keys(ctx, [("Pod", each) for each in _found(ctx, ["Pod"])], incomplete)


@_never_fails
def nodes(ctx: click.Context, incomplete: str) -> Iterable[str]:
    given = ctx.params.get("nodes") or ()
    return sorted({each.name for each in _found(ctx, ["Node"])} - set(given))


@_never_fails
def namespaces(ctx: click.Context, incomplete: str) -> Iterable[str]:
    found = _found(ctx, ["Namespace", *(["Pod", *WORKLOAD_KINDS] if ctx.params.get("files") else [])])
    return sorted({each.name if each.kind == "Namespace" else each.namespace for each in found} - {""})


@_never_fails
def workloads(ctx: click.Context, incomplete: str) -> Iterable[str]:
    """KIND/NS/NAME. The kind is completed first, without asking anybody."""
    kind, slash, _ = incomplete.partition("/")
    if not slash:
        return [f"{each}/" for each in WORKLOAD_KINDS]
    return sorted(f"{each.kind}/{each.namespace}/{each.name}" for each in _found(ctx, [kind]) if each.kind == kind)


@_never_fails
def contexts(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from tonnage.cli.completion.sources import contexts_of

    return contexts_of(ctx.params.get("kubeconfig_file"))


@_never_fails
def driver_names(ctx: click.Context, incomplete: str) -> Iterable[str]:
    return sorted({each.provisioner for each in _found(ctx, ["StorageClass"])} - {""})


@_never_fails
def storage_classes(ctx: click.Context, incomplete: str) -> Iterable[str]:
    return sorted(each.name for each in _found(ctx, ["StorageClass"]))


@_never_fails
def cluster_nodes(ctx: click.Context, incomplete: str) -> Iterable[str]:
    """The nodes of the `tonnage up` cluster whose folder is named."""
    from tonnage.plane.settings import nodes_of

    root = ctx.parent or ctx
    folder = ctx.params.get("data_dir") or root.params.get("data_dir")
    if folder is None and root.params.get("file"):
        folder = Path(root.params["file"]).parent
    return nodes_of(Path(folder).expanduser()) if folder else ()


def _found(ctx: click.Context, kinds: list[str]) -> list[Named]:
    from tonnage.cli.completion.sources import found

    given = ctx.params
    return found(
        kinds,
        files=given.get("files") or (),
        kubeconfig_file=given.get("kubeconfig_file") or given.get("kubeconfig"),
        context=given.get("context") or "",
        namespace=given.get("given_namespace") or "",
    )


def _keys(ctx: click.Context, found: list[tuple[str, Named]], incomplete: str) -> list[str]:
    names = {f"{each.namespace}/{each.name}" for _, each in found}
    if ctx.params.get("given_namespace") and "/" not in incomplete:
        names |= {each.name for _, each in found}
    return sorted(names)
