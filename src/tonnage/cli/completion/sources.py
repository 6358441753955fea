"""Where the values of flags come from: a list from the cluster, the documents of files, a folder of `tonnage up`.

Everything is bounded: a second for a cluster, some megabytes of files. Names alone are read.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tonnage.client.config import kubeconfig
from tonnage.client.http import Client
from tonnage.clock import SystemClock
from tonnage.objects.resources import RESOURCES
from tonnage.objects.texts.yaml_text import documents

ANSWER_WITHIN_S: Final = 1.0
"""Longer than this, and a person has typed the name."""
MOST_OBJECTS: Final = 500
_MOST_BYTES: Final = 4 << 20


class Named(NamedTuple):
    """An object by its name; of a StorageClass also whose volumes it makes."""

    kind: str
    namespace: str
    name: str
    provisioner: str = ""


def found(
    kinds: Sequence[str],
    *,
    files: Sequence[str] = (),
    kubeconfig_file: Path | str | None = None,
    context: str = "",
    namespace: str = "",
) -> list[Named]:
    """The objects of these kinds where the line says that they are: files, a cluster, or files laid over one."""
    objects = list(_in_files(files, kinds)) if files else []
    if not files or kubeconfig_file or context:
        with contextlib.suppress(Exception):
            path = Path(kubeconfig_file).expanduser() if kubeconfig_file else None
            objects += asyncio.run(_in_cluster(path, context, kinds, namespace))
    return [each for each in objects if not (namespace and each.namespace and each.namespace != namespace)]


async def _in_cluster(path: Path | None, context: str, kinds: Sequence[str], namespace: str) -> list[Named]:
    connection = kubeconfig.load(path, context=context)
    resources = [next(each for each in RESOURCES if each.kind == kind) for kind in kinds]
    async with Client.connect(connection, clock=SystemClock(), user_agent="tonnage-completion") as client:

        async def listed(index: int) -> list[Named]:
            resource = resources[index]
            where = f"{resource.path(namespace if resource.namespaced else '')}?limit={MOST_OBJECTS}"
            answer = json.loads(await client.raw("GET", where))
            return [_named(resource.kind, each) for each in answer.get("items") or ()]

        answers = asyncio.gather(*map(listed, range(len(resources))), return_exceptions=True)
        lists = await asyncio.wait_for(answers, ANSWER_WITHIN_S)
    return [named for each in lists if not isinstance(each, BaseException) for named in each]


def _named(kind: str, doc: Mapping[str, Any]) -> Named:
    meta = doc.get("metadata") or {}
    return Named(kind, meta.get("namespace") or "", meta.get("name") or "", doc.get("provisioner") or "")


def _in_files(files: Sequence[str], kinds: Sequence[str]) -> Iterator[Named]:
    left = _MOST_BYTES
    for path in _paths(files):
        with contextlib.suppress(Exception):
            left -= path.stat().st_size
            if left < 0:
                return
            for each in documents(path.read_text()):
                for doc in _flat(each.value):
                    if doc.get("kind") in kinds:
                        named = _named(str(doc["kind"]), doc)
                        yield (
                            named
                            if named.kind in ("Node", "Namespace", "StorageClass")
                            else named._replace(namespace=named.namespace or "default")
                        )


def _flat(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, dict):
        if isinstance(value.get("items"), list):
            for each in value["items"]:
                yield from _flat(each)
        else:
            yield value


def _paths(files: Sequence[str]) -> Iterator[Path]:
    for name in files:
        path = Path(name).expanduser()
        if path.is_dir():
            yield from sorted(each for each in path.iterdir() if each.suffix in (".yaml", ".yml", ".json"))
        elif name != "-":
            yield path


def contexts_of(path: Path | str | None) -> list[str]:
    """The contexts of the kubeconfig that is meant; of several files those of all."""
    listed = [Path(each) for each in os.environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    looked_at = [Path(path)] if path else listed or [Path.home() / ".kube" / "config"]
    names: list[str] = []
    for file in looked_at:
        with contextlib.suppress(Exception):
            doc = next(each.value for each in documents(file.expanduser().read_text()))
            names += [str(each["name"]) for each in doc.get("contexts") or ()]
    return sorted(set(names))
