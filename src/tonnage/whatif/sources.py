"""Where a what-if question gets its cluster from: manifests, or what a live API server lists now. Nothing is written.

Both give the same: the objects that decisions read (`scheduling/engine/kinds.py`), and what a person should know about
them before believing an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from tonnage.client.config import kubeconfig
from tonnage.client.http import Client
from tonnage.clock import Clock, SystemClock, VirtualClock
from tonnage.endpoints import Endpoint
from tonnage.errors import Forbidden, NotFound, TonnageError
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Key, Object
from tonnage.scheduling.engine.kinds import READ_KINDS, ReadKind
from tonnage.whatif import manifests
from tonnage.whatif.creation import Creation
from tonnage.whatif.scheduler_memory import SchedulerMemory, memory_of

_UNKNOWN = "what only it knows counts as none: reservations, and pods on their way"


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What a question is asked of, where it is from, and what is to be said about it."""

    objects: Sequence[Object]
    source: str
    clock: Clock
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()
    passed_over: Sequence[tuple[str, str]] = ()
    """Kind and key of each object that was found and that decisions do not read."""
    memory: SchedulerMemory | None = None
    """What the cluster's scheduler knows besides, if it could be asked."""
    pods: dict[Key, Pod] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pods.update((each.key, each) for each in self.objects if isinstance(each, Pod))


def from_files(sources: Sequence[str], creation: Creation, *, without: Path | None = None) -> ClusterState:
    """What manifests describe; `without` is a file among them that holds none. Raises BrokenManifest."""
    found = manifests.read(sources, without=without)
    objects = creation.of_all(found)
    notes = []
    if found.passed_over:
        notes.append(f"passed over what decisions do not look at: {found.passed_over_counts}")
    return ClusterState(objects, "the manifests", clock_of(objects), found.warnings, notes, found.passed_over)


async def from_cluster(kubeconfig_file: Path, scheduler: Endpoint | None = None) -> ClusterState:
    """What a live cluster holds now, and what its scheduler remembers besides.

    Raises ApiError, Disconnected, or InvalidKubeconfig. A scheduler that cannot be asked is no failure; it is
    noted, for the answer may differ from what it would decide.
    """
    clock, asked = SystemClock(), ""
    async with Client.connect(kubeconfig.load(kubeconfig_file), clock=clock, user_agent="tonnage-explain") as client:
        memory = None
        try:
            if scheduler is not None:
                memory = await memory_of(scheduler, clock=clock)
        except TonnageError as exc:
            asked = f"the scheduler cannot be asked: {exc.message}; {_UNKNOWN}"
        objects, notes = await listed(client)
        if scheduler is None:
            asked = f"the scheduler was not asked (--scheduler-endpoint); {_UNKNOWN}"
        return ClusterState(objects, client.server, clock, notes=[*notes, *([asked] if asked else [])], memory=memory)


async def listed(client: Client) -> tuple[list[Object], list[str]]:
    """Every object that decisions read, and a note for each kind that somebody's role does not allow to list."""
    objects: list[Object] = []
    notes: list[str] = []
    answers = await asyncio.gather(*(_listed(client, kind) for kind in READ_KINDS))
    for kind, answer in zip(READ_KINDS, answers, strict=True):
        if isinstance(answer, TonnageError):
            notes.append(f"{kind.cls.__name__} objects cannot be listed and count as none: {answer.message}")
        else:
            objects += answer
    return objects, notes


async def _listed(client: Client, kind: ReadKind) -> Sequence[Object] | TonnageError:
    try:
        return (await client.list(kind.cls)).items
    except (Forbidden, NotFound) as exc:
        if kind.is_needed:
            raise
        return exc


def clock_of(objects: Iterable[Object]) -> VirtualClock:
    """A clock that stands at the last instant the objects tell of: a dump was taken then, or soon after.

    At a fixed instant when they tell of none.
    """
    told = [at for each in objects for at in _times_in(each)]
    return VirtualClock(max(told)) if told else VirtualClock()


def _times_in(value: Any) -> Iterator[datetime]:
    if isinstance(value, datetime):
        yield value
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from _times_in(getattr(value, name))
    elif isinstance(value, tuple):
        for each in value:
            yield from _times_in(each)
