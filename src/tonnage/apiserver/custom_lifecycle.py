"""From a written definition to served resources, and back: the work of upstream's controllers.

    written ──► names accepted, established ──► served          (`settle`, before the writer has its answer)
    deleted ──► no new objects ──► objects deleted ──► none left: finalizer gone, definition gone, watches ended

Deleting the objects takes as long as their finalizers do. No state is kept in between: after a restart it begins again
from the store.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

from tonnage.apiserver import event_loop
from tonnage.apiserver.custom_definitions import CRDS
from tonnage.apiserver.registry import Registry, done_on_change
from tonnage.apiserver.requests import Location, WriteOptions
from tonnage.clock import Backoff, rfc3339
from tonnage.documents.custom.custom_resource import CustomResource, custom_resources
from tonnage.documents.custom.definition_rules import accept_names, establish, is_established, set_condition
from tonnage.documents.kinds.custom_resource_definition import CLEANUP_FINALIZER
from tonnage.errors import ApiError, NotFound
from tonnage.objects.document import Doc, decode
from tonnage.objects.resources import BY_PLURAL
from tonnage.store.errors import StoreClosed, StoreError

_OPTIONS = WriteOptions(manager="kube-apiserver")
_ANYTHING: Doc = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
_LOOK_AGAIN_S = 5.0
"""How long a deletion waits for the remaining objects before it checks again without an event."""

_log = logging.getLogger(__name__)


class DefinitionLifecycle:
    """Manages the definitions of one server. `changed` is called when the served resources may have changed."""

    def __init__(self, registry: Registry, changed: Callable[[], None], rng: random.Random) -> None:
        self._registry = registry
        self._rng = rng
        self._changed = changed
        self._lock = asyncio.Lock()
        self._deletions: dict[str, asyncio.Task[None]] = {}

    # -- names and conditions -----------------------------------------------------------------------------------------

    async def settle(self) -> None:
        """Bring the status of every definition to what its spec asks for; then its resources are served."""
        refused: ApiError | None = None
        async with self._lock:
            known = list(self._registry.definitions.heads())
            for definition in known:
                meta = definition["metadata"]
                if "deletionTimestamp" in meta:
                    task = self._deletions.get(meta["name"])
                    if task is None or task.done():
                        self._deletions[meta["name"]] = asyncio.create_task(self._finalized(meta["name"]))
                    continue
                others = [other for other in known if other is not definition]
                accept = partial(accept_names, others=others, now=self._registry.now())
                try:
                    for step in (accept, partial(establish, now=self._registry.now())):
                        if step(definition):
                            await self._write(meta["name"], step)
                except ApiError as exc:  # for example too large with its status: the others are served all the same
                    refused = exc
        self._changed()
        if refused is not None:
            raise refused

    async def try_to_settle(self) -> bool:
        """The same, but failures are logged: the next change tries again. True if it succeeded."""
        try:
            await self.settle()
        except (ApiError, StoreError) as exc:
            _log.error("Definitions of custom resources cannot be settled: %s", exc.message)
            return False
        return True

    async def _write(self, name: str, step: Callable[[Doc], bool]) -> None:
        def change(doc: Doc) -> Doc:
            step(doc)
            return doc

        with suppress(NotFound):
            await self._registry.change(Location(CRDS, name=name, subresource="status"), change, _OPTIONS)
            record = self._registry.read(Location(CRDS, name=name))
            if event_loop.is_large(record.document):  # compiled in a thread; others by the first lookup
                await self._registry.work(True, lambda: self._registry.definitions.prepare(record))

    # -- the end ------------------------------------------------------------------------------------------------------

    async def _finalized(self, name: str) -> None:
        backoff = Backoff(clock=self._registry.clock, rng=self._rng)
        while True:
            try:
                await self._finalize(name)
            except (NotFound, StoreClosed):
                break  # the definition is gone, or the server is stopping
            except (ApiError, StoreError) as exc:
                _log.error("The objects of CustomResourceDefinition %s cannot be deleted: %s", name, exc.message)
                await self._registry.clock.sleep(backoff.next_s())
            else:
                break
        self._deletions.pop(name, None)
        self._changed()

    async def _finalize(self, name: str) -> None:
        """Delete the objects of a terminating definition, wait until they are gone, remove its finalizer."""
        definition: Doc = decode(self._registry.read(Location(CRDS, name=name)).document)
        if CLEANUP_FINALIZER not in definition["metadata"].get("finalizers", ()):
            return
        in_progress = ("True", "InstanceDeletionInProgress", "CustomResource deletion is in progress")
        await self._note(name, *in_progress)
        if (definition["spec"]["group"], definition["spec"]["names"]["plural"]) in BY_PLURAL:
            done = ("OverlappingBuiltInResource", "instances overlap with built-in resources in storage")
        elif is_established(definition):
            await self._delete_objects(definition)
            done = ("InstanceDeletionCompleted", "removed all instances")
        else:
            done = ("NeverEstablished", "resource was never established")
        await self._note(name, "False", *done, lets_go=True)

    async def _delete_objects(self, definition: Doc) -> None:
        # A definition that is no longer served may still have objects. Their schema no longer matters.
        spec = definition["spec"]
        versions = [{**version, "served": True, "schema": _ANYTHING} for version in spec["versions"]]
        resources = custom_resources({**definition, "spec": {**spec, "versions": versions}})
        resource = next(iter(resources.values()))
        while True:
            watch = self._registry.store.watch(resource.store_prefix, after=self._registry.store.revision)
            try:
                if not await self._ask_all_to_go(resource):
                    return
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_AGAIN_S):
                        await watch.next_batch()
            finally:
                watch.close()

    async def _ask_all_to_go(self, resource: CustomResource) -> int:
        """Delete all objects. Returns how many are left."""
        for record in self._registry.store.list(resource.store_prefix):
            meta = decode(record.document)["metadata"]
            if "deletionTimestamp" not in meta:
                with suppress(NotFound):
                    await self._registry.remove(Location(resource, meta.get("namespace", ""), meta["name"]))
        return self._registry.store.count(resource.store_prefix)

    async def _note(self, name: str, status: str, reason: str, message: str, *, lets_go: bool = False) -> None:
        now = rfc3339(self._registry.clock.now())

        def change(doc: Doc) -> Doc:
            set_condition(doc, "Terminating", status, reason, message, now)
            if lets_go:
                meta = doc["metadata"]
                meta["finalizers"] = [each for each in meta.get("finalizers", ()) if each != CLEANUP_FINALIZER]
                if not meta["finalizers"]:
                    del meta["finalizers"]
            return doc

        await self._registry.change(Location(CRDS, name=name, subresource="status"), change, _OPTIONS)

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[None]:
        """Settle all definitions before the block begins, and every change inside it."""
        name = "definitions of custom resources"
        try:
            async with done_on_change(self._registry, self._rng, self.try_to_settle, _log.error, name) as changed:
                self._registry.store.follow(CRDS.store_prefix, lambda record, *, is_deleted: changed.set())
                await self.try_to_settle()
                yield
        finally:  # the next start continues
            tasks = list(self._deletions.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
