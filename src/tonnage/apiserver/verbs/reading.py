"""get, list and watch.

A list without a resourceVersion, or "not older than" one, is answered from memory. An exact one, and every page after
the first, is read from the log at that revision, so that all pages show one state. Continue tokens have upstream's
form, because some clients look inside.

A watch has no gaps and no duplicates. It starts from a state that it sends (no resourceVersion, "0", or
sendInitialEvents) or from a revision that the client knows. An object that begins to match the selectors is ADDED, one
that ceases to is DELETED with its last matching state. Frames are encoded once per event and form, and shared by all
watchers (`StoreEvent.frames`).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import random
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from functools import partial

import msgspec

from tonnage.apiserver import event_loop, responses, stored_documents, tables
from tonnage.apiserver.registry import Registry
from tonnage.apiserver.requests import Call, ListOptions, Response, list_options, resource_version_too_large, revision
from tonnage.apiserver.stored_documents import Matches, matcher, scope
from tonnage.documents.custom.custom_resource import CustomResource
from tonnage.documents.go_text import syntax_error
from tonnage.errors import ApiError, BadRequest, Expired, ServiceUnavailable
from tonnage.objects.document import Doc, decode, encode
from tonnage.objects.resources import Resource
from tonnage.store.errors import RevisionCompacted, RevisionInFuture, StoreClosed, StoreError, WatchClosed, WatchOverrun
from tonnage.store.records import EventType, StoreEvent, StoreRecord
from tonnage.store.watch import Watch

_VERSION = "meta.k8s.io/v1"


class ContinueToken(msgspec.Struct):
    """Where the next page starts: after the key `start`, at revision `rv` (-1: the newest)."""

    rv: int = 0
    start: str = ""
    v: str = ""

    def text(self) -> str:
        after = msgspec.structs.replace(self, start=f"{self.start}\0", v=_VERSION)
        return base64.urlsafe_b64encode(msgspec.json.encode(after)).decode().rstrip("=")

    @classmethod
    def read(cls, text: str) -> ContinueToken:
        """Raises BadRequest."""
        try:
            token = cls._decode(text)
        except ValueError as exc:
            raise BadRequest(f"invalid continue token: continue key is not valid: {exc}") from exc
        return msgspec.structs.replace(token, start=token.start.lstrip("/").removesuffix("\0"))

    @classmethod
    def _decode(cls, text: str) -> ContinueToken:
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except binascii.Error as exc:
            raise ValueError("illegal base64 data") from exc
        try:
            token = msgspec.json.decode(raw, type=cls)
        except (msgspec.ValidationError, RecursionError) as exc:
            raise ValueError(f"the token is not valid: {exc}") from exc
        except msgspec.DecodeError as exc:
            raise ValueError(syntax_error(raw)) from exc
        if token.v != _VERSION:
            raise ValueError(f"server does not recognize this encoded version {token.v}")
        if not token.rv:
            raise ValueError(f"incorrect encoded start resourceVersion (version {_VERSION})")
        if not token.start:
            raise ValueError(f"encoded start key empty (version {_VERSION})")
        if ".." in token.start.split("/"):
            raise ValueError(token.start)
        return token


class ExpiredToken(Expired):
    """The revision of a paged list is gone; the error has a token that continues at the newest."""

    def __init__(self, token: ContinueToken) -> None:
        super().__init__(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list "
            "without the continue parameter, or use the continue token in this response to retrieve the remainder of "
            "the results. Continuing with the provided token results in an inconsistent list - objects that were "
            "created, modified, or deleted between the time the first chunk was returned and now may show up in the "
            "list."
        )
        self.continue_token = msgspec.structs.replace(token, rv=-1).text()


_MIN_FETCHED = 500
"""Records per read of the store: with pages of one, a selective list would need a read per record."""


async def get(registry: Registry, call: Call) -> Response:
    asked = revision(call.query.get("resourceVersion", ""), of="get")
    if asked > registry.store.revision:
        raise resource_version_too_large(asked, registry.store.revision)
    record = registry.read(call.at)
    return await respond(registry, call, record.document)


async def respond(registry: Registry, call: Call, document: bytes, *, code: int = 200) -> Response:
    shape = partial(responses.of_object, call, document, now=registry.clock.now(), code=code)
    return await registry.work(event_loop.is_large(document), shape)


async def list_(registry: Registry, call: Call) -> Response:
    options = list_options(call.query, watch=False)
    records, at, has_more = await select(registry, call, options)
    head: Doc = {"resourceVersion": str(at)}
    if has_more and records:
        last_key = records[-1].key
        head["continue"] = ContinueToken(rv=at, start=last_key.removeprefix(scope(call))).text()
        if options.labels is None and options.fields is None:  # else the count would be a guess
            head["remainingItemCount"] = len(await registry.store.list_at(scope(call), at, after_key=last_key))
    return await respond_list(registry, call, [record.document for record in records], head)


async def respond_list(registry: Registry, call: Call, documents: Sequence[bytes], head: Doc) -> Response:
    """A list in the requested form; a large one is built in a thread."""
    size = sum(map(len, documents))
    chosen = responses.negotiated(call)
    is_joined = chosen.form == "object" and not chosen.yaml and stored_documents.is_served_as_stored(call.at.resource)
    most = event_loop.LARGE_LIST_BYTES if is_joined else event_loop.LARGE_BYTES
    shape = partial(responses.of_list, call, documents, head, now=registry.clock.now())
    return await registry.work(size > most, shape)


async def select(registry: Registry, call: Call, options: ListOptions) -> tuple[list[StoreRecord], int, bool]:
    """The records of one page, their revision, and whether more may follow. Raises BadRequest, Expired, Timeout."""
    store, matches = registry.store, matcher(registry.strategy(call.at.resource), call, options)
    asked = revision(options.resource_version, of="list")
    after_key, at = "", store.revision
    if options.token:
        token = ContinueToken.read(options.token)
        after_key = scope(call) + token.start
        at = token.rv if token.rv > 0 else store.revision
        if asked:
            raise BadRequest("specifying resource version is not allowed when using continue")
    elif options.is_exact:
        at = asked
    elif asked > store.revision:
        raise resource_version_too_large(asked, store.revision)
    try:
        chosen, has_more = await _page(registry, scope(call), at, after_key, options.limit, matches)
    except RevisionCompacted as exc:
        if options.token:
            raise ExpiredToken(token) from exc
        raise Expired("The resourceVersion for the provided list is too old.") from exc
    except RevisionInFuture as exc:
        raise resource_version_too_large(at, store.revision, may_come=False) from exc
    return chosen, at, has_more


async def _page(
    registry: Registry, prefix: str, at: int, after_key: str, limit: int, matches: Matches
) -> tuple[list[StoreRecord], bool]:
    """Up to `limit` matching records (0: all) at a revision, and whether any follow the last one read."""
    chosen: list[StoreRecord] = []
    turn = event_loop.Turn()
    # A selective list may read many records for one page: a page's worth at a time, at least `_MIN_FETCHED`.
    fetched = max(limit + 1, _MIN_FETCHED) if limit else 0
    while True:
        batch = await registry.store.list_at(prefix, at, after_key=after_key, limit=fetched)
        for idx, record in enumerate(batch):
            if matches(record):
                chosen.append(record)
                if limit and len(chosen) == limit:
                    return chosen, idx + 1 < len(batch) or len(batch) == fetched
            if turn.is_over:
                await turn.pause()
        if not limit or len(batch) < fetched:
            return chosen, False
        after_key = batch[-1].key


_MIN_TIMEOUT_S = 1800.0
"""Upstream ends a watch after 30 to 60 minutes, so that clients spread over servers; ours does too."""
_BOOKMARK_EVERY_S = 60.0
_CHUNK_BYTES = 256 * 1024
_LAST_BOOKMARK_S = 2.0
"""How long before its end a watch sends the bookmark from which the client continues."""


class Watching:
    """A validated watch request, ready to stream. The constructor raises errors that are answered without a stream."""

    def __init__(self, registry: Registry, call: Call, rng: random.Random, *, started_at: float) -> None:
        self._registry = registry
        self.resource = call.at.resource
        options = list_options(call.query, watch=True)
        self._matches = matcher(registry.strategy(call.at.resource), call, options)
        self._options = replace(options, labels=None, fields=None)  # which may be long, and are in `_matches`
        self._scope = scope(call)
        self._encoder = _Encoder(registry, call)
        timeout_s = self._options.timeout_s
        self.ends_at = started_at + (float(timeout_s) if timeout_s else _MIN_TIMEOUT_S * (1.0 + rng.random()))
        self._asked = revision(self._options.resource_version, of="watch")
        is_stateful = self._options.send_initial_events
        self._initial = registry.store.list(self._scope) if is_stateful else None
        self._after = (0 if is_stateful else self._asked) or registry.store.revision
        """The revision after which events follow; before them the state is sent, if one was asked for."""
        self._watch: Watch | None = None

    async def frames(self) -> AsyncIterator[bytes]:
        """Chunks of whole frames until the timeout, the client or the server ends the watch."""
        options, encode_frame = self._options, self._encoder
        newest = self._registry.store.revision
        if self._asked > newest:
            # Only a client from before an old copy of the store was restored can know a future revision. Upstream waits
            # for it, and the watcher misses all events until then; ours is told to list again.
            error: ApiError = Expired(f"too large resource version: {self._asked}, current: {newest}")
            if options.send_initial_events:
                error = resource_version_too_large(self._asked, newest)
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
        """End the stream cleanly, because the server stops."""
        if self._watch is not None:
            self._watch.close()

    def finish(self) -> None:
        """End the stream after all events so far, because its resource has changed."""
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
        """Every minute, and shortly before the end; never for a client that did not ask."""
        soon = min(now + _BOOKMARK_EVERY_S, ends_at - _LAST_BOOKMARK_S)
        return soon if self._options.bookmarks and soon > now else ends_at

    def _bookmark(self, at: int, *, initial_events_end: bool = False) -> bytes:
        meta: Doc = {"resourceVersion": str(at)}
        if initial_events_end:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        return self._encoder.bookmark(meta)


async def _joined(frames: Iterable[bytes | None]) -> AsyncIterator[bytes]:
    """Frames joined into chunks, one write each. Other tasks run between the frames."""
    chunk: list[bytes] = []
    size = 0
    turn = event_loop.Turn()
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
    """The frame of an event for these selectors; None when it does not concern them.

    For an object that left the selection, it has the last matching state, with the new revision.
    """
    before = event.previous is not None and matches(event.previous)
    if event.type is not EventType.DELETE and matches(event.record):
        return encoder.shared(event, "MODIFIED" if before else "ADDED")
    return encoder.shared(event, "DELETED") if before else None


class _Encoder:
    def __init__(self, registry: Registry, call: Call) -> None:
        self._resource: Resource = call.at.resource
        self._now = registry.clock.now
        chosen = responses.negotiated(call)
        form, self._api_version = chosen.form, chosen.api_version
        self._form = "metadata" if form == "metadata list" else form  # a stream has no lists
        self._include = responses.include_of(call) if self._form == "table" else "Metadata"
        own, shape = stored_documents.is_served_as_stored(call.at.resource), call.at.resource.group
        if isinstance(call.at.resource, CustomResource):
            shape = f"{call.at.resource.api_version}/{call.at.resource.shape_id}"
        self._share_as = f"{self._form}/{self._include}/{self._api_version}/{'' if own else shape}"
        self._is_plain = own and self._form == "object"
        self._with_columns = True

    def __call__(self, kind: str, document: bytes) -> bytes:
        if not self._is_plain:
            document = self._shape(decode(document))
        return b'{"type":"%s","object":%s}\n' % (kind.encode(), document)

    def shared(self, event: StoreEvent, kind: str) -> bytes:
        if self._form == "table" and self._with_columns:
            return self(kind, _told(event, kind))  # not shared: the first frame of a stream has columns
        name = kind + self._share_as
        frame = event.frames.get(name)
        if self._form == "table":  # ages change every second
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
            doc = tables.partial_metadata(doc, self._api_version)
        return b'{"type":"BOOKMARK","object":%s}\n' % encode(doc)

    def _shape(self, doc: Doc) -> bytes:
        if self._form == "metadata":
            return encode(tables.partial_metadata(doc, self._api_version))
        doc = stored_documents.served(self._resource, doc)
        if self._form == "table":
            doc = self._table(doc, {"resourceVersion": doc["metadata"].get("resourceVersion", "")})
        return encode(doc)

    def _table(self, doc: Doc, head: Doc) -> Doc:
        # Only the first frame has the column definitions.
        headers, self._with_columns = self._with_columns, False
        return tables.table(
            self._resource,
            [doc],
            now=self._now(),
            list_metadata=head,
            include=self._include,
            headers=headers,
            api_version=self._api_version,
        )


def _told(event: StoreEvent, kind: str) -> bytes:
    """The state to send: the newest, or for an object that left a selection the one before, with the new revision."""
    if kind != "DELETED" or event.type is EventType.DELETE or event.previous is None:
        return event.record.document
    gone = decode(event.previous.document)
    gone["metadata"]["resourceVersion"] = str(event.revision)
    return encode(gone)


def _error_frame(error: ApiError) -> bytes:
    return b'{"type":"ERROR","object":%s}\n' % encode(error.status())
