"""VolumeAttachment: one volume to one node. The spec never changes; status is the attacher's alone.

An attacher's error may carry a gRPC code, which the node's attach limits are corrected by; it belongs to a gate, and
the two errors are judged apart.
"""

from __future__ import annotations

from tonnage.documents.defaults.storage import default_volume_attachment
from tonnage.documents.strategies.base import Strategy
from tonnage.documents.validation.storage import validate_volume_attachment, validate_volume_attachment_update
from tonnage.objects.document import Doc, copy, dig
from tonnage.objects.field_errors import Errors

_NOT_THROUGH_STATUS = ("deletionTimestamp", "generation", "selfLink", "labels", "annotations", "finalizers")


class VolumeAttachmentStrategy(Strategy):
    unconditional_update = False

    def default(self, doc: Doc) -> None:
        default_volume_attachment(doc)

    def prepare_create(self, doc: Doc) -> None:
        doc["status"] = {"attached": False}

    def validate(self, doc: Doc) -> Errors:
        return validate_volume_attachment(doc)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return validate_volume_attachment_update(new, old)

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
        return validate_volume_attachment_update(new, old)
