"""The source of a PersistentVolume: exactly one, with its required fields.

For sources whose plugins left Kubernetes long ago, only the required fields are checked.
"""

from __future__ import annotations

from functools import cache

from tonnage.documents.schema import Struct, type_named
from tonnage.documents.validation.type_rules import TypeRules
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, Wrong, forbidden, invalid, required

# source -> field -> value when absent, in a PersistentVolume and in a pod, as `strategy.fill` reads it
SOURCE_DEFAULTS: dict[str, Doc] = {
    "azureDisk?": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    "hostPath?": {"type": ""},
    "iscsi?": {"iscsiInterface": "default"},
    "rbd?": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "scaleIO?": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}


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
        yield from _VOLUME.by_field[source](spec[source], f"{path}.{SHOWN_AS.get(source, source)}")
        if source == "local" and not has_node_affinity:
            yield required(f"{path}.nodeAffinity", "Local volume requires node affinity")


_HOST_PATH, _NFS = TypeRules("core.HostPathVolumeSource"), TypeRules("core.NFSVolumeSource")


def validate_host_path(source: Doc, path: str) -> Wrong:
    yield from _HOST_PATH(source, path, *(("path", "type") if source.get("path") else ("path",)))


def validate_nfs(source: Doc, path: str) -> Wrong:
    yield from _NFS(source, path)
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


# Of a csi source, nodeStageSecretRef has no rules: upstream forgot it, and objects rely on that.
_VOLUME = TypeRules(
    "core.PersistentVolumeSpec",
    fc=_validate_fc,
    flocker=_validate_flocker,
    hostPath=validate_host_path,
    nfs=validate_nfs,
)
