"""CSIStorageCapacity: how much a class can still provide where. The list of pools is KEP-5925's, behind its gate."""

from __future__ import annotations

from tonnage.documents.strategy import Strategy
from tonnage.documents.validation.internal_form import internal, unchanged
from tonnage.documents.validation.metadata import IMMUTABLE, immutable
from tonnage.documents.validation.resources import validate_nonnegative_quantity
from tonnage.documents.validation.selectors import label_selector_warnings, validate_label_selector
from tonnage.objects import names
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, invalid


class CSIStorageCapacityStrategy(Strategy):
    unconditional_update = False

    def validate(self, doc: Doc) -> Errors:
        return validate_csi_storage_capacity(doc)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        """What a driver was asked for (class and topology) stays; what it answered may change."""
        is_old_form = bool(validate_label_selector(old.get("nodeTopology"), "nodeTopology"))
        errors = validate_csi_storage_capacity(new, allow_invalid_values=is_old_form)
        topology = new.get("nodeTopology")
        if not unchanged("LabelSelector", topology, old.get("nodeTopology")):
            errors.append(invalid("nodeTopology", internal("LabelSelector", topology), IMMUTABLE))
        return errors + immutable("storageClassName", new.get("storageClassName"), old.get("storageClassName"))

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        return label_selector_warnings(new.get("nodeTopology"), "nodeTopology")

    def drop_disabled_fields(self, new: Doc, old: Doc) -> None:
        if not self.gates.enabled("CSIStorageCapacityV2") and "availableCapacities" not in old:
            new.pop("availableCapacities", None)


def validate_csi_storage_capacity(doc: Doc, *, allow_invalid_values: bool = False) -> Errors:
    """`maximumVolumeSize` may be anything: upstream never looks at it."""
    errors = validate_label_selector(doc.get("nodeTopology"), "nodeTopology", allow_invalid_values=allow_invalid_values)
    class_name = doc.get("storageClassName", "")
    errors += [invalid("storageClassName", class_name, sentence) for sentence in names.dns_subdomain(class_name)]
    if "capacity" in doc:
        errors += validate_nonnegative_quantity(doc["capacity"], "capacity")
    for idx, pool in enumerate(doc.get("availableCapacities", [])):
        errors += validate_nonnegative_quantity(pool, f"availableCapacities[{idx}]")
    return errors
