"""VolumeAttachment: one volume to one node. The spec never changes; status is the attacher's alone.

An attacher's error may carry a gRPC code, which the node's attach limits are corrected by; it belongs to a gate, and
the two errors are judged apart.
"""

from __future__ import annotations

from typing import Any

from tonnage.documents.kinds.storage.persistent_volume import validate_volume_spec
from tonnage.documents.strategy import Strategy
from tonnage.documents.validation.internal_form import internal, unchanged
from tonnage.documents.validation.metadata import IMMUTABLE, byte_size
from tonnage.documents.validation.volume_sources import validate_csi_driver_name
from tonnage.objects import names
from tonnage.objects.document import Doc, copy, dig
from tonnage.objects.field_errors import Errors, forbidden, invalid, required, too_long

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
