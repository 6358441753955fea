"""A node's own objects as its kubelet writes them: the Node, patches of it, and the Lease.

A kubelet writes its own fields (standard labels, capacity, conditions, volumesInUse) and no others. Resources that
others put into the capacity stay, and become allocatable.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from tonnage import __version__, clock
from tonnage.behaviour.workloads.templates import owner_ref
from tonnage.node.settings import KUBELET_VERSION, NodeSettings, architecture
from tonnage.objects import core_v1, meta, names
from tonnage.objects.codec import to_doc
from tonnage.objects.core_v1.pod import HOSTNAME
from tonnage.objects.document import Doc
from tonnage.quantity import Quantity
from tonnage.scheduling.cluster.pod_info import is_extended

_NODE_ID_BYTES: Final = 256
_ZERO: Final = Quantity.from_int(0)

LEASE_NAMESPACE: Final = "kube-node-lease"
NODE_ID_ANNOTATION: Final = "csi.volume.kubernetes.io/nodeid"

_CONDITIONS: Final = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


def standard_labels(name: str) -> dict[str, str]:
    return {
        "beta.kubernetes.io/arch": architecture(),
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": architecture(),
        HOSTNAME: name,
        "kubernetes.io/os": "linux",
    }


def new_node(name: str, settings: NodeSettings, *, now: datetime) -> Doc:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": standard_labels(name),
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
        "status": {**_machine(name, settings), "conditions": _conditions((), now=now)},
    }


def missing_labels(node: core_v1.Node) -> dict[str, str]:
    """Standard labels that a node lacks or has wrong, mostly because somebody else created the Node."""
    return {key: value for key, value in standard_labels(node.name).items() if node.metadata.labels.get(key) != value}


def status_patch(node: core_v1.Node, settings: NodeSettings, *, now: datetime) -> Doc | None:
    """What the node's status lacks, as a strategic patch; None while it is correct and recent enough."""
    machine = _machine(node.name, settings)
    capacity = {**node.status.capacity, **_quantities(settings.capacity)}
    allocatable = allocatable_of(capacity)
    gone = [name for name in node.status.allocatable if name not in capacity and is_extended(name)]
    is_same = dict(node.status.capacity) == capacity and not gone
    is_same &= {**node.status.allocatable, **allocatable} == dict(node.status.allocatable)
    machine["allocatable"] = {**_texts(allocatable), **dict.fromkeys(gone)}
    is_same &= [each.address for each in node.status.addresses] == [each["address"] for each in machine["addresses"]]
    is_same &= node.status.node_info.kubelet_version == KUBELET_VERSION
    shown = {condition.type: condition for condition in node.status.conditions}
    if is_same and all(_is_told(shown.get(row[0]), row, now, settings.status_report_s) for row in _CONDITIONS):
        return None
    return {"metadata": {"uid": node.uid}, "status": {**machine, "conditions": _conditions(shown.values(), now=now)}}


def allocatable_of(capacity: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """The capacity, with huge pages subtracted from the memory. Mirrors MachineInfo of pkg/kubelet/nodestatus."""
    left = {name: max(quantity, _ZERO) for name, quantity in capacity.items()}
    for name, pages in capacity.items():
        if name.startswith("hugepages-") and "memory" in left:
            left["memory"] = max(left["memory"] - pages, _ZERO)
    return left


def require_no_collision(labels: Mapping[str, str], topology: Mapping[str, str]) -> None:
    """Raises ValueError if the node or an earlier driver has one of the labels with another value."""
    for key, value in topology.items():
        if (before := labels.get(key)) is not None and before != value:
            raise ValueError(
                f'detected topology value collision: driver reported "{key}":"{value}" '
                f'but existing label is "{key}":"{before}"'
            )


def is_node_id(told: str) -> bool:
    """True if a CSINode can hold it: not empty, and not too long."""
    return 0 < len(told.encode()) <= _NODE_ID_BYTES


def require_storable(node_id: str, topology: Mapping[str, str]) -> None:
    """Raises ValueError for a node id or topology that no API server takes."""
    if not is_node_id(node_id):
        raise ValueError(f"the driver's node id has {len(node_id.encode())} bytes; it must have 1 to {_NODE_ID_BYTES}")
    for key, value in topology.items():
        if wrong := names.label_key(key) or names.label_value(value):
            raise ValueError(f'the driver\'s topology segment "{key}": "{value}" is not a label: {wrong[0]}')


def topology_patch(node: core_v1.Node, topology: Mapping[str, str], node_ids: Mapping[str, str]) -> Doc | None:
    """The drivers' labels and node ids, as a merge patch; None if the node has them."""
    labels = {key: value for key, value in topology.items() if key not in node.metadata.labels}
    said = json.dumps(dict(node_ids), separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    annotations = {} if node.metadata.annotations.get(NODE_ID_ANNOTATION) == said else {NODE_ID_ANNOTATION: said}
    if not labels and not annotations:
        return None
    return {"metadata": {"uid": node.uid, "labels": labels, "annotations": annotations}}


def new_lease(node: core_v1.Node, settings: NodeSettings, *, now: datetime) -> Doc:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": node.name, "namespace": LEASE_NAMESPACE, "ownerReferences": [to_doc(owner_ref(node))]},
        **renewal(node.name, settings, now=now),
    }


def renewal(name: str, settings: NodeSettings, *, now: datetime) -> Doc:
    return {
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": settings.lease_duration_s,
            "renewTime": clock.rfc3339_micro(now),
        }
    }


def _quantities(texts: Mapping[str, str]) -> dict[str, Quantity]:
    return {name: Quantity.of(text) for name, text in texts.items()}


def _texts(quantities: Mapping[str, Quantity]) -> dict[str, str]:
    return {name: str(quantity) for name, quantity in quantities.items()}


def _machine(name: str, settings: NodeSettings) -> Doc:
    return {
        "capacity": dict(settings.capacity),
        "allocatable": _texts(allocatable_of(_quantities(settings.capacity))),
        "addresses": [
            {"type": "InternalIP", "address": settings.node_ip},
            {"type": "Hostname", "address": name},
        ],
        "nodeInfo": {
            "architecture": architecture(),
            "bootID": "",
            "containerRuntimeVersion": f"tonnage://{__version__}",
            "kernelVersion": platform.release(),
            "kubeProxyVersion": "",
            "kubeletVersion": KUBELET_VERSION,
            "machineID": name,
            "operatingSystem": "linux",
            "osImage": "Tonnage",
            "systemUUID": name,
        },
    }


def _is_told(shown: meta.Condition | None, wanted: tuple[str, str, str, str], now: datetime, report_s: float) -> bool:
    """True if a condition is as wanted and its heartbeat is recent enough."""
    if shown is None or shown.last_heartbeat_time is None or (shown.status, shown.reason) != wanted[1:3]:
        return False
    # A heartbeat from the future was written before the clock was set back.
    return timedelta() <= now - shown.last_heartbeat_time < timedelta(seconds=report_s)


def _conditions(shown: Iterable[meta.Condition], *, now: datetime) -> list[Doc]:
    """Every condition with a fresh heartbeat; lastTransitionTime stays where the status stays."""
    before = {condition.type: condition for condition in shown}
    made = []
    for type_, status, reason, message in _CONDITIONS:
        was = before.get(type_)
        since = was.last_transition_time if was is not None and was.status == status else None
        made.append(
            {
                "type": type_,
                "status": status,
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": clock.rfc3339(now),
                "lastTransitionTime": clock.rfc3339(since or now),
            }
        )
    return made
