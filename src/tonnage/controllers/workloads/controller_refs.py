"""Which objects belong to which workload: an index, event handlers, and how a workload adopts and releases objects.

An object belongs to the owner that its one controller reference names, by uid. Beside its own, an owner may adopt
*orphans* of its namespace that match its selector, and releases objects of its own that no longer match. Both are
patches that name the object's uid, and before the first adoption the owner itself is read again from the server: one
that is being deleted must not adopt what its deletion has just orphaned. Mirrors controller_ref_manager.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from tonnage import logs
from tonnage.behaviour.workloads.templates import controller_ref
from tonnage.client.cache import Cache, Indexer
from tonnage.client.http import Client
from tonnage.client.reconciler import Reconciler
from tonnage.controllers.controller_context import namespace_of
from tonnage.errors import Conflict, Invalid, NotFound, RequestEntityTooLarge
from tonnage.objects import scheme
from tonnage.objects.codec import to_doc
from tonnage.objects.document import Doc
from tonnage.objects.meta import Object
from tonnage.objects.selectors import LabelSelector, selects

T = TypeVar("T", bound=Object)
Owner = TypeVar("Owner", bound=Object)

_log = logs.logger(__name__)


def add_owned_event_handlers(
    reconciler: Reconciler,
    objects: Cache[T],
    owners: Cache[Owner],
    selector_of: Callable[[Owner], LabelSelector | None],
) -> None:
    """Queue an owner whenever one of its objects is added, updated or deleted, or moves to or from another owner.

    An orphan queues every owner of its namespace that would adopt it.
    """
    kind = scheme.resource_of(owners.cls).kind
    owners_in = Indexer(owners, namespace_of)

    def changed(found: T) -> None:
        controller = found.metadata.controller
        if controller is not None:
            if controller.kind == kind:
                reconciler.add(f"{found.namespace}/{controller.name}")
            return
        for owner in owners_in(found.namespace):
            if selects(selector_of(owner), found.metadata.labels):
                reconciler.add(owner.key)

    def updated(old: T, new: T) -> None:
        if old.metadata.controller != new.metadata.controller:
            changed(old)
        changed(new)

    objects.add_handlers(on_add=changed, on_update=updated, on_delete=changed)


class ControllerRefIndex(Generic[T]):
    """The objects of a cache by the uid of their controller; those without one, the orphans, by namespace."""

    def __init__(self, objects: Cache[T]) -> None:
        self._indexed = Indexer(objects, _index_key)

    def of(self, owner: Object) -> tuple[T, ...]:
        """What this owner controls, in the order in which it came."""
        return self.of_uid(owner.uid)

    def of_uid(self, uid: str) -> tuple[T, ...]:
        return self._indexed(uid)

    def orphans(self, namespace: str) -> tuple[T, ...]:
        return self._indexed(_orphans_key(namespace))


def _index_key(found: Object) -> tuple[str]:
    controller = found.metadata.controller
    return (_orphans_key(found.namespace) if controller is None else controller.uid,)


def _orphans_key(namespace: str) -> str:
    return f"{namespace}/"  # a uid has no slash


@dataclass(frozen=True, slots=True)
class ClaimedObjects(Generic[T]):
    """The objects that an owner has, and those that it is to adopt and to release."""

    owned: tuple[T, ...]
    adopt: tuple[T, ...]
    release: tuple[T, ...]


def classify(owner: Object, objects: Iterable[T], matches: Callable[[T], bool]) -> ClaimedObjects[T]:
    """Sort an owner's objects and the orphans of its namespace. Mirrors BaseControllerRefManager.ClaimObject."""
    owned: list[T] = []
    adopt: list[T] = []
    release: list[T] = []
    for found in objects:
        controller = found.metadata.controller
        if controller is not None:
            if controller.uid != owner.uid:
                continue
            if matches(found):
                owned.append(found)
            elif not owner.metadata.is_terminating:
                release.append(found)
        elif (
            not owner.metadata.is_terminating
            and not found.metadata.is_terminating
            and found.namespace == owner.namespace
            and matches(found)
        ):
            adopt.append(found)
    return ClaimedObjects(tuple(owned), tuple(adopt), tuple(release))


async def claim_objects(
    client: Client, owner: Object, index: ControllerRefIndex[T], matches: Callable[[T], bool], *, finalizer: str = ""
) -> list[T]:
    """The objects of this owner, after adoptions and releases; `finalizer` comes with the one and goes with the other.

    Raises Conflict when the owner turns out to be deleted or another; what was not patched is tried next time.
    """
    found = classify(owner, [*index.of(owner), *index.orphans(owner.namespace)], matches)
    for each in found.release:
        await _release(client, owner, each, finalizer)
    if not found.adopt:
        return list(found.owned)
    fresh = await client.get(type(owner), owner.key)
    if fresh.uid != owner.uid or fresh.metadata.is_terminating:
        kind = scheme.resource_of(type(owner)).kind
        raise Conflict(f"{kind} {owner.key} does not adopt: it has just been deleted", name=owner.name, uid=owner.uid)
    adopted = [await _adopt(client, owner, each, finalizer) for each in found.adopt]
    return [*found.owned, *(each for each in adopted if each is not None)]


async def _adopt(client: Client, owner: Object, found: T, finalizer: str) -> T | None:
    patch: Doc = {"metadata": {"uid": found.uid, "ownerReferences": [to_doc(controller_ref(owner))]}}
    if finalizer:
        patch["metadata"]["finalizers"] = [finalizer]
    try:
        adopted = await client.patch(type(found), found.key, patch, patch_type="strategic")
    except NotFound:
        return None
    except RequestEntityTooLarge as exc:
        _log.warning("Not adopted: it has no room for its owner", owner=owner.key, object=found.key, error=exc.message)
        return None
    _log.info("Adopted", owner=owner.key, object=found.key)
    return adopted


async def _release(client: Client, owner: Object, found: Object, finalizer: str) -> None:
    patch: Doc = {"metadata": {"uid": found.uid, "ownerReferences": [{"$patch": "delete", "uid": owner.uid}]}}
    if finalizer:
        patch["metadata"]["$deleteFromPrimitiveList/finalizers"] = [finalizer]
    try:
        await client.patch(type(found), found.key, patch, patch_type="strategic")
    except (NotFound, Invalid):
        return  # gone, made again under its name, or released already
    _log.info("Released", owner=owner.key, object=found.key)
