"""The custom resources that are served at this moment, read off the definitions in the store.

Nothing is registered: whoever asks gets what the store's definitions say now, so that a definition takes effect with
the write that made it. What follows from a definition is worked out once for each of its states and kept. A definition
cannot take a path from a built-in resource.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tonnage.documents.custom.custom_resource import CustomResource, custom_resources, shape_id
from tonnage.documents.custom.definition_rules import are_names_accepted, is_established, version_preference
from tonnage.objects.document import Doc, copy, decode
from tonnage.objects.resources import BY_PATH, BY_PLURAL
from tonnage.store import KeyDamaged, Store, StoreRecord

CRDS = BY_PLURAL["apiextensions.k8s.io", "customresourcedefinitions"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Known:
    revision: int
    head: Doc
    """The definition without its versions, which may be large: names, metadata, status."""
    shape: str
    by_version: dict[str, CustomResource]


class Definitions:
    """The definitions of one store and the resources that follow from them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, _Known] = {}

    def find(self, group: str, version: str, plural: str) -> CustomResource | None:
        """The custom resource behind a path; None when no definition has it served."""
        try:
            record = self._store.get(CRDS.key("", f"{plural}.{group}"))
        except KeyDamaged:
            return None
        return self._of(record).by_version.get(version) if record is not None else None

    def all(self) -> list[CustomResource]:
        """Every custom resource that is served: by definition, and of one the versions in order of preference."""
        by_definition = [self._of(record).by_version for record in self._records()]
        return [served[version] for served in by_definition for version in sorted(served, key=version_preference)]

    @property
    def state(self) -> tuple[tuple[str, int], ...]:
        """Differs when anything about the definitions does: what is made of them may be kept until then."""
        return tuple((record.key, record.revision) for record in self._store.list(CRDS.store_prefix))

    def is_current(self, resource: CustomResource) -> bool:
        """Is the resource still what its definition says?"""
        found = self.find(resource.group, resource.version, resource.plural)
        return found is not None and found.shape_id == resource.shape_id

    def heads(self) -> Iterator[Doc]:
        """All definitions without their versions; the caller's own, to do with as it likes."""
        for record in self._records():
            head: Doc = copy(self._of(record).head)
            yield head

    def _records(self) -> list[StoreRecord]:
        """All definitions. What was worked out for others, which are gone, is forgotten."""
        records = self._store.list(CRDS.store_prefix)
        for key in self._known.keys() - {record.key for record in records}:
            del self._known[key]
        return records

    def prepare(self, record: StoreRecord) -> None:
        """Work out what follows from a definition, which may take long, before anybody asks. For any thread."""
        self._known[record.key] = self._follow(record, self._known.get(record.key))

    def _of(self, record: StoreRecord) -> _Known:
        known = self._known.get(record.key)
        if known is None or known.revision != record.revision:
            known = self._known[record.key] = self._follow(record, known)
        return known

    def _follow(self, record: StoreRecord, before: _Known | None) -> _Known:
        definition: Doc = decode(record.document)
        spec = {field: definition["spec"].get(field) for field in ("group", "names")}
        head = {**definition, "spec": spec}
        if not (are_names_accepted(definition) or is_established(definition)):
            return _Known(record.revision, head, "", {})
        shape = shape_id(definition)
        is_terminating = "deletionTimestamp" in definition["metadata"]
        if before is not None and before.shape == shape:
            rows = before.by_version
            if ("deletionTimestamp" in before.head["metadata"]) != is_terminating:
                rows = {version: replace(row, is_terminating=is_terminating) for version, row in rows.items()}
            return _Known(record.revision, head, shape, rows)
        try:
            made = custom_resources(definition)
        except Exception:  # a definition that nobody should have let in must not take the others with it
            _log.exception("The CustomResourceDefinition %s cannot be served", definition["metadata"]["name"])
            made = {}
        own = {version: row for version, row in made.items() if (row.group, version, row.plural) not in BY_PATH}
        return _Known(record.revision, head, shape, own)
