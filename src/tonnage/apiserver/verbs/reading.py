"""get and list.

A list without a resourceVersion, or with one it need only be "not older than", is answered from memory. An exact one,
and every page after the first, is read from the log at that revision, so that all pages of a list show one moment. The
continue token leads from one page to the next. It is in upstream's own form, because some clients look inside.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from functools import partial

import msgspec

from tonnage.apiserver import event_loop, responses, status
from tonnage.apiserver.event_loop import Turn
from tonnage.apiserver.options import ListOptions, list_options, revision
from tonnage.apiserver.registry import Registry
from tonnage.apiserver.requests import Call, Response
from tonnage.apiserver.selection import Matches, matcher, scope
from tonnage.apiserver.stored_documents import is_served_as_stored
from tonnage.documents.go_text import syntax_error
from tonnage.errors import BadRequest, Expired
from tonnage.objects.document import Doc
from tonnage.store import RevisionCompacted, RevisionInFuture, StoreRecord

_VERSION = "meta.k8s.io/v1"


class ContinueToken(msgspec.Struct):
    """Where the next page starts: after the key `start`, at revision `rv` (-1: whatever is newest)."""

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
            raise ValueError(f"the token is none: {exc}") from exc
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
    """The moment a paged list showed is gone; the answer holds a token that goes on with what is there now."""

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
"""Records of one step through the store: a page of one would go a step for each record it passes over."""


async def get(registry: Registry, call: Call) -> Response:
    """GET one object."""
    asked = revision(call.query.get("resourceVersion", ""), of="get")
    if asked > registry.store.revision:
        raise status.resource_version_too_large(asked, registry.store.revision)
    record = registry.read(call.resource, call.namespace, call.name)
    return await respond(registry, call, record.document)


async def respond(registry: Registry, call: Call, document: bytes, *, code: int = 200) -> Response:
    """One object in the form that was asked for."""
    shape = partial(responses.of_object, call, document, now=registry.clock.now(), code=code)
    return await registry.work(event_loop.is_large(document), shape)


async def list_(registry: Registry, call: Call) -> Response:
    """GET a collection."""
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
    """A list in the form that was asked for; one that takes long is put together beside the loop."""
    size = sum(map(len, documents))
    chosen = responses.negotiated(call)
    is_joined = chosen.form == "object" and not chosen.yaml and is_served_as_stored(call.resource)
    most = event_loop.LARGE_LIST_BYTES if is_joined else event_loop.LARGE_BYTES
    shape = partial(responses.of_list, call, documents, head, now=registry.clock.now())
    return await registry.work(size > most, shape)


async def select(registry: Registry, call: Call, options: ListOptions) -> tuple[list[StoreRecord], int, bool]:
    """The records of one page, the revision they show, and whether there may be more. Raises BadRequest, Expired,
    Timeout.
    """
    store, matches = registry.store, matcher(registry.strategy(call.resource), call, options)
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
        raise status.resource_version_too_large(asked, store.revision)
    try:
        chosen, has_more = await _page(registry, scope(call), at, after_key, options.limit, matches)
    except RevisionCompacted as exc:
        if options.token:
            raise ExpiredToken(token) from exc
        raise Expired("The resourceVersion for the provided list is too old.") from exc
    except RevisionInFuture as exc:
        raise status.resource_version_too_large(at, store.revision, may_come=False) from exc
    return chosen, at, has_more


async def _page(
    registry: Registry, prefix: str, at: int, after_key: str, limit: int, matches: Matches
) -> tuple[list[StoreRecord], bool]:
    """Up to `limit` matching records (0: all) at a revision, and whether any follow the last one looked at."""
    chosen: list[StoreRecord] = []
    turn = Turn()
    # A selective list may have to look at many records for one page: a page's worth at a time, or more if that is few.
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
