"""The garbage collector: it deletes objects whose owners are gone.

    informers of every served kind ──► dependency graph ──► uids to process ──► ask the server ──► decide

*Background*: the owner goes at once; its dependents are then dangling and are deleted. *Foreground*: the owner stays
until every dependent that blocks it is gone. *Orphan*: the owner stays until no dependent names it.

The graph alone never decides a deletion: the object and its owners are read again, and every write carries the uid
and resourceVersion that were read. An owner of an unknown kind is taken to exist.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from tonnage import clock, errors, logs
from tonnage.client import cache, discovered_kinds
from tonnage.controllers import controller_context, dependency_graph
from tonnage.controllers.dependency_graph import Item, OwnerState
from tonnage.objects import codec, meta, resources
from tonnage.objects.core_v1.persistent_volume import ObjectReference
from tonnage.objects.document import Doc

_DEFINITIONS: Final = resources.BY_PLURAL["apiextensions.k8s.io", "customresourcedefinitions"]
_DISCOVERY_S: Final = 30.0
_IGNORED: Final = frozenset(("events",))
_UNSEEN_S: Final = 10.0
"""How soon to ask again about an owner that the server has and no informer shows: it may go without being seen."""
_MAX_ABSENT: Final = 500
"""How many absent owners of each form are remembered; upstream's number."""

_log = logs.logger(__name__)


class GarbageCollector(controller_context.QueueController):
    """Deletes objects that have lost their owners, and carries out foreground and orphaning deletions."""

    def __init__(self, context: controller_context.ControllerContext) -> None:
        super().__init__(context)
        self.graph = dependency_graph.DependencyGraph()
        self._reconciler = self._add_queue("garbage-collector", self.reconcile, workers=8)
        self.queue = self._reconciler.queue
        """The uids of the objects to process."""
        self._discovered = discovered_kinds.DiscoveredKinds(
            context.client,
            clock=context.clock,
            added=self._follow,
            removed=self._forget_kind,
            metrics=context.queues,
        )
        self._absent: dict[Hashable, None] = {}
        """Uids that informers saw go, and references by all their fields that the server does not know."""
        self._is_synced = False

    async def run(self) -> None:
        """Collect until cancelled. Nothing is processed before every informer is synced."""
        async with clock.in_background(self._discovered.run(), "garbage collector: kinds"):
            known = (
                self._informers.followed()
            )  # whole objects, for other controllers; of other kinds only metadata is read
            served = await discovered_kinds.wait_for_served_resources(self._client, clock=self._clock, rng=self._rng)
            followed = [resource for resource in served if resource.plural not in _IGNORED]
            for resource in followed:
                self._follow(
                    resource, self._informers.of(known.get(resource) or discovered_kinds.metadata_class(resource))
                )
            await self._informers.wait_synced()
            try:  # custom kinds too, but not for ever: a kind that cannot be watched must not stop the others
                await clock.within(self._clock, _DISCOVERY_S, self._discovered.wait_synced())
            except (TimeoutError, errors.TonnageError) as exc:
                error = exc.message if isinstance(exc, errors.TonnageError) else "no answer yet"
                _log.warning("Some kinds that are not in the table are not known yet", error=error)
            self.start_processing()
            _log.info("In step", kinds=len(followed), objects=len(self.graph))
            await super().run()

    def start_processing(self) -> None:
        """The graph is complete: queue every item that may need processing, and from now on every change."""
        self._is_synced = True
        self._enqueue({item.uid for item in self.graph if self.graph.needs_processing(item)})

    def put(self, item: Item) -> None:
        known = self.graph.get(item.uid)
        if known == item:
            return
        self._enqueue(self.graph.put(item))
        for reference in item.owners:
            owner = self.graph.get(reference.uid)
            if owner is not None:
                self._record_invalid_owner(item, reference, owner)
        if known is None:
            for dependent, reference in self.graph.references_to(item.uid):
                self._record_invalid_owner(dependent, reference, item)

    def remove(self, uid: str) -> None:
        """Remove an object that an informer or the server reports as gone."""
        self._enqueue(self.graph.remove(uid))

    def _follow(self, resource: resources.Resource, informer: cache.Cache[meta.Object]) -> None:
        def seen(found: meta.Object) -> None:
            self.put(Item.of(resource, found.metadata))

        informer.add_handlers(on_add=seen, on_update=lambda _, new: seen(new), on_delete=self._deleted)
        if resource == _DEFINITIONS:
            informer.on_change(self._discovered.look)

    def _forget_kind(self, resource: resources.Resource) -> None:
        """Remove a kind that the server no longer serves. Its objects may live on under another version."""
        for item in [each for each in self.graph if each.resource == resource]:
            self.remove(item.uid)

    def _deleted(self, old: meta.Object) -> None:
        # Remembered, because its kind may go with it, and then the server can say nothing about it any more.
        self._remember_absent(old.uid)
        self.remove(old.uid)

    def _remember_absent(self, owner: Hashable) -> None:
        self._absent[owner] = None
        if len(self._absent) > 2 * _MAX_ABSENT:
            del self._absent[next(iter(self._absent))]

    def _enqueue(self, uids: set[str]) -> None:
        # Until everything is synced most owners seem to be missing; `start_processing` goes through all items.
        if self._is_synced:
            for uid in sorted(uids):
                self._reconciler.add(uid)

    def _record_invalid_owner(self, item: Item, reference: meta.OwnerReference, owner: Item) -> None:
        """Record an event if the owner is in another namespace: that is invalid, and the item will be deleted."""
        if owner.namespace in ("", item.namespace):
            return
        named = (
            f"[{reference.api_version}/{reference.kind}, namespace: {item.namespace}, "
            f"name: {reference.name}, uid: {reference.uid}]"
        )
        note = f'ownerRef {named} does not exist in namespace "{item.namespace}"'
        of = {"api_version": item.resource.api_version, "kind": item.resource.kind, "namespace": item.namespace}
        about = ObjectReference(**of, name=item.name, uid=item.uid)
        self._recorder.event(about, "Warning", "OwnerRefInvalidNamespace", "Collect", note)

    # -- one object ---------------------------------------------------------------------------------------------------

    async def reconcile(self, uid: str) -> float | None:
        """Do what an object's owners, or its own deletion, ask for; safe to run twice or late."""
        item = self.graph.get(uid)
        if item is None or not self.graph.needs_processing(item):
            return None
        metadata = await self._read_metadata(item)
        if metadata is None:
            self.remove(uid)  # its informer will report it too
            return None
        finalizers = metadata.get("finalizers", ())
        if "deletionTimestamp" not in metadata:
            return await self._attempt_to_delete(item, metadata)
        if dependency_graph.ORPHAN in finalizers:
            await self._orphan_dependents(item, metadata)
        elif dependency_graph.FOREGROUND in finalizers:
            blocking = self.graph.blocking(item.uid)
            if not blocking:
                await self._remove_finalizer(item, metadata, dependency_graph.FOREGROUND)
            self._enqueue({each.uid for each in blocking if not each.deletes_dependents})
        return None

    async def _read_metadata(self, item: Item) -> Doc | None:
        """The object's metadata from the server; None when no object of this uid exists any more."""
        try:
            metadata: Doc = (await self._client.get_doc(item.resource, item.key))["metadata"]
        except errors.NotFound:
            return None
        return metadata if metadata["uid"] == item.uid else None

    async def _attempt_to_delete(self, item: Item, metadata: Doc) -> float | None:
        owners: list[tuple[meta.OwnerReference, OwnerState]] = []
        again_s = None
        for doc in metadata.get("ownerReferences", ()):
            reference = codec.convert(meta.OwnerReference, doc)
            state = await self._owner_state(reference, item)
            if state is None:
                return None
            if state is OwnerState.SOLID and self.graph.get(reference.uid) is None:
                again_s = _UNSEEN_S
            owners.append((reference, state))
        dependents = self.graph.dependents(item.uid)
        states = {state for _, state in owners}
        finalizers = metadata.get("finalizers", ())
        if propagation := dependency_graph.propagation_of(
            states, finalizers=finalizers, has_dependents=bool(dependents)
        ):
            is_cycle = OwnerState.WAITING in states and any(each.deletes_dependents for each in dependents)
            await self._delete(item, metadata, propagation, is_cycle=is_cycle)
        elif drop := {reference.uid for reference, state in owners if state is not OwnerState.SOLID}:
            # A reference to an owner that waits must go too, or the owner would wait for ever.
            await self._drop_owners(item, metadata, drop)
        return again_s

    async def _owner_state(self, reference: meta.OwnerReference, item: Item) -> OwnerState | None:
        """The owner's state, asked from the server; None when the item cannot be decided now."""
        known = self.graph.owner(reference, item)
        if known is not None and not known.deletes_dependents:
            return OwnerState.SOLID  # its deletion will queue the item again
        if reference.uid in self._absent:
            return OwnerState.DANGLING
        resource = resources.BY_KIND.get((reference.api_version, reference.kind)) or self._discovered.find(
            reference.api_version, reference.kind
        )
        if resource is None:
            _log.debug("An owner of an unknown kind is ignored", item=item.key, owner=reference.kind)
            return None
        if resource.namespaced and not item.namespace:
            _log.info("A cluster-scoped object names a namespaced owner", item=item.key, owner=reference.name)
            return None
        key = f"{item.namespace}/{reference.name}" if resource.namespaced else reference.name
        namespace = item.namespace if resource.namespaced else ""
        coordinates = (reference.api_version, reference.kind, namespace, reference.name, reference.uid)
        if coordinates in self._absent:
            return OwnerState.DANGLING  # a uid never comes back
        try:
            metadata = (await self._client.get_doc(resource, key))["metadata"]
        except errors.NotFound as exc:
            if exc.name != reference.name:
                _log.debug("An owner of a kind that is not served is ignored", item=item.key, owner=key)
                return None  # the path is missing, not the object
            metadata = {"uid": ""}
        if metadata["uid"] != reference.uid:
            self._remember_absent(coordinates)
            return OwnerState.DANGLING
        waits = "deletionTimestamp" in metadata and dependency_graph.FOREGROUND in metadata.get("finalizers", ())
        return OwnerState.WAITING if waits else OwnerState.SOLID

    # -- acts ---------------------------------------------------------------------------------------------------------

    async def _delete(self, item: Item, metadata: Doc, propagation: str, *, is_cycle: bool) -> None:
        """`is_cycle`: its owners wait for it and it for them, so its references must stop blocking first."""
        version = metadata["resourceVersion"]
        if is_cycle:
            # Left out, which also means false: an object at its size limit has no room for a longer word.
            owners = [
                {field: value for field, value in owner.items() if field != "blockOwnerDeletion"}
                for owner in metadata.get("ownerReferences", ())
            ]
            version = await self._patch(item, metadata, {"ownerReferences": owners})
        _log.info("Deleting", resource=item.resource.qualified, object=item.key, propagation=propagation)
        try:
            await self._client.delete(
                item.resource, item.key, uid=item.uid, resource_version=version, propagation=propagation
            )
        except errors.NotFound:
            self.remove(item.uid)

    async def _drop_owners(self, item: Item, metadata: Doc, uids: set[str]) -> None:
        kept = [owner for owner in metadata.get("ownerReferences", ()) if owner["uid"] not in uids]
        if len(kept) < len(metadata.get("ownerReferences", ())):
            _log.info("Owners are dropped", resource=item.resource.qualified, object=item.key, owners=len(uids))
            await self._patch(item, metadata, {"ownerReferences": kept})

    async def _orphan_dependents(self, item: Item, metadata: Doc) -> None:
        """Remove the owner from every object that names it; then the owner may go."""
        for dependent in self.graph.dependents(item.uid):
            found = await self._read_metadata(dependent)
            if found is not None:
                await self._drop_owners(dependent, found, {item.uid})
        await self._remove_finalizer(item, metadata, dependency_graph.ORPHAN)

    async def _remove_finalizer(self, item: Item, metadata: Doc, finalizer: str) -> None:
        kept = [each for each in metadata.get("finalizers", ()) if each != finalizer]
        _log.debug("Let go", resource=item.resource.qualified, object=item.key, finalizer=finalizer)
        await self._patch(item, metadata, {"finalizers": kept})

    async def _patch(self, item: Item, metadata: Doc, change: Doc) -> str:
        """Patch the metadata at the version that was read; the new resourceVersion. Raises Conflict, NotFound."""
        same = {"uid": item.uid, "resourceVersion": metadata["resourceVersion"]}
        changed = await self._client.patch_doc(item.resource, item.key, {"metadata": {**same, **change}})
        version: str = changed["metadata"]["resourceVersion"]
        return version
