"""The rules of PodDisruptionBudget. Who counts it down is `documents/eviction.py`."""

from __future__ import annotations

from tonnage.documents.strategies.base import Generation, Strategy
from tonnage.documents.validation.policy import validate_disruption_budget, validate_disruption_budget_status
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors


class PodDisruptionBudgetStrategy(Strategy):
    generation = Generation.COUNTED
    unconditional_update = False

    def prepare_create(self, doc: Doc) -> None:
        doc.setdefault("spec", {})
        doc["status"] = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}

    def validate(self, doc: Doc) -> Errors:
        return validate_disruption_budget(doc)

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        return validate_disruption_budget_status(new)
