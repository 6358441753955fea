"""Lease: who holds it, since when, for how long."""

from __future__ import annotations

from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, invalid


def validate_lease(doc: Doc) -> Errors:
    spec = doc.get("spec", {})
    duration_s, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    errors: Errors = []
    if duration_s is not None and duration_s <= 0:
        errors.append(invalid("spec.leaseDurationSeconds", duration_s, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        errors.append(invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
    return errors
