"""The rules of Namespace.

A namespace is deleted in two steps: it turns Terminating at once, and goes when its spec's finalizers are empty.
Whoever has emptied it takes them away through the finalize subresource (`finalize`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from tonnage.documents.strategies.base import Strategy
from tonnage.documents.validation.namespace import (
    validate_namespace,
    validate_namespace_finalizers,
    validate_namespace_status,
)
from tonnage.objects import names
from tonnage.objects.document import Doc, copy
from tonnage.objects.field_errors import Errors, invalid_object

_NAME_LABEL = "kubernetes.io/metadata.name"
_FINALIZER = "kubernetes"


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
        return validate_namespace_status(new)

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
