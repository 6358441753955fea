"""Namespace. Deletion makes it Terminating, and it goes when its finalizers are empty (`finalize`)."""

from __future__ import annotations

from typing import ClassVar

from tonnage.documents.strategy import Strategy
from tonnage.documents.validation.metadata import validate_qualified_finalizer
from tonnage.objects import names
from tonnage.objects.document import Doc, copy
from tonnage.objects.field_errors import Errors, invalid, invalid_object
from tonnage.objects.field_rules import each, sentences

_NAME_LABEL = "kubernetes.io/metadata.name"
_FINALIZER = "kubernetes"


class NamespaceStrategy(Strategy):
    name_rule: ClassVar[names.NameRule] = staticmethod(names.dns_label)
    selectable = ("status.phase",)
    new_status: ClassVar[Doc] = {"phase": "Active"}

    def default(self, doc: Doc) -> None:
        """Every namespace has its name as a label, so that selectors can select namespaces by name."""
        super().default(doc)
        metadata = doc["metadata"]
        if metadata.get("name"):
            metadata["labels"] = {**metadata.get("labels", {}), _NAME_LABEL: metadata["name"]}

    def prepare_create(self, doc: Doc) -> None:
        super().prepare_create(doc)
        finalizers = doc.setdefault("spec", {}).get("finalizers", [])
        if _FINALIZER not in finalizers:
            doc["spec"]["finalizers"] = [*finalizers, _FINALIZER]

    def validate(self, doc: Doc) -> Errors:
        """As upstream, the path has no index."""
        finalizers = doc.get("spec", {}).get("finalizers", ())
        return [error for finalizer in finalizers for error in _validate_finalizer(finalizer, "spec.finalizers")]

    def prepare_update(self, new: Doc, old: Doc) -> None:
        super().prepare_update(new, old)
        spec = new.setdefault("spec", {})
        spec.pop("finalizers", None)
        if old.get("spec", {}).get("finalizers"):
            spec["finalizers"] = list(old["spec"]["finalizers"])

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        """Active until it is deleted, Terminating from then on."""
        phase = new.get("status", {}).get("phase", "")
        is_going = "deletionTimestamp" in new["metadata"]
        wanted = "Terminating" if is_going else "Active"
        told = f"may only be '{wanted}' if `deletionTimestamp` is {'not ' if is_going else ''}empty"
        return [] if phase == wanted else [invalid("status.Phase", phase, told)]

    def holds_back_deletion(self, doc: Doc) -> bool:
        return bool(doc.get("spec", {}).get("finalizers"))

    def prepare_deletion(self, doc: Doc) -> None:
        doc.setdefault("status", {})["phase"] = "Terminating"


def finalize(old: Doc, sent: Doc) -> Doc:
    """The namespace with the finalizers that a write to the finalize subresource asks for. Raises Invalid."""
    wanted = sent.get("spec", {}).get("finalizers", [])
    changed: Doc = copy(old)
    changed.setdefault("spec", {}).pop("finalizers", None)
    if wanted:
        changed["spec"]["finalizers"] = list(wanted)
    if errors := each(_validate_finalizer)(wanted, "spec.finalizers"):
        raise invalid_object("", "Namespace", old["metadata"]["name"], errors)
    return changed


def _validate_finalizer(finalizer: str, path: str) -> Errors:
    return sentences(path, finalizer, names.qualified_name(finalizer)) + validate_qualified_finalizer(finalizer, path)
