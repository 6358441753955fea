"""An `Informer` knows all objects of a resource, all the time, and calls event handlers on every change.

                 ┌─────────┐  state   ┌──────────┐  the stream ends or is cut: on from
      start ────►│ syncing ├─────────►│ watching ├─┐ the last resourceVersion seen
                 └────▲────┘          └─┬────▲───┘ │
                      └─────────────────┘    └─────┘
            410, ERROR, a version that is refused

Syncing is a watch-list where the server can do that, else a list in pages; handlers hear of the difference to the state
before. An old event about a known state is passed over; one that contradicts what is known has the state fetched anew.
A state older than the one before comes from a restored server, and is the truth. Objects without a name or uid are
passed over. Versions that are no numbers cannot be compared: what comes with one is taken as it comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Self, TypeVar, Unpack

from tonnage import logs
from tonnage.backoff import Backoff
from tonnage.client import errors
from tonnage.client.cache import Cache
from tonnage.client.errors import Disconnected
from tonnage.client.http import Client, Lines
from tonnage.client.rest import Selection
from tonnage.clock import within
from tonnage.errors import ApiError, Expired, Forbidden, Gone, NotFound, TonnageError
from tonnage.objects import codec
from tonnage.objects.codec import Bookmark, WatchChange, WatchFailure
from tonnage.objects.decode_errors import Unreadable
from tonnage.objects.document import dig
from tonnage.objects.meta import Key, Object, revision_of
from tonnage.objects.scheme import resource_of


@dataclass(slots=True)
class StreamProgress:
    """How far an informer has come, in the server's versions, for whoever puts the news of several informers in one
    order.

    Versions that are no numbers count as 0, which is no version.
    """

    reached: int = 0
    """All that happened to its kind up to this version has been told."""
    telling: int = 0
    """The version of what handlers are being called for; of a state that was fetched, that of the state."""
    gap: tuple[int, int] = (0, 0)
    """The last state that was fetched: what happened after the first version, up to the second, was told as one
    change. From 0: nothing before it is known."""
    open_since_s: float | None = None
    """When the present stream began, by the client's clock; None while there is none."""
    has_spoken: bool = False
    """The present stream has brought something."""

    def opened(self, now_s: float) -> None:
        self.open_since_s, self.has_spoken = now_s, False

    def closed(self) -> None:
        self.open_since_s = None

    def fetched(self, version: int, *, rewound: bool) -> None:
        """A whole state is about to be told; `rewound`: it is older than what was known."""
        self.gap = (0 if rewound else self.reached, version)
        self.telling = version

    def came_to(self, version: int) -> None:
        """Everything up to this version is told; 0 says nothing."""
        self.reached = version or self.reached


T = TypeVar("T", bound=Object)

_MIN_WATCH_S, _MAX_WATCH_S = 300, 600
"""Each watch asks for a random time between these, as client-go's do, so that many clients do not reconnect at once."""
_USEFUL_S = 1.0
_SILENCE_S = 30.0
"""A server that takes a watch-list and then sends nothing for so long, not even its end, cannot really do it."""

_log = logs.logger(__name__)


class Contradicted(TonnageError):
    """An old event on a watch that is not about what was known when it was new."""

    def __init__(self, resource: str, type_: str, key: Key, version: str, reached: str) -> None:
        super().__init__(
            f"a watch of {resource} that has come to version {reached} says {type_} {key} at version {version}"
        )


class Informer(Cache[T]):
    """The objects of one resource, or those of a namespace or selection of it, kept up to date."""

    def __init__(
        self,
        client: Client,
        cls: type[T],
        *,
        is_optional: bool = False,
        watch_list: bool = True,
        first_retry_s: float = 0.8,
        max_retry_s: float = 30.0,
        **selection: Unpack[Selection],
    ) -> None:
        """`is_optional`: nobody waits for a resource that the server refuses; it has no objects until it is allowed."""
        super().__init__(cls)
        self._is_namespaced = resource_of(cls).namespaced
        self.last_failure: TonnageError | None = None
        """Why it was last out of step, for whoever waits for it."""
        self.out_of_step_since_s: float | None = None
        """Since when it cannot follow, in the clock's monotonic seconds; None while it can."""
        self.last_told_s: float | None = None
        """When the server last said anything, a bookmark included, by the same clock; None before it first did."""
        self.fetches = 0
        """How often the whole state was fetched."""
        self.failures = 0
        """How often a watch or a list failed."""
        self._client = client
        self._selection = selection
        self._is_optional = is_optional
        self._watch_list = watch_list
        self._resource_version = ""
        self._received = 0  # events of the present stream that were news
        self.progress = StreamProgress()
        self._synced = asyncio.Event()
        self._fetched = asyncio.Event()
        self._backoff = Backoff(clock=client.clock, rng=client.rng, first_s=first_retry_s, max_s=max_retry_s)
        self._task: asyncio.Task[None] | None = None

    @property
    def resource_version(self) -> str:
        """The newest revision seen, where the next watch starts; empty while the state has to be fetched."""
        return self._resource_version

    @property
    def now_s(self) -> float:
        """The time by which `out_of_step_since_s` and `last_told_s` are told."""
        return self._client.clock.monotonic()

    @property
    def is_synced(self) -> bool:
        """The state has been fetched once; since then it is as up to date as the connection allows."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Return when the state is known and handlers have been called for all of it."""
        await self._synced.wait()

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"informer {self.name}")

    async def stop(self) -> None:
        """Hang up. What is known stays readable; no handler is called any more. A start goes on from there."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    async def refresh(self) -> None:
        """Fetch the state anew, and return when handlers have been called for what is different."""
        await self.stop()
        self._resource_version = ""
        self._fetched.clear()
        self.start()
        await self._fetched.wait()

    def forget(self) -> None:
        """Know nothing any more: handlers hear that all objects are deleted. The whole state is fetched next."""
        self._resource_version = ""
        self.replace(())

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # -- the life of streams ------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        clock = self._client.clock
        while True:
            started_at, self._received = clock.monotonic(), 0
            try:
                await self._follow()
            except TonnageError as exc:
                self._note(exc)
            except Exception:
                # A fault of ours must not leave the program blind: start over from a fresh state.
                _log.exception("Informer failed", resource=self.name)
                self._resource_version = ""
            finally:
                self.progress.closed()
            # One that ends with a need for the whole state was of no use if it did not last, whatever it brought: a
            # server that does so each time would be asked for everything, without a pause, for ever.
            was_news = self._received and self._resource_version
            if was_news or clock.monotonic() - started_at >= _USEFUL_S:
                self._backoff.reset()
                await asyncio.sleep(0)  # however fast streams come and go, others get their turn
            else:
                await clock.sleep(self._backoff.next_s())

    def _note(self, failure: TonnageError) -> None:
        self.last_failure = failure
        self.failures += 1
        if self.out_of_step_since_s is None:
            self.out_of_step_since_s = self._client.clock.monotonic()
        if isinstance(failure, Expired | Gone):
            _log.info("The state is fetched anew", resource=self.name, reason=failure.message)
        else:
            _log.warning("Cannot follow", resource=self.name, error=failure.message)
        if self._is_optional and isinstance(failure, Forbidden | NotFound):
            self._synced.set()
            self._fetched.set()
        if isinstance(failure, ApiError):
            # A version that is refused will not get better: the server has forgotten it, or never had it.
            too_large = any(cause.reason == "ResourceVersionTooLarge" for cause in failure.causes)
            if failure.code in (400, 410, 422) or too_large:
                self._resource_version = ""

    async def _follow(self) -> None:
        """One stream to its end, after the state if that is not known. Raises what went wrong."""
        if not self._resource_version and self._watch_list:
            if await self._stream_from_state():
                return
            self._watch_list = False  # not asked again
        if not self._resource_version:
            found = await self._client.list(self.cls, retry=False, on_unreadable=self._skip, **self._selection)
            self._replace_state(found.items, found.resource_version)
        async with self._watch(from_state=False) as lines:
            self.progress.opened(self._client.clock.monotonic())
            self.out_of_step_since_s = None
            async for batch in lines:
                self._apply_events(batch)

    async def _stream_from_state(self) -> bool:
        """A stream that begins with the state, to its end; False when the server cannot do that."""
        has_state = False
        try:
            async with self._watch(from_state=True) as lines:
                has_state = await self._receive_state(lines)
                if has_state:
                    self.progress.opened(self._client.clock.monotonic())
                    async for batch in lines:
                        self._apply_events(batch)
        except ApiError as exc:
            # Refused as one does who does not know, or cannot do, what is asked: not a matter of trying again.
            if has_state or exc.code not in (400, 422, 500, 501):
                raise
            _log.info("No watch-list here; listing instead", resource=self.name, reason=exc.message)
        return has_state

    async def _receive_state(self, lines: Lines) -> bool:
        """Read the state up to the bookmark that ends it, and make it ours; False if nothing comes."""
        state: dict[Key, T] = {}
        while True:
            try:
                batch = await within(self._client.clock, _SILENCE_S, _next(lines))
            except TimeoutError:
                _log.info("No end of the state comes; listing instead", resource=self.name, silence_s=_SILENCE_S)
                return False
            if batch is None:
                raise Disconnected("GET", self._client.server, "the stream ended before its state did", in_doubt=False)
            for number, line in enumerate(batch):
                event = self._read(line)
                if isinstance(event, WatchChange) and event.type == "DELETED":
                    state.pop(event.object.key, None)
                elif isinstance(event, WatchChange):
                    state[event.object.key] = event.object
                elif event.ends_initial_events:
                    self._replace_state(state.values(), event.resource_version)
                    self._apply_events(batch[number + 1 :])
                    return True

    def _watch(self, *, from_state: bool) -> AbstractAsyncContextManager[Lines]:
        return self._client.watch(
            self.cls,
            resource_version=self._resource_version,
            send_initial_events=from_state,
            timeout_s=self._client.rng.randint(_MIN_WATCH_S, _MAX_WATCH_S),
            **self._selection,
        )

    # -- what streams say ---------------------------------------------------------------------------------------------

    def _replace_state(self, state: Iterable[T], resource_version: str) -> None:
        revision, reached = revision_of(resource_version), self.progress.reached
        rewound = 0 < revision < reached
        if rewound:
            _log.warning("The server has gone back", resource=self.name, from_version=reached, to_version=revision)
        self.progress.fetched(revision, rewound=rewound)
        self.replace((found for found in state if self._is_usable(found)), rewound=rewound)
        self._resource_version, self.progress.reached = resource_version, revision
        self.out_of_step_since_s = None
        self.last_told_s = self.now_s
        self.fetches += 1
        self._fetched.set()
        if not self._synced.is_set():
            _log.info("Synced", resource=self.name, objects=len(self), resource_version=resource_version)
            self._synced.set()

    def _apply_events(self, batch: Iterable[bytes]) -> None:
        """Lines of a watch under way. The version moves with each, so that a cut loses nothing and repeats nothing."""
        self.last_told_s = self.now_s
        for line in batch:
            event = self._read(line)
            version = (
                event.object.metadata.resource_version if isinstance(event, WatchChange) else event.resource_version
            )
            self.progress.has_spoken = True
            if 0 < revision_of(version) <= revision_of(self._resource_version):
                if isinstance(event, WatchChange):
                    self._pass_over_old(event)
                continue
            self._received += 1
            self.progress.telling = revision_of(version)
            if isinstance(event, WatchChange) and self._is_usable(event.object):
                if event.type == "DELETED":
                    self.remove(event.object.key)
                else:
                    self.put(event.object)
            if version.strip("0"):  # from none and from 0 a watch would begin with all that there is
                self._resource_version = version
                self.progress.came_to(revision_of(version))

    def _pass_over_old(self, event: WatchChange[T]) -> None:
        """An event that was told before. Raises Contradicted when it is not about what is known."""
        told = event.object
        known = self.get(told.key)
        if known is None or known.metadata.uid != told.metadata.uid:
            if event.type == "DELETED":
                return  # gone, as it says
        elif event.type != "DELETED" and told.metadata.revision <= known.metadata.revision:
            return
        version, self._resource_version = self._resource_version, ""
        raise Contradicted(self.name, event.type, told.key, told.metadata.resource_version, version)

    def _is_usable(self, found: T) -> bool:
        """Whether an object can be told from others: by a name, a namespace if its kind has them, and a uid."""
        if problem := self._problem_of(found):
            self._skip(Unreadable(self.cls.__name__, found.key, "metadata", problem))
        return not problem

    def _problem_of(self, found: T) -> str:
        metadata = found.metadata
        if not metadata.name or "/" in metadata.name or "/" in metadata.namespace:
            return "it has no name"
        if bool(metadata.namespace) != self._is_namespaced:
            return "its kind has namespaces and it has none" if self._is_namespaced else "its kind has no namespaces"
        return "" if metadata.uid else "it has no uid"

    def _read(self, line: bytes) -> WatchChange[T] | Bookmark:
        """One event. Raises the ApiError by which the server ends a stream; then the state has to be fetched."""
        try:
            event = codec.decode_event(self.cls, line)
        except Unreadable as exc:
            return self._pass_over(line, exc)
        if isinstance(event, WatchFailure):
            self._resource_version = ""  # whatever the reason, a fresh state is never wrong
            raise errors.from_status(event.status)
        return event

    def _pass_over(self, line: bytes, failure: Unreadable) -> Bookmark:
        """An event about an object that is not as its class expects: it moves the version, and a deletion counts."""
        doc = {} if failure.kind == "WatchEvent" else codec.read_doc("WatchEvent", line)
        if doc.get("type") not in ("ADDED", "MODIFIED", "DELETED"):
            self._resource_version = ""
            raise failure  # no event at all, or an end in words that are not understood: the stream is broken
        self._skip(failure)
        if doc["type"] == "DELETED":
            self.remove(failure.key)
        version = dig(doc, "object", "metadata", "resourceVersion")
        return Bookmark(version if isinstance(version, str) else "")

    def _skip(self, failure: Unreadable) -> None:
        # One object that we do not understand must not blind us for all the others.
        _log.error("An object cannot be read and is passed over", resource=self.name, error=failure.message)


async def _next(lines: AsyncIterator[list[bytes]]) -> list[bytes] | None:
    return await anext(lines, None)
