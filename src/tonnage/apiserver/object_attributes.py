"""Labels and fields that selectors look at, kept beside each stored document. Upstream: storage.AttrFunc.

The store has an `ObjectAttributes` for every record it writes or loads. It decodes nothing until a selector looks, then
once: most objects are listed without a selector, and every watcher of an event shares the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tonnage.clock import Clock
from tonnage.documents.kinds import strategies
from tonnage.documents.schema import Scalar, Struct, Type, schema_of_resource
from tonnage.gates import Gates
from tonnage.objects.document import Doc, decode, dig
from tonnage.objects.resources import RESOURCES, Resource

Paths = Mapping[str, tuple[str, ...]]
_METADATA: Paths = {"metadata.name": ("metadata", "name"), "metadata.namespace": ("metadata", "namespace")}


class Selectable:
    """The fields of one kind that a field selector may name, and how each reads as text."""

    def __init__(self, resource: Resource | None, paths: Paths, stands_in: Mapping[str, str]) -> None:
        """Of custom resources, which are none of the table, metadata alone is known for long."""
        self.paths = {**_METADATA, **paths}
        self._stands_in = stands_in
        self._absent = {
            name: _absent_text(schema_of_resource(resource), path) if resource is not None else ""
            for name, path in self.paths.items()
        }

    def read(self, doc: Doc) -> dict[str, str]:
        read = {name: _text(dig(doc, *path), self._absent[name]) for name, path in self.paths.items()}
        for name, other in self._stands_in.items():
            read[name] = read[name] or read[other]
        return read


class ObjectAttributes:
    """Labels and selectable fields of one document, read when first asked for."""

    __slots__ = ("_document", "_fields", "_labels", "_selectable", "custom")

    def __init__(self, selectable: Selectable, document: bytes) -> None:
        self._selectable = selectable
        self._document: bytes | None = document
        self._labels: Mapping[str, str] = {}
        self._fields: Mapping[str, str] = {}
        self.custom: tuple[str, Mapping[str, str]] = ("", {})
        """Of a custom object: the fields that its definition lets one select by, and which form of the definition."""

    @property
    def labels(self) -> Mapping[str, str]:
        self._read()
        return self._labels

    @property
    def fields(self) -> Mapping[str, str]:
        self._read()
        return self._fields

    def _read(self) -> None:
        document = self._document
        if document is not None:
            doc = decode(document)
            self._labels = doc["metadata"].get("labels", {})
            self._fields = self._selectable.read(doc)
            self._document = None  # last: another thread may be reading too, and must not see half


def index_for(gates: Gates, clock: Clock) -> Callable[[str, bytes], ObjectAttributes]:
    """The store's index: attributes of a document, by the resource its key starts with."""
    by_resource = strategies(gates, clock)
    selectable = {
        row.store_prefix.rstrip("/"): Selectable(row, strategy.selectable, strategy.stands_in)
        for row in RESOURCES
        if row.stored_as is None
        for strategy in [by_resource[row.group, row.plural]]
    }

    custom = Selectable(None, {}, {})

    def index(key: str, document: bytes) -> ObjectAttributes:
        return ObjectAttributes(selectable.get(key.partition("/")[0], custom), document)

    return index


def _text(value: Any, absent: str) -> str:
    if value is None:
        return absent
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _absent_text(kind: Type, path: tuple[str, ...]) -> str:
    """A missing boolean reads `false`, everything else that is missing reads empty, as upstream has it."""
    for step in path:
        if not isinstance(kind, Struct) or step not in kind.fields:
            return ""
        kind = kind.fields[step].type
    return "false" if isinstance(kind, Scalar) and kind.name == "bool" else ""
