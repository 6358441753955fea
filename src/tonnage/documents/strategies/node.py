"""Node: may be created with its status, and is then written through two endpoints, spec here, status there."""

from __future__ import annotations

from typing import ClassVar

from tonnage.documents.defaults.node import default_node
from tonnage.documents.strategies.base import Strategy
from tonnage.documents.validation.node import node_warnings, validate_node, validate_node_update
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors


class NodeStrategy(Strategy):
    selectable: ClassVar[dict[str, tuple[str, ...]]] = {"spec.unschedulable": ("spec", "unschedulable")}

    def default(self, doc: Doc) -> None:
        default_node(doc)

    def prepare_create(self, doc: Doc) -> None:
        # Dynamic kubelet configuration is gone; what is left of it is not taken in any more.
        doc.get("spec", {}).pop("configSource", None)
        doc.get("status", {}).pop("config", None)

    def validate(self, doc: Doc) -> Errors:
        return validate_node(doc)

    def prepare_update(self, new: Doc, old: Doc) -> None:
        super().prepare_update(new, old)
        if "configSource" not in old.get("spec", {}):
            new.get("spec", {}).pop("configSource", None)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        errors = validate_node(new)
        told = {(error.reason, error.field, error.detail) for error in errors}
        again = validate_node_update(new, old)
        return errors + [error for error in again if (error.reason, error.field, error.detail) not in told]

    def prepare_status(self, new: Doc, old: Doc) -> None:
        super().prepare_status(new, old)
        if "config" not in old.get("status", {}):
            new.get("status", {}).pop("config", None)

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        return validate_node_update(new, old)

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        return node_warnings(new)
