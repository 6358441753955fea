"""ControllerRevision: a template that a StatefulSet or a DaemonSet had."""

from __future__ import annotations

from tonnage.documents.strategy import Strategy
from tonnage.documents.validation.metadata import immutable
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, required
from tonnage.objects.field_rules import nonnegative


class ControllerRevisionStrategy(Strategy):
    """A snapshot of a template: written once, never changed, only renumbered."""

    def validate(self, doc: Doc) -> Errors:
        errors = nonnegative(doc.get("revision", 0), "revision")
        if "data" not in doc:
            errors.append(required("data", "data is mandatory"))
        elif not isinstance(doc["data"], dict):
            errors.append(required("data", "data must be a valid JSON object"))
        return errors

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        errors = nonnegative(new.get("revision", 0), "revision")
        return errors + immutable("data", new.get("data"), old.get("data"))
