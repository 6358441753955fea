"""Volumes, claims, classes and CSI objects, in upstream's columns.

CSIStorageCapacity is the exception: upstream shows only name and creation time. Ours shows what decisions are made
from: where the storage is, how much is free, the largest volume, and the free bytes of each pool, from KEP-5925's field
or the annotation that stands in for it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tonnage.apiserver.tables import cells
from tonnage.apiserver.tables.cells import AGE, NAME, NONE, Cell, Column, Layouts, count, flag, given, of, text
from tonnage.documents.kinds.storage.storage_class import is_default_class
from tonnage.objects.core_v1 import class_name_in
from tonnage.objects.document import Doc, dig
from tonnage.objects.storage_v1 import AVAILABLE_CAPACITIES

_MOST_POOLS = 8
_WIDEST = 80
"""The longest cell."""


def _phase(doc: Doc, now: datetime) -> Cell:
    """`Terminating` is no phase, but people want to read it here."""
    if dig(doc, "metadata", "deletionTimestamp") is not None:
        return "Terminating"
    return str(dig(doc, "status", "phase") or "")


def _claim_capacity(claim: Doc, now: datetime) -> Cell:
    """The volume's size; empty for a claim without a volume, whatever it asks for."""
    return cells.size(dig(claim, "status", "capacity", "storage")) if dig(claim, "spec", "volumeName") else ""


def _claim_access_modes(claim: Doc, now: datetime) -> Cell:
    return cells.access_modes(dig(claim, "status", "accessModes")) if dig(claim, "spec", "volumeName") else ""


def _class_name(doc: Doc, now: datetime) -> Cell:
    name = str(doc["metadata"]["name"])
    return f"{name} (default)" if is_default_class(doc) else name


def _reached_nodes(topology: Doc | None) -> Cell:
    """The nodes that reach the storage, as a selector; `<none>` without a topology, `<all>` for any node."""
    return NONE if topology is None else _fitting(cells.selector(topology)) or "<all>"


def _fitting(text: str) -> str:
    """A text cut so that the line stays readable: a selector may name a hundred zones."""
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}…"


def _amount(value: Any) -> Cell:
    return cells.UNSET if value is None else cells.size(value)


def _pools(capacity: Doc, now: datetime) -> Cell:
    """The free bytes of each pool, as many as fit into a cell."""
    sizes = dig(capacity, "availableCapacities")
    if not sizes:
        annotation = str(dig(capacity, "metadata", "annotations", AVAILABLE_CAPACITIES) or "")
        sizes = [part.strip() for part in annotation.split(",") if part.strip()]
    shown = _fitting(",".join(map(str, sizes[:_MOST_POOLS])))
    return f"{shown},… ({len(sizes)})" if len(sizes) > _MOST_POOLS else shown or NONE


_PHASE = Column("Status", _phase, "status.phase")
_CLASS = Column("StorageClass", lambda doc, now: class_name_in(doc) or "", "spec.storageClassName")
_ATTRIBUTES_CLASS = given("VolumeAttributesClass", "spec.volumeAttributesClassName", cells.UNSET)
_MODE = given("VolumeMode", "spec.volumeMode", cells.UNSET, wide=True)

LAYOUTS: Layouts = {
    ("", "PersistentVolume"): (
        NAME,
        of("Capacity", "spec.capacity.storage", cells.size, field="spec.capacity"),
        of("Access Modes", "spec.accessModes", cells.access_modes),
        text("Reclaim Policy", "spec.persistentVolumeReclaimPolicy"),
        _PHASE,
        of(
            "Claim",
            "spec.claimRef",
            lambda claim: "" if claim is None else f"{claim.get('namespace', '')}/{claim.get('name', '')}",
        ),
        _CLASS,
        _ATTRIBUTES_CLASS,
        text("Reason", "status.reason"),
        AGE,
        _MODE,
    ),
    ("", "PersistentVolumeClaim"): (
        NAME,
        _PHASE,
        text("Volume", "spec.volumeName"),
        Column("Capacity", _claim_capacity, "status.capacity"),
        Column("Access Modes", _claim_access_modes, "status.accessModes"),
        _CLASS,
        _ATTRIBUTES_CLASS,
        AGE,
        _MODE,
    ),
    ("storage.k8s.io", "StorageClass"): (
        Column("Name", _class_name, "metadata.name", format="name"),
        text("Provisioner", "provisioner"),
        text("ReclaimPolicy", "reclaimPolicy", "Delete"),
        text("VolumeBindingMode", "volumeBindingMode", "Immediate"),
        flag("AllowVolumeExpansion", "allowVolumeExpansion", type="string"),
        AGE,
    ),
    ("storage.k8s.io", "CSIDriver"): (
        NAME,
        flag("AttachRequired", "spec.attachRequired", missing=True),
        flag("PodInfoOnMount", "spec.podInfoOnMount"),
        flag("StorageCapacity", "spec.storageCapacity"),
        of(
            "TokenRequests",
            "spec.tokenRequests",
            lambda asked: cells.UNSET if asked is None else cells.joined(asked, "audience"),
        ),
        flag("RequiresRepublish", "spec.requiresRepublish"),
        of("Modes", "spec.volumeLifecycleModes", lambda modes: ",".join(modes or ()) or NONE),
        AGE,
    ),
    ("storage.k8s.io", "CSINode"): (
        NAME,
        count("Drivers", "spec.drivers", about="How many CSI drivers have registered on the node."),
        AGE,
    ),
    ("storage.k8s.io", "VolumeAttachment"): (
        NAME,
        Column("Attacher", text("", "spec.attacher").cell, "spec.attacher", format="name"),
        text("PV", "spec.source.persistentVolumeName"),
        text("Node", "spec.nodeName"),
        flag("Attached", "status.attached"),
        AGE,
    ),
    ("storage.k8s.io", "CSIStorageCapacity"): (
        NAME,
        text("StorageClassName", "storageClassName"),
        of("Topology", "nodeTopology", _reached_nodes),
        of("Capacity", "capacity", _amount),
        of("Maximum", "maximumVolumeSize", _amount),
        Column("Pools", _pools, "availableCapacities"),
        AGE,
    ),
    ("storage.k8s.io", "VolumeAttributesClass"): (NAME, text("DriverName", "driverName"), AGE),
}
