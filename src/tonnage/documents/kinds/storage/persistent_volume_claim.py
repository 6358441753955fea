"""PersistentVolumeClaim. `validate_claim_spec` also validates claim templates of ephemeral volumes and StatefulSets."""

from __future__ import annotations

from functools import partial

from tonnage.documents.kinds.storage.persistent_volume import validate_access_modes
from tonnage.documents.strategy import Strategy, TypeRules
from tonnage.documents.validation import internal_form, metadata, resources
from tonnage.objects import field_rules as rules
from tonnage.objects import names
from tonnage.objects.core_v1 import BETA_STORAGE_CLASS, class_name_in
from tonnage.objects.core_v1.persistent_volume import RESIZE_STATUSES
from tonnage.objects.document import Doc, copy, dig
from tonnage.objects.field_errors import Errors, Wrong, forbidden, invalid, required, unsupported
from tonnage.quantity import Quantity

_LEGACY_SOURCES = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))


class PersistentVolumeClaimStrategy(Strategy):
    def prepare_create(self, doc: Doc) -> None:
        doc["status"] = {"phase": "Pending"}
        _prepare_data_sources(doc.setdefault("spec", {}), {})

    def validate(self, doc: Doc, old: Doc | None = None) -> Errors:
        """The errors of a claim; invalid values that `old` already has are allowed."""
        before = (old or {}).get("spec", {})
        had_group = any("apiGroup" in before.get(field, {}) for field in ("dataSource", "dataSourceRef"))
        errors = validate_claim_spec(doc.get("spec", {}), "spec", allow_any_api_group=had_group)
        is_excused = metadata.validate_label_selector(before.get("selector"), "")
        return metadata.except_label_values(errors, "spec.selector") if is_excused else errors

    def prepare_update(self, new: Doc, old: Doc) -> None:
        super().prepare_update(new, old)
        _prepare_data_sources(new.setdefault("spec", {}), old.get("spec", {}))

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        old = copy(old)
        mirror_data_sources(old.get("spec", {}))  # an older server may have stored it under one name only
        return self.validate(new, old) + validate_claim_update(new, old)

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        status: Doc = new.get("status", {})
        errors: Errors = []
        for name, text in status.get("capacity", {}).items():
            errors += resources.validate_basic_resource(text, f"status.capacity[{name}]")
        path = "status.allocatedResourceStatuses"
        for name, resize_status in status.get("allocatedResourceStatuses", {}).items():
            errors += _validate_resource_key(name, path)
            if resize_status not in RESIZE_STATUSES:
                # As upstream, the message shows the key instead of the wrong value.
                errors.append(unsupported(path, name, sorted(RESIZE_STATUSES)))
        path = "status.allocatedResources"
        for name, text in status.get("allocatedResources", {}).items():
            at = f"{path}[{name}]"
            wrong = _validate_resource_key(name, path) or resources.validate_basic_resource(text, at)
            errors += wrong or resources.validate_resource_quantity("storage", text, at)
        return errors

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        told: list[str] = []
        if BETA_STORAGE_CLASS in (dig(new, "metadata", "annotations") or {}):
            message = 'deprecated since v1.8; use "storageClassName" attribute instead'
            told.append(f"metadata.annotations[{BETA_STORAGE_CLASS}]: {message}")
        return told + claim_spec_warnings(new.get("spec", {}), "spec")


def _prepare_data_sources(spec: Doc, before: Doc) -> None:
    if dig(spec, "dataSourceRef", "namespace") and "dataSourceRef" not in before:
        del spec["dataSourceRef"]
    source = spec.get("dataSource", {})
    is_legacy = (source.get("apiGroup", ""), source.get("kind")) in _LEGACY_SOURCES
    had_source = "dataSource" in before or "dataSourceRef" in before
    if not had_source and "dataSourceRef" not in spec and not is_legacy:
        spec.pop("dataSource", None)
    mirror_data_sources(spec)


def mirror_data_sources(spec: Doc) -> None:
    """Write a claim's data source under both names if only one is given. Mirrors NormalizeDataSources."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None:
        spec["dataSourceRef"] = dict(source)
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = {field: value for field, value in reference.items() if field != "namespace"}


def validate_claim_spec(spec: Doc, path: str, *, allow_any_api_group: bool = False) -> Errors:
    modes = spec.get("accessModes", [])
    errors = _CLAIM(spec, path, "accessModes")
    errors += metadata.validate_label_selector(spec.get("selector"), f"{path}.selector")
    errors += validate_access_modes(modes, f"{path}.accessModes")
    size, at = dig(spec, "resources", "requests", "storage"), f"{path}.resources[storage]"
    if size is None:
        errors.append(required(at))
    else:
        positive = rules.positive_quantity(size, at)
        errors += positive or resources.validate_resource_quantity("storage", size, at)
    errors += _CLAIM(spec, path, "storageClassName", "volumeMode")
    errors += _validate_data_sources(spec, path, allow_any_api_group)
    return errors + _CLAIM(spec, path, "volumeAttributesClassName")


def validate_claim_update(new: Doc, old: Doc) -> Errors:
    """The errors of the change. `new` has the stored status; both have their data source under both names."""
    spec, before = new.get("spec", {}), old.get("spec", {})
    judged, stored = copy(spec), copy(before)
    if not stored.get("volumeName") and "volumeName" in judged:
        stored["volumeName"] = judged["volumeName"]
    errors = _excuse_new_class(new, old, judged)
    if dig(new, "status", "phase") == "Bound":  # put the mutable fields back
        if requests := dig(judged, "resources", "requests"):
            requests["storage"] = dig(before, "resources", "requests", "storage") or "0"
        judged["volumeAttributesClassName"] = before.get("volumeAttributesClassName")
    if not internal_form.unchanged("PersistentVolumeClaimSpec", judged, stored):
        told = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        errors.append(forbidden("spec", f"{told}\n{internal_form.diff('PersistentVolumeClaimSpec', stored, judged)}"))
    size, size_before = requested(new), requested(old)
    # After a failed expansion a claim may shrink again, but not below the volume's size: no volume shrinks.
    if size < size_before and size <= Quantity.of(dig(old, "status", "capacity", "storage")):
        errors.append(forbidden("spec.resources.requests.storage", "field can not be less than status.capacity"))
    errors += rules.immutable("volumeMode", spec.get("volumeMode"), before.get("volumeMode"))
    return errors + _validate_attributes_class_change(spec, before, dig(old, "status") or {})


def resize_refusal(new: Doc, old: Doc, storage_class: Doc | None) -> str | None:
    """Why a claim of this StorageClass may not grow; None if it may. Mirrors PersistentVolumeClaimResize admission."""
    if requested(new) <= requested(old):
        return None
    if dig(old, "status", "phase") != "Bound":
        return "Only bound persistent volume claims can be expanded"
    name = class_name_in(new)
    if name and name == class_name_in(old) and storage_class is not None and storage_class.get("allowVolumeExpansion"):
        return None
    told = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support"
    return f"{told} resize"


def requested(claim: Doc) -> Quantity:
    """The requested size; 0 if the claim states none."""
    return Quantity.of(dig(claim, "spec", "resources", "requests", "storage"))


def claim_spec_warnings(spec: Doc, path: str) -> list[str]:
    return fraction_warnings(spec, path, ("requests", "storage"), ("limits", "storage"))


def fraction_warnings(asker: Doc, path: str, *amounts: tuple[str, str]) -> list[str]:
    """Warnings about amounts, by side and name, that are no whole number of bytes."""
    told: list[str] = []
    for side, name in amounts:
        size = Quantity.of(dig(asker, "resources", side, name))
        if size.milli_value() % 1000 != 0:
            message = f'fractional byte value "{size}" is invalid, must be an integer'
            told.append(f"{path}.resources.{side}[{name}]: {message}")
    return told


_CLAIM, _REFERENCE = TypeRules("core.PersistentVolumeClaimSpec"), TypeRules("core.TypedObjectReference")


def _validate_data_sources(spec: Doc, path: str, allow_any_api_group: bool) -> Wrong:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    rule = partial(_validate_data_source, allow_any_api_group=allow_any_api_group)
    yield from rules.check(spec, path, {"dataSource": rule, "dataSourceRef": rule})
    if source is None or reference is None:
        return
    # Upstream passes a path instead of a value, and prints it as an empty object.
    if reference.get("namespace"):
        told = "may not be specified when dataSourceRef.namespace is specified"
        yield invalid(path, {}, told)
    elif any(source.get(field) != reference.get(field) for field in ("apiGroup", "kind", "name")):
        yield invalid(path, {}, "must match dataSourceRef")


def _validate_data_source(source: Doc, path: str, *, allow_any_api_group: bool) -> Errors:
    errors = _REFERENCE(source, path, "name", "kind")
    group = source.get("apiGroup", "")
    if group and not allow_any_api_group:
        errors += rules.sentences(f"{path}.apiGroup", group, names.dns_subdomain(group))
    return errors + _REFERENCE(source, path, "namespace")


def _excuse_new_class(new: Doc, old: Doc, judged: Doc) -> Errors:
    """A class may be set where there was none, or moved from the annotation to the field; other changes are errors."""
    before, now = (dig(each, "metadata", "annotations", BETA_STORAGE_CLASS) for each in (old, new))
    had, has = (dig(each, "spec", "storageClassName") for each in (old, new))
    is_moved = before is not None and had is None and has == before and now in (None, before)
    if is_moved or (had is None and has is not None and before in (None, has)):
        judged.pop("storageClassName", None)
    if is_moved or (now or "") == (before or ""):
        return []
    return [invalid(f"metadata.annotations.{BETA_STORAGE_CLASS}", now or "", rules.IMMUTABLE)]


def _validate_attributes_class_change(spec: Doc, before: Doc, status: Doc) -> Errors:
    name = spec.get("volumeAttributesClassName")
    is_changed = name != before.get("volumeAttributesClassName")
    if not is_changed or "currentVolumeAttributesClassName" not in status or name:
        return []
    emptied = "nil" if name is None else "empty string"
    told = f"update to {emptied} is forbidden when status.currentVolumeAttributesClassName is not nil"
    return [forbidden("spec.volumeAttributesClassName", told)]


def _validate_resource_key(name: str, path: str) -> Errors:
    errors = rules.sentences(path, name, names.qualified_name(name))
    if not errors and resources.is_native(name) and name != "storage":
        errors.append(unsupported(path, name, ("storage",)))
    return errors
