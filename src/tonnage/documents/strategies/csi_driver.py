"""CSIDriver: what a driver can do. Three of its fields belong to gates, and go with them unless already stored."""

from __future__ import annotations

from tonnage.documents.defaults.storage import default_csi_driver
from tonnage.documents.strategies.base import Generation, Strategy
from tonnage.documents.validation.storage import validate_csi_driver, validate_csi_driver_update
from tonnage.objects.document import Doc, dig, same
from tonnage.objects.field_errors import Errors

_GATED = {
    "volumeRebuilding": "CSIStorageCapacityV2",
    "nodeAllocatableUpdatePeriodSeconds": "MutableCSINodeAllocatableCount",
    "preventPodSchedulingIfMissing": "VolumeLimitScaling",
}


class CSIDriverStrategy(Strategy):
    generation = Generation.LATE
    unconditional_update = False

    def default(self, doc: Doc) -> None:
        default_csi_driver(doc, volume_limit_scaling=self.gates.enabled("VolumeLimitScaling"))

    def validate(self, doc: Doc) -> Errors:
        return validate_csi_driver(doc)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return validate_csi_driver_update(new, old)

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        requests = dig(new, "spec", "tokenRequests")
        is_changed = old is None or not same(requests, dig(old, "spec", "tokenRequests"))
        if not requests or not is_changed or dig(new, "spec", "serviceAccountTokenInSecrets") is not None:
            return []
        return [
            "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, "
            "set to true to prevent possible logging of tokens in volume attributes"
        ]

    def drop_disabled_fields(self, new: Doc, old: Doc) -> None:
        for field, gate in _GATED.items():
            if not self.gates.enabled(gate) and field not in old.get("spec", {}):
                new.get("spec", {}).pop(field, None)
