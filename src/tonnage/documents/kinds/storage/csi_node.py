"""CSINode: which drivers a node has. An entry is settled when it is made, its attach limit apart if the gate is on."""

from __future__ import annotations

from tonnage.documents.strategy import Strategy
from tonnage.documents.validation.internal_form import internal, unchanged
from tonnage.documents.validation.metadata import IMMUTABLE
from tonnage.documents.validation.volume_sources import validate_csi_driver_name
from tonnage.objects import names
from tonnage.objects.document import Doc, dig
from tonnage.objects.field_errors import Errors, duplicate, invalid, required
from tonnage.objects.field_rules import NEGATIVE

_NODE_ID_MAX_BYTES = 256


class CSINodeStrategy(Strategy):
    unconditional_update = False

    def validate(self, doc: Doc) -> Errors:
        return validate_csi_node(doc)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        is_mutable = self.gates.enabled("MutableCSINodeAllocatableCount")
        return validate_csi_node_update(new, old, allocatable_is_mutable=is_mutable)


def validate_csi_node(doc: Doc) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for idx, driver in enumerate(dig(doc, "spec", "drivers") or []):
        path = f"spec.drivers[{idx}]"
        name, node_id = driver.get("name", ""), driver.get("nodeID", "")
        errors += validate_csi_driver_name(name, f"{path}.name")
        if not node_id:
            errors.append(required(f"{path}.nodeID"))
        if len(node_id.encode()) > _NODE_ID_MAX_BYTES:
            errors.append(invalid(f"{path}.nodeID", node_id, f"must be {_NODE_ID_MAX_BYTES} characters or less"))
        count = dig(driver, "allocatable", "count")
        if count is not None and count < 0:
            errors.append(invalid(f"{path}.allocatable.count", count, NEGATIVE))
        if name in seen:
            errors.append(duplicate(f"{path}.name", name))
        seen.add(name)
        errors += _validate_topology_keys(driver.get("topologyKeys", []), path)
    return errors


def validate_csi_node_update(new: Doc, old: Doc, *, allocatable_is_mutable: bool) -> Errors:
    """Drivers may come and go; an entry that stays may not change, its attach limit excepted where that is mutable."""
    errors = validate_csi_node(new)
    by_name: dict[str, list[Doc]] = {}
    for driver in dig(new, "spec", "drivers") or []:
        by_name.setdefault(driver.get("name", ""), []).append(driver)
    for before in dig(old, "spec", "drivers") or []:
        for driver in by_name.get(before.get("name", ""), ()):
            judged, stored = driver, before
            if allocatable_is_mutable:
                judged, stored = ({**each, "allocatable": None} for each in (driver, before))
            if not unchanged("CSINodeDriver", judged, stored):
                errors.append(invalid("spec.drivers", internal("CSINodeDriver", judged), IMMUTABLE))
    return errors


def _validate_topology_keys(keys: list[str], path: str) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for key in keys:
        if not key:
            errors.append(required(path))
        if key in seen:
            errors.append(duplicate(path, key))
        seen.add(key)
        errors += [invalid(path, key, sentence) for sentence in names.qualified_name(key)]
    return errors
