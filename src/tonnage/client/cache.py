"""Objects by key, and event handlers for their changes. `Informer` is the cache that fills itself.

An object is added, updated any number of times, then deleted; an update or delete carries the very object of the event
before it. An object recreated under another uid is a delete and an add. When a handler is called, the cache already
shows the change. A handler that raises is logged; the others are called.

An `Indexer` finds the objects of a cache by other keys. Make it before the handlers that use it. `MutationCache` never
lags behind what the program itself wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Generic, Literal, TypeVar

from tonnage import keyed, logs
from tonnage.clock import Clock
from tonnage.objects.codec import resource_of
from tonnage.objects.document import Doc
from tonnage.objects.meta import Key, Object, revision_of

T = TypeVar("T", bound=Object)

_log = logs.logger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class HandlerRegistration(Generic[T]):
    """Handlers that were added together; `Cache.remove_handlers` removes them."""

    on_add: Callable[[T], None] | None
    on_update: Callable[[T, T], None] | None
    on_delete: Callable[[T], None] | None


class Cache(Generic[T]):
    def __init__(self, cls: type[T]) -> None:
        self.cls = cls
        self.name = resource_of(cls).qualified
        """`pods`, `csinodes.storage.k8s.io`: the name in logs."""
        self._objects: dict[Key, T] = {}
        # A tuple that is replaced, so that a handler may add handlers without their being called twice for one change.
        self._handlers: tuple[HandlerRegistration[T], ...] = ()

    @property
    def resource_version(self) -> str:
        """The server's revision that the cache has reached; empty if unknown."""
        return ""

    def get(self, key: Key) -> T | None:
        return self._objects.get(key)

    def __iter__(self) -> Iterator[T]:
        """All objects in no particular order; do not await while iterating."""
        return iter(self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: Key) -> bool:
        return key in self._objects

    def add_handlers(
        self,
        *,
        on_add: Callable[[T], None] | None = None,
        on_update: Callable[[T, T], None] | None = None,
        on_delete: Callable[[T], None] | None = None,
    ) -> HandlerRegistration[T]:
        """Call these on every change from now on, and `on_add` at once for every known object."""
        registration = HandlerRegistration(on_add, on_update, on_delete)
        self._handlers = (*self._handlers, registration)
        if on_add is not None:
            for known in tuple(self._objects.values()):
                self._call(on_add, known)
        return registration

    def on_change(self, handler: Callable[[T], None]) -> HandlerRegistration[T]:
        """Call `handler` with every object that was added, updated (the new state) or deleted (the last state)."""
        return self.add_handlers(on_add=handler, on_update=lambda _, new: handler(new), on_delete=handler)

    def remove_handlers(self, registration: HandlerRegistration[T]) -> None:
        self._handlers = tuple(handler for handler in self._handlers if handler is not registration)

    def replace(self, state: Iterable[T], *, rewound: bool = False) -> None:
        """Replace the whole state, and call handlers for the difference, deletions first.

        `rewound`: the server repeats versions that it gave before, so equal versions may be different states.
        """
        new = {found.key: found for found in state}
        if rewound:
            for key, found in new.items():
                old = self._objects.get(key)
                is_other = old is not None and old.metadata.uid == found.metadata.uid and old != found
                if old is not None and is_other and old.metadata.resource_version == found.metadata.resource_version:
                    self._objects[key] = found
                    self._notify("on_update", old, found)
        for key in [key for key in self._objects if key not in new]:
            self.remove(key)
        for found in new.values():
            self.put(found)

    def put(self, new: T) -> None:
        """Add or update an object; an equal resourceVersion changes nothing."""
        key = new.key
        old = self._objects.get(key)
        if old is not None:
            if old.metadata.uid == new.metadata.uid:
                if old.metadata.resource_version == new.metadata.resource_version:
                    return
                self._objects[key] = new
                self._notify("on_update", old, new)
                return
            self.remove(key)
        self._objects[key] = new
        self._notify("on_add", new)

    def remove(self, key: Key) -> None:
        old = self._objects.pop(key, None)
        if old is not None:
            self._notify("on_delete", old)

    def _notify(self, event: Literal["on_add", "on_update", "on_delete"], *objects: T) -> None:
        for handlers in self._handlers:
            handler = getattr(handlers, event)
            if handler is not None:
                self._call(handler, *objects)

    def _call(self, handler: Callable[..., None], *objects: T) -> None:
        try:
            handler(*objects)
        except Exception:
            _log.exception("A handler failed", resource=self.name, object=objects[-1].key)


class Indexer(Generic[T]):
    """The objects of a cache by the index keys that a function gives them."""

    def __init__(self, objects: Cache[T], index_keys: Callable[[T], Iterable[str]]) -> None:
        self._objects = objects
        self._indexed: keyed.Shelf[str, Key, None] = keyed.Shelf()
        objects.add_handlers(
            on_add=lambda new: self._move(set(), set(index_keys(new)), new.key),
            on_update=lambda old, new: self._move(set(index_keys(old)), set(index_keys(new)), new.key),
            on_delete=lambda old: self._move(set(index_keys(old)), set(), old.key),
        )

    def __call__(self, index_key: str) -> tuple[T, ...]:
        """The objects with this index key, in the order in which they got it."""
        found = map(self._objects.get, self._indexed.at(index_key))
        return tuple(each for each in found if each is not None)

    def _move(self, before: set[str], after: set[str], key: Key) -> None:
        for index_key in before - after:
            self._indexed.take(index_key, key)
        for index_key in after - before:
            self._indexed.put(index_key, key, None)


KEPT_S: Final = 300.0


class MutationCache(Generic[T]):
    """A view of an informer's cache that never lags behind this program's own writes. Mirrors client-go's.

    The state with the higher resourceVersion wins, until the informer has reached the write, shows the object's
    deletion, or five minutes have passed (a restored server counts from an older version). Versions that are no numbers
    never win.
    """

    def __init__(self, objects: Cache[T], *, clock: Clock) -> None:
        self._objects = objects
        self._clock = clock
        self._written: dict[Key, tuple[T, float]] = {}
        objects.add_handlers(on_add=self._shown, on_update=lambda _, new: self._shown(new), on_delete=self._deleted)

    def get(self, key: Key) -> T | None:
        shown = self._objects.get(key)
        if key not in self._written:
            return shown
        written, stored_at_s = self._written[key]
        # The informer has no position while it reads the state.
        reached = max(shown.metadata.revision if shown is not None else 0, revision_of(self._objects.resource_version))
        is_caught_up = reached >= written.metadata.revision
        if is_caught_up or self._clock.monotonic() - stored_at_s > KEPT_S:
            del self._written[key]
            return shown
        return written

    def store(self, written: T) -> T:
        """Keep the answer of a create, update or patch, unless a later one is known. Returns `written`."""
        known = self._written.get(written.key)
        if known is None or written.metadata.revision >= known[0].metadata.revision:
            self._written[written.key] = written, self._clock.monotonic()
        return written

    def forget(self, key: Key) -> None:
        """Call it when the program has deleted the object itself."""
        self._written.pop(key, None)

    def _shown(self, shown: T) -> None:
        self.get(shown.key)  # forgets the write if the informer has reached it

    def _deleted(self, old: T) -> None:
        found = self._written.get(old.key)
        if found is not None and found[0].uid == old.uid:
            del self._written[old.key]


def add_finalizer(found: Object, name: str, *, annotations: Mapping[str, str] | None = None) -> Doc | None:
    """A patch that adds the finalizer and the annotations; None when all exist. One from an old list conflicts."""
    metadata: Doc = {}
    if name not in found.metadata.finalizers:
        metadata["finalizers"] = [*found.metadata.finalizers, name]
    missing = {key: value for key, value in (annotations or {}).items() if found.metadata.annotations.get(key) != value}
    if missing:
        metadata["annotations"] = missing
    return {"metadata": {"resourceVersion": found.metadata.resource_version, **metadata}} if metadata else None


def remove_finalizer(found: Object, name: str) -> Doc | None:
    if name not in found.metadata.finalizers:
        return None
    others = [other for other in found.metadata.finalizers if other != name]
    return {"metadata": {"resourceVersion": found.metadata.resource_version, "finalizers": others}}
