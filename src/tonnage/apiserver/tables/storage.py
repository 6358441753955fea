"""Volumes, claims, classes and CSI objects, in upstream's columns, so that a script that cuts them reads both alike.

CSIStorageCapacity is the exception. Upstream defines columns for it (class and capacity) but does not wire them up, and
shows the object's name and creation time alone. Here it says what decisions are made from: where the room is, how much,
the largest volume, and the free bytes of each pool, from the field of KEP-5925 or the annotation that stands in for it.
"""

from __future__ import annotations

from datetime import datetime

from tonnage.apiserver.tables import cells
from tonnage.apiserver.tables.column import AGE, NAME, Cell, CellOf, Column, Layout, flag, of, text
from tonnage.documents.kinds.storage.storage_class import is_default_class
from tonnage.objects.core_v1 import class_name_in
from tonnage.objects.document import Doc, dig
from tonnage.objects.storage_v1 import AVAILABLE_CAPACITIES

_MOST_POOLS = 8
_WIDEST = 80
"""Characters of a cell that has no end of its own."""


def storage_class(doc: Doc, now: datetime) -> Cell:
    """The storage class of a volume or a claim."""
    return class_name_in(doc) or ""


def phase(doc: Doc, now: datetime) -> Cell:
    """`Terminating` is no phase, but what a person wants to read in its place."""
    if dig(doc, "metadata", "deletionTimestamp") is not None:
        return "Terminating"
    return str(dig(doc, "status", "phase") or "")


def claim_ref(volume: Doc, now: datetime) -> Cell:
    claim = dig(volume, "spec", "claimRef")
    return "" if claim is None else f"{claim.get('namespace', '')}/{claim.get('name', '')}"


def claim_capacity(claim: Doc, now: datetime) -> Cell:
    """What the volume holds; a claim without one shows nothing, whatever it asks for."""
    if not dig(claim, "spec", "volumeName"):
        return ""
    return cells.size(dig(claim, "status", "capacity", "storage"))


def claim_access_modes(claim: Doc, now: datetime) -> Cell:
    return cells.access_modes(dig(claim, "status", "accessModes")) if dig(claim, "spec", "volumeName") else ""


def unset_or(path: str) -> CellOf:
    """The string at a path, `<unset>` only when the field is absent: an empty string stays empty."""
    return of(lambda value: cells.UNSET if value is None else str(value), path)


def class_name(doc: Doc, now: datetime) -> Cell:
    name = str(doc["metadata"]["name"])
    return f"{name} (default)" if is_default_class(doc) else name


def token_requests(driver: Doc, now: datetime) -> Cell:
    requests = dig(driver, "spec", "tokenRequests")
    return cells.UNSET if requests is None else cells.joined(requests, "audience")


def reached_nodes(capacity: Doc, now: datetime) -> Cell:
    """The nodes that reach the storage, as a selector; `<none>` where the object says nothing, `<all>` for any node."""
    topology = dig(capacity, "nodeTopology")
    return cells.NONE if topology is None else _fitting(cells.selector(topology)) or "<all>"


def _fitting(text: str) -> str:
    """As much of a text as leaves a line readable: a selector may name a hundred zones."""
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}…"


def amount(path: str) -> CellOf:
    """A quantity that may be unknown."""
    return of(lambda value: cells.UNSET if value is None else cells.size(value), path)


def pools(capacity: Doc, now: datetime) -> Cell:
    """The free bytes of each pool, as many as fit into a line."""
    told = dig(capacity, "availableCapacities")
    if not told:
        annotation = str(dig(capacity, "metadata", "annotations", AVAILABLE_CAPACITIES) or "")
        told = [each.strip() for each in annotation.split(",") if each.strip()]
    shown = _fitting(",".join(str(each) for each in told[:_MOST_POOLS]))
    return f"{shown},… ({len(told)})" if len(told) > _MOST_POOLS else shown or cells.NONE


LAYOUTS = {
    ("", "PersistentVolume"): Layout(
        (
            NAME,
            Column("Capacity", of(cells.size, "spec.capacity.storage"), field="spec.capacity"),
            Column("Access Modes", of(cells.access_modes, "spec.accessModes"), field="spec.accessModes"),
            Column(
                "Reclaim Policy",
                text("spec.persistentVolumeReclaimPolicy"),
                field="spec.persistentVolumeReclaimPolicy",
            ),
            Column("Status", phase, field="status.phase"),
            Column("Claim", claim_ref, field="spec.claimRef"),
            Column("StorageClass", storage_class, field="spec.storageClassName"),
            Column(
                "VolumeAttributesClass",
                unset_or("spec.volumeAttributesClassName"),
                field="spec.volumeAttributesClassName",
            ),
            Column("Reason", text("status.reason"), field="status.reason"),
            AGE,
            Column("VolumeMode", unset_or("spec.volumeMode"), wide=True, field="spec.volumeMode"),
        )
    ),
    ("", "PersistentVolumeClaim"): Layout(
        (
            NAME,
            Column("Status", phase, field="status.phase"),
            Column("Volume", text("spec.volumeName"), field="spec.volumeName"),
            Column("Capacity", claim_capacity, field="status.capacity"),
            Column("Access Modes", claim_access_modes, field="status.accessModes"),
            Column("StorageClass", storage_class, field="spec.storageClassName"),
            Column(
                "VolumeAttributesClass",
                unset_or("spec.volumeAttributesClassName"),
                field="spec.volumeAttributesClassName",
            ),
            AGE,
            Column("VolumeMode", unset_or("spec.volumeMode"), wide=True, field="spec.volumeMode"),
        )
    ),
    ("storage.k8s.io", "StorageClass"): Layout(
        (
            Column("Name", class_name, format="name", field="metadata.name"),
            Column("Provisioner", text("provisioner"), field="provisioner"),
            Column("ReclaimPolicy", text("reclaimPolicy", "Delete"), field="reclaimPolicy"),
            Column("VolumeBindingMode", text("volumeBindingMode", "Immediate"), field="volumeBindingMode"),
            Column("AllowVolumeExpansion", flag("allowVolumeExpansion"), field="allowVolumeExpansion"),
            AGE,
        )
    ),
    ("storage.k8s.io", "CSIDriver"): Layout(
        (
            NAME,
            Column(
                "AttachRequired",
                flag("spec.attachRequired", missing=True),
                type="boolean",
                field="spec.attachRequired",
            ),
            Column("PodInfoOnMount", flag("spec.podInfoOnMount"), type="boolean", field="spec.podInfoOnMount"),
            Column("StorageCapacity", flag("spec.storageCapacity"), type="boolean", field="spec.storageCapacity"),
            Column("TokenRequests", token_requests, field="spec.tokenRequests"),
            Column("RequiresRepublish", flag("spec.requiresRepublish"), type="boolean", field="spec.requiresRepublish"),
            Column(
                "Modes",
                of(lambda modes: ",".join(modes or ()) or cells.NONE, "spec.volumeLifecycleModes"),
                field="spec.volumeLifecycleModes",
            ),
            AGE,
        )
    ),
    ("storage.k8s.io", "CSINode"): Layout(
        (
            NAME,
            Column(
                "Drivers",
                of(lambda drivers: len(drivers or ()), "spec.drivers"),
                type="integer",
                about="How many CSI drivers have registered on the node.",
            ),
            AGE,
        )
    ),
    ("storage.k8s.io", "VolumeAttachment"): Layout(
        (
            NAME,
            Column("Attacher", text("spec.attacher"), format="name", field="spec.attacher"),
            Column("PV", text("spec.source.persistentVolumeName"), field="spec.source.persistentVolumeName"),
            Column("Node", text("spec.nodeName"), field="spec.nodeName"),
            Column("Attached", flag("status.attached"), type="boolean", field="status.attached"),
            AGE,
        )
    ),
    ("storage.k8s.io", "CSIStorageCapacity"): Layout(
        (
            NAME,
            Column("StorageClassName", text("storageClassName"), field="storageClassName"),
            Column("Topology", reached_nodes, field="nodeTopology"),
            Column("Capacity", amount("capacity"), field="capacity"),
            Column("Maximum", amount("maximumVolumeSize"), field="maximumVolumeSize"),
            Column("Pools", pools, field="availableCapacities"),
            AGE,
        )
    ),
    ("storage.k8s.io", "VolumeAttributesClass"): Layout(
        (
            NAME,
            Column("DriverName", text("driverName"), field="driverName"),
            AGE,
        )
    ),
}
