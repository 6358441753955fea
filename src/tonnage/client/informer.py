"""An `Informer` keeps all objects of a resource up to date, and calls event handlers on every change.

                 ┌─────────┐  state   ┌──────────┐  the stream ends or is cut: on from
      start ────►│ syncing ├─────────►│ watching ├─┐ the last resourceVersion seen
                 └────▲────┘          └─┬────▲───┘ │
                      └─────────────────┘    └─────┘
            410, ERROR, a version that is refused

Syncing is a watch-list if the server supports it, else a paged list; handlers are called for the difference to the last
state. An old event about the known state is skipped; one that contradicts it makes the informer sync again. A state
older than the last comes from a restored server, and counts. Objects without a name or uid are skipped. Versions that
are no numbers cannot be compared: their events are taken as they come.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TypeVar, Unpack

from tonnage import logs
from tonnage.client import errors, rest
from tonnage.client.cache import Cache
from tonnage.client.errors import Disconnected
from tonnage.client.http import Client, Lines
from tonnage.clock import Backoff, Running, within
from tonnage.errors import ApiError, Expired, Forbidden, Gone, NotFound, TonnageError
from tonnage.objects import codec, decode_errors, document
from tonnage.objects.codec import Bookmark, WatchChange, WatchFailure, resource_of
from tonnage.objects.meta import Key, Object, revision_of


@dataclass(slots=True)
class StreamProgress:
    """The versions that an informer has reached, for callers that order the events of several informers.

    Versions that are no numbers count as 0, which is no version.
    """

    reached: int = 0
    """Handlers have been called for all changes of the kind up to this version."""
    telling: int = 0
    """The version for which handlers are being called; for a whole state, the state's version."""
    gap: tuple[int, int] = (0, 0)
    """The last synced state: changes after the first version, up to the second, were handled as one change. From 0:
    nothing before it is known."""
    open_since_s: float | None = None
    """When the current stream began, by the client's clock; None without a stream."""
    has_spoken: bool = False
    """The current stream has brought an event."""


T = TypeVar("T", bound=Object)

_MIN_WATCH_S, _MAX_WATCH_S = 300, 600
"""Every watch asks for a random time in this range, as client-go's do, so that clients do not reconnect together."""
_USEFUL_S = 1.0
_SILENCE_S = 30.0
"""A server that accepts a watch-list and sends nothing for so long does not really support it."""

_log = logs.logger(__name__)


class Informer(Cache[T], Running):
    """The objects of a resource, or of one namespace or selection of it, kept up to date."""

    def __init__(
        self,
        client: Client,
        cls: type[T],
        *,
        is_optional: bool = False,
        watch_list: bool = True,
        first_retry_s: float = 0.8,
        max_retry_s: float = 30.0,
        **selection: Unpack[rest.Selection],
    ) -> None:
        """`is_optional`: a resource that the server refuses counts as synced and stays empty until allowed."""
        super().__init__(cls)
        self._is_namespaced = resource_of(cls).namespaced
        self.last_failure: TonnageError | None = None
        """Why it last failed to follow, for callers that wait."""
        self.out_of_step_since_s: float | None = None
        """When it lost its connection to the state, in monotonic seconds of the clock; None while it follows."""
        self.last_told_s: float | None = None
        """When the server last sent anything, bookmarks included, by the same clock; None before that."""
        self.fetches = 0
        """How often the whole state was read."""
        self.failures = 0
        """How often a watch or a list failed."""
        self._client = client
        self._selection = selection
        self._is_optional = is_optional
        self._watch_list = watch_list
        self._resource_version = ""
        self._received = 0  # new events of the current stream
        self.progress = StreamProgress()
        self._synced = asyncio.Event()
        self._fetched = asyncio.Event()
        self._backoff = Backoff(clock=client.clock, rng=client.rng, first_s=first_retry_s, max_s=max_retry_s)
        self._task: asyncio.Task[None] | None = None

    @property
    def resource_version(self) -> str:
        """The newest revision seen, where the next watch starts; empty when the whole state must be read."""
        return self._resource_version

    @property
    def now_s(self) -> float:
        """The clock of `out_of_step_since_s` and `last_told_s`."""
        return self._client.clock.monotonic()

    @property
    def is_synced(self) -> bool:
        """True once the state has been read; from then on it is as current as the connection allows."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Return when the state is known and handlers have been called for all of it."""
        await self._synced.wait()

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"informer {self.name}")

    async def stop(self) -> None:
        """Stop watching. The objects stay readable; no handler is called any more. `start` continues from there."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    async def refresh(self) -> None:
        """Read the whole state again, and return when handlers have been called for the difference."""
        await self.stop()
        self._resource_version = ""
        self._fetched.clear()
        self.start()
        await self._fetched.wait()

    def forget(self) -> None:
        """Drop all objects: handlers see them deleted. The whole state is read next."""
        self._resource_version = ""
        self.replace(())

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
                # A bug of ours must not leave the program blind: start over from a fresh state.
                _log.exception("Informer failed", resource=self.name)
                self._resource_version = ""
            finally:
                self.progress.open_since_s = None
            # A short stream that ends with a need for the whole state was of no use, whatever it brought: a server that
            # always does so would be asked for everything for ever, without a pause.
            was_news = self._received and self._resource_version
            if was_news or clock.monotonic() - started_at >= _USEFUL_S:
                self._backoff.reset()
                await asyncio.sleep(0)  # however fast streams come and go, other tasks get their turn
            else:
                await clock.sleep(self._backoff.next_s())

    def _note(self, failure: TonnageError) -> None:
        self.last_failure = failure
        self.failures += 1
        if self.out_of_step_since_s is None:
            self.out_of_step_since_s = self._client.clock.monotonic()
        if isinstance(failure, Expired | Gone):
            _log.info("The state is fetched again", resource=self.name, reason=failure.message)
        else:
            _log.warning("Cannot follow", resource=self.name, error=failure.message)
        if self._is_optional and isinstance(failure, Forbidden | NotFound):
            self._synced.set()
            self._fetched.set()
        if isinstance(failure, ApiError):
            # A refused version stays refused: the server has forgotten it, or never had it.
            too_large = any(cause.reason == "ResourceVersionTooLarge" for cause in failure.causes)
            if failure.code in (400, 410, 422) or too_large:
                self._resource_version = ""

    async def _follow(self) -> None:
        """Run one stream to its end, after reading the state if needed. Raises the failure."""
        if not self._resource_version and self._watch_list:
            if await self._stream_from_state():
                return
            self._watch_list = False  # not asked again
        if not self._resource_version:
            object_list = await self._client.list(self.cls, retry=False, on_unreadable=self._skip, **self._selection)
            self._replace_state(object_list.items, object_list.resource_version)
        async with self._watch(from_state=False) as lines:
            self.out_of_step_since_s = None
            await self._run_on(lines)

    async def _stream_from_state(self) -> bool:
        """Run a stream that begins with the state to its end; False when the server does not support that."""
        has_state = False
        try:
            async with self._watch(from_state=True) as lines:
                has_state = await self._receive_state(lines)
                if has_state:
                    await self._run_on(lines)
        except ApiError as exc:
            # The server does not know or support the request: trying again does not help.
            if has_state or exc.code not in (400, 422, 500, 501):
                raise
            _log.info("No watch-list here; listing instead", resource=self.name, reason=exc.message)
        return has_state

    async def _run_on(self, lines: Lines) -> None:
        self.progress.open_since_s, self.progress.has_spoken = self.now_s, False
        async for batch in lines:
            self._apply_events(batch)

    async def _receive_state(self, lines: Lines) -> bool:
        """Read the state up to its final bookmark, and replace ours; False if nothing comes."""
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
        self.progress.gap, self.progress.telling = (0 if rewound else reached, revision), revision
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
        """Apply lines of a running watch. Every line moves the version, so that a cut loses and repeats nothing."""
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
            if version.strip("0"):  # a watch from "" or 0 would begin with all objects
                self._resource_version = version
                self.progress.reached = revision_of(version) or self.progress.reached

    def _pass_over_old(self, event: WatchChange[T]) -> None:
        """Skip an event that was handled before. Raises TonnageError when it contradicts the known state."""
        told = event.object
        known = self.get(told.key)
        if known is None or known.metadata.uid != told.metadata.uid:
            if event.type == "DELETED":
                return  # gone, as it says
        elif event.type != "DELETED" and told.metadata.revision <= known.metadata.revision:
            return
        version, self._resource_version = self._resource_version, ""
        says = f"{event.type} {told.key} at version {told.metadata.resource_version}"
        raise TonnageError(f"a watch of {self.name} that has come to version {version} says {says}")

    def _is_usable(self, found: T) -> bool:
        """True if the object has a name, a uid, and a namespace if its kind is namespaced."""
        metadata, problem = found.metadata, ""
        if not metadata.name or "/" in metadata.name or "/" in metadata.namespace:
            problem = "it has no name"
        elif bool(metadata.namespace) != self._is_namespaced:
            problem = "its kind has namespaces and it has none" if self._is_namespaced else "its kind has no namespaces"
        elif not metadata.uid:
            problem = "it has no uid"
        if problem:
            self._skip(decode_errors.Unreadable(self.cls.__name__, found.key, "metadata", problem))
        return not problem

    def _read(self, line: bytes) -> WatchChange[T] | Bookmark:
        """Decode one event. Raises the ApiError that ends a stream; then the state must be read again."""
        try:
            event = codec.decode_event(self.cls, line)
        except decode_errors.Unreadable as exc:
            return self._pass_over(line, exc)
        if isinstance(event, WatchFailure):
            self._resource_version = ""  # whatever the reason, a fresh state is never wrong
            raise errors.from_status(event.status)
        return event

    def _pass_over(self, line: bytes, failure: decode_errors.Unreadable) -> Bookmark:
        """Skip an event whose object cannot be decoded: it moves the version, and a deletion counts."""
        doc = {} if failure.kind == "WatchEvent" else codec.read_doc("WatchEvent", line)
        if doc.get("type") not in ("ADDED", "MODIFIED", "DELETED"):
            self._resource_version = ""
            raise failure  # no event, or an end that is not understood: the stream is broken
        self._skip(failure)
        if doc["type"] == "DELETED":
            self.remove(failure.key)
        version = document.dig(doc, "object", "metadata", "resourceVersion")
        return Bookmark(version if isinstance(version, str) else "")

    def _skip(self, failure: decode_errors.Unreadable) -> None:
        # One object that cannot be decoded must not hide all the others.
        _log.error("An object cannot be read and is ignored", resource=self.name, error=failure.message)


async def _next(lines: AsyncIterator[list[bytes]]) -> list[bytes] | None:
    return await anext(lines, None)
