"""Defaults of a pod's volumes: file modes, types of the older sources, templates of generic ephemeral claims."""

from __future__ import annotations

from tonnage.documents.defaults.containers import pull_policy
from tonnage.documents.defaults.persistent_volumes import default_claim_spec
from tonnage.objects.document import Doc

_FILE_MODE = 0o644
_TOKEN_LIFETIME_S = 3600

# source -> field -> value when absent
_CONSTANTS: dict[str, Doc] = {
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    "configMap": {"defaultMode": _FILE_MODE},
    "downwardAPI": {"defaultMode": _FILE_MODE},
    "hostPath": {"type": ""},
    "iscsi": {"iscsiInterface": "default"},
    "projected": {"defaultMode": _FILE_MODE},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
    "secret": {"defaultMode": _FILE_MODE},
}


def default_volume(volume: Doc) -> None:
    """Fill in one volume, in place; one without any source is an emptyDir. Mirrors SetDefaults_Volume and others."""
    if volume.keys() <= {"name"}:
        volume["emptyDir"] = {}
    for source, constants in _CONSTANTS.items():
        if source in volume:
            for field, value in constants.items():
                volume[source].setdefault(field, value)
    if "image" in volume:
        volume["image"].setdefault("pullPolicy", pull_policy(volume["image"].get("reference", "")))
    _default_files(volume.get("downwardAPI", {}))
    for projection in volume.get("projected", {}).get("sources", ()):
        _default_files(projection.get("downwardAPI", {}))
        if "serviceAccountToken" in projection:
            projection["serviceAccountToken"].setdefault("expirationSeconds", _TOKEN_LIFETIME_S)
    template = volume.get("ephemeral", {}).get("volumeClaimTemplate")
    if template is not None:
        template.setdefault("metadata", {})
        template.setdefault("spec", {}).setdefault("resources", {})
        default_claim_spec(template["spec"])


def _default_files(source: Doc) -> None:
    for file in source.get("items", ()):
        if "fieldRef" in file:
            file["fieldRef"].setdefault("apiVersion", "v1")
        if "resourceFieldRef" in file:
            file["resourceFieldRef"].setdefault("divisor", "0")
