"""CSIStorageCapacity: how much a class can still provide where. The list of pools is KEP-5925's, behind its gate."""

from __future__ import annotations

from tonnage.documents.strategies.base import Strategy
from tonnage.documents.validation.selectors import label_selector_warnings
from tonnage.documents.validation.storage import validate_csi_storage_capacity, validate_csi_storage_capacity_update
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors


class CSIStorageCapacityStrategy(Strategy):
    unconditional_update = False

    def validate(self, doc: Doc) -> Errors:
        return validate_csi_storage_capacity(doc)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return validate_csi_storage_capacity_update(new, old)

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        return label_selector_warnings(new.get("nodeTopology"), "nodeTopology")

    def drop_disabled_fields(self, new: Doc, old: Doc) -> None:
        if not self.gates.enabled("CSIStorageCapacityV2") and "availableCapacities" not in old:
            new.pop("availableCapacities", None)
