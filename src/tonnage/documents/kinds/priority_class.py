"""PriorityClass. `admission.refuse_second_default` keeps the global default unique."""

from __future__ import annotations

from tonnage.documents.strategy import Generation, Strategy
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, forbidden

HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_SYSTEM_PREFIX = "system-"


class PriorityClassStrategy(Strategy):
    """A name for a number, which never changes; the highest numbers belong to the system."""

    generation = Generation.COUNTED

    def validate(self, doc: Doc) -> Errors:
        errors: Errors = []
        if doc["metadata"].get("name", "").startswith(_SYSTEM_PREFIX):
            if wrong := _not_a_system_class(doc):
                told = f"priority class names with '{_SYSTEM_PREFIX}' prefix are reserved for system use only."
                errors.append(forbidden("metadata.name", f"{told} error: {wrong}"))
        elif doc.get("value", 0) > HIGHEST_USER_PRIORITY:
            told = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
            errors.append(forbidden("value", told))
        return errors + super().validate(doc)

    validate_update = Strategy.validate_immutable
    """Only description and globalDefault may change; the name is not validated again."""

    def spec_changed(self, new: Doc, old: Doc) -> bool:
        """Its generation is always 1, because its meaning cannot change."""
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
