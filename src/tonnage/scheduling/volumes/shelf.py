"""An index of several things under one name; a name without things is gone."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

N = TypeVar("N", bound=Hashable)
K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Shelf(Generic[N, K, T]):
    """Things by name, each with a key of its own, the oldest first."""

    def __init__(self) -> None:
        self._by_name: dict[N, dict[K, T]] = {}
        self._nothing: Mapping[K, T] = {}

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: N) -> bool:
        return name in self._by_name

    def __getitem__(self, name: N) -> list[T]:
        """The things under a name; none if there are none."""
        return list(self._by_name.get(name, self._nothing).values())

    def at(self, name: N) -> Mapping[K, T]:
        """The same by key. It is what is kept: to be read at once."""
        return self._by_name.get(name, self._nothing)

    def put(self, name: N, key: K, thing: T) -> None:
        self._by_name.setdefault(name, {})[key] = thing

    def take(self, name: N, key: K) -> None:
        """Remove a thing, if it is there."""
        things = self._by_name.get(name)
        if things is not None:
            things.pop(key, None)
            if not things:
                del self._by_name[name]
