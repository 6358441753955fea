"""Objects of Longhorn, DirectPV and HwameiStor with the fields that their code writes, and small definitions of their
kinds.

longhorn_node("node-1", fast=disk("100Gi", scheduled="40Gi"))      one disk named fast, 60Gi left
drive("node-1", "a", free="10Gi")                                  a DirectPVDrive
storage_node("node-1", SSD=pool("100Gi", free="60Gi"))             a LocalStorageNode with a pool

DRIVER_DEFINITIONS=folder: the projects' own definitions, from the YAML files of that folder, instead of the small ones.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tonnage.objects.codec import convert
from tonnage.objects.document import Doc
from tonnage.objects.resources import Resource
from tonnage.objects.storage_v1 import StorageClass
from tonnage.pools.class_pools import PoolSource
from tonnage.pools.sources.directpv import DirectPv
from tonnage.pools.sources.hwameistor import HwameiStor
from tonnage.pools.sources.longhorn import Longhorn
from tonnage.quantity import Quantity

LONGHORN, DIRECTPV, HWAMEISTOR = Longhorn(), DirectPv(), HwameiStor()


def size_of(text: str | int) -> int:
    return text if isinstance(text, int) else Quantity.parse(text).value()


def class_doc(source: PoolSource, name: str = "fast", **parameters: str) -> Doc:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": source.drivers[0],
        "volumeBindingMode": "WaitForFirstConsumer",
        "parameters": parameters,
    }


def class_of(source: PoolSource, name: str = "fast", **parameters: str) -> StorageClass:
    return convert(StorageClass, class_doc(source, name, **parameters))


def _condition(kind: str, *, holds: bool) -> Doc:
    return {"type": kind, "status": "True" if holds else "False", "lastProbeTime": "", "reason": "", "message": ""}


# -- Longhorn: k8s/pkg/apis/longhorn/v1beta2/node.go ------------------------------------------------------------------


def disk(
    maximum: str | int,
    *,
    scheduled: str | int = 0,
    reserved: str | int = 0,
    available: str | int | None = None,
    tags: tuple[str, ...] = (),
    kind: str = "filesystem",
    schedulable: bool = True,
    allow: bool = True,
    evict: bool = False,
) -> tuple[Doc, Doc]:
    """The spec and the status of a disk."""
    spec = {
        "diskType": kind,
        "path": "/var/lib/longhorn/",
        "diskDriver": "",
        "allowScheduling": allow,
        "evictionRequested": evict,
        "storageReserved": size_of(reserved),
        "tags": list(tags),
    }
    status = {
        "conditions": [_condition("Ready", holds=True), _condition("Schedulable", holds=schedulable)],
        "storageAvailable": size_of(maximum if available is None else available),
        "storageScheduled": size_of(scheduled),
        "storageMaximum": size_of(maximum),
        "scheduledReplica": {},
        "diskType": kind,
        "filesystemType": "ext2/ext3",
    }
    return spec, status


def longhorn_node(
    name: str,
    *,
    tags: tuple[str, ...] = (),
    ready: bool = True,
    schedulable: bool = True,
    allow: bool = True,
    evict: bool = False,
    **disks: tuple[Doc, Doc],
) -> Doc:
    status = {disk_name: {**told, "diskUUID": f"{name}-{disk_name}"} for disk_name, (_, told) in disks.items()}
    return {
        "apiVersion": "longhorn.io/v1beta2",
        "kind": "Node",
        "metadata": {"name": name, "namespace": "longhorn-system"},
        "spec": {
            "name": name,
            "disks": {disk_name: spec for disk_name, (spec, _) in disks.items()},
            "allowScheduling": allow,
            "evictionRequested": evict,
            "tags": list(tags),
        },
        "status": {
            "conditions": [_condition("Ready", holds=ready), _condition("Schedulable", holds=schedulable)],
            "diskStatus": status,
        },
    }


def longhorn_setting(name: str, value: str) -> Doc:
    metadata = {"name": name, "namespace": "longhorn-system"}
    return {"apiVersion": "longhorn.io/v1beta2", "kind": "Setting", "metadata": metadata, "value": value}


# -- DirectPV: pkg/apis/directpv.min.io/v1beta1/drive.go --------------------------------------------------------------


def drive(node: str, name: str, *, free: str | int, status: str = "Ready", tier: str = "Default", **more: Any) -> Doc:
    labels = {
        "directpv.min.io/node": node,
        "directpv.min.io/drive-name": name,
        "directpv.min.io/access-tier": tier,
        "directpv.min.io/version": "v1beta1",
        "directpv.min.io/created-by": "directpv-driver",
        **more.pop("labels", {}),
    }
    return {
        "apiVersion": "directpv.min.io/v1beta1",
        "kind": "DirectPVDrive",
        "metadata": {"name": f"{node}-{name}", "labels": labels, "finalizers": ["directpv.min.io/data-protection"]},
        "spec": more,
        "status": {
            "totalCapacity": size_of("1Ti"),
            "allocatedCapacity": size_of("1Ti") - size_of(free),
            "freeCapacity": size_of(free),
            "fsuuid": f"{node}-{name}",
            "status": status,
            "topology": {"directpv.min.io/identity": "directpv-min-io", "directpv.min.io/node": node},
        },
    }


# -- HwameiStor: pkg/apis/hwameistor/v1alpha1/localstoragenode_types.go -----------------------------------------------


def pool(total: str | int, *, free: str | int, volumes_left: int = 1000, thin: Doc | None = None) -> Doc:
    total_bytes, free_bytes = size_of(total), size_of(free)
    return {
        "type": "REGULAR",
        "totalCapacityBytes": total_bytes,
        "usedCapacityBytes": total_bytes - free_bytes,
        "volumeCapacityBytesLimit": total_bytes,
        "freeCapacityBytes": free_bytes,
        "totalVolumeCount": 1000,
        "usedVolumeCount": 1000 - volumes_left,
        "freeVolumeCount": volumes_left,
        **({"thinPool": thin} if thin is not None else {}),
    }


def thin_pool(size: str | int, ratio: str, provisioned: str | int) -> Doc:
    told = {"name": "LocalStorage_ThinPool", "size": size_of(size), "overProvisionRatio": ratio}
    return {**told, "totalProvisionedSize": size_of(provisioned)}


def storage_node(name: str, *, state: str = "Ready", **pools: Doc) -> Doc:
    named = {f"LocalStorage_Pool{disk_class}": (disk_class, told) for disk_class, told in pools.items()}
    return {
        "apiVersion": "hwameistor.io/v1alpha1",
        "kind": "LocalStorageNode",
        "metadata": {"name": name},
        "spec": {"hostname": name, "storageIP": "10.0.0.1", "topogoly": {"zone": "default", "region": "default"}},
        "status": {
            "state": state,
            "pools": {key: {"name": key, "class": disk_class, **told} for key, (disk_class, told) in named.items()},
        },
    }


_WITH_STATUS_APART = ("longhorn.io", "hwameistor.io")


def definition_of(kind: Resource) -> Doc:
    """The CustomResourceDefinition of a driver's kind: the project's own if given, else one that takes any fields."""
    name = f"{kind.plural}.{kind.group}"
    if own := os.environ.get("DRIVER_DEFINITIONS"):
        return _definitions(own)[name]
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    if kind.group in _WITH_STATUS_APART:
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {"plural": kind.plural, "kind": kind.kind, "listKind": f"{kind.kind}List"},
            "versions": [version],
        },
    }


def has_status_apart(kind: Resource) -> bool:
    """True if a status is written by a request of its own."""
    return any("status" in (each.get("subresources") or {}) for each in definition_of(kind)["spec"]["versions"])


@cache
def _definitions(folder: str) -> dict[str, Doc]:
    found = [doc for file in sorted(Path(folder).glob("*.yaml")) for doc in yaml.safe_load_all(file.read_text())]
    return {doc["metadata"]["name"]: doc for doc in found if doc}
