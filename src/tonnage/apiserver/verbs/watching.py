"""watch: a stream of events that has no gap and no duplicate.

A watch starts from a state it sends itself (no resourceVersion, "0", or sendInitialEvents) or from a revision the
client already knows. From there on every event of the store passes the selectors: an object that begins to match is
ADDED, one that ceases to is DELETED with its last matching state, whatever happened to it in the store.

Frames are encoded once an event and form, and shared by all watchers (`StoreEvent.frames`).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace

from tonnage.apiserver import responses, status, stored_documents
from tonnage.apiserver.event_loop import Turn
from tonnage.apiserver.options import list_options, revision
from tonnage.apiserver.registry import Registry
from tonnage.apiserver.requests import Call
from tonnage.apiserver.selection import Matches, matcher, scope
from tonnage.apiserver.tables import partial_metadata, table
from tonnage.documents.custom.custom_resource import CustomResource
from tonnage.errors import ApiError, Expired, ServiceUnavailable
from tonnage.objects.document import Doc, decode, encode
from tonnage.objects.resources import Resource
from tonnage.store import (
    EventType,
    RevisionCompacted,
    StoreClosed,
    StoreError,
    StoreEvent,
    Watch,
    WatchClosed,
    WatchOverrun,
)

_MIN_TIMEOUT_S = 1800.0
"""Upstream ends a watch after 30 to 60 minutes, so that clients spread over servers; ours keeps the habit."""
_BOOKMARK_EVERY_S = 60.0
_CHUNK_BYTES = 256 * 1024
_LAST_BOOKMARK_S = 2.0
"""How long before its end a watch sends the bookmark from which the client will go on."""


class Watching:
    """One watch request, checked and positioned, ready to stream. Making one raises what a plain answer should say."""

    def __init__(self, registry: Registry, call: Call, rng: random.Random, *, started_at: float) -> None:
        self._registry = registry
        self.resource = call.resource
        options = list_options(call.query, watch=True)
        self._matches = matcher(registry.strategy(call.resource), call, options)
        self._options = replace(options, labels=None, fields=None)  # which may be long, and are in `_matches`
        self._scope = scope(call)
        self._encoder = _Encoder(registry, call)
        timeout_s = self._options.timeout_s
        self.ends_at = started_at + (float(timeout_s) if timeout_s else _MIN_TIMEOUT_S * (1.0 + rng.random()))
        self._asked = revision(self._options.resource_version, of="watch")
        is_stateful = self._options.send_initial_events
        self._initial = registry.store.list(self._scope) if is_stateful else None
        self._after = (0 if is_stateful else self._asked) or registry.store.revision
        """The state to send first, if any, and the revision after which events follow."""
        self._watch: Watch | None = None

    async def frames(self) -> AsyncIterator[bytes]:
        """Chunks of whole frames until the timeout, the client or the server ends it."""
        options, encode_frame = self._options, self._encoder
        newest = self._registry.store.revision
        if self._asked > newest:
            # Nobody can know of a moment that has not come, but from before an old copy of the store was put in place.
            # Upstream waits for it, and the watcher misses what happens until then; ours is told to list again.
            error: ApiError = Expired(f"too large resource version: {self._asked}, current: {newest}")
            if options.send_initial_events:
                error = status.resource_version_too_large(self._asked, newest)
            yield _error_frame(error)
            return
        try:
            self._watch = watch = self._registry.store.watch(self._scope, after=self._after)
        except RevisionCompacted as exc:
            yield _error_frame(Expired(f"too old resource version: {exc.revision} ({exc.compacted})"))
            return
        except StoreClosed:
            return
        try:
            if self._initial is not None:
                matches = self._matches
                async for frames in _joined(
                    encode_frame("ADDED", record.document) if matches(record) else None for record in self._initial
                ):
                    yield frames
                if options.send_initial_events and options.bookmarks:
                    yield self._bookmark(self._after, initial_events_end=True)
                self._initial = None
            async for frames in self._follow(watch):
                yield frames
        finally:
            watch.close()

    def stop(self) -> None:
        """End the stream in good order, because the server stops."""
        if self._watch is not None:
            self._watch.close()

    def finish(self) -> None:
        """End the stream after what has happened so far, because its resource is no longer what it was."""
        if self._watch is not None:
            self._watch.end(WatchClosed(self._scope))

    async def _follow(self, watch: Watch) -> AsyncIterator[bytes]:
        loop, ends_at = asyncio.get_running_loop(), self.ends_at
        bookmark_at = self._next_bookmark(loop.time(), ends_at)
        while True:
            try:
                async with asyncio.timeout_at(min(ends_at, bookmark_at)):
                    events = await watch.next_batch()
            except TimeoutError:
                if loop.time() >= ends_at:
                    return
                yield self._bookmark(watch.revision)
                bookmark_at = self._next_bookmark(loop.time(), ends_at)
                continue
            except (StoreClosed, WatchClosed):
                return
            except WatchOverrun as exc:
                yield _error_frame(Expired(exc.message))
                return
            except StoreError as exc:
                yield _error_frame(ServiceUnavailable(exc.message))
                return
            async for frames in _joined(frame_of(event, self._matches, self._encoder) for event in events):
                yield frames

    def _next_bookmark(self, now: float, ends_at: float) -> float:
        """Every minute, and shortly before the end; never, for a client that did not ask."""
        soon = min(now + _BOOKMARK_EVERY_S, ends_at - _LAST_BOOKMARK_S)
        return soon if self._options.bookmarks and soon > now else ends_at

    def _bookmark(self, at: int, *, initial_events_end: bool = False) -> bytes:
        meta: Doc = {"resourceVersion": str(at)}
        if initial_events_end:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        return self._encoder.bookmark(meta)


async def _joined(frames: Iterable[bytes | None]) -> AsyncIterator[bytes]:
    """Frames in chunks, each a write. They are made one by one, and others have the loop in between."""
    chunk: list[bytes] = []
    size = 0
    turn = Turn()
    for frame in frames:
        if turn.is_over:
            await turn.pause()
        if frame is None:
            continue
        chunk.append(frame)
        size += len(frame)
        if size >= _CHUNK_BYTES:
            yield b"".join(chunk)
            chunk, size = [], 0
    if chunk:
        yield b"".join(chunk)


def frame_of(event: StoreEvent, matches: Matches, encoder: _Encoder) -> bytes | None:
    """What a watcher with these selectors is told of an event; None when it does not concern it.

    Of an object that left the selection it is the last state that matched, under the revision that took it out.
    """
    before = event.previous is not None and matches(event.previous)
    if event.type is not EventType.DELETE and matches(event.record):
        return encoder.shared(event, "MODIFIED" if before else "ADDED")
    return encoder.shared(event, "DELETED") if before else None


class _Encoder:
    """Documents to frames, in the form one watcher asked for."""

    def __init__(self, registry: Registry, call: Call) -> None:
        self._resource: Resource = call.resource
        self._now = registry.clock.now
        chosen = responses.negotiated(call)
        form, self._api_version = chosen.form, chosen.api_version
        self._form = "metadata" if form == "metadata list" else form  # a stream has no lists
        self._include = responses.include_of(call) if self._form == "table" else "Metadata"
        own, shape = stored_documents.is_served_as_stored(call.resource), call.resource.group
        if isinstance(call.resource, CustomResource):
            shape = f"{call.resource.api_version}/{call.resource.shape_id}"
        self._share_as = f"{self._form}/{self._include}/{self._api_version}/{'' if own else shape}"
        self._is_plain = own and self._form == "object"
        self._with_columns = True

    def __call__(self, kind: str, document: bytes) -> bytes:
        if not self._is_plain:
            document = self._shape(decode(document))
        return b'{"type":"%s","object":%s}\n' % (kind.encode(), document)

    def shared(self, event: StoreEvent, kind: str) -> bytes:
        if self._form == "table" and self._with_columns:
            return self(kind, _told(event, kind))  # nobody else's: the first frame of a stream has columns
        name = kind + self._share_as
        frame = event.frames.get(name)
        if self._form == "table":  # whose ages differ from second to second
            second, made_in = str(self._now()).partition(".")[0].encode(), f"{name}, made in"
            frame = frame if event.frames.get(made_in) == second else None
            event.frames[made_in] = second
        if frame is None:
            frame = event.frames[name] = self(kind, _told(event, kind))
        return frame

    def bookmark(self, meta: Doc) -> bytes:
        doc: Doc = {"kind": self._resource.kind, "apiVersion": self._resource.api_version, "metadata": meta}
        if self._form == "table":
            doc = self._table(doc, meta)
        elif self._form == "metadata":
            doc = partial_metadata(doc, self._api_version)
        return b'{"type":"BOOKMARK","object":%s}\n' % encode(doc)

    def _shape(self, doc: Doc) -> bytes:
        if self._form == "metadata":
            return encode(partial_metadata(doc, self._api_version))
        doc = stored_documents.served(self._resource, doc)
        if self._form == "table":
            doc = self._table(doc, {"resourceVersion": doc["metadata"].get("resourceVersion", "")})
        return encode(doc)

    def _table(self, doc: Doc, head: Doc) -> Doc:
        # The first frame names the columns; the rest would only repeat them.
        headers, self._with_columns = self._with_columns, False
        return table(
            self._resource,
            [doc],
            now=self._now(),
            list_metadata=head,
            include=self._include,
            headers=headers,
            api_version=self._api_version,
        )


def _told(event: StoreEvent, kind: str) -> bytes:
    """The state to tell: the newest, or for an object that left a selection the one before, under the new revision."""
    if kind != "DELETED" or event.type is EventType.DELETE or event.previous is None:
        return event.record.document
    gone = decode(event.previous.document)
    gone["metadata"]["resourceVersion"] = str(event.revision)
    return encode(gone)


def _error_frame(error: ApiError) -> bytes:
    return b'{"type":"ERROR","object":%s}\n' % encode(status.failure(error))
