"""What a PersistentVolume is made of: exactly one source, and what each of them must say.

csi, hostPath, local and nfs are judged in full. Of the sources whose plugins left Kubernetes long ago only the fields
that must be there are asked for; their finer rules (iSCSI names, Azure URIs) protect nobody any more.
"""

from __future__ import annotations

from collections.abc import Callable

from tonnage.objects import names
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, forbidden, invalid, not_supported, required, too_long
from tonnage.objects.field_rules import no_backsteps

_HOST_PATH_TYPES = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
_DRIVER_NAME_MAX_BYTES = 63
_CSI_SECRETS = (
    "controllerPublishSecretRef",
    "controllerExpandSecretRef",
    "nodePublishSecretRef",
    "nodeExpandSecretRef",
)

# source -> field -> value when absent, in a PersistentVolume and in a pod
SOURCE_DEFAULTS: dict[str, Doc] = {
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    "hostPath": {"type": ""},
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}
# In upstream's order, for the second source found is the one refused. flexVolume is never refused for being second.
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
"""Each source with the fields it cannot do without; those judged by a rule of their own name none here."""

# Where upstream's errors stand, when that is not the field's own name: for a missing field, for a second source.
_MISSING_AT = {"gcePersistentDisk": "persistentDisk"}
_SECOND_AT = {"cephfs": "cephFS"}
_REGISTRY = "must be a host:port pair or multiple pairs separated by commas"


def validate_source(spec: Doc, path: str, *, has_node_affinity: bool) -> Errors:
    """Exactly one source, and that one legal. A local volume is somewhere, so it has to say where."""
    errors: Errors = []
    found = [source for source in SOURCES if source in spec]
    if not found:
        return [required(path, "must specify a volume type")]
    for idx, source in enumerate(found):
        if idx > 0 and source != "flexVolume":
            told = "may not specify more than 1 volume type"
            errors.append(forbidden(f"{path}.{_SECOND_AT.get(source, source)}", told))
            continue
        at = f"{path}.{_MISSING_AT.get(source, source)}"
        for field in SOURCES[source]:
            if not spec[source].get(field):
                errors.append(required(f"{at}.{field}", _REGISTRY if field == "registry" else ""))
        if source in _RULES:
            errors += _RULES[source](spec[source], at)
        if source == "local" and not has_node_affinity:
            errors.append(required(f"{path}.nodeAffinity", "Local volume requires node affinity"))
    return errors


def validate_csi_driver_name(name: str, path: str) -> Errors:
    """Mirrors ValidateCSIDriverName: there, at most 63 bytes, a subdomain in any case."""
    if not name:
        return [required(path)]
    errors = [too_long(path, _DRIVER_NAME_MAX_BYTES)] if len(name.encode()) > _DRIVER_NAME_MAX_BYTES else []
    return errors + [invalid(path, name, sentence) for sentence in names.csi_driver_name(name)]


def validate_host_path(source: Doc, path: str) -> Errors:
    if not source.get("path"):
        return [required(f"{path}.path")]
    errors = no_backsteps(source["path"], f"{path}.path")
    if source.get("type", "") not in _HOST_PATH_TYPES:
        errors.append(not_supported(f"{path}.type", source["type"], _HOST_PATH_TYPES))
    return errors


def validate_nfs(source: Doc, path: str) -> Errors:
    errors = [required(f"{path}.{field}") for field in ("server", "path") if not source.get(field)]
    if not source.get("path", "").startswith("/"):
        errors.append(invalid(f"{path}.path", source.get("path", ""), "must be an absolute path"))
    return errors


def _validate_local(source: Doc, path: str) -> Errors:
    return no_backsteps(source["path"], f"{path}.path") if source.get("path") else [required(f"{path}.path")]


def _validate_csi(source: Doc, path: str) -> Errors:
    errors = validate_csi_driver_name(source.get("driver", ""), f"{path}.driver")
    if not source.get("volumeHandle"):
        errors.append(required(f"{path}.volumeHandle"))
    for field in _CSI_SECRETS:  # nodeStageSecretRef is not among them: upstream forgot it, and objects rely on that
        if field in source:
            errors += _validate_secret(source[field], f"{path}.{field}")
    return errors


def _validate_secret(secret: Doc, path: str) -> Errors:
    errors: Errors = []
    for field, rule in (("name", names.dns_subdomain), ("namespace", names.dns_label)):
        value = secret.get(field, "")
        if value:
            errors += [invalid(f"{path}.{field}", value, sentence) for sentence in rule(value)]
        else:
            errors.append(required(f"{path}.{field}"))
    return errors


def _validate_flocker(source: Doc, path: str) -> Errors:
    if not source.get("datasetName") and not source.get("datasetUUID"):
        return [required(path, "one of datasetName and datasetUUID is required")]
    return []


def _validate_fc(source: Doc, path: str) -> Errors:
    if not source.get("targetWWNs") and not source.get("wwids"):
        return [required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both")]
    return []


_RULES: dict[str, Callable[[Doc, str], Errors]] = {
    "csi": _validate_csi,
    "fc": _validate_fc,
    "flocker": _validate_flocker,
    "hostPath": validate_host_path,
    "local": _validate_local,
    "nfs": validate_nfs,
}
