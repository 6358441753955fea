"""The graph of owners and dependents as informers show it, and the decision that an object's owners lead to.

    Deployment ◄── ReplicaSet ◄── Pod          an arrow is an owner reference: from the dependent to the owner

    owners of the object                               decision
    at least one is solid                              keep it; drop the references to owners that are not solid
    none solid, one waits for it, it has dependents    delete it in the foreground too
    none solid                                         delete it as its own finalizers ask, else in the background

An owner that is not in the graph may not have been seen yet: `garbage_collector` asks the server before it deletes.
Pure; mirrors attemptToDeleteItem of upstream's garbage collector.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum

from tonnage.objects.meta import Key, ObjectMeta, OwnerReference
from tonnage.objects.resources import Resource

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
"""Finalizers by which the API server hands a deletion to the garbage collector."""


@dataclass(frozen=True, slots=True)
class Item:
    """One object: its identity, its owners, and how it is being deleted."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    owners: tuple[OwnerReference, ...] = ()
    is_terminating: bool = False
    orphans_dependents: bool = False
    """The item is being deleted; its dependents must be orphaned first."""
    deletes_dependents: bool = False
    """The item is being deleted in the foreground: it waits until the dependents that block it are gone."""

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
        """True if every field of the reference matches this item: a right uid with a wrong name is a wrong owner."""
        return (
            reference.uid == self.uid
            and reference.name == self.name
            and reference.kind == self.resource.kind
            and reference.api_version.rpartition("/")[0] == self.resource.group  # in any version
            and self.namespace in ("", dependent.namespace)
        )


class DependencyGraph:
    """All known items and their dependents. Owners that are not known have dependents too.

    An event costs its object's references; an owner that comes, goes or begins to wait costs its dependents.
    """

    def __init__(self) -> None:
        self._items: dict[str, Item] = {}
        self._references: dict[str, dict[str, OwnerReference]] = {}
        """Owner uid -> dependent uid -> the dependent's reference; of several, one that blocks the owner."""

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items.values())

    def get(self, uid: str) -> Item | None:
        return self._items.get(uid)

    def dependents(self, uid: str) -> tuple[Item, ...]:
        """All items that name this uid as an owner."""
        return tuple(self._items[reference] for reference in sorted(self._references.get(uid, ())))

    def references_to(self, uid: str) -> Iterator[tuple[Item, OwnerReference]]:
        """All items that name this uid as an owner, each with its owner reference."""
        return ((self._items[each], reference) for each, reference in self._references.get(uid, {}).items())

    def blocking(self, uid: str) -> tuple[Item, ...]:
        """The dependents that a foreground deletion of this owner waits for."""
        references = self._references.get(uid, {})
        return tuple(self._items[each] for each in sorted(references) if references[each].block_owner_deletion)

    def owner(self, reference: OwnerReference, dependent: Item) -> Item | None:
        """The owner, if it is known and matches the reference."""
        known = self._items.get(reference.uid)
        return known if known is not None and known.is_meant_by(reference, dependent) else None

    def needs_processing(self, item: Item) -> bool:
        """True if the item may have to be deleted, orphaned or released. False is certain for this graph."""
        if item.is_terminating:
            return item.orphans_dependents or item.deletes_dependents
        owners = (self.owner(reference, item) for reference in item.owners)
        return any(owner is None or owner.deletes_dependents for owner in owners)

    def put(self, new: Item) -> set[str]:
        """Add or update an item. Returns the uids of the items that must be processed because of it."""
        old = self._items.get(new.uid)
        self._items[new.uid] = new
        queued: set[str] = set()
        if old is None or old.owners != new.owners:
            for owner in () if old is None else old.owners:
                self._forget(owner.uid, new.uid)
            for owner in new.owners:
                known = self._references.setdefault(owner.uid, {})
                if new.uid not in known or not known[new.uid].block_owner_deletion:
                    known[new.uid] = owner
            queued = {owner.uid for owner in (() if old is None else old.owners) if self._may_go(owner.uid)}
        if self.needs_processing(new):
            queued.add(new.uid)
        if old is None or new.deletes_dependents != old.deletes_dependents:
            # The owner is new, and dependents may have described it wrongly; or the owner now waits for its dependents.
            references = self._references.get(new.uid, {}).items()
            queued |= {
                uid
                for uid, reference in references
                if new.deletes_dependents or not new.is_meant_by(reference, self._items[uid])
            }
        return queued

    def remove(self, uid: str) -> set[str]:
        """Remove an item. Returns the uids of its dependents and of the owners that waited for it."""
        old = self._items.pop(uid, None)
        if old is None:
            return set()
        for owner in old.owners:
            self._forget(owner.uid, uid)
        return set(self._references.get(uid, ())) | {owner.uid for owner in old.owners if self._may_go(owner.uid)}

    def _may_go(self, uid: str) -> bool:
        """True if the owner is being deleted in the foreground and nothing blocks it: only then is it queued again."""
        item = self._items.get(uid)
        if item is None or not item.deletes_dependents:
            return False
        return not any(each.block_owner_deletion for each in self._references.get(uid, {}).values())

    def _forget(self, owner_uid: str, uid: str) -> None:
        references = self._references.get(owner_uid, {})
        if references.pop(uid, None) is not None and not references:
            del self._references[owner_uid]


class OwnerState(StrEnum):
    SOLID = "solid"
    """The owner exists and does not wait for its dependents."""
    DANGLING = "dangling"
    """No object has that name, or it has another uid."""
    WAITING = "waiting"
    """The owner is being deleted in the foreground: it goes once its dependents are gone."""


def propagation_of(owners: Collection[OwnerState], *, finalizers: Collection[str], has_dependents: bool) -> str:
    """How an object with such owners is deleted; empty if it stays."""
    if not owners or OwnerState.SOLID in owners:
        return ""
    if OwnerState.WAITING in owners and has_dependents:
        return "Foreground"
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"
