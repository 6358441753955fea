"""The kinds of storage.k8s.io: classes, and what drivers and their nodes report about themselves.

Of a class no field that decided about existing volumes may change.
"""

from __future__ import annotations

from itertools import chain
from typing import ClassVar

from tonnage.documents.kinds.storage.persistent_volume import validate_volume_spec
from tonnage.documents.strategy import Generation, Strategy, TypeRules, keep
from tonnage.documents.validation.internal_form import internal, unchanged
from tonnage.documents.validation.metadata import (
    byte_size,
    except_label_values,
    node_topology_warnings,
    topology_term_warnings,
    validate_label_selector,
    validate_topology_selector_term,
)
from tonnage.keyed import grouped
from tonnage.objects import core_v1, names
from tonnage.objects import field_rules as rules
from tonnage.objects.document import Doc, dig, same
from tonnage.objects.field_errors import Errors, Wrong, duplicate, invalid, required, too_long

_PARAMETERS_MAX_COUNT = 512
_PARAMETERS_MAX_BYTES = 256 * 1024
DEFAULT_CLASS_ANNOTATION = "storageclass.kubernetes.io/is-default-class"
_BETA_DEFAULT_CLASS_ANNOTATION = "storageclass.beta.kubernetes.io/is-default-class"


def _validate_parameters(parameters: dict[str, str], path: str) -> Errors:
    if len(parameters) > _PARAMETERS_MAX_COUNT:
        return [too_long(path, _PARAMETERS_MAX_COUNT)]
    errors = [invalid(path, "", "field can not be empty.")] if "" in parameters else []
    if byte_size(parameters) > _PARAMETERS_MAX_BYTES:
        errors.append(too_long(path, _PARAMETERS_MAX_BYTES))
    return errors


def _validate_allowed_topologies(terms: list[Doc], path: str) -> Wrong:
    """Every term is legal, and no two terms are equal, whatever the order of keys and values."""
    seen: set[frozenset[tuple[str, frozenset[str]]]] = set()
    for idx, term in enumerate(terms):
        yield from validate_topology_selector_term(term, f"{path}[{idx}]")
        by_key = {each.get("key", ""): each.get("values", []) for each in term.get("matchLabelExpressions", [])}
        asked = frozenset((key, frozenset(values)) for key, values in by_key.items())
        # Upstream compares with a list that begins with empty terms, so an empty term is always a duplicate.
        if not asked or asked in seen:
            yield duplicate(f"{path}[{idx}].matchLabelExpressions", "")
        seen.add(asked)


class StorageClassStrategy(Strategy):
    by_hand: ClassVar[rules.Rules] = {
        "parameters": _validate_parameters,
        "allowedTopologies": _validate_allowed_topologies,
    }

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        parameters = dict(sorted(new.get("parameters", {}).items())) or None
        errors = self.validate(new) + rules.immutable("parameters", parameters, old.get("parameters"))
        return errors + self.validate_immutable(new, old)

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        terms = enumerate(new.get("allowedTopologies", []))
        return [told for idx, term in terms for told in topology_term_warnings(term, f"allowedTopologies[{idx}]")]


class VolumeAttributesClassStrategy(Strategy):
    by_hand: ClassVar[rules.Rules] = {"parameters": _validate_parameters}

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return self.validate_immutable(new, old) + self.validate(new)


def default_class_for(claim: Doc, classes: list[Doc]) -> str | None:
    """The class for a claim that names none: the newest default, or None. Mirrors DefaultStorageClass."""
    if core_v1.class_name_in(claim) is not None:
        return None
    defaults = sorted((each["metadata"] for each in classes if is_default_class(each)), key=lambda meta: meta["name"])
    if not defaults:
        return None
    # Times have one form, whole seconds of UTC, so text order is time order. max keeps the first of equals.
    chosen: str = max(defaults, key=lambda meta: meta.get("creationTimestamp", ""))["name"]
    return chosen


def is_default_class(storage_class: Doc) -> bool:
    annotations = dig(storage_class, "metadata", "annotations") or {}
    return "true" in (annotations.get(DEFAULT_CLASS_ANNOTATION), annotations.get(_BETA_DEFAULT_CLASS_ANNOTATION))


_NOT_THROUGH_STATUS = ("deletionTimestamp", "generation", "selfLink", "labels", "annotations", "finalizers")
_ATTACHMENT_METADATA_MAX_BYTES = 256 * 1024
_VOLUME_ERROR_MAX_BYTES = 1024


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
