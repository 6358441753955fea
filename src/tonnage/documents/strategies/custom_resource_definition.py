"""The rules of CustomResourceDefinition. What follows from one is `documents/custom`'s.

A definition is deleted in two steps: it is marked and stays, with a finalizer, until its objects are gone
(`apiserver/custom/lifecycle.py`).
"""

from __future__ import annotations

from tonnage.clock import rfc3339
from tonnage.documents.custom.definition import (
    default_definition,
    definition_warnings,
    validate_definition,
    validate_definition_status,
    validate_definition_update,
)
from tonnage.documents.custom.definition_status import record_stored_version, terminate
from tonnage.documents.strategies.base import Generation, Strategy
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors

CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"


class CustomResourceDefinitionStrategy(Strategy):
    generation = Generation.COUNTED
    unconditional_update = False
    are_finalizers_qualified = False

    def default(self, doc: Doc) -> None:
        default_definition(doc)

    def prepare_create(self, doc: Doc) -> None:
        doc["status"] = {"acceptedNames": {"kind": "", "plural": ""}}
        record_stored_version(doc)

    def validate(self, doc: Doc) -> Errors:
        return validate_definition(doc)

    def prepare_update(self, new: Doc, old: Doc) -> None:
        super().prepare_update(new, old)
        record_stored_version(new)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return validate_definition_update(new, old)

    def prepare_status(self, new: Doc, old: Doc) -> None:
        super().prepare_status(new, old)
        if not new["status"].get("storedVersions"):
            record_stored_version(new)

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        return validate_definition_status(new, old)

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        return definition_warnings(new, old)

    def holds_back_deletion(self, doc: Doc) -> bool:
        """The first request to delete a definition marks it, always: its objects are to go first."""
        return "deletionTimestamp" not in doc["metadata"]

    def prepare_deletion(self, doc: Doc) -> None:
        finalizers: list[str] = doc["metadata"].setdefault("finalizers", [])
        if CLEANUP_FINALIZER not in finalizers:
            finalizers.append(CLEANUP_FINALIZER)
        terminate(
            doc,
            "True",
            "InstanceDeletionPending",
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
            rfc3339(self.clock.now()),
        )
