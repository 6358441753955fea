"""Defaults of PersistentVolume and PersistentVolumeClaim, and the class a claim gets when it names none."""

from __future__ import annotations

from tonnage.documents.defaults.amounts import round_amounts
from tonnage.documents.validation.volume_sources import SOURCES
from tonnage.objects.core_v1 import class_name_in
from tonnage.objects.document import Doc, dig

DEFAULT_CLASS_ANNOTATION = "storageclass.kubernetes.io/is-default-class"
_BETA_DEFAULT_CLASS_ANNOTATION = "storageclass.beta.kubernetes.io/is-default-class"

_SOURCE_DEFAULTS: dict[str, Doc] = {
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    "hostPath": {"type": ""},
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}
# Their `fsType: ""` and `readOnly: false` say something; everywhere else a server leaves them out.
_KEEP_ZEROS = frozenset({"azureDisk", "local"})


def default_persistent_volume(doc: Doc) -> None:
    """Mirrors SetDefaults_PersistentVolume and what upstream's generated code adds for each source."""
    doc.setdefault("status", {}).setdefault("phase", "Pending")
    spec = doc.setdefault("spec", {})
    _drop_empty(spec, "storageClassName", "persistentVolumeReclaimPolicy")
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    round_amounts(spec.get("capacity"))
    for source in SOURCES.keys() & spec.keys():
        for field, value in _SOURCE_DEFAULTS.get(source, {}).items():
            spec[source].setdefault(field, value)
        if source not in _KEEP_ZEROS:
            _drop_empty(spec[source], "fsType")
            if spec[source].get("readOnly") is False:
                del spec[source]["readOnly"]


def default_claim(doc: Doc) -> None:
    """Mirrors SetDefaults_PersistentVolumeClaim."""
    doc.setdefault("status", {}).setdefault("phase", "Pending")
    default_claim_spec(doc.setdefault("spec", {}))
    for field in ("capacity", "allocatedResources"):
        round_amounts(doc["status"].get(field))


def default_claim_spec(spec: Doc) -> None:
    """Also for the template of a generic ephemeral volume and of a StatefulSet."""
    spec.setdefault("volumeMode", "Filesystem")
    _drop_empty(spec, "volumeName")
    for field in ("limits", "requests"):
        round_amounts(dig(spec, "resources", field))


def mirror_data_sources(spec: Doc) -> None:
    """Write a claim's data source under both of its names when only one is given.

    `dataSource` came first; `dataSourceRef` may name any kind and another namespace, which the former cannot say.
    Mirrors NormalizeDataSources.
    """
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None:
        spec["dataSourceRef"] = dict(source)
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = {field: value for field, value in reference.items() if field != "namespace"}


def default_class_for(claim: Doc, classes: list[Doc]) -> str | None:
    """The class a new claim gets: None when it names one itself, an empty one included, or when there is no default.

    Of several defaults the newest wins, and of those made in the same second the first by name. Mirrors the
    DefaultStorageClass admission.
    """
    if class_name_in(claim) is not None:
        return None
    defaults = sorted((each["metadata"] for each in classes if is_default_class(each)), key=lambda meta: meta["name"])
    if not defaults:
        return None
    # Times are written in one form, whole seconds of UTC: text order is time order. max keeps the first of equals.
    chosen: str = max(defaults, key=lambda meta: meta.get("creationTimestamp", ""))["name"]
    return chosen


def is_default_class(storage_class: Doc) -> bool:
    annotations = dig(storage_class, "metadata", "annotations") or {}
    return "true" in (annotations.get(DEFAULT_CLASS_ANNOTATION), annotations.get(_BETA_DEFAULT_CLASS_ANNOTATION))


def _drop_empty(part: Doc, *fields: str) -> None:
    for field in fields:
        if part.get(field) == "":
            del part[field]
