"""A live cluster as rows: informers fill a `ClusterModel`, and the scheduler is asked for its memory.

    async with LiveCluster(client, scheduler=endpoint) as cluster:
        await cluster.wait_first()          # rows of every readable kind

A kind that cannot be read counts as empty and becomes a notice with a remedy; its objects are forgotten when a right is
withdrawn. With a namespace only that namespace is read, except for capacity objects, which live in the namespaces of
drivers.

Events about pods and claims go to the model and are not stored; an Event that is received twice counts once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from typing import Any, Final, NamedTuple, Self

import msgspec

from tonnage import logs
from tonnage.client.config.connection import KubeconfigUser
from tonnage.client.http import Client
from tonnage.client.informer import Informer
from tonnage.client.informers import Informers
from tonnage.client.program_pages import NotLetIn
from tonnage.clock import in_background, within
from tonnage.dashboard.model.shown_cluster import ShownCluster
from tonnage.dashboard.wire import NoticeRow
from tonnage.endpoints import Endpoint
from tonnage.errors import Forbidden, NotFound, TonnageError, Unauthorized
from tonnage.objects import codec, small_groups, storage_v1
from tonnage.objects.core_v1 import Event, ObjectReference, Pod
from tonnage.objects.document import Doc
from tonnage.objects.meta import Key, Object
from tonnage.objects.resources import Resource
from tonnage.scheduling.engine.event_handlers import READ_KINDS
from tonnage.whatif import scheduler_memory, schedulers_seen, sources
from tonnage.whatif.workloads import NOT_READ_BY_DECISIONS

AWAY_AFTER_S: Final = 2.0
"""Cut connections are reopened at once; a longer outage than this becomes a notice."""
SERVER: Final = "server"

_MEANING: Final = {
    "Node": "only nodes that volumes name are shown",
    "Pod": "pending pods and the pods of a volume are not shown",
    "PersistentVolume": "where volumes are is not shown",
    "PersistentVolumeClaim": "volumes are shown without their claims",
    "StorageClass": "which driver a class belongs to is not known",
    "CSINode": "attach limits are not shown",
    "CSIDriver": "which drivers rebuild volumes is not known",
    "CSIStorageCapacity": "free capacity is not shown",
    "VolumeAttachment": "attachments are not shown",
    "Event": "lanes lack the steps that only Events report",
}
_QUESTIONS: Final = "answers ignore them"


class KindReading(NamedTuple):
    cls: type[Object]
    failure: TonnageError | None
    failing_for_s: float
    namespace: str = ""


def reading_of(informer: Informer[Any], namespace: str) -> KindReading:
    since_s = informer.out_of_step_since_s
    failure = informer.last_failure if since_s is not None else None
    return KindReading(informer.cls, failure, informer.now_s - since_s if since_s is not None else 0.0, namespace)


def is_refused(reading: KindReading) -> bool:
    """True if the server answers and refuses this kind: waiting does not help."""
    return isinstance(reading.failure, Forbidden | NotFound)


def notices(readings: Iterable[KindReading], server: str) -> Iterator[tuple[str, NoticeRow]]:
    """Notices by topic. An unreachable server is one notice, however many kinds are read."""
    away: list[KindReading] = []
    for reading in readings:
        if reading.failure is None:
            continue
        if is_refused(reading):
            yield codec.resource_of(reading.cls).qualified, _refused(reading)
        elif reading.failing_for_s >= AWAY_AFTER_S:
            away.append(reading)
    if away:
        yield SERVER, _away(away, server)


def _refused(reading: KindReading) -> NoticeRow:
    resource, kind = codec.resource_of(reading.cls), reading.cls.__name__
    meaning = _MEANING.get(kind, _QUESTIONS)
    if isinstance(reading.failure, NotFound):
        hint = f"it has no {resource.group or 'core'}/{resource.version} {resource.plural}"
        return NoticeRow(severity="info", text=f"this server does not know {kind} objects: {meaning}", hint=hint)
    where = f" in namespace {reading.namespace}" if reading.namespace else ""
    return NoticeRow(
        text=f"{kind} objects may not be read{where}: {meaning}", hint=_remedy(resource, reading.namespace)
    )


def _remedy(resource: Resource, namespace: str) -> str:
    verbs = f"let the user of the kubeconfig list and watch {resource.plural}"
    verbs += f" of group {resource.group}" if resource.group else ""
    if resource.namespaced and not namespace:
        return f"{verbs} in all namespaces, or show one namespace alone with --namespace"
    return verbs


def _away(away: list[KindReading], server: str) -> NoticeRow:
    failure = max(away, key=lambda each: each.failing_for_s).failure
    assert failure is not None
    if isinstance(failure, Unauthorized):
        text = f"{server} does not accept these credentials: {failure.message}"
        return NoticeRow(severity="error", text=f"{text}; what is shown is old", hint=failure.hint or _AGAIN)
    text = f"{server} does not answer: {failure.message}; the page shows what was known before, and keeps asking"
    return NoticeRow(severity="error", text=text, hint=failure.hint or "")


_AGAIN: Final = "start the dashboard again with a kubeconfig whose credentials are still good"


KINDS: Final = ("Pod", "PersistentVolumeClaim")


class EventStream(Informer[Event]):
    """The Events about objects of one kind: `told` gets them, and none is kept."""

    def __init__(self, client: Client, kind: str, told: Callable[[Event], None], *, namespace: str) -> None:
        super().__init__(client, Event, namespace=namespace, field_selector=f"involvedObject.kind={kind}")
        self._told = told

    def put(self, new: Event) -> None:
        self._told(new)

    def replace(self, state: Iterable[Event], *, rewound: bool = False) -> None:
        for event in state:
            self._told(event)


SETTLE_S: Final = 0.1
"""How long changes are gathered before rows are settled: nobody sees more than ten updates a second."""
ASK_S: Final = 1.0
"""How often the scheduler's memory is read, and how often unreadable kinds are checked."""
AGAIN_S: Final = 0.2
"""How soon the scheduler is asked again after a waiting pod changed: it may just have decided."""
ANSWER_S: Final = 10.0
"""How long a person waits for one object."""
FORGET_S: Final = 10.0
"""How long a kind is refused before its objects are forgotten: a starting server refuses for a moment too."""
LEASES_S: Final = 5.0
_LOOK_S: Final = 0.05
_NEEDED: Final = frozenset(kind.cls for kind in READ_KINDS if kind.is_needed)
_LET_IN: Final = "let the user of the kubeconfig get the nonResourceURLs /debug/*"

_log = logs.logger("tonnage.dashboard")


class LiveCluster(ShownCluster):
    def __init__(
        self,
        client: Client,
        *,
        scheduler: Endpoint | None = None,
        scheduler_user: KubeconfigUser | None = None,
        namespace: str = "",
    ) -> None:
        super().__init__(clock=client.clock, source=client.server)
        self.client = client
        self.is_known = False
        self.namespace = namespace
        self.informers = Informers(client)
        self._scheduler, self._scheduler_user = scheduler, scheduler_user
        self._is_touched = asyncio.Event()
        self._has_news = asyncio.Event()
        self._stack = AsyncExitStack()
        self._told: set[str] = set()
        self._refused_since_s: dict[type[Object], float] = {}
        self._is_forgetting = False
        self._events = [EventStream(client, kind, self._heard, namespace=namespace) for kind in KINDS]
        # Pods that have ended too: how they ended is part of their story.
        kinds = [(kind.cls, "" if kind.is_needed else kind.field_selector) for kind in READ_KINDS]
        for cls, selected in (*kinds, *((cls, "") for cls in NOT_READ_BY_DECISIONS)):
            informer: Informer[Any] = self.informers.of(cls, namespace=self._namespace_of(cls), field_selector=selected)
            informer.add_handlers(on_add=self._put, on_update=lambda _, new: self._put(new), on_delete=self._remove)

    @property
    def asks_scheduler(self) -> bool:  # type: ignore[override]
        return self._scheduler is not None

    async def memory(self) -> scheduler_memory.SchedulerMemory | None:
        if self._scheduler is None:
            return None
        return await scheduler_memory.memory_of(self._scheduler, clock=self.clock, user=self._scheduler_user)

    async def schedulers(self, running: Sequence[str]) -> schedulers_seen.SchedulersSeen:
        return await schedulers_seen.schedulers_of(self.client, list(self.model.objects), running=running)

    async def leases(self) -> Sequence[small_groups.Lease] | None:
        return await within(self.clock, LEASES_S, scheduler_memory.leases_of(self.client))

    def unread(self) -> Mapping[str, str]:
        found = {each.cls.__name__: each.failure for each in (*self._readings(), *self._event_readings())}
        return {kind: why.message for kind, why in found.items() if kind in _MEANING and isinstance(why, Forbidden)}

    async def rules(self) -> Sequence[Doc]:
        return (await sources.rules_of(self.client))[0]

    def unlisted(self) -> Mapping[str, str]:
        """Unread kinds and why, as `sources.from_cluster` has them. Raises the refusal of a required kind."""
        found = {}
        for each in self._readings():
            if each.failure is None or (each.cls in NOT_READ_BY_DECISIONS and isinstance(each.failure, NotFound)):
                continue
            if each.cls in _NEEDED:
                raise each.failure
            if is_refused(each):
                found[each.cls.__name__] = each.failure.message
        return found

    def notes(self) -> Sequence[str]:
        """The notes that a command prints for this cluster."""
        found = [sources.not_listed(kind, why) for kind, why in self.unlisted().items()]
        if self.namespace:
            found.append(f"only namespace {self.namespace} is read: pods and claims of other namespaces are ignored")
        return found if self.asks_scheduler else [*found, scheduler_memory.SCHEDULER_NOT_ASKED]

    async def document(self, cls: type[Object], key: Key) -> Doc:
        known = self.known(cls, key)
        selected = f"metadata.name={known.name}"
        asked = self.client.list_docs(cls, namespace=known.namespace, field_selector=selected)
        try:
            found = await within(self.clock, ANSWER_S, asked)
        except TimeoutError:
            raise TonnageError(f"{self.client.server} did not answer within {ANSWER_S:g} s") from None
        if not found:
            raise NotFound(f'{codec.resource_of(cls).qualified} "{key}" not found')
        return found[0]

    async def events_of(self, *about: ObjectReference) -> Sequence[Event]:
        found = await asyncio.gather(*map(self._events_about, about))
        return [event for events in found for event in events]

    async def _events_about(self, about: ObjectReference) -> Sequence[Event]:
        selected = f"involvedObject.kind={about.kind},involvedObject.name={about.name}"
        events = await self.client.list(Event, namespace=about.namespace, field_selector=selected, retry=False)
        return [event for event in events.items if not about.uid or event.involved_object.uid in ("", about.uid)]

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self.informers)
        for events in self._events:
            await self._stack.enter_async_context(events)
        work = {"settle": self._settle, "report what cannot be read": self._tell, "ask the scheduler": self._ask}
        for name, run in work.items():
            if run != self._ask or self._scheduler is not None:
                await self._stack.enter_async_context(in_background(run(), name))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def wait_first(self, timeout_s: float = 5.0) -> None:
        """Return when the state is complete, or after the timeout; late rows then follow as changes."""
        until_s = self.clock.monotonic() + timeout_s
        while self.clock.monotonic() < until_s and not all(
            each.is_synced or is_refused(reading_of(each, "")) for each in (*self.informers, *self._events)
        ):
            await self.clock.sleep(_LOOK_S)
        self._tell_notices()
        self.settle()
        self.is_known = True

    # -- changes from the API server ----------------------------------------------------------------------------------

    def _namespace_of(self, cls: type[Object]) -> str:
        return self.namespace if codec.resource_of(cls).namespaced and cls is not storage_v1.CSIStorageCapacity else ""

    def _put(self, new: Object) -> None:
        self.model.tick(self.clock.now())
        self.model.put(new)
        self._is_touched.set()
        if isinstance(new, Pod) and not new.spec.node_name:
            self._has_news.set()

    def _remove(self, old: Object) -> None:
        self.model.tick(self.clock.now())
        (self.model.forget if self._is_forgetting else self.model.remove)(old)
        self._is_touched.set()

    def _heard(self, event: Event) -> None:
        self.model.tick(self.clock.now())
        self.model.heard(event)
        self._is_touched.set()

    async def _settle(self) -> None:
        while True:
            await self._is_touched.wait()
            await self.clock.sleep(SETTLE_S)
            self._is_touched.clear()
            try:
                self.settle()
            except Exception:  # an object that we do not understand must not stop the others
                _log.exception("Rows cannot be made")

    async def _tell(self) -> None:
        while True:
            self._tell_notices()
            self._forget_refused()
            self._is_touched.set()  # figures become stale by time alone
            await self.clock.sleep(ASK_S)

    def _readings(self) -> Iterator[KindReading]:
        return (reading_of(informer, self._namespace_of(informer.cls)) for informer in self.informers)

    def _event_readings(self) -> list[KindReading]:
        failing = [event.last_failure for event in self._events if event.out_of_step_since_s is not None]
        return [KindReading(Event, failure, 0.0, self.namespace) for failure in failing]

    def _tell_notices(self) -> None:
        readings = [*self._readings(), *self._event_readings()]
        found = dict(notices(readings, self.client.server))
        if SERVER in found:
            notice_row = self.collections.of(NoticeRow).get(SERVER)
            longest_s = max(reading.failing_for_s for reading in readings)
            since = notice_row.since if notice_row is not None else self.clock.now() - timedelta(seconds=longest_s)
            found[SERVER] = msgspec.structs.replace(found[SERVER], since=since)
        if self.namespace:
            text = f"namespace {self.namespace} alone is shown: pods and claims of others are not"
            found["namespace"] = NoticeRow(severity="info", text=text)
        if not self.asks_scheduler:
            text = "Not connected to the scheduler, so its reservations and pods on their way are not shown."
            found["scheduler"] = NoticeRow(severity="info", text=text, hint="Add --scheduler-endpoint URL.")
        for topic in self._told - found.keys():
            self.collections.remove("notices", topic)
        for topic, notice in found.items():
            self.collections.put("notices", topic, notice)
        self._told = set(found)

    def _forget_refused(self) -> None:
        """Forget objects of kinds that are refused: the dashboard neither shows them nor answers with them."""
        now_s = self.clock.monotonic()
        for informer in self.informers:
            if not is_refused(reading_of(informer, "")):
                self._refused_since_s.pop(informer.cls, None)
            elif now_s - self._refused_since_s.setdefault(informer.cls, now_s) >= FORGET_S and len(informer):
                self._is_forgetting = True
                informer.forget()
                self._is_forgetting = False

    async def _ask(self) -> None:
        while True:
            try:
                memory = await self.memory()
                self.collections.remove("notices", "scheduler")
            except TonnageError as exc:
                memory = None
                text = f"the scheduler cannot be asked: {exc.message}; its reservations and decisions are not shown"
                hint = exc.hint or (_LET_IN if isinstance(exc, NotLetIn) else "")
                self.collections.put("notices", "scheduler", NoticeRow(text=text, hint=hint))
            self.model.tick(self.clock.now())
            self.model.remember(memory)
            self._is_touched.set()
            await self.clock.sleep(AGAIN_S)
            with suppress(TimeoutError):
                await within(self.clock, ASK_S - AGAIN_S, self._has_news.wait())
            self._has_news.clear()
