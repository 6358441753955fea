"""A heap with access by name, a map of several values per name, values by key, and a lock per key."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Hashable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from typing import Any, Final, Generic, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")
N = TypeVar("N", bound=Hashable)
K = TypeVar("K", bound=Hashable)

# Smaller heaps are not worth a sweep.
_FEW: Final = 64


def grouped(pairs: Iterable[tuple[K, T]]) -> dict[K, list[T]]:
    """The values of each key, in their order."""
    found: dict[K, list[T]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


class KeyedHeap(Generic[T]):
    """Items by name, the smallest `order` on top; equal items in the order they were added.

    An item that is removed or reordered leaves its old entry in the binary heap, where it is skipped at the top. Old
    entries are swept out before they outnumber the items.
    """

    def __init__(self) -> None:
        self._tickets = count()
        self._heap: list[tuple[Any, int, str]] = []
        self._items: dict[str, tuple[Any, int, T]] = {}

    def put(self, name: str, order: Any, item: T) -> None:
        ticket = next(self._tickets)
        self._items[name] = (order, ticket, item)
        heapq.heappush(self._heap, (order, ticket, name))
        self._sweep()

    def get(self, name: str) -> T | None:
        entry = self._items.get(name)
        return entry[2] if entry is not None else None

    def remove(self, name: str) -> T | None:
        entry = self._items.pop(name, None)
        if entry is None:
            return None
        self._sweep()
        return entry[2]

    def peek(self) -> T | None:
        while self._heap:
            _, ticket, name = self._heap[0]
            entry = self._items.get(name)
            if entry is not None and entry[1] == ticket:
                return entry[2]
            heapq.heappop(self._heap)
        return None

    def pop(self) -> T | None:
        item = self.peek()
        if item is not None:
            del self._items[heapq.heappop(self._heap)[2]]
        return item

    def _sweep(self) -> None:
        if len(self._heap) > _FEW + 2 * len(self._items):
            self._heap = [(order, ticket, name) for name, (order, ticket, _) in self._items.items()]
            heapq.heapify(self._heap)

    def __contains__(self, name: str) -> bool:
        return name in self._items

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        """All items, top first."""
        return (item for _, _, item in sorted(self._items.values(), key=lambda entry: entry[:2]))


class Shelf(Generic[N, K, T]):
    """Several values per name, each under its own key, oldest first. A name without values is removed."""

    def __init__(self) -> None:
        self._by_name: dict[N, dict[K, T]] = {}
        self._nothing: Mapping[K, T] = {}

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: N) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[N]:
        return iter(self._by_name)

    def __getitem__(self, name: N) -> list[T]:
        """The values of a name; empty if there are none."""
        return list(self._by_name.get(name, self._nothing).values())

    def at(self, name: N) -> Mapping[K, T]:
        """The values of a name by key: the kept mapping itself, to be read at once."""
        return self._by_name.get(name, self._nothing)

    def put(self, name: N, key: K, thing: T) -> None:
        self._by_name.setdefault(name, {})[key] = thing

    def take(self, name: N, key: K) -> None:
        things = self._by_name.get(name)
        if things is not None:
            things.pop(key, None)
            if not things:
                del self._by_name[name]


class KeyedLocks:
    """One lock per key, kept while it is held or awaited."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def hold(self, *keys: str) -> AsyncIterator[None]:
        """Hold the locks of all keys, taken in sorted order, so that no two callers deadlock."""
        locks = [self._locks.setdefault(key, asyncio.Lock()) for key in sorted(set(keys))]
        async with AsyncExitStack() as held:
            for lock in locks:
                await held.enter_async_context(lock)
            yield
