"""Namespace: its own finalizers, and the two phases of its life.

A namespace is deleted in two steps: it turns Terminating at once, and goes when its spec's finalizers are empty.
Whoever has emptied it takes them away through the finalize subresource (`finalize`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from tonnage.documents.strategy import Strategy
from tonnage.objects import names
from tonnage.objects.document import Doc, copy
from tonnage.objects.field_errors import Errors, invalid, invalid_object
from tonnage.objects.field_rules import sentences

_NAME_LABEL = "kubernetes.io/metadata.name"
_FINALIZER = "kubernetes"
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")


class NamespaceStrategy(Strategy):
    name_rule: ClassVar[Callable[[str], list[str]]] = staticmethod(names.dns_label)
    selectable: ClassVar[dict[str, tuple[str, ...]]] = {"status.phase": ("status", "phase")}

    def default(self, doc: Doc) -> None:
        """Every namespace carries its name as a label, so that selectors can tell namespaces by name."""
        metadata = doc["metadata"]
        if metadata.get("name"):
            metadata["labels"] = {**metadata.get("labels", {}), _NAME_LABEL: metadata["name"]}
        if not doc.setdefault("status", {}).get("phase"):
            doc["status"]["phase"] = "Active"

    def prepare_create(self, doc: Doc) -> None:
        doc["status"] = {"phase": "Active"}
        finalizers = doc.setdefault("spec", {}).get("finalizers", [])
        if _FINALIZER not in finalizers:
            doc["spec"]["finalizers"] = [*finalizers, _FINALIZER]

    def validate(self, doc: Doc) -> Errors:
        return validate_namespace(doc)

    def prepare_update(self, new: Doc, old: Doc) -> None:
        super().prepare_update(new, old)
        spec = new.setdefault("spec", {})
        spec.pop("finalizers", None)
        if old.get("spec", {}).get("finalizers"):
            spec["finalizers"] = list(old["spec"]["finalizers"])

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        """Active until it is deleted, Terminating ever after."""
        phase = new.get("status", {}).get("phase", "")
        if "deletionTimestamp" in new["metadata"]:
            told = "may only be 'Terminating' if `deletionTimestamp` is not empty"
            return [] if phase == "Terminating" else [invalid("status.Phase", phase, told)]
        told = "may only be 'Active' if `deletionTimestamp` is empty"
        return [] if phase == "Active" else [invalid("status.Phase", phase, told)]

    def holds_back_deletion(self, doc: Doc) -> bool:
        return bool(doc.get("spec", {}).get("finalizers"))

    def prepare_deletion(self, doc: Doc) -> None:
        doc.setdefault("status", {})["phase"] = "Terminating"


def finalize(old: Doc, sent: Doc) -> Doc:
    """The namespace with the finalizers that a write to the finalize subresource asks for. Raises Invalid.

    Everything else stays, status included; `old` itself is not touched.
    """
    wanted = sent.get("spec", {}).get("finalizers", [])
    changed: Doc = copy(old)
    changed.setdefault("spec", {}).pop("finalizers", None)
    if wanted:
        changed["spec"]["finalizers"] = list(wanted)
    errors = validate_namespace_finalizers(changed)
    if errors:
        raise invalid_object("", "Namespace", old["metadata"]["name"], errors)
    return changed


def validate_namespace(doc: Doc) -> Errors:
    errors: Errors = []
    for finalizer in doc.get("spec", {}).get("finalizers", ()):
        errors += _validate_finalizer(finalizer, "spec.finalizers")  # upstream gives no index here
    return errors


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
