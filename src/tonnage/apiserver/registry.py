"""Objects in and out of the store, under the rules of their kind. The verbs call it.

An object changes by `create`, `change` (put, patch, apply, and every subresource) or `remove`. Each judges a whole
document with the kind's strategy and writes it with the store's optimistic lock, so an object is never half written or
overwritten unseen. `change` takes a function from the old document to the new one, and runs it again when another
writer came first: only a client that named a resourceVersion gets the conflict. The rules are in `documents`:
`creation`, `deletion`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache, partial

from tonnage.apiserver import admission, event_loop, requests
from tonnage.apiserver.authorizer import RbacAuthorizer
from tonnage.apiserver.custom_definitions import Definitions
from tonnage.apiserver.requests import Location, WriteOptions
from tonnage.apiserver.stored_documents import encoder, opening_of
from tonnage.clock import Backoff, Clock, in_background, rfc3339
from tonnage.documents import admit, api_errors, creation, protobuf
from tonnage.documents.access.attributes import AllowAll, Authorizer
from tonnage.documents.access.escalation import is_guarded, refuse_escalation
from tonnage.documents.admission import READ_FOR, Admission
from tonnage.documents.apply.field_walk import shape_of
from tonnage.documents.custom.custom_resource import CustomResource
from tonnage.documents.deletion import is_deletable, judge_deletion
from tonnage.documents.schema import structs
from tonnage.documents.strategy import Generation, Strategy
from tonnage.documents.validation.metadata import validate_object_meta_update
from tonnage.errors import ApiError
from tonnage.gates import Gates
from tonnage.objects.document import Doc, copy, decode, encode
from tonnage.objects.field_errors import Errors
from tonnage.objects.resources import Resource
from tonnage.objects.users import User
from tonnage.store.errors import KeyDamaged, KeyExists, KeyMissing, StaleRevision, StoreClosed, StoreError
from tonnage.store.records import StoreRecord
from tonnage.store.store import Store

Change = Callable[[Doc], Doc]
"""From a copy of the old document, which it may modify, to the new one. May run several times, and in a thread."""

_Judged = tuple[Doc, Doc, Sequence[str], bool]
"""The new document, the old one, the kind's warnings, and whether nothing needs to be written."""

MAX_TRIES = 16
"""How often a change is recomputed when other writers come first; then the client gets the conflict."""
_NAME_TRIES = 8


@dataclass(frozen=True, slots=True)
class Written:
    """An object after a write or dry run, as the client sees it. `warnings` are its kind's."""

    document: bytes
    created: bool = False
    removed: bool = False
    warnings: Sequence[str] = ()


class Registry:
    def __init__(
        self,
        store: Store,
        *,
        gates: Gates,
        clock: Clock,
        rng: random.Random,
        authorizer: Authorizer | None = None,
    ) -> None:
        compile_schemas()  # before threads start
        self.store = store
        self.workers = event_loop.Workers()
        self.work = self.workers.work
        self.gates = gates
        self.clock = clock
        self.authorizer: Authorizer = authorizer or AllowAll()
        self.definitions = Definitions(store)
        self._names = creation.NameGenerator(rng)
        self._admission = Admission(admission.StoreLister(store), generate_name=self._names.generate_name)
        self._quotas = admission.QuotaAdmission(store, clock, self.workers)
        self._creator = creation.Creator(gates=gates, clock=clock, names=self._names, admission=self._admission)

    def strategy(self, resource: Resource) -> Strategy:
        return self._creator.strategy(resource)

    def new_uid(self) -> str:
        return self._names.uid()

    def now(self) -> str:
        return rfc3339(self.clock.now())

    def read(self, at: Location) -> StoreRecord:
        """The current object. Raises NotFound."""
        record = self.store.get(at.key)
        if record is None:
            raise api_errors.not_found(at.resource, at.name)
        return record

    # -- create -------------------------------------------------------------------------------------------------------

    async def create(
        self, at: Location, doc: Doc, options: WriteOptions, *, is_tracked: bool = True, is_large: bool = False
    ) -> Written:
        """Store a new object. Raises AlreadyExists, Invalid, Forbidden, or NotFound for its namespace.

        `is_tracked` is False if metadata.managedFields are already set (server-side apply). `is_large`: build and judge
        the object in a thread.
        """
        resource, namespace = at.resource, at.namespace
        meta: Doc = doc.setdefault("metadata", {})
        generate = meta.get("generateName", "") if not meta.get("name") else ""
        if isinstance(resource, CustomResource) and resource.is_terminating:
            why = "create not allowed while custom resource definition is terminating"
            raise api_errors.forbidden(resource, meta.get("name") or generate, why)
        if resource.namespaced:
            if meta.setdefault("namespace", namespace) != namespace:
                raise requests.wrong_namespace()
            self._admission.validate_namespace(resource, namespace, meta.get("name") or generate)
        else:
            meta.pop("namespace", None)
        if meta.get("resourceVersion", "") not in ("", "0"):
            raise api_errors.UnknownReason("resourceVersion should not be set on objects to be created")
        if self._is_guarded(resource, options.requester):
            await self.workers.run(partial(self._refuse_escalation, at, doc, None, options.requester))
        is_large = is_large or self._admission_reads_much(resource, namespace)
        for _ in range(_NAME_TRIES if generate else 1):
            attempt = copy(doc) if generate else doc
            if generate:
                attempt["metadata"]["name"] = self._names.generate_name(generate)
            warnings = await self.work(is_large, partial(self._make, resource, attempt, options, is_tracked))
            if is_large and resource.namespaced:  # which may have gone meanwhile
                self._admission.validate_namespace(resource, namespace, attempt["metadata"]["name"])
            charges = await self._quotas.charge(resource, attempt, dry_run=options.dry_run, is_large=is_large)
            try:
                return replace(await self._insert(resource, namespace, attempt, options), warnings=warnings)
            except (KeyExists, StoreError) as exc:
                await self._quotas.release(charges)
                if not isinstance(exc, KeyExists):
                    raise
                existing = exc.existing
        is_terminating = "deletionTimestamp" in decode(existing.document)["metadata"]
        raise api_errors.already_exists(resource, attempt["metadata"]["name"], is_terminating=is_terminating)

    def _admission_reads_much(self, resource: Resource, namespace: str) -> bool:
        """True if the objects that admission reads for a new one of this kind are large in total."""
        size = 0
        for other in READ_FOR.get(resource, ()):
            prefix = f"{other.store_prefix}{namespace}/" if other.namespaced else other.store_prefix
            size += sum(len(record.document) for record in self.store.list(prefix))
        return size > event_loop.LARGE_ADMISSION_BYTES

    def _make(self, resource: Resource, doc: Doc, options: WriteOptions, is_tracked: bool) -> Sequence[str]:
        self._creator.create(resource, doc, manager=options.manager if is_tracked else "")
        self._admission.validate_create(resource, doc)
        return self.strategy(resource).warnings(doc, None)

    async def _insert(self, resource: Resource, namespace: str, doc: Doc, options: WriteOptions) -> Written:
        key = resource.key(namespace, doc["metadata"]["name"])
        if options.dry_run:
            existing = self.store.get(key)
            if existing is not None:
                raise KeyExists(existing)
            return Written(encode(doc), created=True)
        record = await self.store.create(key, encoder(resource, doc))
        return Written(record.document, created=True)

    # -- change -------------------------------------------------------------------------------------------------------

    async def change(
        self,
        at: Location,
        change: Change,
        options: WriteOptions,
        *,
        is_tracked: bool = True,
        is_put: bool = False,
        is_large: bool = False,
    ) -> Written:
        """Replace an object, or its subresource, by the result of `change`.

        Raises NotFound, Conflict, Invalid, or what `change` raises.

        With `is_put` a foreign uid is a conflict; for a patch it is an invalid value. The others are as in `create`.
        """
        resource = at.resource
        strategy, is_guarded = self.strategy(resource), self._is_guarded(resource, options.requester)

        def judged(record: StoreRecord) -> _Judged:
            # Read twice: decoding is several times faster than copying.
            old, new = _current(resource, record), change(_current(resource, record))
            if is_guarded:
                self._refuse_escalation(at, new, old, options.requester)
            creation.prepare_update(resource, new, old, may_overwrite=strategy.unconditional_update, is_put=is_put)
            self._judge_change(resource, new, old, options, at.subresource, is_tracked)
            # A custom resource may be stored in an older version.
            is_idle = creation.is_no_change(new, old) and record.document.startswith(opening_of(resource.stored))
            return new, old, strategy.warnings(new, old), is_idle

        beside = is_large or is_guarded
        return await self._replace(at, judged, options.dry_run, beside=beside, is_charged=not at.subresource)

    async def _replace(
        self,
        at: Location,
        judge: Callable[[StoreRecord], _Judged],
        dry_run: bool,
        *,
        beside: bool = False,
        is_charged: bool = False,
    ) -> Written:
        """Write the result of `judge`, and judge again when another writer came first."""
        for _ in range(MAX_TRIES):
            record = self.read(at)
            is_large = beside or event_loop.is_large(record.document)
            new, old, warnings, is_idle = await self.work(is_large, partial(judge, record))
            if is_idle:
                return Written(record.document, warnings=warnings)
            charges: tuple[admission.Charge, ...] = ()
            if is_charged:
                charges = await self._quotas.charge(at.resource, new, old, dry_run=dry_run, is_large=is_large)
            try:
                return replace(await self._write(at.resource, new, old, record, dry_run), warnings=warnings)
            except (StaleRevision, KeyMissing):
                await self._quotas.release(charges)
        raise api_errors.modified(at.resource, at.name)

    def _is_guarded(self, resource: Resource, requester: User | None) -> bool:
        """True if the write must be compared with the requester's rights. Their roles may be large."""
        has_rules = isinstance(self.authorizer, RbacAuthorizer) and requester is not None and not requester.is_master
        return has_rules and is_guarded(resource)

    def _refuse_escalation(self, at: Location, new: Doc, old: Doc | None, requester: User | None) -> None:
        """Raises Forbidden when the requester writes a role or binding beyond their rights (`access/escalation.py`)."""
        assert isinstance(self.authorizer, RbacAuthorizer) and requester is not None, "the caller asked `_is_guarded`"
        judged = copy(new)
        self.strategy(at.resource).default(judged)
        refuse_escalation(at.resource, at.namespace, at.name, judged, old, requester, self.authorizer)

    async def rewrite(self, at: Location, change: Change, *, dry_run: bool = False) -> Written:
        """Replace an object by the result of `change`, unjudged: `change` is the rule (binding, eviction).

        Raises NotFound, Conflict, or what `change` raises. Field ownership is not tracked, as upstream.
        """

        def judged(record: StoreRecord) -> _Judged:
            old, new = decode(record.document), change(decode(record.document))
            return new, old, (), new == old

        return await self._replace(at, judged, dry_run)

    def _judge_change(
        self, resource: Resource, new: Doc, old: Doc, options: WriteOptions, subresource: str, is_tracked: bool
    ) -> None:
        strategy = self.strategy(resource)
        strategy.default(new)
        creation.refuse_too_large(resource, new, old)  # before any code walks over the defaulted document
        if subresource == "status":
            strategy.prepare_status(new, old)
        elif subresource != "finalize":  # its change is its own rule
            strategy.drop_disabled_fields(new, old)
            strategy.prepare_update(new, old)
        if is_tracked:
            creation.track_managed_fields(
                resource, old=old, new=new, manager=options.manager, subresource=subresource, now=self.now()
            )
        creation.refuse_too_large(resource, new, old)
        is_counted = strategy.generation is not Generation.NONE and subresource != "status"
        if is_counted and strategy.spec_changed(new, old):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        errors: Errors = validate_object_meta_update(
            new, old, are_finalizers_qualified=strategy.are_finalizers_qualified
        )
        if subresource == "status":
            errors += strategy.validate_status(new, old)
        elif subresource != "finalize":
            errors += strategy.validate_update(new, old)
        if errors:
            raise api_errors.invalid(resource, new["metadata"]["name"], errors)
        if subresource != "status":
            self._admission.validate_update(resource, new, old)

    async def _write(self, resource: Resource, new: Doc, old: Doc, record: StoreRecord, dry_run: bool) -> Written:
        # Removing the last finalizer of a terminating object deletes it. Watchers see the last stored state, the client
        # its own.
        is_done = "deletionTimestamp" in old["metadata"] and is_deletable(self.strategy(resource), new)
        if dry_run:
            return Written(encode(new), removed=is_done)
        if is_done:
            await self.store.delete(record.key, encoder(resource, old), expected=record.revision)
            return Written(encode(new), removed=True)
        written = await self.store.update(
            record.key,
            encoder(resource, new),
            expected=record.revision,
            makes_room="deletionTimestamp" in old["metadata"],  # a step of its deletion, for which a full disk has room
        )
        return Written(written.document)

    # -- remove -------------------------------------------------------------------------------------------------------

    async def remove(
        self,
        at: Location,
        *,
        grace_s: int | None = None,
        propagation: str = "",
        check: Callable[[Doc], None] = lambda doc: None,
        dry_run: bool = False,
    ) -> Written:
        """Delete an object, or mark it and wait for its grace period and finalizers. Raises NotFound, Conflict.

        `check` judges the preconditions at every try.
        """
        resource = at.resource
        strategy = self.strategy(resource)

        def judged(record: StoreRecord) -> tuple[Doc, bool, bool]:
            old = decode(record.document)
            check(old)
            self._admission.validate_delete(resource, at.name)
            deletion = judge_deletion(strategy, old, asked_s=grace_s, propagation=propagation, now=self.clock.now())
            last = old if deletion.marked is None else deletion.marked
            return last, deletion.is_removed, last != old

        for _ in range(MAX_TRIES):
            try:
                record = self.read(at)
            except KeyDamaged:
                return await self._discard(at, dry_run=dry_run)
            beside = event_loop.is_large(record.document)
            last, is_removed, is_marked = await self.work(beside, partial(judged, record))
            if dry_run:
                return Written(encode(last), removed=is_removed)
            try:
                if is_marked:
                    record = await self.store.update(
                        record.key, encoder(resource, last), expected=record.revision, makes_room=True
                    )
                if is_removed:
                    record = await self.store.delete(record.key, encoder(resource, last), expected=record.revision)
            except (StaleRevision, KeyMissing):
                continue
            return Written(record.document, removed=is_removed)
        raise api_errors.modified(resource, at.name)

    async def _discard(self, at: Location, *, dry_run: bool) -> Written:
        """Delete an unreadable object at once: its preconditions, finalizers and owners are unknown."""
        last: Doc = {"metadata": {"name": at.name, "uid": ""}}
        if at.resource.namespaced:
            last["metadata"]["namespace"] = at.namespace
        encode_last = encoder(at.resource, last)
        if dry_run:
            return Written(encode_last(self.store.revision), removed=True)
        try:
            record = await self.store.discard(at.key, encode_last)
        except KeyMissing as exc:  # another deletion was faster
            raise api_errors.not_found(at.resource, at.name) from exc
        return Written(record.document, removed=True)


def _current(resource: Resource, record: StoreRecord) -> Doc:
    """A stored object as changes see it: a custom one in the requested version."""
    doc: Doc = decode(record.document)
    return resource.shown(doc) if isinstance(resource, CustomResource) else doc


@cache
def compile_schemas() -> None:
    """Compile every named type before threads start: a type is registered before it is complete."""
    for struct in structs():
        admit.compile_check(struct)
        shape_of(struct)
        protobuf.table_of(struct)


@asynccontextmanager
async def done_on_change(
    registry: Registry,
    rng: random.Random,
    work: Callable[[], Awaitable[bool]],
    failed: Callable[[str], None],
    name: str,
) -> AsyncIterator[asyncio.Event]:
    """Inside the block, run `work` whenever the event is set, and again after growing pauses until it returns True."""
    changed, backoff = asyncio.Event(), Backoff(clock=registry.clock, rng=rng)

    async def run() -> None:
        while True:
            await changed.wait()
            changed.clear()
            try:
                if await work():
                    backoff.reset()
                    continue
            except StoreClosed:
                return
            except (ApiError, StoreError) as exc:
                failed(exc.message)
            changed.set()
            await registry.clock.sleep(backoff.next_s())

    async with in_background(run(), name):
        yield changed
