"""The rules of PriorityClass. That there is only one global default is `pod_admission.refuse_second_default`."""

from __future__ import annotations

from tonnage.documents.strategies.base import Generation, Strategy
from tonnage.documents.validation.priority import validate_priority_class, validate_priority_class_update
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors


class PriorityClassStrategy(Strategy):
    generation = Generation.COUNTED

    def default(self, doc: Doc) -> None:
        doc.setdefault("value", 0)
        doc.setdefault("preemptionPolicy", "PreemptLowerPriority")
        if not doc.get("globalDefault", True):
            del doc["globalDefault"]

    def validate(self, doc: Doc) -> Errors:
        return validate_priority_class(doc)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return validate_priority_class_update(new, old)

    def spec_changed(self, new: Doc, old: Doc) -> bool:
        """Its generation is 1 for ever: what it means cannot change."""
        return False
