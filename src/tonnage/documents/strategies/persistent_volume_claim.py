"""PersistentVolumeClaim: a request for storage, settled when it is made; see validation/claims for what may follow.

A data source has two names, kept alike here: `dataSource` knows only claims and snapshots, and drops anything else
without a word, as it always did; `dataSourceRef` takes any kind, but another namespace only in clusters that allow it.
This one, like a stock Kubernetes, does not (CrossNamespaceVolumeDataSource is off).
"""

from __future__ import annotations

from tonnage.documents.defaults.persistent_volumes import default_claim, mirror_data_sources
from tonnage.documents.strategies.base import Strategy
from tonnage.documents.validation.claims import (
    claim_warnings,
    validate_claim,
    validate_claim_status_update,
    validate_claim_update,
)
from tonnage.objects.document import Doc, copy, dig
from tonnage.objects.field_errors import Errors

_LEGACY_SOURCES = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))


class PersistentVolumeClaimStrategy(Strategy):
    def default(self, doc: Doc) -> None:
        default_claim(doc)

    def prepare_create(self, doc: Doc) -> None:
        doc["status"] = {"phase": "Pending"}
        _prepare_data_sources(doc.setdefault("spec", {}), {})

    def validate(self, doc: Doc) -> Errors:
        return validate_claim(doc)

    def prepare_update(self, new: Doc, old: Doc) -> None:
        super().prepare_update(new, old)
        _prepare_data_sources(new.setdefault("spec", {}), old.get("spec", {}))

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        # A claim stored by an older server may have its source under one name only.
        stored = copy(old)
        mirror_data_sources(stored.get("spec", {}))
        return validate_claim_update(new, stored)

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        return validate_claim_status_update(new)

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        return claim_warnings(new)


def _prepare_data_sources(spec: Doc, before: Doc) -> None:
    if dig(spec, "dataSourceRef", "namespace") and "dataSourceRef" not in before:
        del spec["dataSourceRef"]
    source = spec.get("dataSource", {})
    is_legacy = (source.get("apiGroup", ""), source.get("kind")) in _LEGACY_SOURCES
    had_source = "dataSource" in before or "dataSourceRef" in before
    if not had_source and "dataSourceRef" not in spec and not is_legacy:
        spec.pop("dataSource", None)
    mirror_data_sources(spec)
