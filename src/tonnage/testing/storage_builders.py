"""Storage objects in one line, for tests: name what matters, the rest is as an API server would fill it in.

storage_class("fast", delayed=True)        driver("csi.example", capacity=True, rebuilding=True)
claim("data-0", "20Gi")                    volume("pv-1", "20Gi", on="node-1", claim="default/data-0")
capacity("fast", "node-1", pools=["100Gi", "60Gi"])                     csi_node("node-1", {"csi.example": 3})
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

from tonnage.objects import storage_v1
from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.core_v1.persistent_volume import BIND_COMPLETED, SELECTED_NODE
from tonnage.objects.storage_v1 import CAPACITY_GROUP, POOL_POLICY, CSIDriver, CSINode, CSIStorageCapacity, StorageClass
from tonnage.testing.builders import Doc, pod

DRIVER = "csi.example"
CLASS = "fast"

_versions = count(1)


def storage_class(
    name: str = CLASS,
    *,
    provisioner: str = DRIVER,
    delayed: bool = True,
    topologies: Iterable[Mapping[str, Iterable[str]]] = (),
    group: str = "",
    pool_policy: str = "",
    size_rules: str = "",
    parameters: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> StorageClass:
    """A class. `topologies` are its allowed ones, as maps of label key to values.

    Classes of one `group` share pools; `pool_policy` is how the driver chooses one, `size_rules` which sizes it makes.
    """
    said = {CAPACITY_GROUP: group, POOL_POLICY: pool_policy, storage_v1.SIZE_RULES: size_rules} | dict(
        annotations or {}
    )
    terms = [
        {"matchLabelExpressions": [{"key": key, "values": list(values)} for key, values in term.items()]}
        for term in topologies
    ]
    return convert(
        StorageClass,
        {
            "kind": "StorageClass",
            "metadata": meta(name, annotations={key: value for key, value in said.items() if value}),
            "provisioner": provisioner,
            "parameters": dict(parameters or {}),
            "volumeBindingMode": "WaitForFirstConsumer" if delayed else "Immediate",
            **({"allowedTopologies": terms} if terms else {}),
        },
    )


def driver(
    name: str = DRIVER, *, capacity: bool = True, rebuilding: bool = False, pool_policy: str = "", **spec: Any
) -> CSIDriver:
    """A driver that publishes its capacity by default. `spec` adds other fields."""
    said = {"storageCapacity": capacity, "volumeRebuilding": rebuilding, **spec}
    metadata = meta(name, annotations={POOL_POLICY: pool_policy} if pool_policy else {})
    return convert(CSIDriver, {"kind": "CSIDriver", "metadata": metadata, "spec": said})


def claim(
    name: str,
    size: str | None = "1Gi",
    *,
    namespace: str = "default",
    class_name: str | None = CLASS,
    volume: str = "",
    bound: bool | None = None,
    selected_node: str = "",
    modes: Iterable[str] = ("ReadWriteOnce",),
    phase: str = "",
    metadata: Doc | None = None,
    spec: Doc | None = None,
) -> PersistentVolumeClaim:
    """A claim; with a `volume` it is bound to it, unless `bound=False`: the binder has not finished."""
    is_bound = bool(volume) if bound is None else bound
    more = dict(metadata or {})
    annotations = {BIND_COMPLETED: "yes"} if is_bound else {}
    if selected_node:
        annotations[SELECTED_NODE] = selected_node
    annotations |= more.pop("annotations", {})
    return convert(
        PersistentVolumeClaim,
        {
            "kind": "PersistentVolumeClaim",
            "metadata": meta(name, namespace, annotations=annotations, **more),
            "spec": {
                "accessModes": list(modes),
                "resources": {"requests": {"storage": size}} if size is not None else {},
                **({"storageClassName": class_name} if class_name is not None else {}),
                "volumeName": volume,
                **(spec or {}),
            },
            "status": {"phase": phase or ("Bound" if is_bound else "Pending")},
        },
    )


def volume(
    name: str,
    size: str = "1Gi",
    *,
    class_name: str = CLASS,
    on: str | Iterable[str] | None = None,
    affinity: Doc | None = None,
    claim: str = "",
    claim_uid: str | None = None,
    phase: str = "",
    driver: str | None = DRIVER,
    handle: str = "",
    modes: Iterable[str] = ("ReadWriteOnce",),
    labels: Mapping[str, str] | None = None,
    metadata: Doc | None = None,
    spec: Doc | None = None,
) -> PersistentVolume:
    """A volume. `on` confines it to nodes by their hostname label; `claim` is its namespace/name."""
    if on is not None:
        values = [on] if isinstance(on, str) else list(on)
        affinity = {"key": "kubernetes.io/hostname", "operator": "In", "values": values}
    required = {"required": {"nodeSelectorTerms": [{"matchExpressions": [affinity]}]}} if affinity else {}
    owner: Doc = {}
    if claim:
        namespace, _, claim_name = claim.rpartition("/")
        uid = f"{namespace}-{claim_name}" if claim_uid is None else claim_uid
        owner = {"claimRef": {"namespace": namespace, "name": claim_name, **({"uid": uid} if uid else {})}}
    source = {"csi": {"driver": driver, "volumeHandle": handle or name}} if driver else {}
    return convert(
        PersistentVolume,
        {
            "kind": "PersistentVolume",
            "metadata": meta(name, labels=dict(labels or {}), **(metadata or {})),
            "spec": {
                "capacity": {"storage": size},
                "accessModes": list(modes),
                "storageClassName": class_name,
                **({"nodeAffinity": required} if required else {}),
                **owner,
                **source,
                **(spec or {}),
            },
            "status": {"phase": phase or ("Bound" if claim else "Available")},
        },
    )


def capacity(
    class_name: str = CLASS,
    node: str | None = None,
    free: str | None = None,
    *,
    name: str = "",
    pools: Iterable[str] = (),
    pool_ids: str = "",
    free_volumes: int | str | None = None,
    maximum: str | None = None,
    topology: Doc | None = None,
    namespace: str = "kube-system",
    metadata: Doc | None = None,
) -> CSIStorageCapacity:
    """Capacity for a class on one node, or by `topology` (a label selector); with neither it reaches no node.

    `pool_ids`: an id for each of the `pools`, with commas between them. `free_volumes`: how many can
    still be made.
    """
    if node is not None:
        topology = {"matchLabels": {"kubernetes.io/hostname": node}}
    more = dict(metadata or {})
    if free_volumes is not None:
        more["annotations"] = {**more.get("annotations", {}), storage_v1.FREE_VOLUMES: str(free_volumes)}
    if pool_ids:
        more["annotations"] = {**more.get("annotations", {}), storage_v1.POOL_IDS: pool_ids}
    said = {
        "nodeTopology": topology,
        "capacity": free,
        "maximumVolumeSize": maximum,
        "availableCapacities": list(pools) or None,
    }
    return convert(
        CSIStorageCapacity,
        {
            "kind": "CSIStorageCapacity",
            "metadata": meta(name or f"{class_name}-{node or 'shared'}", namespace, **more),
            "storageClassName": class_name,
            **{key: value for key, value in said.items() if value is not None},
        },
    )


def csi_node(name: str, limits: Mapping[str, int | None], **metadata: Any) -> CSINode:
    """The drivers on a node with their attach limits; None is no limit."""
    drivers = [
        {"name": each, "nodeID": name, **({"allocatable": {"count": limit}} if limit is not None else {})}
        for each, limit in limits.items()
    ]
    return convert(CSINode, {"kind": "CSINode", "metadata": meta(name, **metadata), "spec": {"drivers": drivers}})


def attachment(
    name: str, volume: str, node: str, *, attacher: str = DRIVER, attached: bool = True, error: str = ""
) -> storage_v1.VolumeAttachment:
    """A volume attached to a node; with an `error` it was refused there."""
    return convert(
        storage_v1.VolumeAttachment,
        {
            "kind": "VolumeAttachment",
            "metadata": meta(name),
            "spec": {"attacher": attacher, "nodeName": node, "source": {"persistentVolumeName": volume}},
            "status": {"attached": attached and not error, **({"attachError": {"message": error}} if error else {})},
        },
    )


def pod_with(name: str, *claims: str, **options: Any) -> Pod:
    """A pod that mounts these claims of its namespace."""
    volumes = [
        {"name": f"v{number}", "persistentVolumeClaim": {"claimName": each}} for number, each in enumerate(claims)
    ]
    spec = {"volumes": [*volumes, *options.pop("volumes", ())], **options.pop("spec", {})}
    return pod(name, spec=spec, **options)


def meta(name: str, namespace: str = "", **more: Any) -> Doc:
    """Metadata; the uid is the name, so that references can be written; the version is newer than all before."""
    found: Doc = {"name": name, "uid": f"{namespace}-{name}" if namespace else name}
    if namespace:
        found["namespace"] = namespace
    return {"resourceVersion": str(next(_versions)), **found, **more}
