"""PersistentVolume, its source, and the inline volume of a VolumeAttachment. Mirrors ValidatePersistentVolumeSpec.

A volume has exactly one source; for sources whose plugins left Kubernetes long ago only the required fields are
checked. Source and mode are fixed at creation; capacity, class, claim reference and mount options may change. Node
affinity may be set once; then, unless the gate makes it mutable, only its beta labels may be replaced.
"""

from __future__ import annotations

import posixpath
from functools import cache

from tonnage.clock import rfc3339
from tonnage.documents.schema import Struct, type_named
from tonnage.documents.strategy import Strategy, TypeRules
from tonnage.documents.validation import metadata
from tonnage.documents.validation.internal_form import diff, internal, unchanged
from tonnage.documents.validation.resources import validate_basic_resource
from tonnage.objects import field_rules as rules
from tonnage.objects.core_v1 import BETA_STORAGE_CLASS
from tonnage.objects.core_v1.pod import BETA_REGION, BETA_ZONE, REGION, ZONE
from tonnage.objects.document import Doc, copy, dig
from tonnage.objects.field_errors import Errors, Wrong, forbidden, invalid, required, unsupported


@cache
def sources_in(type_name: str) -> tuple[str, ...]:
    """The volume sources of a type, in the order of its lines, which is upstream's: the second source is refused."""
    types = {field.name: field.type for field in type_named(type_name).fields.values()}
    return tuple(field for field, kind in types.items() if isinstance(kind, Struct) and "VolumeSource" in kind.name)


DEAD_SOURCES = {
    "photonPersistentDisk": ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    "gitRepo": ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    "scaleIO": ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    "flocker": ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    "storageos": ("storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    "quobyte": ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    "glusterfs": ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    "cephfs": ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    "rbd": ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
}
"""Sources without any effect today: their name in warnings, and what became of them."""

# Where upstream's errors stand if not at the field's own name: for errors of its fields, for a second source.
SHOWN_AS = {"gcePersistentDisk": "persistentDisk"}
_SECOND_AT = {"cephfs": "cephFS"}


def validate_source(spec: Doc, path: str, *, has_node_affinity: bool) -> Wrong:
    """Exactly one legal source. A local volume must have a node affinity."""
    found = [source for source in sources_in("core.PersistentVolumeSpec") if source in spec]
    if not found:
        yield required(path, "must specify a volume type")
        return
    for idx, source in enumerate(found):
        if idx > 0 and source != "flexVolume":
            told = "may not specify more than 1 volume type"
            yield forbidden(f"{path}.{_SECOND_AT.get(source, source)}", told)
            continue
        yield from _SOURCES.by_field[source](spec[source], f"{path}.{SHOWN_AS.get(source, source)}")
        if source == "local" and not has_node_affinity:
            yield required(f"{path}.nodeAffinity", "Local volume requires node affinity")


# Of a csi source, nodeStageSecretRef has no rules: upstream forgot it, and objects rely on that.
_SOURCES = TypeRules("core.PersistentVolumeSpec")


ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
# A node's beta label -> its GA successor.
_GA_LABELS = {
    BETA_ZONE: ZONE,
    BETA_REGION: REGION,
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}
_MOUNT_OPTIONS_ANNOTATION = "volume.beta.kubernetes.io/mount-options"
_TAKE_NO_MOUNT_OPTIONS = frozenset(
    {"csi", "fc", "flexVolume", "flocker", "hostPath", "local", "portworxVolume", "scaleIO", "storageos"}
)


class PersistentVolumeStrategy(Strategy):
    """Records the time of every phase change."""

    def prepare_create(self, doc: Doc) -> None:
        doc["status"] = {"phase": "Pending", "lastPhaseTransitionTime": rfc3339(self.clock.now())}

    def validate(self, doc: Doc, old: Doc | None = None) -> Errors:
        """The errors of a volume; invalid label values that `old` already has are allowed."""
        stored = dig(old or {}, "spec", "nodeAffinity", "required", "nodeSelectorTerms") or []
        spec = doc.get("spec", {})
        errors = validate_volume_spec(spec, "spec")
        if metadata.has_invalid_values(stored):
            errors = metadata.except_label_values(errors, "spec.nodeAffinity")
        annotations = doc.get("metadata", {}).get("annotations", {})
        takes_options = spec.keys() & set(sources_in("core.PersistentVolumeSpec")) - _TAKE_NO_MOUNT_OPTIONS
        if _MOUNT_OPTIONS_ANNOTATION in annotations and not takes_options:
            at = f"metadata.annotations.{_MOUNT_OPTIONS_ANNOTATION}"
            errors.append(forbidden(at, "may not specify mount options for this volume type"))
        return errors

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        errors = self.validate(new, old)
        spec, before = new.get("spec", {}), old.get("spec", {})
        source = spec
        if "csi" in before and "controllerExpandSecretRef" not in before["csi"] and "csi" in spec:
            # The one part of a source that may be added: volumes created before their class allowed expansion need it.
            source = {**spec, "csi": {**spec["csi"], "controllerExpandSecretRef": None}}
        if not unchanged("PersistentVolumeSource", source, before):
            told = "spec.persistentvolumesource is immutable after creation\n"
            told += diff("PersistentVolumeSource", before, source)
            errors.append(forbidden("spec.persistentvolumesource", told))
        errors += rules.immutable("volumeMode", spec.get("volumeMode"), before.get("volumeMode"))
        if "nodeAffinity" in before and not self.gates.enabled("MutablePVNodeAffinity"):
            errors += _validate_kept_affinity(spec.get("nodeAffinity"), before["nodeAffinity"])
        if "volumeAttributesClassName" in before and "volumeAttributesClassName" not in spec:
            told = "update from non-nil value to nil is forbidden"
            errors.append(forbidden("spec.volumeAttributesClassName", told))
        return errors

    def prepare_status(self, new: Doc, old: Doc) -> None:
        """A changed phase gets the time of the change, unless the writer sets a time."""
        super().prepare_status(new, old)
        status, before = new.setdefault("status", {}), old.get("status", {})
        at, at_before = status.get("lastPhaseTransitionTime"), before.get("lastPhaseTransitionTime")
        is_same_phase = status.get("phase") == before.get("phase")
        if is_same_phase and at is None and at_before is not None:
            status["lastPhaseTransitionTime"] = at_before
        elif not is_same_phase and at in (None, at_before):
            status["lastPhaseTransitionTime"] = rfc3339(self.clock.now())

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        """Mirrors GetWarningsForPersistentVolume: fields that are accepted without their former effect."""
        told: list[str] = []
        spec = new.get("spec", {})
        annotations = new.get("metadata", {}).get("annotations", {})
        for key, message in (
            (BETA_STORAGE_CLASS, 'deprecated since v1.8; use "storageClassName" attribute instead'),
            (_MOUNT_OPTIONS_ANNOTATION, 'deprecated since v1.31; use "mountOptions" attribute instead'),
        ):
            if key in annotations:
                told.append(f"metadata.annotations[{key}]: {message}")
        if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
            told.append(
                "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. "
                "Instead, the recommended approach is to use dynamic provisioning."
            )
        terms = dig(spec, "nodeAffinity", "required", "nodeSelectorTerms") or []
        for idx, term in enumerate(terms):
            told += metadata.node_selector_term_warnings(term, f"spec.nodeAffinity.required.nodeSelectorTerms[{idx}]")
        silent = ("flocker", "quobyte")  # upstream has no warning for these
        dead = (shown for source, shown in DEAD_SOURCES.items() if source in spec and source not in silent)
        return told + [f"spec.{name}: {fate}" for name, fate in dead]


def validate_volume_spec(spec: Doc, path: str, *, is_inline: bool = False) -> Errors:
    """A volume's spec; an inline spec is a CSI source and hardly anything else."""
    of_volume = "accessModes..persistentVolumeReclaimPolicy", "storageClassName..volumeAttributesClassName"
    errors = rules.check(spec, path, _INLINE) if is_inline else _VOLUME(spec, path, of_volume[0])
    if "nodeAffinity" in spec and not is_inline:
        at, selector = f"{path}.nodeAffinity.required", spec["nodeAffinity"].get("required")
        if selector is None:
            errors.append(required(at, "must specify required node constraints"))
        else:
            errors += metadata.validate_node_selector(selector, at)
    errors += validate_source(spec, path, has_node_affinity="nodeAffinity" in spec and not is_inline)
    is_root = posixpath.normpath(spec.get("hostPath", {}).get("path") or ".") in ("/", "//")
    if is_root and spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        told = "may not be 'recycle' for a hostPath mount of '/'"
        errors.append(forbidden(f"{path}.persistentVolumeReclaimPolicy", told))
    return errors + (rules.check(spec, path, _INLINE_CLASS) if is_inline else _VOLUME(spec, path, of_volume[1]))


def validate_access_modes(modes: list[str], path: str) -> Wrong:
    """Known modes; ReadWriteOncePod stands alone. Shared with claims."""
    yield from (unsupported(path, mode, ACCESS_MODES) for mode in modes if mode not in ACCESS_MODES)
    if "ReadWriteOncePod" in modes and any(mode != "ReadWriteOncePod" for mode in modes if mode in ACCESS_MODES):
        yield forbidden(path, "may not use ReadWriteOncePod with other access modes")


def _validate_capacity(capacity: dict[str, str], path: str) -> Errors:
    errors = [] if capacity else [required(path)]
    if capacity.keys() != {"storage"}:
        errors.append(unsupported(path, internal("ResourceList", capacity or None), ("storage",)))
    for name, text in capacity.items():
        errors += validate_basic_resource(text, f"{path}[{name}]")
        errors += rules.positive_quantity(text, f"{path}[{name}]")
    return errors


def _forbidden_unless(allowed: str | None, told: str) -> rules.Rule:
    return lambda value, path: [] if value == allowed else [forbidden(path, told)]


_NOT_INLINE = _forbidden_unless(None, "may not be specified in the context of inline volumes")
_VOLUME = TypeRules("core.PersistentVolumeSpec", accessModes=validate_access_modes, capacity=_validate_capacity)
_INLINE: rules.Rules = {
    "claimRef": rules.if_set(_NOT_INLINE),
    "capacity": rules.if_set(_NOT_INLINE),
    "csi": rules.Asked(
        lambda csi, at: [required(at, "has to be specified in the context of inline volumes")] if csi is None else [],
        None,
    ),
    "accessModes": rules.needed(validate_access_modes),
    "persistentVolumeReclaimPolicy": rules.if_set(
        _forbidden_unless("Retain", "may only be Retain in the context of inline volumes")
    ),
    "nodeAffinity": _NOT_INLINE,
}
_INLINE_CLASS: rules.Rules = {
    "storageClassName": rules.if_set(_NOT_INLINE),
    "volumeMode": _forbidden_unless(
        "Filesystem", "may not specify volumeMode other than Filesystem in the context of inline volumes"
    ),
}


def _validate_kept_affinity(new: Doc | None, old: Doc) -> Errors:
    """Mirrors validatePvNodeAffinity: unchanged, except that a beta label may become its GA successor."""
    excused = copy(old)
    for kept, now in zip(_requirements(excused), _requirements(new or {}), strict=False):
        if _GA_LABELS.get(kept.get("key", "")) == now.get("key"):
            kept["key"] = now["key"]
    if new is not None and unchanged("VolumeNodeAffinity", new, excused):
        return []
    # As upstream's, the path has no `spec.` in front.
    shown = internal("VolumeNodeAffinity", new)
    return [invalid("nodeAffinity", shown, f"{rules.IMMUTABLE}, except for updating from beta label to GA")]


def _requirements(affinity: Doc) -> list[Doc]:
    return [
        requirement
        for term in affinity.get("required", {}).get("nodeSelectorTerms", [])
        for field in ("matchExpressions", "matchFields")
        for requirement in term.get(field, [])
    ]
