"""The graph of owners and dependents: every object by its uid, its owners, and the objects that name it as owner.

    Deployment ◄── ReplicaSet ◄── Pod          an arrow is an owner reference: from the dependent to the owner

The graph is what informers have shown, no more. An owner that is not in it may be gone, or not seen yet, or described
wrongly: only the API server knows, and `garbage_collector` asks it before anything is deleted. The graph answers
which objects to process: `put` and `remove` return every object that the change may matter to, and `needs_processing`
says of one whether there may be anything to do. Both follow from state, so that a missed event loses nothing.

Pure and small: an item is a few pointers to strings that the informers hold anyway. The decision is in `garbage_rules`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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

    def blocks(self, owner_uid: str) -> bool:
        """Whether an owner that is deleted in the foreground has to wait for this one."""
        return any(owner.uid == owner_uid and owner.block_owner_deletion for owner in self.owners)

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
    """All items known, and their dependents, also those of owners that are not known."""

    def __init__(self) -> None:
        self._items: dict[str, Item] = {}
        self._dependents: dict[str, set[str]] = {}

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items.values())

    def get(self, uid: str) -> Item | None:
        return self._items.get(uid)

    def dependents(self, uid: str) -> tuple[Item, ...]:
        """Everything that names this uid as an owner."""
        return tuple(self._items[each] for each in sorted(self._dependents.get(uid, ())))

    def blocking(self, uid: str) -> tuple[Item, ...]:
        """The dependents that a deletion in the foreground waits for."""
        return tuple(each for each in self.dependents(uid) if each.blocks(uid))

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
        before = () if old is None else old.owners
        self._items[new.uid] = new
        now = {owner.uid for owner in new.owners}
        for owner in before:
            if owner.uid not in now:
                self._forget(owner.uid, new.uid)
        for uid in now:
            self._dependents.setdefault(uid, set()).add(new.uid)

        queued = {owner.uid for owner in before if owner.block_owner_deletion and not new.blocks(owner.uid)}
        queued = {uid for uid in queued if self._waits(uid)}
        if self.needs_processing(new):
            queued.add(new.uid)
        if old is None or new.deletes_dependents != old.deletes_dependents:
            # An owner is seen for the first time, and some may have described it wrongly; or it now waits for them.
            queued |= {each.uid for each in self.dependents(new.uid) if self.needs_processing(each)}
        return queued

    def remove(self, uid: str) -> set[str]:
        """Take an item out; the uids of those that depended on it, and of the owners that waited for it."""
        old = self._items.pop(uid, None)
        if old is None:
            return set()
        for owner in old.owners:
            self._forget(owner.uid, uid)
        return set(self._dependents.get(uid, ())) | {owner.uid for owner in old.owners if self._waits(owner.uid)}

    def _waits(self, uid: str) -> bool:
        item = self._items.get(uid)
        return item is not None and item.deletes_dependents

    def _forget(self, owner_uid: str, uid: str) -> None:
        dependents = self._dependents.get(owner_uid)
        if dependents is not None:
            dependents.discard(uid)
            if not dependents:
                del self._dependents[owner_uid]
