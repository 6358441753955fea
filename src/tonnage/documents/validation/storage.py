"""The rules of storage.k8s.io: classes, CSIDriver, CSINode, CSIStorageCapacity, VolumeAttachment.

One function judges a new object, a second a change of it; the verbs have judged metadata before. What a gate decides is
passed in as a plain argument. Mirrors upstream's pkg/apis/storage/validation, and keeps the paths it gives, the odd
ones too: `spec.attachedRequired`, `spec.drivers` without an index, topology keys at `spec.drivers[0]`.
"""

from __future__ import annotations

from typing import Any

from tonnage.documents.validation.internal_form import internal, unchanged
from tonnage.documents.validation.metadata import IMMUTABLE, byte_size, immutable
from tonnage.documents.validation.persistent_volumes import validate_volume_spec
from tonnage.documents.validation.resources import validate_nonnegative_quantity
from tonnage.documents.validation.selectors import validate_label_selector, validate_topology_selector_term
from tonnage.documents.validation.volume_sources import validate_csi_driver_name
from tonnage.objects import names
from tonnage.objects.document import Doc, dig
from tonnage.objects.field_errors import Errors, duplicate, forbidden, invalid, not_supported, required, too_long
from tonnage.objects.field_rules import NEGATIVE, unsupported

_PARAMETERS_MAX_COUNT = 512
_PARAMETERS_MAX_BYTES = 256 * 1024
_ATTACHMENT_METADATA_MAX_BYTES = 256 * 1024
_VOLUME_ERROR_MAX_BYTES = 1024
_NODE_ID_MAX_BYTES = 256
_MIN_UPDATE_PERIOD_S = 10
_MIN_TOKEN_LIFETIME_S = 600
_MAX_TOKEN_LIFETIME_S = 2**32
_MAX_INT32 = 2**31 - 1


# -- StorageClass -----------------------------------------------------------------------------------------------------


def validate_storage_class(doc: Doc) -> Errors:
    errors = _validate_driver(doc, "provisioner")
    errors += _validate_parameters(doc.get("parameters", {}))
    policy = doc.get("reclaimPolicy", "")
    if policy and policy not in ("Delete", "Retain"):
        errors.append(not_supported("reclaimPolicy", policy, ("Delete", "Retain")))
    mode = doc.get("volumeBindingMode", "")
    if mode not in ("Immediate", "WaitForFirstConsumer"):
        errors.append(not_supported("volumeBindingMode", mode, ("Immediate", "WaitForFirstConsumer")))
    return errors + _validate_allowed_topologies(doc.get("allowedTopologies", []))


def validate_storage_class_update(new: Doc, old: Doc) -> Errors:
    errors = validate_storage_class(new)
    parameters = new.get("parameters")
    errors += immutable("parameters", dict(sorted(parameters.items())) if parameters else None, old.get("parameters"))
    for field in ("provisioner", "reclaimPolicy", "volumeBindingMode"):
        errors += immutable(field, new.get(field), old.get(field))
    return errors


def validate_volume_attributes_class(doc: Doc) -> Errors:
    parameters = doc.get("parameters", {})
    errors = _validate_driver(doc, "driverName") + _validate_parameters(parameters)
    if not parameters:
        errors.append(required("parameters", "must contain at least one key/value pair"))
    return errors


def validate_volume_attributes_class_update(new: Doc, old: Doc) -> Errors:
    errors: Errors = []
    if new.get("driverName", "") != old.get("driverName", ""):
        errors.append(forbidden("driverName", "updates to driverName are forbidden."))
    if new.get("parameters") != old.get("parameters"):
        errors.append(forbidden("parameters", "updates to parameters are forbidden."))
    return errors + validate_volume_attributes_class(new)


def _validate_driver(doc: Doc, field: str) -> Errors:
    name = doc.get(field, "").lower()
    return [invalid(field, name, told) for told in names.qualified_name(name)] if name else [required(field)]


def _validate_parameters(parameters: dict[str, str]) -> Errors:
    if len(parameters) > _PARAMETERS_MAX_COUNT:
        return [too_long("parameters", _PARAMETERS_MAX_COUNT)]
    errors: Errors = []
    if "" in parameters:
        errors.append(invalid("parameters", "", "field can not be empty."))
    if byte_size(parameters) > _PARAMETERS_MAX_BYTES:
        errors.append(too_long("parameters", _PARAMETERS_MAX_BYTES))
    return errors


def _validate_allowed_topologies(terms: list[Doc]) -> Errors:
    """Each term legal, and no two that ask for the same, whatever the order of keys and values."""
    errors: Errors = []
    seen: set[frozenset[tuple[str, frozenset[str]]]] = set()
    for idx, term in enumerate(terms):
        path = f"allowedTopologies[{idx}]"
        errors += validate_topology_selector_term(term, path)
        by_key = {each.get("key", ""): each.get("values", []) for each in term.get("matchLabelExpressions", [])}
        asked = frozenset((key, frozenset(values)) for key, values in by_key.items())
        # Upstream compares with a list that starts out with empty terms, so an empty one is always a duplicate.
        if not asked or asked in seen:
            errors.append(duplicate(f"{path}.matchLabelExpressions", ""))
        seen.add(asked)
    return errors


# -- CSIDriver --------------------------------------------------------------------------------------------------------


def validate_csi_driver(doc: Doc) -> Errors:
    """The four booleans upstream requires are there: defaults have filled them in."""
    spec = doc.get("spec", {})
    errors: Errors = []
    policies = ("ReadWriteOnceWithFSType", "File", "None")
    if spec.get("fsGroupPolicy", "None") not in policies:
        errors.append(not_supported("spec.fsGroupPolicy", spec["fsGroupPolicy"], policies))
    errors += _validate_token_requests(spec.get("tokenRequests", []))
    modes = ("Persistent", "Ephemeral")
    for mode in spec.get("volumeLifecycleModes", []):
        if mode not in modes:
            errors.append(unsupported("spec.volumeLifecycleModes", mode, modes))
    period_s = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period_s is not None and period_s < _MIN_UPDATE_PERIOD_S:
        told = "must be greater than or equal to 10 seconds"
        errors.append(invalid("spec.nodeAllocatableUpdatePeriodSeconds", period_s, told))
    if "serviceAccountTokenInSecrets" in spec and not spec.get("tokenRequests"):
        told = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        errors.append(invalid("spec.serviceAccountTokenInSecrets", spec["serviceAccountTokenInSecrets"], told))
    return errors


def validate_csi_driver_update(new: Doc, old: Doc) -> Errors:
    errors = validate_csi_driver(new)
    errors += immutable("spec.attachedRequired", dig(new, "spec", "attachRequired"), dig(old, "spec", "attachRequired"))
    modes, before = dig(new, "spec", "volumeLifecycleModes"), dig(old, "spec", "volumeLifecycleModes")
    return errors + immutable("spec.volumeLifecycleModes", modes, before)


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


# -- CSINode ----------------------------------------------------------------------------------------------------------


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


# -- CSIStorageCapacity -----------------------------------------------------------------------------------------------


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


def validate_csi_storage_capacity_update(new: Doc, old: Doc) -> Errors:
    """What a driver was asked for (class and topology) stays; what it answered may change."""
    is_old_form = bool(validate_label_selector(old.get("nodeTopology"), "nodeTopology"))
    errors = validate_csi_storage_capacity(new, allow_invalid_values=is_old_form)
    topology = new.get("nodeTopology")
    if not unchanged("LabelSelector", topology, old.get("nodeTopology")):
        errors.append(invalid("nodeTopology", internal("LabelSelector", topology), IMMUTABLE))
    return errors + immutable("storageClassName", new.get("storageClassName"), old.get("storageClassName"))


# -- VolumeAttachment -------------------------------------------------------------------------------------------------


def validate_volume_attachment(doc: Doc) -> Errors:
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


def validate_volume_attachment_update(new: Doc, old: Doc) -> Errors:
    """Only status ever changes."""
    errors = validate_volume_attachment(new)
    if not unchanged("VolumeAttachmentSpec", new.get("spec"), old.get("spec")):
        errors.append(invalid("spec", internal("VolumeAttachmentSpec", new.get("spec")), IMMUTABLE))
    return errors


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
