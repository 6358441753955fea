"""Parts of objects in the form upstream holds them in memory, which is how its messages show them.

When Kubernetes refuses a change of a whole struct, it prints the struct (or a diff of two) by the field names of its
internal types: every field, in the order of declaration, `ReadOnly: false` and `FSType: ""` where the document says
nothing. Tools and people compare those messages, so the shapes stand here as data. The same form is what "unchanged"
means: an absent field and its zero are one, unless the type makes a difference between them.

    Name       text, "" when absent          Name:bool Name:int   false, 0 when absent
    Name?      whatever is there, or null    Name?T  Name[T]      a struct, a list of structs, or null
    Name.T     a struct that is always there Name=key             where the document's name is not the same but for case
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from tonnage.objects.document import Doc
from tonnage.quantity import Quantity

_SHAPES = """
CSINodeDriver Name NodeID TopologyKeys? Allocatable?VolumeNodeResources
VolumeNodeResources Count?
VolumeAttachmentSpec Attacher Source.VolumeAttachmentSource NodeName
VolumeAttachmentSource PersistentVolumeName? InlineVolumeSpec?PersistentVolumeSpec
Taint Key Value Effect TimeAdded?
NodeAddress Type Address
VolumeNodeAffinity Required?NodeSelector
NodeSelector NodeSelectorTerms[NodeSelectorTerm]
NodeSelectorTerm MatchExpressions[NodeSelectorRequirement] MatchFields[NodeSelectorRequirement]
NodeSelectorRequirement Key Operator Values?
PersistentVolumeClaimSpec AccessModes? Selector?LabelSelector Resources.VolumeResourceRequirements VolumeName
 StorageClassName? VolumeMode? DataSource?TypedLocalObjectReference DataSourceRef?TypedObjectReference
 VolumeAttributesClassName?
VolumeResourceRequirements Limits?ResourceList Requests?ResourceList
TypedLocalObjectReference APIGroup? Kind Name
TypedObjectReference APIGroup? Kind Name Namespace?
PersistentVolumeSource GCEPersistentDisk?GCEPersistentDiskVolumeSource
 AWSElasticBlockStore?AWSElasticBlockStoreVolumeSource HostPath?HostPathVolumeSource
 Glusterfs?GlusterfsPersistentVolumeSource NFS?NFSVolumeSource RBD?RBDPersistentVolumeSource
 Quobyte?QuobyteVolumeSource ISCSI?ISCSIPersistentVolumeSource FlexVolume?FlexPersistentVolumeSource
 Cinder?CinderPersistentVolumeSource CephFS?CephFSPersistentVolumeSource FC?FCVolumeSource Flocker?FlockerVolumeSource
 AzureFile?AzureFilePersistentVolumeSource VsphereVolume?VsphereVirtualDiskVolumeSource
 AzureDisk?AzureDiskVolumeSource PhotonPersistentDisk?PhotonPersistentDiskVolumeSource
 PortworxVolume?PortworxVolumeSource ScaleIO?ScaleIOPersistentVolumeSource Local?LocalVolumeSource
 StorageOS?StorageOSPersistentVolumeSource CSI?CSIPersistentVolumeSource
GCEPersistentDiskVolumeSource PDName FSType Partition:int ReadOnly:bool
AWSElasticBlockStoreVolumeSource VolumeID FSType Partition:int ReadOnly:bool
HostPathVolumeSource Path Type?
GlusterfsPersistentVolumeSource EndpointsName=endpoints Path ReadOnly:bool EndpointsNamespace?
NFSVolumeSource Server Path ReadOnly:bool
RBDPersistentVolumeSource CephMonitors?=monitors RBDImage=image FSType RBDPool=pool RadosUser=user Keyring
 SecretRef?SecretReference ReadOnly:bool
QuobyteVolumeSource Registry Volume ReadOnly:bool User Group Tenant
ISCSIPersistentVolumeSource TargetPortal IQN Lun:int ISCSIInterface FSType ReadOnly:bool Portals?
 DiscoveryCHAPAuth:bool=chapAuthDiscovery SessionCHAPAuth:bool=chapAuthSession SecretRef?SecretReference InitiatorName?
FlexPersistentVolumeSource Driver FSType SecretRef?SecretReference ReadOnly:bool Options?Map
CinderPersistentVolumeSource VolumeID FSType ReadOnly:bool SecretRef?SecretReference
CephFSPersistentVolumeSource Monitors? Path User SecretFile SecretRef?SecretReference ReadOnly:bool
FCVolumeSource TargetWWNs? Lun? FSType ReadOnly:bool WWIDs?
FlockerVolumeSource DatasetName DatasetUUID
AzureFilePersistentVolumeSource SecretName ShareName ReadOnly:bool SecretNamespace?
VsphereVirtualDiskVolumeSource VolumePath FSType StoragePolicyName StoragePolicyID
AzureDiskVolumeSource DiskName DataDiskURI=diskURI CachingMode? FSType? ReadOnly? Kind?
PhotonPersistentDiskVolumeSource PdID FSType
PortworxVolumeSource VolumeID FSType ReadOnly:bool
ScaleIOPersistentVolumeSource Gateway System SecretRef?SecretReference SSLEnabled:bool ProtectionDomain StoragePool
 StorageMode VolumeName FSType ReadOnly:bool
LocalVolumeSource Path FSType?
StorageOSPersistentVolumeSource VolumeName VolumeNamespace FSType ReadOnly:bool SecretRef?ObjectReference
CSIPersistentVolumeSource Driver VolumeHandle ReadOnly:bool FSType VolumeAttributes?Map
 ControllerPublishSecretRef?SecretReference NodeStageSecretRef?SecretReference NodePublishSecretRef?SecretReference
 ControllerExpandSecretRef?SecretReference NodeExpandSecretRef?SecretReference
SecretReference Name Namespace
ObjectReference Kind Namespace Name UID APIVersion ResourceVersion FieldPath
PersistentVolumeSpec Capacity?ResourceList *PersistentVolumeSource AccessModes? ClaimRef?ObjectReference
 PersistentVolumeReclaimPolicy StorageClassName MountOptions? VolumeMode? NodeAffinity?VolumeNodeAffinity
 VolumeAttributesClassName?
RoleRef APIGroup Kind Name
NonResourceAttributes Path Verb
"""

MAX_DIFF_LINES = 4_000
"""Of both sides together: a diff takes time by the square of its lines. Beyond, the first that differ are shown."""
_CONTEXT_LINES = 3
_HUNK = re.compile(r"^@@ -(\d+)(,\d+)? \+(\d+)", re.MULTILINE)

_FIELD = re.compile(r"(\w+)(?::(\w+)|\?(\w*)|\.(\w+)|\[(\w+)\])?(?:=(\w+))?")
_ZERO = {"bool": False, "int": 0}


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    key: str
    """The document's field, in lower case."""
    zero: Any
    shape: str = ""
    is_list: bool = False
    is_always: bool = False


def internal(shape: str, value: Any) -> Any:
    """A part of a document as upstream's type `shape` would print it; quantities in canonical form."""
    return _formed(shape, value, str)


def diff(shape: str, old: Any, new: Any) -> str:
    """What upstream's diff of two structs says: a unified diff of their printed forms, without its two head lines."""
    before, after = (
        [f"{line}\n" for line in json.dumps(internal(shape, each), indent=1, ensure_ascii=False).split("\n")]
        for each in (old, new)
    )
    start, more = 0, 0
    if len(before) + len(after) > MAX_DIFF_LINES:
        start = max(0, _shared_head(before, after) - _CONTEXT_LINES)
        more = max(len(before), len(after)) - start - MAX_DIFF_LINES // 2
        before, after = (lines[start : start + MAX_DIFF_LINES // 2] for lines in (before, after))
    told = "".join(list(difflib.unified_diff(before, after, n=_CONTEXT_LINES))[2:])
    if start:
        told = _HUNK.sub(lambda found: f"@@ -{int(found[1]) + start}{found[2] or ''} +{int(found[3]) + start}", told)
    return told + (f"... and up to {more} more lines\n" if more > 0 else "")


def _shared_head(before: list[str], after: list[str]) -> int:
    """How many lines two texts have in common at their beginning."""
    for position, (old, new) in enumerate(zip(before, after, strict=False)):
        if old != new:
            return position
    return min(len(before), len(after))


def unchanged(shape: str, new: Any, old: Any) -> bool:
    """Are two parts of documents the same to upstream? Empty lists and maps are as good as none, `1Gi` is `1024Mi`."""
    is_same: bool = _pruned(_formed(shape, new, _amount)) == _pruned(_formed(shape, old, _amount))
    return is_same


def _amount(quantity: Quantity) -> Quantity:
    return quantity


def _formed(shape: str, value: Any, amount: Callable[[Quantity], Any]) -> Any:
    if value is None:
        return None
    if shape == "LabelSelector":  # a type of the wire, printed by its wire names
        expressions = [
            {key: requirement[key] for key in ("key", "operator", "values") if key in requirement}
            for requirement in value.get("matchExpressions", [])
        ]
        labels = _formed("Map", value.get("matchLabels", {}), amount)
        return ({"matchLabels": labels} if labels else {}) | ({"matchExpressions": expressions} if expressions else {})
    if shape == "Map":
        return {key: value[key] for key in sorted(value)}
    if shape == "ResourceList":
        return {key: amount(Quantity.of(value[key])) for key in sorted(value)}
    by_key = {key.lower(): item for key, item in value.items()}
    shown: Doc = {}
    for field in _shapes()[shape]:
        found = by_key.get(field.key)
        if found is None:
            shown[field.name] = _formed(field.shape, {}, amount) if field.is_always else field.zero
        elif field.is_list:
            shown[field.name] = [_formed(field.shape, item, amount) for item in found]
        else:
            shown[field.name] = _formed(field.shape, found, amount) if field.shape else found
    return shown


def _pruned(value: Any) -> Any:
    """Without null and empty lists; an empty struct stays, for it is not the same as none."""
    if isinstance(value, dict):
        return {key: _pruned(item) for key, item in value.items() if item is not None and item != []}
    if isinstance(value, list):
        return [_pruned(item) for item in value]
    return value


@cache
def _shapes() -> dict[str, list[_Field]]:
    shapes: dict[str, list[_Field]] = {}
    for line in _SHAPES.strip().replace("\n ", " ").splitlines():
        name, *words = line.split()
        fields: list[_Field] = []
        for word in words:
            if word.startswith("*"):  # embedded: its fields stand here as if they were our own
                fields += shapes[word[1:]]
            else:
                fields.append(_field(word))
        shapes[name] = fields
    return shapes


def _field(word: str) -> _Field:
    found = _FIELD.fullmatch(word)
    assert found is not None, word
    name, scalar, optional, always, item, key = found.groups()
    zero: Any = None if optional is not None or item is not None else _ZERO.get(scalar or "", "")
    return _Field(
        name,
        key=(key or name).lower(),
        zero=zero,
        shape=optional or always or item or "",
        is_list=item is not None,
        is_always=always is not None,
    )
