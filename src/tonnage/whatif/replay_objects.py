"""The API server's part in a replay: objects by kind and name, each with a uid, a time of creation and a version.

What the scheduler remembers hangs on these three: a pod made again under its old name is another pod (its uid differs),
a refreshed capacity object is a newer one (its resourceVersion differs), and an update that changes nothing leaves the
version alone, as it does on a server. Values that an object brings along stand. Uids are made from the name, so that
the same replay gives the same ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime

import msgspec

from tonnage.clock import Clock
from tonnage.objects.meta import Key, Object
from tonnage.whatif.stable_uids import stable_uid

Place = tuple[str, Key]
"""(kind, namespace/name)."""


class ReplayObjects:
    """Objects as a server would keep them. `clock` tells when they are created."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: dict[str, dict[Key, Object]] = {}
        self._lives: Counter[Place] = Counter()  # how often an object of that name was created
        self._version = 0

    def __iter__(self) -> Iterator[Object]:
        for of_kind in self._kept.values():
            yield from of_kind.values()

    def get(self, kind: str, key: Key) -> Object | None:
        of_kind = self._kept.get(kind)
        return of_kind.get(key) if of_kind is not None else None

    def of_kind(self, kind: str) -> Collection[Object]:
        """All objects of a kind, in the order they came."""
        return self._kept.get(kind, {}).values()

    def load(self, objects: Iterable[Object]) -> None:
        """Take in what is there at the start; those without a version get one above all that were given.

        One that does not say when it was created is old, however old: nobody waits for it to be seen.
        """
        found = list(objects)
        self._version = max([self._version, *(each.metadata.revision for each in found)])
        for each in found:
            self._put(each, now=None)

    def put(self, new: Object) -> tuple[Object | None, Object]:
        """Create an object, or replace the one of its name: (before, now), the very same object if nothing changed.

        With another uid than the one before it is another object, and that one is gone.
        """
        return self._put(new, now=self._clock.now)

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
            uid, created_at = said.uid or _uid(place, self._lives[place]), said.creation_timestamp
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

    def remove(self, kind: str, key: Key) -> Object | None:
        """Delete an object; None when there is none. Nothing holds it back: a replay has no finalizers at work."""
        return self._kept.get(kind, {}).pop(key, None)


def _uid(place: Place, life: int) -> str:
    kind, key = place
    return stable_uid(f"{kind}/{key}/{life}")
