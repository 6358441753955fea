"""TAB: the shells' protocols, and which values a flag may take.

    @click.option("--pod", shell_complete=pods)

Values come from where the line says: a live cluster, the files of -f, or the folder of a `tonnage up` cluster. Nothing
here may fail or keep a person waiting: a cluster has a second, files some megabytes, only names are read, and imports
are deferred.

Shells use click's protocol, with stderr dropped so that no message overwrites the prompt. bash splits the word under
the cursor at every `=` and `:`: our script passes the whole line, and values are cut to the part that bash replaces.
kubectl uses cobra's protocol: a line for each value, with a tab and a description, and a directive as the last line.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import click
from click import shell_completion
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ShellComplete, ZshComplete

if TYPE_CHECKING:
    from tonnage.objects.resources import Resource


Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
WORKLOAD_KINDS: Final = (
    *("StatefulSet", "Deployment", "ReplicaSet", "ReplicationController", "DaemonSet", "Job", "CronJob"),
)
ANSWER_WITHIN_S: Final = 1.0
"""After a second a person has typed the name."""
_MOST_OBJECTS: Final = 500
_MOST_BYTES: Final = 4 << 20


class Named(NamedTuple):
    """An object by name. A StorageClass also has its provisioner."""

    kind: str
    namespace: str
    name: str
    provisioner: str = ""


def _never_fails(told: Callable[[click.Context, str], Iterable[str]]) -> Complete:
    """Return no values on any exception: an error must not interrupt somebody who types."""

    @wraps(told)
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        with contextlib.suppress(Exception):
            return [CompletionItem(each) for each in told(ctx, incomplete) if each.startswith(incomplete)]
        return []

    return complete


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="file")]


@_never_fails
def pods(ctx: click.Context, incomplete: str) -> Iterable[str]:
    """NS/NAME of every pod; only NAME if the line names the namespace."""
    found = _found(ctx, ["Pod"])
    names = {f"{each.namespace}/{each.name}" for each in found}
    if ctx.params.get("given_namespace") and "/" not in incomplete:
        names |= {each.name for each in found}
    return sorted(names)


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
    """KIND/NS/NAME. The kind is completed first, without asking a cluster."""
    kind, slash, _ = incomplete.partition("/")
    if not slash:
        return [f"{each}/" for each in WORKLOAD_KINDS]
    return sorted(f"{each.kind}/{each.namespace}/{each.name}" for each in _found(ctx, [kind]) if each.kind == kind)


@_never_fails
def contexts(ctx: click.Context, incomplete: str) -> Iterable[str]:
    """The contexts of the chosen kubeconfig, or of all files if there are several."""
    from tonnage.client.config.kubeconfig import files_meant
    from tonnage.objects.texts.yaml_text import documents

    path = ctx.params.get("kubeconfig_file")
    names: set[str] = set()
    for file in files_meant(Path(path) if path else None):
        with contextlib.suppress(Exception):
            doc = next(document.value for document in documents(file.expanduser().read_text()))
            names.update(str(each["name"]) for each in doc.get("contexts") or ())
    return sorted(names)


@_never_fails
def driver_names(ctx: click.Context, incomplete: str) -> Iterable[str]:
    return sorted({each.provisioner for each in _found(ctx, ["StorageClass"])} - {""})


@_never_fails
def cluster_nodes(ctx: click.Context, incomplete: str) -> Iterable[str]:
    """The nodes of the `tonnage up` cluster whose folder the line names, else of that in the default folder."""
    from tonnage.plane.settings import default_folder, nodes_of

    root = ctx.parent or ctx
    folder = ctx.params.get("data_dir") or root.params.get("data_dir")
    if folder is None and root.params.get("file"):
        folder = Path(root.params["file"]).parent
    return nodes_of(Path(folder or default_folder()).expanduser())


def _found(ctx: click.Context, kinds: Sequence[str]) -> list[Named]:
    """The objects of these kinds from where the line says: files, a cluster, or files laid over one."""
    import asyncio

    given = ctx.params
    files, context, namespace = given.get("files"), given.get("context") or "", given.get("given_namespace") or ""
    kubeconfig_file = given.get("kubeconfig_file") or given.get("kubeconfig")
    objects = list(_in_files(files, kinds)) if files else []
    if not files or kubeconfig_file or context:
        with contextlib.suppress(Exception):
            path = Path(kubeconfig_file).expanduser() if kubeconfig_file else None
            objects += asyncio.run(_in_cluster(path, context, kinds, namespace))
    return [each for each in objects if not (namespace and each.namespace and each.namespace != namespace)]


async def _in_cluster(path: Path | None, context: str, kinds: Sequence[str], namespace: str) -> list[Named]:
    import asyncio

    from tonnage.client.config import kubeconfig
    from tonnage.client.http import Client
    from tonnage.clock import SystemClock
    from tonnage.objects.resources import RESOURCES

    connection = kubeconfig.load(path, context=context)
    resources = [next(each for each in RESOURCES if each.kind == kind) for kind in kinds]
    async with Client.connect(connection, clock=SystemClock(), user_agent="tonnage-completion") as client:

        async def listed(resource: Resource) -> list[Named]:
            where = f"{resource.path(namespace if resource.namespaced else '')}?limit={_MOST_OBJECTS}"
            answer = json.loads(await client.raw("GET", where))
            return [_named(resource.kind, each) for each in answer.get("items") or ()]

        answers = asyncio.gather(*map(listed, resources), return_exceptions=True)
        lists = await asyncio.wait_for(answers, ANSWER_WITHIN_S)
    return [named for each in lists if not isinstance(each, BaseException) for named in each]


def _named(kind: str, doc: Mapping[str, Any]) -> Named:
    meta = doc.get("metadata") or {}
    return Named(kind, meta.get("namespace") or "", meta.get("name") or "", doc.get("provisioner") or "")


def _in_files(files: Sequence[str], kinds: Sequence[str]) -> Iterator[Named]:
    from tonnage.objects.texts.yaml_text import documents

    left = _MOST_BYTES
    for path in _paths(files):
        with contextlib.suppress(Exception):
            left -= path.stat().st_size
            if left < 0:
                return
            for document in documents(path.read_text()):
                for doc in document.value.get("items") or [document.value]:
                    if (kind := doc.get("kind")) in kinds:
                        named = _named(kind, doc)
                        is_namespaced = kind not in ("Node", "Namespace", "StorageClass")
                        yield named._replace(namespace=named.namespace or "default") if is_namespaced else named


def _paths(files: Sequence[str]) -> Iterator[Path]:
    for name in files:
        path = Path(name).expanduser()
        if path.is_dir():
            yield from sorted(each for each in path.iterdir() if each.suffix in (".yaml", ".yml", ".json"))
        elif name != "-":
            yield path


COMPLETE_VARIABLE: Final = "_TONNAGE_COMPLETE"
_KUBECTL_NO_FILES, _KUBECTL_FILES = ":4", ":0"
"""cobra's ShellCompDirectiveNoFileComp and ShellCompDirectiveDefault."""

_BASH: Final = """\
%(complete_func)s() {
    local IFS=$'\\n' completion kind value
    COMPREPLY=()
    for completion in $(env COMP_LINE="$COMP_LINE" COMP_POINT="$COMP_POINT" COMP_WORDBREAKS="$COMP_WORDBREAKS" \\
%(complete_var)s=bash_complete "$1" 2>/dev/null); do
        kind="${completion%%%%,*}"
        value="${completion#*,}"
        case "$kind" in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done
    return 0
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class OurBash(BashComplete):
    source_template: ClassVar[str] = _BASH

    def source(self) -> str:
        return ShellComplete.source(self)  # skip click's check of the bash version: another bash may run the script

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ.get("COMP_LINE", "")
        before = line.encode()[: int(os.environ.get("COMP_POINT", len(line.encode())))].decode(errors="ignore")
        words = shell_completion.split_arg_string(before)
        incomplete = words.pop() if words and not before[-1].isspace() else ""
        self._replaced = replaced_part(incomplete, os.environ.get("COMP_WORDBREAKS", "=:"))
        return words[1:], incomplete

    def format_completion(self, item: CompletionItem[str]) -> str:
        value, kept = item.value, self._replaced
        return f"{item.type},{value.removeprefix(kept) if kept else value}"


def replaced_part(incomplete: str, breaks: str) -> str:
    """The part of a value that bash keeps: up to the last `=` or `:` where it breaks words; empty for `--node=n`."""
    incomplete = incomplete.removeprefix(flag_before(incomplete))
    ends = [incomplete.rfind(each) for each in "=:" if each in breaks]
    return incomplete[: max(ends, default=-1) + 1]


class _WholeWords(ShellComplete):
    """For shells that replace the whole word under the cursor: the value after `--flag=` is returned with the flag."""

    def get_completion_args(self) -> tuple[list[str], str]:
        words, incomplete = super().get_completion_args()
        self._flag = flag_before(incomplete)
        return words, incomplete

    def format_completion(self, item: CompletionItem[str]) -> str:
        if item.type == "plain" and self._flag:
            item = CompletionItem(self._flag + item.value, item.type, item.help)
        return super().format_completion(item)


def flag_before(incomplete: str) -> str:
    """`--node=` for `--node=n`; empty for other words."""
    return incomplete[: incomplete.index("=") + 1] if incomplete.startswith("--") and "=" in incomplete else ""


class OurZsh(_WholeWords, ZshComplete):
    source_template: ClassVar[str] = ZshComplete.source_template.replace(
        "%(complete_var)s=zsh_complete %(prog_name)s)", "%(complete_var)s=zsh_complete %(prog_name)s 2>/dev/null)"
    ).replace("_path_files", "[[ $PREFIX == --*=* ]] && compset -P '*='; _path_files")


class OurFish(_WholeWords, FishComplete):
    source_template: ClassVar[str] = FishComplete.source_template.replace(
        "COMP_CWORD=(commandline -t) %(prog_name)s)", "COMP_CWORD=(commandline -t) %(prog_name)s 2>/dev/null)"
    )


SHELLS: Final[dict[str, type[ShellComplete]]] = {"bash": OurBash, "zsh": OurZsh, "fish": OurFish}


def register() -> None:
    for each in SHELLS.values():
        shell_completion.add_completion_class(each)


def script(shell: str, cli: click.Command, program: str) -> str:
    return SHELLS[shell](cli, {}, program, COMPLETE_VARIABLE).source()


def answer_kubectl(cli: click.Command, arguments: list[str]) -> str:
    """The answer to `kubectl_complete-tonnage ARGUMENTS…`. The last argument is the word under the cursor."""
    *words, incomplete = arguments or [""]
    items = OurBash(cli, {}, "kubectl tonnage", COMPLETE_VARIABLE).get_completions(words, incomplete)
    plain = [completion_item for completion_item in items if completion_item.type == "plain"]
    # kubectl filters by prefix: a value after `=` needs its flag in front.
    before = flag_before(incomplete)
    lines = [before + each.value + (f"\t{each.help.splitlines()[0]}" if each.help else "") for each in plain]
    return "\n".join([*lines, _KUBECTL_NO_FILES if len(plain) == len(items) else _KUBECTL_FILES])
