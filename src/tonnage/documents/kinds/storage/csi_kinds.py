"""CSIDriver: what a driver can do. Three of its fields belong to gates, and go with them unless already stored.

VolumeAttachment: one volume to one node. The spec never changes; status is the attacher's alone.

An attacher's error may carry a gRPC code, which the node's attach limits are corrected by; it belongs to a gate, and
the two errors are judged apart.
"""

from __future__ import annotations

from typing import Any

from tonnage.documents.kinds.storage.persistent_volume import validate_volume_spec
from tonnage.documents.strategy import Generation, Strategy
from tonnage.documents.validation.internal_form import internal, unchanged
from tonnage.documents.validation.metadata import IMMUTABLE, byte_size, immutable
from tonnage.documents.validation.resources import validate_nonnegative_quantity
from tonnage.documents.validation.selectors import label_selector_warnings, validate_label_selector
from tonnage.documents.validation.volume_sources import validate_csi_driver_name
from tonnage.objects import names
from tonnage.objects.document import Doc, copy, dig, same
from tonnage.objects.field_errors import Errors, duplicate, forbidden, invalid, not_supported, required, too_long
from tonnage.objects.field_rules import NEGATIVE, optional_choice

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


_NODE_ID_MAX_BYTES = 256


class CSINodeStrategy(Strategy):
    unconditional_update = False

    def validate(self, doc: Doc) -> Errors:
        return validate_csi_node(doc)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        is_mutable = self.gates.enabled("MutableCSINodeAllocatableCount")
        return validate_csi_node_update(new, old, allocatable_is_mutable=is_mutable)


def validate_csi_node(doc: Doc) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for idx, driver in enumerate(dig(doc, "spec", "drivers") or []):
        path = f"spec.drivers[{idx}]"
        name, node_id = driver.get("name", ""), driver.get("nodeID", "")
        errors += validate_csi_driver_name(name, f"{path}.name")
        if not node_id:
            errors.append(required(f"{path}.nodeID"))
        if len(node_id.encode()) > _NODE_ID_MAX_BYTES:
            errors.append(invalid(f"{path}.nodeID", node_id, f"must be {_NODE_ID_MAX_BYTES} characters or less"))
        count = dig(driver, "allocatable", "count")
        if count is not None and count < 0:
            errors.append(invalid(f"{path}.allocatable.count", count, NEGATIVE))
        if name in seen:
            errors.append(duplicate(f"{path}.name", name))
        seen.add(name)
        errors += _validate_topology_keys(driver.get("topologyKeys", []), path)
    return errors


def validate_csi_node_update(new: Doc, old: Doc, *, allocatable_is_mutable: bool) -> Errors:
    """Drivers may come and go; an entry that stays may not change, its attach limit excepted where that is mutable."""
    errors = validate_csi_node(new)
    by_name: dict[str, list[Doc]] = {}
    for driver in dig(new, "spec", "drivers") or []:
        by_name.setdefault(driver.get("name", ""), []).append(driver)
    for before in dig(old, "spec", "drivers") or []:
        for driver in by_name.get(before.get("name", ""), ()):
            judged, stored = driver, before
            if allocatable_is_mutable:
                judged, stored = ({**each, "allocatable": None} for each in (driver, before))
            if not unchanged("CSINodeDriver", judged, stored):
                errors.append(invalid("spec.drivers", internal("CSINodeDriver", judged), IMMUTABLE))
    return errors


def _validate_topology_keys(keys: list[str], path: str) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for key in keys:
        if not key:
            errors.append(required(path))
        if key in seen:
            errors.append(duplicate(path, key))
        seen.add(key)
        errors += [invalid(path, key, sentence) for sentence in names.qualified_name(key)]
    return errors


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


_NOT_THROUGH_STATUS = ("deletionTimestamp", "generation", "selfLink", "labels", "annotations", "finalizers")
_ATTACHMENT_METADATA_MAX_BYTES = 256 * 1024
_VOLUME_ERROR_MAX_BYTES = 1024
_MAX_INT32 = 2**31 - 1


class VolumeAttachmentStrategy(Strategy):
    unconditional_update = False

    def default(self, doc: Doc) -> None:
        """Clients count on `attached` being there, though nothing has been attached yet."""
        doc.setdefault("status", {}).setdefault("attached", False)

    def prepare_create(self, doc: Doc) -> None:
        doc["status"] = {"attached": False}

    def validate(self, doc: Doc) -> Errors:
        spec = doc.get("spec", {})
        errors = validate_csi_driver_name(spec.get("attacher", ""), "spec.attacher")
        errors += _validate_attachment_source(spec.get("source", {}))
        node = spec.get("nodeName", "")
        errors += [invalid("spec.nodeName", node, sentence) for sentence in names.dns_subdomain(node)]
        errors += _validate_attachment_status(doc.get("status", {}))
        volume = dig(spec, "source", "persistentVolumeName")
        if volume is not None:
            told = names.dns_subdomain(volume)
            errors += [invalid("spec.source.persistentVolumeName", volume, sentence) for sentence in told]
        return errors

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        """Only status ever changes."""
        errors = self.validate(new)
        if not unchanged("VolumeAttachmentSpec", new.get("spec"), old.get("spec")):
            errors.append(invalid("spec", internal("VolumeAttachmentSpec", new.get("spec")), IMMUTABLE))
        return errors

    def prepare_status(self, new: Doc, old: Doc) -> None:
        super().prepare_status(new, old)
        meta, before = new.setdefault("metadata", {}), old.get("metadata", {})
        for field in (*_NOT_THROUGH_STATUS, "ownerReferences"):
            meta.pop(field, None)
            if field in before:
                meta[field] = copy(before[field])
        if self.gates.enabled("MutableCSINodeAllocatableCount"):
            return
        for failure in ("attachError", "detachError"):
            if dig(old, "status", failure, "errorCode") is None:
                (dig(new, "status", failure) or {}).pop("errorCode", None)

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        return self.validate_update(new, old)


def _validate_attachment_source(source: Doc) -> Errors:
    volume, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
    exactly_one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    if inline is None and volume is None:
        return [required("spec.source", exactly_one)]
    if inline is not None and volume is not None:
        return [forbidden("spec.source", exactly_one)]
    if inline is not None:
        return validate_volume_spec(inline, "spec.source.inlineVolumeSpec", is_inline=True)
    told = "must specify non empty persistentVolumeName"
    return [] if volume else [required("spec.source.persistentVolumeName", told)]


def _validate_attachment_status(status: Doc) -> Errors:
    errors: Errors = []
    if byte_size(status.get("attachmentMetadata", {})) > _ATTACHMENT_METADATA_MAX_BYTES:
        errors.append(too_long("status.attachmentMetadata", _ATTACHMENT_METADATA_MAX_BYTES))
    for field in ("attachError", "detachError"):
        failure: dict[str, Any] = status.get(field, {})
        if len(failure.get("message", "").encode()) > _VOLUME_ERROR_MAX_BYTES:
            # Upstream names the bound of another field here, 256 KiB.
            errors.append(too_long(f"status.{field}.message", _ATTACHMENT_METADATA_MAX_BYTES))
        code = failure.get("errorCode", 0)
        errors += [invalid(f"status.{field}.errorCode", code, told) for told in names.in_range(code, 0, _MAX_INT32)]
    return errors
