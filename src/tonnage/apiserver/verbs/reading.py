"""get and list.

A list without a resourceVersion, or with one it need only be "not older than", is answered from memory. An exact one,
and every page after the first, is read from the log at that revision, so that all pages of a list show one moment.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any

import msgspec

from tonnage.apiserver import answers, refusals
from tonnage.apiserver.options import ListOptions, list_options, revision
from tonnage.apiserver.registry import Registry
from tonnage.apiserver.requests import Answer, Call
from tonnage.errors import BadRequest, Expired
from tonnage.objects.document import Doc
from tonnage.store import Record, RevisionCompacted, RevisionInFuture

Matches = Callable[[Record], bool]


async def get(registry: Registry, call: Call) -> Answer:
    """GET one object."""
    asked = revision(call.query.get("resourceVersion", ""), of="get")
    if asked > registry.store.revision:
        raise refusals.resource_version_too_large(asked, registry.store.revision)
    record = registry.read(call.resource, call.namespace, call.name)
    return answers.one(call, record.document, now=registry.clock.now())


async def list_(registry: Registry, call: Call) -> Answer:
    """GET a collection."""
    options = list_options(call.query, watch=False)
    matches = matcher(registry, call, options)
    records, at, more = await _select(registry, call, options, matches)
    head: Doc = {"resourceVersion": str(at)}
    if more and records:
        head["continue"] = _Token(rv=at, start=records[-1].key.removeprefix(call.resource.store_prefix)).text()
        remaining = _remaining(registry, call, options, records[-1], at)
        if remaining:
            head["remainingItemCount"] = remaining
    return answers.many(call, [record.document for record in records], head, now=registry.clock.now())


async def _select(
    registry: Registry, call: Call, options: ListOptions, matches: Matches
) -> tuple[list[Record], int, bool]:
    """The records of one page, the revision they show, and whether there are more."""
    store, prefix = registry.store, scope(call)
    asked = revision(options.resource_version, of="list")
    after_key, at = "", store.revision
    if options.token:
        token = _Token.read(options.token)
        after_key = call.resource.store_prefix + token.start
        at = token.rv if token.rv > 0 else store.revision
        if asked and options.resource_version not in ("", "0"):
            raise BadRequest("specifying resource version is not allowed when using continue")
    elif options.match == "Exact":
        at = asked
    elif asked > store.revision:
        raise refusals.resource_version_too_large(asked, store.revision)
    chosen: list[Record] = []
    try:
        while True:
            # A selective list may have to look at many records for one page: fetch a page's worth at a time.
            batch = await store.list_at(
                prefix, at, after_key=after_key, limit=options.limit + 1 if options.limit else 0
            )
            for index, record in enumerate(batch):
                if matches(record):
                    chosen.append(record)
                    if options.limit and len(chosen) == options.limit:
                        return chosen, at, index + 1 < len(batch) or len(batch) > options.limit
            if not options.limit or len(batch) <= options.limit:
                return chosen, at, False
            after_key = batch[-1].key
    except RevisionCompacted as exc:
        raise _too_old(options, after_key.removeprefix(call.resource.store_prefix)) from exc
    except RevisionInFuture as exc:
        raise refusals.resource_version_too_large(at, store.revision) from exc


def scope(call: Call) -> str:
    """The store prefix of the call's collection: one namespace, or all."""
    prefix = call.resource.store_prefix
    return f"{prefix}{call.namespace}/" if call.namespace and call.resource.namespaced else prefix


def matcher(registry: Registry, call: Call, options: ListOptions) -> Matches:
    """The selectors as one question. Raises BadRequest for a field this kind cannot be selected by."""
    labels, fields = options.labels, options.fields
    if labels is not None and labels.is_empty:
        labels = None
    if fields is not None:
        known = {"metadata.name", "metadata.namespace", *registry.strategy(call.resource).selectable}
        for name in fields.fields:
            if name not in known:
                raise BadRequest(f"field label not supported: {name}")
    if call.name:  # the old /watch/…/name path, and GET …/name?watch=true
        suffix = f"/{call.name}"
        return lambda record: record.key.endswith(suffix) and _selected(record, labels, fields)
    if labels is None and (fields is None or not fields.terms):
        return lambda record: True
    return lambda record: _selected(record, labels, fields)


def _selected(record: Record, labels: Any, fields: Any) -> bool:
    facts = record.facts
    return (labels is None or labels.matches(facts.labels)) and (fields is None or fields.matches(facts.fields))


def _remaining(registry: Registry, call: Call, options: ListOptions, last: Record, at: int) -> int | None:
    """How many come after this page; upstream counts only where no selector makes the count a guess."""
    if options.labels is not None or options.fields is not None or at != registry.store.revision:
        return None
    return sum(record.key > last.key for record in registry.store.list(scope(call)))


class _Token(msgspec.Struct):
    """Where the next page starts, in upstream's own form: after `start`, at revision `rv` (-1: whatever is newest)."""

    rv: int
    start: str
    v: str = "meta.k8s.io/v1"

    def text(self) -> str:
        after = msgspec.structs.replace(self, start=self.start + "\0")
        return base64.urlsafe_b64encode(msgspec.json.encode(after)).decode().rstrip("=")

    @classmethod
    def read(cls, text: str) -> _Token:
        try:
            raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
            token = msgspec.json.decode(raw, type=cls)
        except (binascii.Error, ValueError) as exc:
            raise BadRequest(f"invalid continue token: continue key is not valid: {exc}") from exc
        if not token.start or not token.rv or token.v != "meta.k8s.io/v1":
            raise BadRequest(
                "invalid continue token: continue key is not valid: incorrect encoded start resourceVersion"
            )
        return msgspec.structs.replace(token, start=token.start.removesuffix("\0"))


def _too_old(options: ListOptions, start: str) -> Expired:
    if not options.token:
        return refusals.list_too_old()
    return _ExpiredContinue(_Token(rv=-1, start=start).text())


class _ExpiredContinue(Expired):
    """The moment a paged list showed is gone; the answer holds a token that goes on with what is there now."""

    def __init__(self, token: str) -> None:
        super().__init__(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list "
            "without the continue parameter, or use the continue token in this response to retrieve the remainder of "
            "the results. Continuing with the provided token results in an inconsistent list - objects that were "
            "created, modified, or deleted between the time the first chunk was returned and now may show up in the "
            "list."
        )
        self.continue_token = token
