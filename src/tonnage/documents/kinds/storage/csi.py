"""CSIDriver, CSINode and CSIStorageCapacity: what drivers and their nodes report about themselves."""

from __future__ import annotations

from itertools import chain
from typing import ClassVar

from tonnage.documents.strategy import Generation, Strategy, TypeRules
from tonnage.documents.validation.internal_form import internal, unchanged
from tonnage.documents.validation.metadata import except_label_values, node_topology_warnings, validate_label_selector
from tonnage.keyed import grouped
from tonnage.objects import field_rules as rules
from tonnage.objects import names
from tonnage.objects.document import Doc, dig, same
from tonnage.objects.field_errors import Errors, Wrong, invalid, required


def _validate_token_requests(requests: list[Doc], path: str) -> Wrong:
    unique = rules.unique()
    for idx, request in enumerate(requests):
        repeated = unique(request.get("audience", ""), f"{path}[{idx}].audience")
        yield from repeated or _TOKEN(request, f"{path}[{idx}]")


_TOKEN = TypeRules("storage.TokenRequest")
_LIFECYCLE_MODE = rules.one_of("Persistent", "Ephemeral")


class CSIDriverStrategy(Strategy):
    """The abilities of a driver. Three fields belong to gates: with a closed gate they are dropped unless stored."""

    generation = Generation.LATE
    unconditional_update = False
    gated: ClassVar[dict[str, str]] = {
        "volumeRebuilding": "CSIStorageCapacityV2",
        "nodeAllocatableUpdatePeriodSeconds": "MutableCSINodeAllocatableCount",
        "preventPodSchedulingIfMissing": "VolumeLimitScaling",
    }
    by_hand: ClassVar[rules.Rules] = {
        "spec.tokenRequests": _validate_token_requests,
        "spec.volumeLifecycleModes": lambda modes, at: chain.from_iterable(_LIFECYCLE_MODE(mode, at) for mode in modes),
    }

    def default(self, doc: Doc) -> None:
        super().default(doc)
        if self.gates.enabled("VolumeLimitScaling"):
            doc["spec"].setdefault("preventPodSchedulingIfMissing", False)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        attached, before = dig(new, "spec", "attachRequired"), dig(old, "spec", "attachRequired")
        errors = self.validate(new) + rules.immutable("spec.attachedRequired", attached, before)
        return errors + self.validate_immutable(new, old)

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        requests = dig(new, "spec", "tokenRequests")
        is_changed = old is None or not same(requests, dig(old, "spec", "tokenRequests"))
        if not requests or not is_changed or dig(new, "spec", "serviceAccountTokenInSecrets") is not None:
            return []
        return [
            "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, "
            "set to true to prevent possible logging of tokens in volume attributes"
        ]


class CSINodeStrategy(Strategy):
    """The drivers of a node. An entry never changes, except for its attach limit if the gate is open."""

    unconditional_update = False

    def validate(self, doc: Doc) -> Errors:
        errors, unique = [], rules.unique()
        for idx, driver in enumerate(dig(doc, "spec", "drivers") or []):
            path = f"spec.drivers[{idx}]"
            errors += _NODE_DRIVER(driver, path)
            errors += unique(driver.get("name", ""), f"{path}.name")
            errors += _validate_topology_keys(driver.get("topologyKeys", []), path)
        return errors

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        """Drivers may be added and removed; the entry of a driver that stays may not change."""
        errors = self.validate(new)
        by_name = grouped((driver.get("name", ""), driver) for driver in dig(new, "spec", "drivers") or [])
        excused = {"allocatable": None} if self.gates.enabled("MutableCSINodeAllocatableCount") else {}
        for before in dig(old, "spec", "drivers") or []:
            for driver in by_name.get(before.get("name", ""), ()):
                judged = driver | excused
                if not unchanged("CSINodeDriver", judged, before | excused):
                    errors.append(invalid("spec.drivers", internal("CSINodeDriver", judged), rules.IMMUTABLE))
        return errors


_NODE_DRIVER = TypeRules("storage.CSINodeDriver")


def _validate_topology_keys(keys: list[str], path: str) -> Wrong:
    unique = rules.unique()
    for key in keys:
        if not key:
            yield required(path)
        yield from unique(key, path)
        yield from rules.sentences(path, key, names.qualified_name(key))


class CSIStorageCapacityStrategy(Strategy):
    """The capacity of a class in a topology. As upstream, `maximumVolumeSize` is not validated."""

    unconditional_update = False

    def validate(self, doc: Doc) -> Errors:
        return validate_label_selector(doc.get("nodeTopology"), "nodeTopology") + super().validate(doc)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        """Class and topology, the driver's question, may not change; its answer may."""
        topology, before = new.get("nodeTopology"), old.get("nodeTopology")
        errors = self.validate(new)
        if validate_label_selector(before, ""):
            errors = except_label_values(errors, "nodeTopology")
        if not unchanged("LabelSelector", topology, before):
            errors.append(invalid("nodeTopology", internal("LabelSelector", topology), rules.IMMUTABLE))
        return errors + self.validate_immutable(new, old)

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        return node_topology_warnings(new.get("nodeTopology", {}))

    def drop_disabled_fields(self, new: Doc, old: Doc) -> None:
        if not self.gates.enabled("CSIStorageCapacityV2") and "availableCapacities" not in old:
            new.pop("availableCapacities", None)
