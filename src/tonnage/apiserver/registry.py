"""Objects in and out of the store, under the rules of their kind. Verbs are thin callers of this.

Three ways an object changes: `create`, `change` (put, patch, apply, and every subresource), `remove`. Each judges a
whole document with the kind's strategy and writes it with the store's optimistic lock, so an object is never half
written and never written over unseen. `change` takes a function from the old document to the new one and runs it again
when another writer came first, unless the client pinned a resourceVersion.

Time, uids and name suffixes are handed in; nothing here reads a clock or draws a random number by itself.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from tonnage.apiserver import refusals
from tonnage.apiserver.admission import Admission
from tonnage.apiserver.facts import Facts, Selectable
from tonnage.apiserver.options import WriteOptions
from tonnage.apiserver.strategies import strategies
from tonnage.apiserver.strategies.base import Generation, Strategy
from tonnage.clock import Clock, rfc3339
from tonnage.gates import Gates
from tonnage.objects import fielderrors
from tonnage.objects.document import Doc, copy, decode, encode, same
from tonnage.objects.fielderrors import Errors
from tonnage.objects.managed import reset_fields_of, track_update
from tonnage.objects.resources import RESOURCES, Resource
from tonnage.objects.validation.metadata import validate_object_meta, validate_object_meta_update
from tonnage.store import KeyExists, KeyMissing, Record, StaleRevision, Store

Change = Callable[[Doc], Doc]
"""From a copy of the old document, which it may consume, to the new one."""

MAX_TRIES = 16
"""How often a change is worked out anew when others keep coming first; then the client gets the conflict."""
_NAME_TRIES = 8
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # no vowels: no words by accident
_MAX_GENERATED_BASE = 63 - 5


@dataclass(frozen=True, slots=True)
class Written:
    """One object after a write. `record` is None for a dry run; `document` is what the client gets to see."""

    document: bytes
    record: Record | None = None
    created: bool = False
    removed: bool = False


class Registry:
    """Every kind's strategy over one store."""

    def __init__(self, store: Store, *, gates: Gates, clock: Clock, rng: random.Random) -> None:
        self.store = store
        self.gates = gates
        self.clock = clock
        self._rng = rng
        self._strategies = strategies(gates, clock)
        self.admission = Admission(store)

    def strategy(self, resource: Resource) -> Strategy:
        return self._strategies[resource.group, resource.plural]

    def now(self) -> str:
        return rfc3339(self.clock.now())

    def read(self, resource: Resource, namespace: str, name: str) -> Record:
        """One object as it is now. Raises NotFound."""
        record = self.store.get(resource.key(namespace, name))
        if record is None:
            raise refusals.not_found(resource, name)
        return record

    # -- create -------------------------------------------------------------------------------------------------------

    async def create(
        self, resource: Resource, namespace: str, doc: Doc, options: WriteOptions, *, track: bool = True
    ) -> Written:
        """Store a new object. Raises AlreadyExists, Invalid, Forbidden, or NotFound for its namespace.

        `track` is off when metadata.managedFields are settled already (server-side apply).
        """
        meta: Doc = doc.setdefault("metadata", {})
        generate = meta.get("generateName", "") if not meta.get("name") else ""
        if resource.namespaced:
            if meta.setdefault("namespace", namespace) != namespace:
                raise refusals.wrong_namespace()
            self.admission.namespace_takes(resource, namespace, meta.get("name", ""))
        elif meta.get("namespace"):
            raise refusals.wrong_namespace()
        if meta.get("resourceVersion", "") not in ("", "0"):
            raise refusals.Unwrapped("resourceVersion should not be set on objects to be created")
        for _ in range(_NAME_TRIES if generate else 1):
            attempt = copy(doc) if generate else doc
            if generate:
                attempt["metadata"]["name"] = self._generated_name(generate)
            self._judge_create(resource, attempt, options, track)
            try:
                return await self._insert(resource, namespace, attempt, options)
            except KeyExists:
                continue
        raise refusals.already_exists(resource, attempt["metadata"]["name"])

    def _judge_create(self, resource: Resource, doc: Doc, options: WriteOptions, track: bool) -> None:
        strategy, meta, now = self.strategy(resource), doc["metadata"], self.now()
        strategy.default(doc)
        if track:
            track_update(
                resource.stored.schema,
                old=None,
                new=doc,
                manager=options.manager,
                api_version=resource.stored.api_version,
                now=now,
                reset_fields=reset_fields_of(resource),
            )
        for field in ("resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
            meta.pop(field, None)
        meta["uid"] = str(uuid.UUID(int=self._rng.getrandbits(128), version=4))
        meta["creationTimestamp"] = now
        self.admission.on_create(resource, doc)
        strategy.prepare_create(doc)
        if strategy.generation is Generation.COUNTED:
            meta["generation"] = 1
        elif strategy.generation is Generation.LATE:
            meta.pop("generation", None)
        errors = validate_object_meta(doc, namespaced=resource.namespaced, name_rule=type(strategy).name_rule)
        errors += strategy.validate(doc)
        if errors:
            raise refusals.invalid(resource, meta.get("name", ""), errors)

    async def _insert(self, resource: Resource, namespace: str, doc: Doc, options: WriteOptions) -> Written:
        key = resource.key(namespace, doc["metadata"]["name"])
        if options.dry_run:
            existing = self.store.get(key)
            if existing is not None:
                raise KeyExists(existing)
            return Written(encode(doc), created=True)
        record = await self.store.create(key, _render(doc))
        return Written(record.document, record, created=True)

    def _generated_name(self, base: str) -> str:
        return base[:_MAX_GENERATED_BASE] + "".join(self._rng.choice(_SUFFIX_LETTERS) for _ in range(5))

    # -- change -------------------------------------------------------------------------------------------------------

    async def change(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        change: Change,
        options: WriteOptions,
        *,
        subresource: str = "",
        track: bool = True,
        by_put: bool = False,
    ) -> Written:
        """Replace an object by what `change` makes of it. Raises NotFound, Conflict, Invalid, or what `change` raises.

        `track` is off when `change` has settled metadata.managedFields itself (server-side apply). `by_put` judges a
        foreign uid as upstream's PUT does, which is a conflict there and an invalid value in a patch.
        """
        key = resource.key(namespace, name)
        for _ in range(MAX_TRIES):
            record = self.store.get(key)
            if record is None:
                raise refusals.not_found(resource, name)
            old = decode(record.document)
            new = change(copy(old))
            pinned = self._settle_metadata(resource, new, old, by_put=by_put)
            self._judge_change(resource, new, old, options, subresource, track)
            if same(_without_managed_fields(new), _without_managed_fields(old)) and same_owners(new, old):
                return Written(record.document, record)
            try:
                return await self._write(resource, key, new, old, record, options.dry_run)
            except StaleRevision as exc:
                if pinned:
                    raise refusals.modified(resource, name) from exc
            except KeyMissing as exc:
                raise refusals.not_found(resource, name) from exc
        raise refusals.modified(resource, name)

    async def rewrite(
        self, resource: Resource, namespace: str, name: str, change: Change, *, dry_run: bool = False
    ) -> Written:
        """Replace an object by what `change` makes of it, on `change`'s word alone: it is the rule (binding, eviction).

        Raises NotFound, Conflict, or what `change` raises. Ownership of fields is not tracked, as upstream does not.
        """
        key = resource.key(namespace, name)
        for _ in range(MAX_TRIES):
            record = self.store.get(key)
            if record is None:
                raise refusals.not_found(resource, name)
            old = decode(record.document)
            new = change(copy(old))
            if new == old:
                return Written(record.document, record)
            try:
                return await self._write(resource, key, new, old, record, dry_run)
            except (StaleRevision, KeyMissing):
                continue
        raise refusals.modified(resource, name)

    def _settle_metadata(self, resource: Resource, new: Doc, old: Doc, *, by_put: bool) -> bool:
        """Take from the old object what a client may leave out or not write; say whether it pinned a version."""
        meta, was = new.setdefault("metadata", {}), old["metadata"]
        name, version = was["name"], meta.get("resourceVersion", "")
        pinned = version not in ("", "0")
        if not pinned and by_put and not self.strategy(resource).unconditional_update:
            error = fielderrors.invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise fielderrors.invalid_object(resource.group, resource.plural, name, [error])
        if by_put and meta.get("uid", was["uid"]) != was["uid"]:
            found = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {was['uid']}"
            raise refusals.conflict(resource, name, found)
        if pinned and version != was["resourceVersion"]:
            raise refusals.modified(resource, name)
        if not meta.get("uid"):
            meta["uid"] = was["uid"]
        for field in ("creationTimestamp", "resourceVersion", "generation", "deletionTimestamp"):
            _carry(meta, was, field)
        _carry(meta, was, "deletionGracePeriodSeconds")
        if resource.namespaced:
            meta.setdefault("namespace", was["namespace"])
        meta.pop("selfLink", None)
        new["kind"], new["apiVersion"] = old["kind"], old["apiVersion"]
        return pinned

    def _judge_change(
        self, resource: Resource, new: Doc, old: Doc, options: WriteOptions, subresource: str, track: bool
    ) -> None:
        strategy = self.strategy(resource)
        strategy.default(new)
        if subresource == "status":
            strategy.prepare_status(new, old)
        else:
            strategy.prepare_update(new, old)
        if track:
            track_update(
                resource.stored.schema,
                old=old,
                new=new,
                manager=options.manager,
                api_version=resource.stored.api_version,
                subresource=subresource,
                now=self.now(),
                reset_fields=reset_fields_of(resource, subresource),
            )
        meta = new["metadata"]
        if strategy.generation is not Generation.NONE and strategy.spec_changed(new, old):
            meta["generation"] = old["metadata"].get("generation", 0) + 1
        errors: Errors = validate_object_meta_update(new, old)
        errors += strategy.validate_status(new, old) if subresource == "status" else strategy.validate_update(new, old)
        if errors:
            raise refusals.invalid(resource, meta["name"], errors)
        if subresource != "status":
            self.admission.on_update(resource, new, old)

    async def _write(self, resource: Resource, key: str, new: Doc, old: Doc, record: Record, dry_run: bool) -> Written:
        # Taking the last finalizer from an object that waits for its deletion completes it.
        done = "deletionTimestamp" in old["metadata"] and self._may_go(resource, new)
        if dry_run:
            return Written(encode(new), removed=done)
        write = self.store.delete if done else self.store.update
        written = await write(key, _render(new), expected=record.revision)
        return Written(written.document, written, removed=done)

    def _may_go(self, resource: Resource, doc: Doc) -> bool:
        meta = doc["metadata"]
        waits = meta.get("finalizers") or meta.get("deletionGracePeriodSeconds", 0)
        return not waits and not self.strategy(resource).holds_back_deletion(doc)

    # -- remove -------------------------------------------------------------------------------------------------------

    async def remove(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        grace_s: int | None = None,
        propagation: str = "",
        check: Callable[[Doc], None] = lambda doc: None,
        dry_run: bool = False,
    ) -> Written:
        """Delete an object, or mark it and wait for its grace period and finalizers. Raises NotFound, Conflict.

        `check` judges the preconditions on the object as it is at that moment, each try anew.
        """
        key = resource.key(namespace, name)
        strategy = self.strategy(resource)
        for _ in range(MAX_TRIES):
            record = self.store.get(key)
            if record is None:
                raise refusals.not_found(resource, name)
            old = decode(record.document)
            check(old)
            self.admission.on_delete(resource, name)
            new = copy(old)
            _set_propagation_finalizers(new["metadata"], propagation)
            self._mark_deleted(strategy, new, grace_s)
            gone = self._may_go(resource, new)
            # A kind with graceful deletion shows its last state before it goes, as upstream's two writes do.
            marks = not gone or (strategy.grace_period_s(old, grace_s) is not None)
            if dry_run:
                return Written(encode(new), removed=gone)
            try:
                if marks and new != old:
                    record = await self.store.update(key, _render(new), expected=record.revision)
                if gone:
                    record = await self.store.delete(key, _render(new if marks else old), expected=record.revision)
            except (StaleRevision, KeyMissing):
                continue
            return Written(record.document, record, removed=gone)
        raise refusals.modified(resource, name)

    def _mark_deleted(self, strategy: Strategy, doc: Doc, asked_s: int | None) -> None:
        """Set deletionTimestamp and grace; a second deletion may only shorten the first."""
        meta = doc["metadata"]
        if "deletionTimestamp" in meta:
            before_s = meta.get("deletionGracePeriodSeconds")
            if before_s is None or asked_s is None or asked_s >= before_s:
                return
            grace_s: int | None = asked_s
        else:
            grace_s = strategy.grace_period_s(doc, asked_s)
            if meta.get("generation"):
                meta["generation"] += 1
        meta["deletionTimestamp"] = rfc3339(self.clock.now() + timedelta(seconds=grace_s or 0))
        if grace_s is not None or meta.get("finalizers"):
            meta["deletionGracePeriodSeconds"] = grace_s or 0
        strategy.prepare_deletion(doc)


def index_for(gates: Gates, clock: Clock) -> Callable[[str, bytes], Facts]:
    """What the store keeps beside every document, by the resource its key starts with."""
    by_resource = strategies(gates, clock)
    selectable = {
        row.store_prefix.rstrip("/"): Selectable(row, by_resource[row.group, row.plural].selectable)
        for row in RESOURCES
        if row.stored_as is None
    }

    def index(key: str, document: bytes) -> Facts:
        return Facts(selectable[key.partition("/")[0]], document)

    return index


def same_owners(new: Doc, old: Doc) -> bool:
    """Ownership alone may change, when a second manager applies the same values; a newer time alone does not count."""

    def owners(doc: Doc) -> list[Doc]:
        entries = doc["metadata"].get("managedFields", ())
        return [{key: value for key, value in entry.items() if key != "time"} for entry in entries]

    return owners(new) == owners(old)


def _without_managed_fields(doc: Doc) -> Doc:
    meta = {key: value for key, value in doc["metadata"].items() if key != "managedFields"}
    return {**doc, "metadata": meta}


def _render(doc: Doc) -> Callable[[int], bytes]:
    def render(revision: int) -> bytes:
        doc["metadata"]["resourceVersion"] = str(revision)
        return encode(doc)

    return render


def _carry(meta: Doc, was: Doc, field: str) -> None:
    if field in was:
        meta[field] = was[field]
    else:
        meta.pop(field, None)


_PROPAGATION_FINALIZERS = {"Orphan": "orphan", "Foreground": "foregroundDeletion"}


def _set_propagation_finalizers(meta: Doc, policy: str) -> None:
    """Orphan and Foreground are carried out by the garbage collector, which finds them as finalizers."""
    if not policy:
        return
    finalizers = [f for f in meta.get("finalizers", ()) if f not in _PROPAGATION_FINALIZERS.values()]
    if policy in _PROPAGATION_FINALIZERS:
        finalizers.append(_PROPAGATION_FINALIZERS[policy])
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)
