"""The source of a PersistentVolume: exactly one, with its required fields.

For sources whose plugins left Kubernetes long ago, only the required fields are checked.
"""

from __future__ import annotations

from tonnage.objects import field_rules as rules
from tonnage.objects import names
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, Wrong, forbidden, invalid, required

_HOST_PATH_TYPES = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")

# source -> field -> value when absent, in a PersistentVolume and in a pod, as `strategy.fill` reads it
SOURCE_DEFAULTS: dict[str, Doc] = {
    "azureDisk?": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    "hostPath?": {"type": ""},
    "iscsi?": {"iscsiInterface": "default"},
    "rbd?": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "scaleIO?": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}
# In upstream's order, because the second source is refused. flexVolume is never refused for being second.
SOURCES: dict[str, tuple[str, ...]] = {
    "hostPath": (),
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "glusterfs": ("endpoints", "path"),
    "flocker": (),
    "nfs": (),
    "rbd": ("monitors", "image"),
    "quobyte": ("registry", "volume"),
    "cephfs": ("monitors",),
    "iscsi": ("targetPortal", "iqn"),
    "cinder": ("volumeID",),
    "fc": (),
    "flexVolume": ("driver",),
    "azureFile": ("secretName", "shareName"),
    "vsphereVolume": ("volumePath",),
    "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",),
    "azureDisk": ("diskName", "diskURI"),
    "scaleIO": ("gateway", "system", "volumeName"),
    "local": (),
    "storageos": ("volumeName",),
    "csi": (),
}
"""Every source with its required fields; sources with a rule of their own have none here."""

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

# Where upstream's errors stand if not at the field's own name: for a missing field, for a second source.
_MISSING_AT = {"gcePersistentDisk": "persistentDisk"}
_SECOND_AT = {"cephfs": "cephFS"}
REGISTRY_TOLD = "must be a host:port pair or multiple pairs separated by commas"


def validate_source(spec: Doc, path: str, *, has_node_affinity: bool) -> Wrong:
    """Exactly one legal source. A local volume must have a node affinity."""
    found = [source for source in SOURCES if source in spec]
    if not found:
        yield required(path, "must specify a volume type")
        return
    for idx, source in enumerate(found):
        if idx > 0 and source != "flexVolume":
            told = "may not specify more than 1 volume type"
            yield forbidden(f"{path}.{_SECOND_AT.get(source, source)}", told)
            continue
        at = f"{path}.{_MISSING_AT.get(source, source)}"
        for field in SOURCES[source]:
            if not spec[source].get(field):
                yield required(f"{at}.{field}", REGISTRY_TOLD if field == "registry" else "")
        if source in _RULES:
            yield from _RULES[source](spec[source], at)
        if source == "local" and not has_node_affinity:
            yield required(f"{path}.nodeAffinity", "Local volume requires node affinity")


CSI_DRIVER_NAME = rules.needed(rules.both(rules.at_most_bytes(63), rules.named(names.csi_driver_name)))
"""Mirrors ValidateCSIDriverName: not empty, at most 63 bytes, a subdomain in upper or lower case."""
_SECRET = rules.part(
    {"name": rules.needed(rules.named(names.dns_subdomain)), "namespace": rules.needed(rules.named(names.dns_label))}
)
_CSI: rules.Rules = {
    "driver": CSI_DRIVER_NAME,
    "volumeHandle": rules.needed(),
    # nodeStageSecretRef is not among them: upstream forgot it, and objects rely on that.
    **dict.fromkeys(
        ("controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"),
        _SECRET,
    ),
}


def validate_host_path(source: Doc, path: str) -> Wrong:
    yield from rules.check(source, path, {"path": rules.needed(rules.no_backsteps)})
    if source.get("path"):
        yield from rules.check(source, path, {"type": rules.one_of(*_HOST_PATH_TYPES)})


def validate_nfs(source: Doc, path: str) -> Wrong:
    yield from rules.check(source, path, {"server": rules.needed(), "path": rules.needed()})
    if not source.get("path", "").startswith("/"):
        yield invalid(f"{path}.path", source.get("path", ""), "must be an absolute path")


def _validate_flocker(source: Doc, path: str) -> Errors:
    if not source.get("datasetName") and not source.get("datasetUUID"):
        return [required(path, "one of datasetName and datasetUUID is required")]
    return []


def _validate_fc(source: Doc, path: str) -> Errors:
    if not source.get("targetWWNs") and not source.get("wwids"):
        return [required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both")]
    return []


_RULES: dict[str, rules.Rule] = {
    "csi": rules.part(_CSI),
    "fc": _validate_fc,
    "flocker": _validate_flocker,
    "hostPath": validate_host_path,
    "local": rules.part({"path": rules.needed(rules.no_backsteps)}),
    "nfs": validate_nfs,
}
