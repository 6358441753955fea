"""Objects as the API has them, and as a decision already takes them to be.

Between a decision and the informer's word, the next decision must see what was decided: that a volume is kept for a
claim, that a claim has its node. So the changed object is *assumed*: `get` answers with it at once, `api` with what the
informer knows.

    assume ──► put      the informer delivers a newer version: that is the truth now
          └──► restore  it is not going to happen: back to what the informer knows

Versions are the API's resourceVersion, compared as numbers; an object without one (a manifest) is older than any other
and may always be replaced. Mirrors upstream's assume cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from tonnage.errors import TonnageError
from tonnage.objects.meta import Key, Object

Kind = TypeVar("Kind", bound=Object)


class OutOfSync(TonnageError):
    """An object was assumed on the basis of a version that is no longer the newest."""


class AssumedObjects(Generic[Kind]):
    """Objects of one kind by key. `on_change(old, new)` is told of every change of what `get` answers."""

    def __init__(self, on_change: Callable[[Kind | None, Kind | None], None]) -> None:
        self._api: dict[Key, Kind] = {}
        self._assumed: dict[Key, Kind] = {}
        self._on_change = on_change

    def __iter__(self) -> Iterator[Kind]:
        """Every object, assumed ones as they are assumed."""
        return (self._assumed.get(key, found) for key, found in self._api.items())

    def get(self, key: Key) -> Kind | None:
        """The object as decisions are to see it."""
        return self._assumed.get(key) or self._api.get(key)

    def api(self, key: Key) -> Kind | None:
        """The object as the informer knows it."""
        return self._api.get(key)

    def is_assumed(self, key: Key) -> bool:
        return key in self._assumed

    def assumed(self) -> Iterator[Kind]:
        """The objects of which something is assumed, as it is."""
        return iter(self._assumed.values())

    def put(self, new: Kind) -> None:
        """The informer's word. An assumption goes unless it is of a newer version than this."""
        key = new.key
        before = self.get(key)
        self._api[key] = new
        assumed = self._assumed.get(key)
        if assumed is not None:
            is_other = assumed.metadata.uid != new.metadata.uid
            if not is_other and new.metadata.revision <= assumed.metadata.revision and new.metadata.revision:
                return
            del self._assumed[key]
        self._on_change(before, new)

    def remove(self, key: Key) -> None:
        """The informer's word that it is gone."""
        before = self.get(key)
        self._api.pop(key, None)
        self._assumed.pop(key, None)
        if before is not None:
            self._on_change(before, None)

    def assume(self, new: Kind) -> None:
        """Take an object to be changed like this. Raises OutOfSync when the informer has a newer version, or none."""
        key = new.key
        stored = self._api.get(key)
        if stored is None:
            kind = type(new).__name__.lower()
            raise OutOfSync(f'{kind}s "{key}" not found', hint="it was deleted meanwhile")
        is_same_version = new.metadata.resource_version == stored.metadata.resource_version  # so it is nearly always
        if not is_same_version and new.metadata.revision < stored.metadata.revision:
            raise OutOfSync(
                f'"{key}" is out of sync'
                f" (stored: {stored.metadata.resource_version}, assume: {new.metadata.resource_version})"
            )
        before = self.get(key)
        self._assumed[key] = new
        self._on_change(before, new)

    def restore(self, key: Key) -> None:
        """Forget what was assumed about an object; nothing happens if nothing was."""
        before = self._assumed.pop(key, None)
        if before is not None:
            self._on_change(before, self._api.get(key))
