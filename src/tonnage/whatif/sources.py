"""Where a what-if question gets its cluster from: manifests, what a live API server lists, or one laid over the other.

All give a `ClusterState`; `engine_over` starts the scheduler's engine on its objects. Nothing is written.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tonnage.client.config.connection import ServerConnection
from tonnage.clock import Clock, SystemClock, VirtualClock, within
from tonnage.errors import ApiError, Forbidden, NotFound, TonnageError
from tonnage.objects import codec, core_v1
from tonnage.objects.document import Doc
from tonnage.objects.meta import Key, Object
from tonnage.scheduling.configuration.profile import ResolvedProfile
from tonnage.scheduling.engine.attempt import EngineSettings
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.engine.event_handlers import READ_KINDS, ReadKind
from tonnage.whatif import manifest_errors, manifests, scheduler_memory
from tonnage.whatif.creation import Creation, ObjectsByKind
from tonnage.whatif.manifests import Source
from tonnage.whatif.schedulers_seen import SchedulersSeen, schedulers_of
from tonnage.whatif.workloads import NOT_READ_BY_DECISIONS

if TYPE_CHECKING:
    from tonnage.client.http import Client


Step = Callable[[float], object]
"""Called with how much was done. It may raise OutOfTime."""
Note = Callable[[str], object]
"""Called with a sentence that a person should know."""


def unheard(told: object) -> None:
    """A step or a note that nobody asked for."""


class OutOfTime(Exception):
    """Nobody waits any longer. Raised by the `step` of whoever asks, not by the work itself."""


INTERRUPTIONS: Final = (KeyboardInterrupt, OutOfTime)


ANSWERS_WITHIN_S = 15
_NOT_AT_THAT_MOMENT = (400, 410, 422, 500, 501, 504)
"""How a server answers that cannot list as of a resourceVersion: too old, too new, not understood."""
_UNKNOWN = "its reservations and the pods on their way are ignored"
_NOT_ONE_MOMENT = (
    "the server cannot list its objects as of one moment; they were read one after the other, and the answer may be "
    "off by what changed meanwhile: ask again when nothing changes"
)


@dataclass(frozen=True)
class ClusterState:
    """What a question is asked of, where it is from, and what is to be said about it."""

    objects: Sequence[Object]
    source: str
    clock: Clock
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()
    passed_over: Sequence[tuple[str, str]] = ()
    """Kind and key of each object that was found and that decisions do not read."""
    memory: scheduler_memory.SchedulerMemory | None = None
    """What the cluster's scheduler knows besides, if it could be asked."""
    workloads: Sequence[Object] = ()
    """What makes pods and is not looked at by decisions; StatefulSets and ReplicaSets are among the objects."""
    unlisted: Mapping[str, str] = field(default_factory=dict)
    """Kinds that a live cluster has not, or does not let us list, and why; they count as none."""
    origins: Mapping[tuple[str, Key], manifest_errors.Origin] = field(default_factory=dict)
    """Where objects stand that come from files, by kind and key."""
    schedulers: SchedulersSeen = field(default_factory=SchedulersSeen)
    rules: Sequence[Doc] = ()
    """Documents that the creation of pods looks at: limits, quotas, classes of priorities and runtimes."""

    @cached_property
    def by_kind(self) -> ObjectsByKind:
        """The objects, without workloads that are not looked at."""
        return ObjectsByKind(self.objects)

    @property
    def pods(self) -> Mapping[Key, core_v1.Pod]:
        return self.by_kind.of(core_v1.Pod)


def from_files(
    sources: Sequence[Source], creation: Creation, *, without: Path | None = None, with_workloads: bool = False
) -> ClusterState:
    """What manifests describe; `without` is a file among them that holds none. Raises BrokenManifest."""
    found = manifests.read(sources, without=without, with_workloads=with_workloads)
    return _state_of(found, creation.of_all(found), "the manifests")


def _state_of(found: manifests.Manifests, made: Sequence[Object], source: str) -> ClusterState:
    objects = [each for each in made if not isinstance(each, NOT_READ_BY_DECISIONS)]
    workloads = [each for each in made if isinstance(each, NOT_READ_BY_DECISIONS)]
    notes = []
    if counted := Counter(kind for kind, _ in found.passed_over).most_common():
        told = ", ".join(f"{count} {kind}" for kind, count in counted)
        notes.append(f"ignored, since scheduling does not read them: {told}")
    origins = {
        (type(each).__name__, each.key): manifest.origin
        for each, manifest in zip(made, found.by_key.values(), strict=True)
    }
    return ClusterState(
        objects,
        source,
        clock_of(objects),
        found.warnings,
        notes,
        found.passed_over,
        workloads=workloads,
        origins=origins,
        rules=found.rules,
    )


async def from_cluster(
    connection: ServerConnection,
    search: scheduler_memory.SchedulerSearch = scheduler_memory.SchedulerSearch(),  # noqa: B008  # frozen
    *,
    with_workloads: bool = False,
    user_agent: str,
) -> ClusterState:
    """What a live cluster holds now, and what its scheduler remembers besides.

    Raises ApiError, Disconnected, or InvalidKubeconfig. A scheduler that cannot be asked is no failure; it is
    noted, for the answer may differ from what it would decide.
    """
    from tonnage.client.http import Client

    clock = SystemClock()
    async with Client.connect(connection, clock=clock, user_agent=user_agent) as client:
        await check_answers(client)
        memory = None
        scheduler, asked = await search.find(client)
        try:
            if scheduler is not None:
                memory = await scheduler_memory.memory_of(scheduler, clock=clock, user=search.user)
        except TonnageError as exc:
            asked = scheduler_silent(exc)
        objects, unlisted, at = await listed(client)
        workloads, rules = list[Object](), list[Doc]()
        if with_workloads:
            rules, unread = await rules_of(client)
            unlisted |= unread
            kinds = [ReadKind(cls) for cls in NOT_READ_BY_DECISIONS]
            workloads, more, _ = await listed(client, kinds, tells_unknown=False, at=at)
            unlisted |= more
        notes = [not_listed(kind, why) for kind, why in unlisted.items()]
        notes += [each for each in (asked, "" if at else _NOT_ONE_MOMENT) if each]
        names = memory.scheduler_names if memory is not None else ()
        return ClusterState(
            objects,
            client.server,
            clock,
            notes=notes,
            memory=memory,
            workloads=workloads,
            unlisted=unlisted,
            rules=rules,
            schedulers=await schedulers_of(client, [*objects, *workloads], running=names),
        )


async def rules_of(client: Client) -> tuple[list[Doc], dict[str, str]]:
    """What the creation of pods looks at; kinds that the server has not or that nobody lets us list, with why."""
    found, unread = list[Doc](), dict[str, str]()
    for resource in manifests.READ_BY_CREATION:
        try:
            found += await client.list_docs(resource)
        except NotFound:
            continue
        except Forbidden as exc:
            unread[resource.kind] = exc.message
    return found, unread


def scheduler_silent(failure: TonnageError) -> str:
    """What is noted about a scheduler that was asked and did not tell."""
    from tonnage.client.program_pages import NotLetIn

    if isinstance(failure, NotLetIn):
        remedy = "give --scheduler-token-file, or let the user of the kubeconfig get the nonResourceURLs /debug/*"
        return f"the scheduler does not answer: {failure.message} ({remedy}), so {_UNKNOWN}"
    return f"the scheduler cannot be asked: {failure.message}, so {_UNKNOWN}"


def not_listed(kind: str, why: str) -> str:
    return f"{kind} objects cannot be listed and are ignored: {why}"


async def check_answers(client: Client) -> None:
    """Ask a server for a word. Raises Disconnected, or TonnageError for one that says nothing for too long."""
    try:
        await within(client.clock, ANSWERS_WITHIN_S, client.raw("GET", "/version"))
    except TimeoutError as exc:
        raise TonnageError(
            f"{client.server} did not answer within {ANSWERS_WITHIN_S} s",
            hint="is the API server running, and does the kubeconfig name its address?",
        ) from exc
    except ApiError:  # it is an answer; what may be read is found out by reading
        pass


def laid_over(
    live: ClusterState,
    sources: Sequence[str],
    creation: Creation,
    *,
    without: Path | None = None,
    with_workloads: bool = False,
) -> ClusterState:
    """A live cluster with manifests laid over it: objects of the same kind and name count as the file has them.

    What a manifest does not say of an object that is there is not taken from there: the file is the whole of it. Its
    uid stays that of the cluster, unless the file has its own, so that what belongs to it still does.
    """
    found = manifests.read(sources, without=without, with_workloads=with_workloads)
    creation.know(live.objects, live.rules)
    before = {(type(each).__name__, each.key): each for each in (*live.objects, *live.workloads)}
    for manifest in found.by_key.values():
        metadata = manifest.doc["metadata"]
        key = "/".join(part for part in (metadata.get("namespace", ""), metadata["name"]) if part)
        known = before.get((manifest.resource.kind, key))
        if known is not None and not metadata.get("uid"):
            metadata["uid"] = known.uid
    laid = _state_of(found, creation.of_all(found), f"{live.source} with the manifests added")
    over = {(type(each).__name__, each.key) for each in (*laid.objects, *laid.workloads)}
    return dataclasses.replace(
        laid,
        objects=[*_without(live.objects, over), *laid.objects],
        workloads=[*_without(live.workloads, over), *laid.workloads],
        clock=live.clock,
        notes=[*live.notes, *laid.notes],
        memory=live.memory,
        unlisted=live.unlisted,
        schedulers=live.schedulers,
        rules=[*live.rules, *laid.rules],
    )


def _without(objects: Iterable[Object], over: Container[tuple[str, Key]]) -> list[Object]:
    return [each for each in objects if (type(each).__name__, each.key) not in over]


async def listed(
    client: Client, kinds: Sequence[ReadKind] = READ_KINDS, *, tells_unknown: bool = True, at: str = ""
) -> tuple[list[Object], dict[str, str], str]:
    """Every object of these kinds; each kind that the server has not or that nobody lets us list, with why; and when.

    All kinds are read as of one moment, a resourceVersion, that of the first list unless `at` gives it: a pod without
    the claim that was made with it, or a volume counted in its pool and as a wish besides, would make a wrong answer.
    The moment is empty if the server could not list one of the kinds as of it.
    Without `tells_unknown`, a kind that the server has not is none of them: it has no objects, and that is all.
    """
    objects: list[Object] = []
    unlisted: dict[str, str] = {}
    answers: list[codec.ObjectList[Object] | TonnageError | None] = []
    if not at and kinds:
        first = await _listed(client, kinds[0], "")
        answers, at = [first], first.resource_version if isinstance(first, codec.ObjectList) else ""
    answers += await asyncio.gather(*(_listed(client, kind, at) for kind in kinds[len(answers) :]))
    for kind, answer in zip(kinds, answers, strict=True):
        if answer is None:  # one after the other: `READ_KINDS` has pods before the claims that they name
            answer, at = await _listed(client, kind, ""), ""
        if isinstance(answer, NotFound) and not tells_unknown:
            continue
        if isinstance(answer, codec.ObjectList):
            objects += answer.items
        elif answer is not None:
            unlisted[kind.cls.__name__] = answer.message
    return objects, unlisted, at


async def _listed(client: Client, kind: ReadKind, at: str) -> codec.ObjectList[Object] | TonnageError | None:
    """None when the server cannot tell how it was at that moment."""
    try:
        # Pods that have ended are asked about too; of other kinds nobody looks at what a decision cannot see.
        selected = "" if kind.is_needed else kind.field_selector
        return await client.list(kind.cls, at="" if kind.is_told else at, field_selector=selected)
    except (Forbidden, NotFound) as exc:
        if kind.is_needed:
            raise
        return exc
    except ApiError as exc:
        if not at or exc.code not in _NOT_AT_THAT_MOMENT:
            raise
        return None


def clock_of(objects: Iterable[Object]) -> VirtualClock:
    """A clock that stands at the last instant the objects tell of, or at a fixed one when they tell of none."""
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


def engine_over(
    objects: Iterable[Object],
    profiles: Sequence[ResolvedProfile],
    *,
    clock: Clock,
    seed: int = 0,
    takes_any_pod: bool = True,
) -> Engine:
    """The live scheduler's engine as it is after its start: it knows the objects and nothing else.

    Ties are broken by `seed`; with `takes_any_pod` the first profile places pods that ask for another scheduler.
    """
    settings = EngineSettings(takes_any_pod=takes_any_pod, implies_namespaces=True)
    engine = Engine(profiles, clock=clock, rng=random.Random(seed), settings=settings)
    engine.load(objects)
    return engine
