"""What a server writes into a definition's status: accepted names, conditions, and the versions that were ever stored.

    created ──► names free? ──► NamesAccepted=True, Established=False (Installing) ──► served ──► Established=True
                      └─ taken ─► NamesAccepted=False (PluralConflict, …), Established=False (NotAccepted)

Names are free within a group when no other definition has had them accepted. A definition that is established stays
so; names it asks for later and cannot have are left at what they were. Mirrors upstream's naming and establishing
controllers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tonnage.objects.document import Doc, copy, dig, same


def condition(definition: Doc, kind: str) -> Doc | None:
    """The condition of a type: Established, NamesAccepted, Terminating."""
    found: Doc
    for found in dig(definition, "status", "conditions") or ():
        if found.get("type") == kind:
            return found
    return None


def is_established(definition: Doc) -> bool:
    """Are its resources served?"""
    return (condition(definition, "Established") or {}).get("status") == "True"


def are_names_accepted(definition: Doc) -> bool:
    return (condition(definition, "NamesAccepted") or {}).get("status") == "True"


def set_condition(definition: Doc, kind: str, status: str, reason: str, message: str, now: str) -> None:
    """Write a condition, in place; its time moves when its status changes. `now` is RFC 3339 in whole seconds."""
    conditions: list[Doc] = definition.setdefault("status", {}).setdefault("conditions", [])
    made = {"lastTransitionTime": now, "message": message, "reason": reason, "status": status, "type": kind}
    for index, found in enumerate(conditions):
        if found.get("type") == kind:
            if found.get("status") == status and found.get("lastTransitionTime"):
                made["lastTransitionTime"] = found["lastTransitionTime"]
            conditions[index] = {**found, **made}
            return
    conditions.append(made)


def accept_names(definition: Doc, others: Iterable[Doc], now: str) -> bool:
    """Settle, in place, which names a definition has among the others of its group. Did anything change?

    `others` may hold any definitions, this one too.
    """
    spec, status = definition["spec"], definition.setdefault("status", {})
    wanted, accepted = spec["names"], status.get("acceptedNames") or {}
    if same(wanted, accepted) and condition(definition, "NamesAccepted"):
        return False
    before = copy(status)
    resources, kinds = _taken(definition, others)
    names: Doc = copy(accepted)
    conflict: tuple[str, str] | None = None
    for field, reason, taken in (
        ("plural", "PluralConflict", resources),
        ("singular", "SingularConflict", resources),
        ("shortNames", "ShortNamesConflict", resources),
        ("kind", "KindConflict", kinds),
        ("listKind", "ListKindConflict", kinds),
    ):
        wrong = _in_use(wanted.get(field), accepted.get(field), taken)
        if wrong:
            conflict = (reason, wrong)
        else:
            _set(names, field, wanted.get(field))
    _set(names, "categories", wanted.get("categories"))
    status["acceptedNames"] = {"kind": "", "plural": "", **names}
    if conflict is None:
        set_condition(definition, "NamesAccepted", "True", "NoConflicts", "no conflicts found", now)
    else:
        set_condition(definition, "NamesAccepted", "False", *conflict, now)
    if not is_established(definition):
        if conflict is None:
            told = ("Installing", "the initial names have been accepted")
        else:
            told = ("NotAccepted", "not all names are accepted")
        if conflict is None or condition(definition, "Established") is None:
            set_condition(definition, "Established", "False", *told, now)
    return not same(before, status)


def establish(definition: Doc, now: str) -> bool:
    """Mark, in place, a definition with accepted names as served. Did anything change?"""
    if not are_names_accepted(definition) or is_established(definition):
        return False
    told = ("InitialNamesAccepted", "the initial names have been accepted")
    set_condition(definition, "Established", "True", *told, now)
    return True


def terminate(definition: Doc, status: str, reason: str, message: str, now: str) -> None:
    """Say, in place, how far the deletion of a definition's objects is."""
    set_condition(definition, "Terminating", status, reason, message, now)


def record_stored_version(definition: Doc) -> None:
    """Note, in place, that objects are stored in today's storage version; what was ever noted stays."""
    name = storage_version(definition)
    stored: list[str] = definition.setdefault("status", {}).setdefault("storedVersions", [])
    if name is not None and name not in stored:
        stored.append(name)


def storage_version(definition: Doc) -> str | None:
    """The version that objects are stored in."""
    for version in dig(definition, "spec", "versions") or ():
        if version.get("storage"):
            name: str | None = version.get("name")
            return name
    return None


def _taken(definition: Doc, others: Iterable[Doc]) -> tuple[set[str], set[str]]:
    """Accepted names in the definition's group: of resources, and of kinds."""
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in [definition, *others]:
        if dig(other, "spec", "group") != definition["spec"]["group"]:
            continue
        names = dig(other, "status", "acceptedNames") or {}
        resources |= {names.get("plural", ""), names.get("singular", ""), *(names.get("shortNames") or ())}
        kinds |= {names.get("kind", ""), names.get("listKind", "")}
    return resources - {""}, kinds - {""}


def _in_use(wanted: Any, accepted: Any, taken: set[str]) -> str:
    """Why names cannot be had; empty when they can."""
    if isinstance(wanted, list):
        if wanted == accepted:
            return ""
        wrong = [f'"{name}" is already in use' for name in wanted if name not in (accepted or ()) and name in taken]
        return wrong[0] if len(wrong) == 1 else f"[{', '.join(dict.fromkeys(wrong))}]" if wrong else ""
    return f'"{wanted}" is already in use' if wanted != accepted and wanted in taken else ""


def _set(names: Doc, field: str, value: Any) -> None:
    if value:
        names[field] = copy(value)
    else:
        names.pop(field, None)
