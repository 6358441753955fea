"""CSIDriver: what a driver can do. Three of its fields belong to gates, and go with them unless already stored."""

from __future__ import annotations

from tonnage.documents.strategy import Generation, Strategy
from tonnage.documents.validation.metadata import immutable
from tonnage.objects.document import Doc, dig, same
from tonnage.objects.field_errors import Errors, duplicate, invalid, not_supported
from tonnage.objects.field_rules import optional_choice

_GATED = {
    "volumeRebuilding": "CSIStorageCapacityV2",
    "nodeAllocatableUpdatePeriodSeconds": "MutableCSINodeAllocatableCount",
    "preventPodSchedulingIfMissing": "VolumeLimitScaling",
}
_MIN_UPDATE_PERIOD_S = 10
_MIN_TOKEN_LIFETIME_S = 600
_MAX_TOKEN_LIFETIME_S = 2**32


class CSIDriverStrategy(Strategy):
    generation = Generation.LATE
    unconditional_update = False

    def default(self, doc: Doc) -> None:
        default_csi_driver(doc, volume_limit_scaling=self.gates.enabled("VolumeLimitScaling"))

    def validate(self, doc: Doc) -> Errors:
        """The four booleans upstream requires are there: defaults have filled them in."""
        spec = doc.get("spec", {})
        errors: Errors = []
        policies = ("ReadWriteOnceWithFSType", "File", "None")
        if spec.get("fsGroupPolicy", "None") not in policies:
            errors.append(not_supported("spec.fsGroupPolicy", spec["fsGroupPolicy"], policies))
        errors += _validate_token_requests(spec.get("tokenRequests", []))
        modes = ("Persistent", "Ephemeral")
        for mode in spec.get("volumeLifecycleModes", []):
            errors += optional_choice(mode, modes, "spec.volumeLifecycleModes")
        period_s = spec.get("nodeAllocatableUpdatePeriodSeconds")
        if period_s is not None and period_s < _MIN_UPDATE_PERIOD_S:
            told = "must be greater than or equal to 10 seconds"
            errors.append(invalid("spec.nodeAllocatableUpdatePeriodSeconds", period_s, told))
        if "serviceAccountTokenInSecrets" in spec and not spec.get("tokenRequests"):
            told = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
            errors.append(invalid("spec.serviceAccountTokenInSecrets", spec["serviceAccountTokenInSecrets"], told))
        return errors

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        errors = self.validate(new)
        errors += immutable(
            "spec.attachedRequired", dig(new, "spec", "attachRequired"), dig(old, "spec", "attachRequired")
        )
        modes, before = dig(new, "spec", "volumeLifecycleModes"), dig(old, "spec", "volumeLifecycleModes")
        return errors + immutable("spec.volumeLifecycleModes", modes, before)

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


def _validate_token_requests(requests: list[Doc]) -> Errors:
    errors: Errors = []
    audiences: set[str] = set()
    for idx, request in enumerate(requests):
        path = f"spec.tokenRequests[{idx}]"
        audience, lifetime_s = request.get("audience", ""), request.get("expirationSeconds")
        if audience in audiences:
            errors.append(duplicate(f"{path}.audience", audience))
            continue
        audiences.add(audience)
        if lifetime_s is not None and lifetime_s < _MIN_TOKEN_LIFETIME_S:
            told = "may not specify a duration less than 10 minutes"
            errors.append(invalid(f"{path}.expirationSeconds", lifetime_s, told))
        if lifetime_s is not None and lifetime_s > _MAX_TOKEN_LIFETIME_S:
            told = "may not specify a duration larger than 2^32 seconds"
            errors.append(invalid(f"{path}.expirationSeconds", lifetime_s, told))
    return errors


def default_csi_driver(doc: Doc, *, volume_limit_scaling: bool) -> None:
    """`volume_limit_scaling` is the gate that gives preventPodSchedulingIfMissing a meaning, and with it a default."""
    spec = doc.setdefault("spec", {})
    spec.setdefault("attachRequired", True)
    spec.setdefault("podInfoOnMount", False)
    spec.setdefault("storageCapacity", False)
    spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
    spec.setdefault("volumeLifecycleModes", ["Persistent"])
    spec.setdefault("requiresRepublish", False)
    spec.setdefault("seLinuxMount", False)
    if volume_limit_scaling:
        spec.setdefault("preventPodSchedulingIfMissing", False)
