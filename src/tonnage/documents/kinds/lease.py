"""Lease: who holds it, since when, for how long. Leader election writes it every few seconds."""

from __future__ import annotations

from tonnage.documents.strategy import Strategy
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, invalid


class LeaseStrategy(Strategy):
    unconditional_update = False
    create_on_update = True

    def default(self, doc: Doc) -> None:
        doc.setdefault("spec", {})

    def drop_disabled_fields(self, new: Doc, old: Doc) -> None:
        """Those of coordinated leader election, which are closed on a stock server."""
        new["spec"].pop("strategy", None)
        new["spec"].pop("preferredHolder", None)

    def validate(self, doc: Doc) -> Errors:
        spec = doc.get("spec", {})
        duration_s, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        errors: Errors = []
        if duration_s is not None and duration_s <= 0:
            errors.append(invalid("spec.leaseDurationSeconds", duration_s, "must be greater than 0"))
        if transitions is not None and transitions < 0:
            errors.append(invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
        return errors
