"""VolumeAttachment: one volume on one node."""

from __future__ import annotations

from typing import ClassVar

from tonnage.documents.kinds.storage.persistent_volume import validate_volume_spec
from tonnage.documents.strategy import Strategy, TypeRules, keep
from tonnage.documents.validation.internal_form import internal, unchanged
from tonnage.documents.validation.metadata import byte_size
from tonnage.objects import field_rules as rules
from tonnage.objects.document import Doc, dig
from tonnage.objects.field_errors import Errors, Wrong, invalid, too_long

_NOT_THROUGH_STATUS = ("deletionTimestamp", "generation", "selfLink", "labels", "annotations", "finalizers")
_ATTACHMENT_METADATA_MAX_BYTES = 256 * 1024
_VOLUME_ERROR_MAX_BYTES = 1024


_VOLUME_ERROR = TypeRules("storage.VolumeError")


def _validate_inline_source(source: Doc, path: str) -> Errors:
    if "persistentVolumeName" in source or "inlineVolumeSpec" not in source:
        return []
    return validate_volume_spec(source["inlineVolumeSpec"], f"{path}.inlineVolumeSpec", is_inline=True)


def _validate_attachment_status(status: Doc, path: str) -> Wrong:
    if byte_size(status.get("attachmentMetadata", {})) > _ATTACHMENT_METADATA_MAX_BYTES:
        yield too_long(f"{path}.attachmentMetadata", _ATTACHMENT_METADATA_MAX_BYTES)
    for field in ("attachError", "detachError"):
        if len(status.get(field, {}).get("message", "").encode()) > _VOLUME_ERROR_MAX_BYTES:
            # Upstream names the bound of another field here, 256 KiB.
            yield too_long(f"{path}.{field}.message", _ATTACHMENT_METADATA_MAX_BYTES)
        yield from _VOLUME_ERROR(status.get(field, {}), f"{path}.{field}")


class VolumeAttachmentStrategy(Strategy):
    """One volume on one node. The spec never changes; the attacher writes the status. A gate guards its errorCode."""

    unconditional_update = False
    new_status: ClassVar[Doc] = {"attached": False}
    by_hand: ClassVar[rules.Rules] = {
        "spec.source.inlineVolumeSpec": rules.OfWhole(_validate_inline_source),
        "status": _validate_attachment_status,
    }

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        errors = self.validate(new)
        if not unchanged("VolumeAttachmentSpec", new.get("spec"), old.get("spec")):
            errors.append(invalid("spec", internal("VolumeAttachmentSpec", new.get("spec")), rules.IMMUTABLE))
        return errors

    def prepare_status(self, new: Doc, old: Doc) -> None:
        super().prepare_status(new, old)
        for field in (*_NOT_THROUGH_STATUS, "ownerReferences"):
            keep(new["metadata"], old["metadata"], field)
        if self.gates.enabled("MutableCSINodeAllocatableCount"):
            return
        for failure in ("attachError", "detachError"):
            if dig(old, "status", failure, "errorCode") is None:
                (dig(new, "status", failure) or {}).pop("errorCode", None)

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        return self.validate_update(new, old)
