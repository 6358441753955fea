"""The custom resources that are served now, derived from the definitions in the store.

Nothing is registered: every lookup follows the store's definitions, so a definition takes effect with its write. The
resources of a definition are computed once per revision and kept. A definition cannot take the path of a built-in
resource.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tonnage.documents.custom.custom_resource import CustomResource, custom_resources, shape_id
from tonnage.documents.custom.definition_rules import is_established, version_preference
from tonnage.documents.strategy import has_condition
from tonnage.objects.document import Doc, copy, decode
from tonnage.objects.resources import BY_PATH, BY_PLURAL
from tonnage.store.errors import KeyDamaged
from tonnage.store.records import StoreRecord
from tonnage.store.store import Store

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
    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, _Known] = {}

    def find(self, group: str, version: str, plural: str) -> CustomResource | None:
        """The custom resource of a path; None when no definition serves it."""
        try:
            record = self._store.get(CRDS.key("", f"{plural}.{group}"))
        except KeyDamaged:
            return None
        return self._of(record).by_version.get(version) if record is not None else None

    def all(self) -> list[CustomResource]:
        """Every served custom resource, by definition, with a definition's versions in order of preference."""
        by_definition = [self._of(record).by_version for record in self._records()]
        return [served[version] for served in by_definition for version in sorted(served, key=version_preference)]

    @property
    def state(self) -> tuple[tuple[str, int], ...]:
        """Changes when any definition does: results derived from the definitions may be kept until then."""
        return tuple((record.key, record.revision) for record in self._store.list(CRDS.store_prefix))

    def is_current(self, resource: CustomResource) -> bool:
        found = self.find(resource.group, resource.version, resource.plural)
        return found is not None and found.shape_id == resource.shape_id

    def heads(self) -> Iterator[Doc]:
        """All definitions without their versions, as copies."""
        for record in self._records():
            head: Doc = copy(self._of(record).head)
            yield head

    def _records(self) -> list[StoreRecord]:
        """All definitions. Results of deleted ones are dropped."""
        records = self._store.list(CRDS.store_prefix)
        for key in self._known.keys() - {record.key for record in records}:
            del self._known[key]
        return records

    def prepare(self, record: StoreRecord) -> None:
        """Compute a definition's resources, which may take long, before the first lookup. For any thread."""
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
        if not (has_condition(definition, "NamesAccepted") or is_established(definition)):
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
        except Exception:  # one invalid definition must not break the others
            _log.exception("The CustomResourceDefinition %s cannot be served", definition["metadata"]["name"])
            made = {}
        own = {version: row for version, row in made.items() if (row.group, version, row.plural) not in BY_PATH}
        return _Known(record.revision, head, shape, own)
