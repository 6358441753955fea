"""CSINode: which drivers a node has. An entry is settled when it is made, its attach limit apart if the gate is on."""

from __future__ import annotations

from tonnage.documents.strategies.base import Strategy
from tonnage.documents.validation.storage import validate_csi_node, validate_csi_node_update
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors


class CSINodeStrategy(Strategy):
    unconditional_update = False

    def validate(self, doc: Doc) -> Errors:
        return validate_csi_node(doc)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        is_mutable = self.gates.enabled("MutableCSINodeAllocatableCount")
        return validate_csi_node_update(new, old, allocatable_is_mutable=is_mutable)
