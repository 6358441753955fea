"""Nodes: are they ready, what are they for, where are they reached."""

from __future__ import annotations

from datetime import datetime

from tonnage.apiserver.tables import cells
from tonnage.apiserver.tables.column import AGE, NAME, Cell, CellOf, Column, Layout, text
from tonnage.objects.document import Doc, dig

_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLE_LABEL = "kubernetes.io/role"


def status(node: Doc, now: datetime) -> Cell:
    """`Ready`, `NotReady` or `Unknown`, and `SchedulingDisabled` behind it when the node is cordoned."""
    is_ready = cells.condition_status(dig(node, "status", "conditions"), "Ready")
    word = {"True": "Ready", "": "Unknown"}.get(is_ready, "NotReady")
    return f"{word},SchedulingDisabled" if dig(node, "spec", "unschedulable") else word


def roles(node: Doc, now: datetime) -> Cell:
    """Names behind `node-role.kubernetes.io/`, and the value of `kubernetes.io/role`."""
    found = set()
    for key, value in (dig(node, "metadata", "labels") or {}).items():
        if key.startswith(_ROLE_PREFIX):
            found.add(key.removeprefix(_ROLE_PREFIX))
        elif key == _ROLE_LABEL:
            found.add(value)
    return ",".join(sorted(found - {""})) or cells.NONE


def address(kind: str) -> CellOf:
    """The first address of a type."""
    return lambda node, now: next(
        (str(found["address"]) for found in dig(node, "status", "addresses") or () if found.get("type") == kind),
        cells.NONE,
    )


def kernel(node: Doc, now: datetime) -> Cell:
    """Kernel version with the architecture in brackets."""
    info = dig(node, "status", "nodeInfo") or {}
    version = info.get("kernelVersion") or cells.UNKNOWN
    return f"{version} ({info['architecture']})" if info.get("architecture") else str(version)


LAYOUTS = {
    ("", "Node"): Layout(
        (
            NAME,
            Column("Status", status, about="Whether the node is ready, and whether it takes new pods."),
            Column("Roles", roles, about="What the node is for, by its role labels."),
            AGE,
            Column("Version", text("status.nodeInfo.kubeletVersion"), field="status.nodeInfo.kubeletVersion"),
            Column("Internal-IP", address("InternalIP"), wide=True, field="status.addresses"),
            Column("External-IP", address("ExternalIP"), wide=True, field="status.addresses"),
            Column(
                "OS-Image",
                text("status.nodeInfo.osImage", cells.UNKNOWN),
                wide=True,
                field="status.nodeInfo.osImage",
            ),
            Column("Kernel-Version", kernel, wide=True, field="status.nodeInfo.kernelVersion"),
            Column(
                "Container-Runtime",
                text("status.nodeInfo.containerRuntimeVersion", cells.UNKNOWN),
                wide=True,
                field="status.nodeInfo.containerRuntimeVersion",
            ),
        )
    )
}
