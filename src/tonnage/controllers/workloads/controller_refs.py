"""Which objects belong to which owner: an index, whom a change concerns, and how an owner takes and lets go of objects.

An object belongs to the owner that its one controller reference names, by uid. Beside its own, an owner may take over
*orphans* of its namespace that match its selector (adoption), and gives up objects of its own that no longer match
(release). Both are patches that name the object's uid, and before the first adoption the owner itself is read anew:
one that is being deleted must not gather what its deletion has just set free. Mirrors controller_ref_manager.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from tonnage import logs
from tonnage.client.cache import Cache
from tonnage.client.http import Client
from tonnage.client.reconciler import Reconciler
from tonnage.errors import Conflict, Invalid, NotFound
from tonnage.objects import scheme
from tonnage.objects.codec import to_doc
from tonnage.objects.document import Doc
from tonnage.objects.meta import Key, Object, OwnerReference
from tonnage.objects.selectors import LabelSelector, selects

T = TypeVar("T", bound=Object)
Owner = TypeVar("Owner", bound=Object)

_log = logs.logger(__name__)


def follow_owned(
    reconciler: Reconciler,
    objects: Cache[T],
    owners: Cache[Owner],
    selector_of: Callable[[Owner], LabelSelector | None],
) -> None:
    """Have an owner looked at whenever one of its objects changes, comes or goes, also to another owner.

    An orphan concerns every owner of its namespace that would take it over.
    """
    kind = scheme.resource_of(owners.cls).kind

    def changed(found: T) -> None:
        controller = found.metadata.controller
        if controller is not None:
            if controller.kind == kind:
                reconciler.add(f"{found.namespace}/{controller.name}")
            return
        for owner in owners:
            if owner.namespace == found.namespace and selects(selector_of(owner), found.metadata.labels):
                reconciler.add(owner.key)

    def updated(old: T, new: T) -> None:
        if old.metadata.controller != new.metadata.controller:
            changed(old)
        changed(new)

    objects.add_handlers(on_add=changed, on_update=updated, on_delete=changed)


def controller_ref(owner: Object) -> OwnerReference:
    """How an object names the controller that made it."""
    resource = scheme.resource_of(type(owner))
    return OwnerReference(
        api_version=resource.api_version,
        kind=resource.kind,
        name=owner.name,
        uid=owner.uid,
        controller=True,
        block_owner_deletion=True,
    )


class Owned(Generic[T]):
    """The objects of one cache by the uid of their controller; those that have none, by namespace."""

    def __init__(self, objects: Cache[T]) -> None:
        self._objects = objects
        self._keys: dict[tuple[str, str], dict[Key, None]] = {}
        objects.add_handlers(on_add=self._add, on_update=self._update, on_delete=self._remove)

    def of(self, owner: Object) -> list[T]:
        """What this owner controls, in the order in which it came."""
        return self.of_uid(owner.uid)

    def of_uid(self, uid: str) -> list[T]:
        return self._at(("", uid))

    def orphans(self, namespace: str) -> list[T]:
        return self._at((namespace, ""))

    def _at(self, place: tuple[str, str]) -> list[T]:
        found = (self._objects.get(key) for key in self._keys.get(place, ()))
        return [each for each in found if each is not None]

    def _add(self, new: T) -> None:
        self._keys.setdefault(_place(new), {})[new.key] = None

    def _update(self, old: T, new: T) -> None:
        if _place(old) != _place(new):
            self._remove(old)
            self._add(new)

    def _remove(self, old: T) -> None:
        place = _place(old)
        keys = self._keys.get(place, {})
        keys.pop(old.key, None)
        if not keys:
            self._keys.pop(place, None)


def _place(found: Object) -> tuple[str, str]:
    owner = found.metadata.controller
    return (found.namespace, "") if owner is None else ("", owner.uid)


@dataclass(frozen=True, slots=True)
class Claims(Generic[T]):
    """What an owner may call its own, and what it takes to make that so."""

    mine: tuple[T, ...]
    adopt: tuple[T, ...]
    release: tuple[T, ...]


def sort_claims(owner: Object, objects: Iterable[T], matches: Callable[[T], bool]) -> Claims[T]:
    """Judge own objects and orphans of the owner's namespace. Mirrors BaseControllerRefManager.ClaimObject."""
    mine: list[T] = []
    adopt: list[T] = []
    release: list[T] = []
    for found in objects:
        controller = found.metadata.controller
        if controller is not None:
            if controller.uid != owner.uid:
                continue
            if matches(found):
                mine.append(found)
            elif not owner.metadata.is_terminating:
                release.append(found)
        elif (
            not owner.metadata.is_terminating
            and not found.metadata.is_terminating
            and found.namespace == owner.namespace
            and matches(found)
        ):
            adopt.append(found)
    return Claims(tuple(mine), tuple(adopt), tuple(release))


async def claim(client: Client, owner: Object, owned: Owned[T], matches: Callable[[T], bool]) -> list[T]:
    """The objects of this owner, after adopting and releasing what that takes.

    Raises Conflict when the owner turns out to be going, gone or another; what was not patched is tried next time.
    """
    claims = sort_claims(owner, [*owned.of(owner), *owned.orphans(owner.namespace)], matches)
    for found in claims.release:
        await _release(client, owner, found)
    if not claims.adopt:
        return list(claims.mine)
    fresh = await client.get(type(owner), owner.key)
    if fresh.uid != owner.uid or fresh.metadata.is_terminating:
        kind = scheme.resource_of(type(owner)).kind
        raise Conflict(f"{kind} {owner.key} does not adopt: it has just been deleted", name=owner.name, uid=owner.uid)
    adopted = [await _adopt(client, owner, found) for found in claims.adopt]
    return [*claims.mine, *(found for found in adopted if found is not None)]


async def _adopt(client: Client, owner: Object, found: T) -> T | None:
    patch: Doc = {"metadata": {"uid": found.uid, "ownerReferences": [to_doc(controller_ref(owner))]}}
    try:
        adopted = await client.patch(type(found), found.key, patch, patch_type="strategic")
    except NotFound:
        return None
    _log.info("Adopted", owner=owner.key, object=found.key)
    return adopted


async def _release(client: Client, owner: Object, found: Object) -> None:
    patch: Doc = {"metadata": {"uid": found.uid, "ownerReferences": [{"$patch": "delete", "uid": owner.uid}]}}
    try:
        await client.patch(type(found), found.key, patch, patch_type="strategic")
    except (NotFound, Invalid):
        return  # gone, made anew under its name, or let go of already
    _log.info("Released", owner=owner.key, object=found.key)
