"""The objects in which a driver tells its pools, by what they are about: a node, or what it is called elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tonnage.objects.document import Doc
from tonnage.objects.meta import Document, Key
from tonnage.pools.reading import node_of


class ToldObjects:
    """One place for each object. It may be about another node than before: its owner is set after it was made."""

    def __init__(self, found: Iterable[Document] = ()) -> None:
        self._about: dict[str, dict[Key, Doc]] = {}
        self._name_of: dict[Key, str] = {}
        for each in found:
            self.put(each)

    def __iter__(self) -> Iterator[Doc]:
        return (doc for about in self._about.values() for doc in about.values())

    def about(self, names: Iterable[str]) -> Iterator[Doc]:
        """What is told under any of these names."""
        return (doc for name in names for doc in self._about.get(name, {}).values())

    def put(self, found: Document) -> None:
        self.remove(found)
        doc = dict(found.doc)
        name = self._name_of[found.key] = node_of(doc)
        self._about.setdefault(name, {})[found.key] = doc

    def remove(self, found: Document) -> None:
        name = self._name_of.pop(found.key, None)
        if name is not None:
            about = self._about[name]
            del about[found.key]
            if not about:
                del self._about[name]

    def name_of(self, found: Document) -> str | None:
        """What an object is filed under; None for one that is not."""
        return self._name_of.get(found.key)
