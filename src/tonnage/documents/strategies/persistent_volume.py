"""PersistentVolume: a piece of storage. Its status tells when its phase last changed, which takes a clock."""

from __future__ import annotations

from tonnage.clock import rfc3339
from tonnage.documents.defaults.persistent_volumes import default_persistent_volume
from tonnage.documents.strategies.base import Strategy
from tonnage.documents.validation.persistent_volumes import (
    validate_persistent_volume,
    validate_persistent_volume_update,
    volume_warnings,
)
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors


class PersistentVolumeStrategy(Strategy):
    """Notes the time of a changed phase: nobody else knows that it has changed."""

    def default(self, doc: Doc) -> None:
        default_persistent_volume(doc)

    def prepare_create(self, doc: Doc) -> None:
        doc["status"] = {"phase": "Pending", "lastPhaseTransitionTime": rfc3339(self.clock.now())}

    def validate(self, doc: Doc) -> Errors:
        return validate_persistent_volume(doc)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        is_mutable = self.gates.enabled("MutablePVNodeAffinity")
        return validate_persistent_volume_update(new, old, node_affinity_is_mutable=is_mutable)

    def prepare_status(self, new: Doc, old: Doc) -> None:
        """A changed phase gets the time of the change, unless the writer brings a time of its own."""
        super().prepare_status(new, old)
        status, before = new.setdefault("status", {}), old.get("status", {})
        at, at_before = status.get("lastPhaseTransitionTime"), before.get("lastPhaseTransitionTime")
        is_same_phase = status.get("phase") == before.get("phase")
        if is_same_phase and at is None and at_before is not None:
            status["lastPhaseTransitionTime"] = at_before
        elif not is_same_phase and at in (None, at_before):
            status["lastPhaseTransitionTime"] = rfc3339(self.clock.now())

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        return volume_warnings(new)
