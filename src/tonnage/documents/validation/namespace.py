"""Namespace: its own finalizers, and the two phases of its life."""

from __future__ import annotations

from tonnage.objects import names
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, invalid
from tonnage.objects.field_rules import sentences

_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")


def validate_namespace(doc: Doc) -> Errors:
    errors: Errors = []
    for finalizer in doc.get("spec", {}).get("finalizers", ()):
        errors += _validate_finalizer(finalizer, "spec.finalizers")  # upstream gives no index here
    return errors


def validate_namespace_status(doc: Doc) -> Errors:
    """Active until it is deleted, Terminating ever after."""
    phase = doc.get("status", {}).get("phase", "")
    if "deletionTimestamp" in doc["metadata"]:
        told = "may only be 'Terminating' if `deletionTimestamp` is not empty"
        return [] if phase == "Terminating" else [invalid("status.Phase", phase, told)]
    told = "may only be 'Active' if `deletionTimestamp` is empty"
    return [] if phase == "Active" else [invalid("status.Phase", phase, told)]


def validate_namespace_finalizers(doc: Doc) -> Errors:
    """What a write to the finalize subresource is judged by."""
    errors: Errors = []
    for idx, finalizer in enumerate(doc.get("spec", {}).get("finalizers", ())):
        errors += _validate_finalizer(finalizer, f"spec.finalizers[{idx}]")
    return errors


def _validate_finalizer(finalizer: str, path: str) -> Errors:
    errors = sentences(path, finalizer, names.qualified_name(finalizer))
    if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
        told = "name is neither a standard finalizer name nor is it fully qualified"
        errors.append(invalid(path, finalizer, told))
    return errors
