"""PriorityClass: a name for a number. The number never changes, and the highest ones belong to the system.

That there is only one global default is `pod_admission.refuse_second_default`.
"""

from __future__ import annotations

from tonnage.documents.strategy import Generation, Strategy
from tonnage.documents.validation.metadata import immutable
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, forbidden
from tonnage.objects.field_rules import choice

HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_SYSTEM_PREFIX = "system-"


class PriorityClassStrategy(Strategy):
    generation = Generation.COUNTED

    def default(self, doc: Doc) -> None:
        doc.setdefault("value", 0)
        doc.setdefault("preemptionPolicy", "PreemptLowerPriority")
        if not doc.get("globalDefault", True):
            del doc["globalDefault"]

    def validate(self, doc: Doc) -> Errors:
        name, value = doc["metadata"].get("name", ""), doc.get("value", 0)
        errors: Errors = []
        if name.startswith(_SYSTEM_PREFIX):
            if wrong := _not_a_system_class(doc):
                told = f"priority class names with '{_SYSTEM_PREFIX}' prefix are reserved for system use only."
                errors.append(forbidden("metadata.name", f"{told} error: {wrong}"))
        elif value > HIGHEST_USER_PRIORITY:
            told = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
            errors.append(forbidden("value", told))
        if "preemptionPolicy" in doc:
            errors += choice(doc["preemptionPolicy"], ("PreemptLowerPriority", "Never"), "preemptionPolicy")
        return errors

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        """Only description and globalDefault may change; the name's rules are not asked again."""
        errors: Errors = []
        if new.get("value", 0) != old.get("value", 0):
            errors.append(forbidden("value", "may not be changed in an update."))
        return errors + immutable("preemptionPolicy", new.get("preemptionPolicy"), old.get("preemptionPolicy"))

    def spec_changed(self, new: Doc, old: Doc) -> bool:
        """Its generation is 1 for ever: what it means cannot change."""
        return False


def _not_a_system_class(doc: Doc) -> str:
    name = doc["metadata"]["name"]
    if name not in SYSTEM_PRIORITIES:
        return f"{name} is not a known system priority class"
    if doc.get("value", 0) != SYSTEM_PRIORITIES[name]:
        return f"value of {name} PriorityClass must be {SYSTEM_PRIORITIES[name]}"
    if doc.get("globalDefault"):
        return f"globalDefault of {name} PriorityClass must be false"
    return ""
