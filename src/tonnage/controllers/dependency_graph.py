"""The graph of owners and dependents, as informers have shown it, and what follows from the states of an object's
owners.

    Deployment ◄── ReplicaSet ◄── Pod          an arrow is an owner reference: from the dependent to the owner

    owners                                            then
    at least one solid                                it stays, and the references to the others are dropped
    none solid, one waits for it, it has dependents   it is deleted in the foreground too
    none solid                                        it is deleted, as its own finalizers ask, else in the background

An owner that is not in the graph may not have been seen yet: `garbage_collector` asks the server before it deletes.
Pure; mirrors attemptToDeleteItem of upstream's garbage collector.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tonnage.objects.meta import Key, ObjectMeta, OwnerReference
from tonnage.objects.resources import Resource

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
"""Finalizers by which the API server hands a deletion to the garbage collector."""


@dataclass(frozen=True, slots=True)
class Item:
    """One object: who it is, its owners, and how it is being deleted."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    owners: tuple[OwnerReference, ...] = ()
    is_terminating: bool = False
    orphans_dependents: bool = False
    """It is being deleted, and its dependents are to be orphaned first."""
    deletes_dependents: bool = False
    """It is being deleted in the foreground: it waits until the dependents that block it are gone."""

    @classmethod
    def of(cls, resource: Resource, metadata: ObjectMeta) -> Item:
        is_terminating = metadata.is_terminating
        return cls(
            resource,
            metadata.namespace,
            metadata.name,
            metadata.uid,
            metadata.owner_references,
            is_terminating,
            is_terminating and ORPHAN in metadata.finalizers,
            is_terminating and FOREGROUND in metadata.finalizers,
        )

    @property
    def key(self) -> Key:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def is_meant_by(self, reference: OwnerReference, dependent: Item) -> bool:
        """Whether every field of the reference is right: a right uid with a wrong name is a wrong owner."""
        return (
            reference.uid == self.uid
            and reference.name == self.name
            and reference.kind == self.resource.kind
            and reference.api_version.rpartition("/")[0] == self.resource.group  # of whichever version
            and self.namespace in ("", dependent.namespace)
        )


class DependencyGraph:
    """All items known, and their dependents, also those of owners that are not known.

    An event costs the references of its own object; an owner that comes, goes or begins to wait costs its dependents.
    """

    def __init__(self) -> None:
        self._items: dict[str, Item] = {}
        self._references: dict[str, dict[str, OwnerReference]] = {}
        """By the owner's uid, each dependent's reference to it by the dependent's uid; of several, one that blocks."""
        self._blocking: dict[str, int] = {}
        """How many of an owner's dependents block it, where any does."""

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items.values())

    def get(self, uid: str) -> Item | None:
        return self._items.get(uid)

    def dependents(self, uid: str) -> tuple[Item, ...]:
        """Everything that names this uid as an owner."""
        return tuple(self._items[each] for each in sorted(self._references.get(uid, ())))

    def references_to(self, uid: str) -> Iterator[tuple[Item, OwnerReference]]:
        """Everything that names this uid as an owner, with the reference by which it does."""
        return ((self._items[each], reference) for each, reference in self._references.get(uid, {}).items())

    def blocking(self, uid: str) -> tuple[Item, ...]:
        """The dependents that a deletion in the foreground waits for."""
        references = self._references.get(uid, {}) if uid in self._blocking else {}
        return tuple(self._items[each] for each in sorted(references) if references[each].block_owner_deletion)

    def owner(self, reference: OwnerReference, dependent: Item) -> Item | None:
        """The owner, if it is known and is as the reference says."""
        known = self._items.get(reference.uid)
        return known if known is not None and known.is_meant_by(reference, dependent) else None

    def needs_processing(self, item: Item) -> bool:
        """Whether the item may have to be deleted, set free or let go. False is certain, as far as the graph knows."""
        if item.is_terminating:
            return item.orphans_dependents or item.deletes_dependents
        owners = (self.owner(reference, item) for reference in item.owners)
        return any(owner is None or owner.deletes_dependents for owner in owners)

    def put(self, new: Item) -> set[str]:
        """Add an item, or update it; the uids of what has to be looked at because of that."""
        old = self._items.get(new.uid)
        self._items[new.uid] = new
        queued: set[str] = set()
        if old is None or old.owners != new.owners:
            for owner in () if old is None else old.owners:
                self._forget(owner.uid, new.uid)
            for owner in new.owners:
                self._remember(owner, new.uid)
            queued = {owner.uid for owner in (() if old is None else old.owners) if self._may_go(owner.uid)}
        if self.needs_processing(new):
            queued.add(new.uid)
        if old is None or new.deletes_dependents != old.deletes_dependents:
            # An owner is seen for the first time, and some may have described it wrongly; or it now waits for them.
            references = self._references.get(new.uid, {}).items()
            queued |= {
                uid
                for uid, reference in references
                if new.deletes_dependents or not new.is_meant_by(reference, self._items[uid])
            }
        return queued

    def remove(self, uid: str) -> set[str]:
        """Take an item out; the uids of those that depended on it, and of the owners that waited for it."""
        old = self._items.pop(uid, None)
        if old is None:
            return set()
        for owner in old.owners:
            self._forget(owner.uid, uid)
        return set(self._references.get(uid, ())) | {owner.uid for owner in old.owners if self._may_go(owner.uid)}

    def _may_go(self, uid: str) -> bool:
        """Whether an owner waits in the foreground and nothing blocks it any more: not before is it looked at again."""
        item = self._items.get(uid)
        return item is not None and item.deletes_dependents and uid not in self._blocking

    def _remember(self, reference: OwnerReference, uid: str) -> None:
        references = self._references.setdefault(reference.uid, {})
        known = references.get(uid)
        if known is not None and known.block_owner_deletion:
            return
        references[uid] = reference
        if reference.block_owner_deletion:
            self._blocking[reference.uid] = self._blocking.get(reference.uid, 0) + 1

    def _forget(self, owner_uid: str, uid: str) -> None:
        references = self._references.get(owner_uid, {})
        reference = references.pop(uid, None)
        if reference is None:
            return
        if not references:
            del self._references[owner_uid]
        if reference.block_owner_deletion:
            self._blocking[owner_uid] -= 1
            if not self._blocking[owner_uid]:
                del self._blocking[owner_uid]


class OwnerState(StrEnum):
    SOLID = "solid"
    """It exists, and does not wait for its dependents to go."""
    DANGLING = "dangling"
    """No object of that name, or one with another uid."""
    WAITING = "waiting"
    """It is being deleted in the foreground: it goes when its dependents have gone."""


@dataclass(frozen=True, slots=True)
class Keep:
    """The object stays; references to owners of these uids mean nothing any more and are taken out."""

    drop: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """The object goes. With `unblock` its references must stop blocking first, since it waits in a circle."""

    propagation: str
    unblock: bool = False


def decide(
    owners: Sequence[tuple[OwnerReference, OwnerState]],
    *,
    finalizers: Collection[str],
    has_dependents: bool,
    is_in_deletion_cycle: bool,
) -> Keep | DeleteObject:
    """Keep or delete. `is_in_deletion_cycle`: one of its own dependents is being deleted in the foreground already."""
    if not owners:
        return Keep()
    states = {state for _, state in owners}
    if OwnerState.SOLID in states:
        # A reference to an owner that waits must go too, or the owner would wait for ever.
        return Keep(frozenset(reference.uid for reference, state in owners if state is not OwnerState.SOLID))
    if OwnerState.WAITING in states and has_dependents:
        return DeleteObject("Foreground", unblock=is_in_deletion_cycle)
    if ORPHAN in finalizers:
        return DeleteObject("Orphan")
    return DeleteObject("Foreground" if FOREGROUND in finalizers else "Background")
