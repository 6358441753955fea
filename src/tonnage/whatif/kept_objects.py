"""Objects by kind and key: those of a question, and those that live over virtual time as a server keeps them."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeVar, cast

import msgspec

from tonnage.clock import VirtualClock
from tonnage.objects.meta import Key, Object, changed

T = TypeVar("T", bound=Object)
Place = tuple[str, Key]
"""(kind, namespace/name)."""


def stable_uid(name: str) -> str:
    """A uid that follows from a name: the same files give the same ones at every run."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, name))


def renewed(found: T, metadata: Mapping[str, Any] | None = None, **changes: Any) -> T:
    """The object with these changes (`changed`) to its fields and metadata; `ReplayObjects` gives it a new version."""
    return changed(found, metadata={"resource_version": "", **(metadata or {})}, **changes)


class ObjectsByKind:
    """Objects by kind and key, in the order in which they came. Of two with one key the later one counts."""

    def __init__(self, objects: Iterable[Object] = ()) -> None:
        self._kept: dict[str, dict[Key, Object]] = {}
        for each in objects:
            self._kept.setdefault(type(each).__name__, {})[each.key] = each

    def __iter__(self) -> Iterator[Object]:
        for of_kind in self._kept.values():
            yield from of_kind.values()

    def of(self, kind: type[T]) -> Mapping[Key, T]:
        """All objects of a kind by key."""
        return cast("Mapping[Key, T]", self._kept.get(kind.__name__, {}))

    def all(self, kind: type[T]) -> list[T]:
        return list(self.of(kind).values())

    def get(self, kind: type[T], key: Key) -> T | None:
        return cast("T | None", self._kept.get(kind.__name__, {}).get(key))

    def named(self, kind: str, key: Key) -> Object | None:
        """An object by the name of its kind."""
        return self._kept.get(kind, {}).get(key)


class ReplayObjects(ObjectsByKind):
    """Objects as a server would store them, each with a uid, a creation time and a version.

    A recreated object gets a new uid, a changed one a new version; an update without changes does nothing. Values that
    an object already has are kept. Uids are derived from names and repeat in every run.
    """

    def __init__(self, clock: VirtualClock, objects: Iterable[Object] = ()) -> None:
        """The initial objects; those without a version get one above all given versions, and those without a creation
        time count as old."""
        super().__init__()
        found = list(objects)
        self.clock = clock
        self._lives: Counter[Place] = Counter()  # how often an object of that name was created
        self._version = max((each.metadata.revision for each in found), default=0)
        for each in found:
            self._put(each, now=None)

    def put(self, new: T) -> T:
        """Create or replace an object. Returns it as it is kept: the object before if nothing changed.

        An object with another uid replaces the existing one as a new object.
        """
        before, now = cast("tuple[Object | None, T]", self._put(new, now=self.clock.now))
        if before is now:
            return now
        if before is not None and before.uid != now.uid:
            self._gone(before)
            before = None
        self._came(before, now)
        return now

    def _came(self, before: Object | None, now: Object) -> None:
        """An object is new or has changed."""

    def _gone(self, found: Object) -> None:
        """An object is gone."""

    def _put(self, new: Object, now: Callable[[], datetime] | None) -> tuple[Object | None, Object]:
        kind, key, said = type(new).__name__, new.key, new.metadata
        of_kind = self._kept.setdefault(kind, {})
        before = of_kind.get(key)
        is_update = before is not None and said.uid in ("", before.uid)
        if before is not None and is_update:
            was = before.metadata
            uid, created_at = was.uid, said.creation_timestamp or was.creation_timestamp
            version = said.resource_version or was.resource_version
            meta = msgspec.structs.replace(said, uid=uid, creation_timestamp=created_at, resource_version=version)
            if meta == was and msgspec.structs.replace(new, metadata=meta) == before:
                return before, before
        else:
            place = (kind, key)
            self._lives[place] += 1
            uid = said.uid or stable_uid(f"{kind}/{key}/{self._lives[place]}")
            created_at = said.creation_timestamp
            if created_at is None and now is not None:
                created_at = now()
        if said.resource_version:
            version = said.resource_version
            self._version = max(self._version, said.revision)
        else:
            self._version += 1
            version = str(self._version)
        meta = msgspec.structs.replace(said, uid=uid, creation_timestamp=created_at, resource_version=version)
        kept = of_kind[key] = msgspec.structs.replace(new, metadata=meta)
        return before, kept

    def remove(self, kind: type[Object], key: Key) -> None:
        """Delete an object, if it exists. Finalizers are ignored."""
        found = self._kept.get(kind.__name__, {}).pop(key, None)
        if found is not None:
            self._gone(found)
