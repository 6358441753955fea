"""What may be said about the nodes of one process."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tonnage import KUBERNETES_VERSION
from tonnage.gates import Gates

DEFAULT_CAPACITY: Final = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}
PROGRAM: Final = "kubelet"
"""How events and field managers name a node's agent: people look for this word."""
KUBELET_VERSION: Final = f"v{KUBERNETES_VERSION}+tonnage"
ATTACH_ERROR_GRACE_S: Final = 15.0
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}


def architecture() -> str:
    """This machine's, as Go and therefore Kubernetes spell it."""
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """`csi_addresses` may hold `{node}`, which becomes each node's name; `root_dir` has a folder for each node.

    `attach_error_grace_s`: how long an attach must have failed for want of slots before its pod is given up; upstream
    waits 2 min 3 s. `confined_grace_s`: how long a volume may be confined to other nodes (KEP-5381) before its pod is
    given up. `driver_start_grace_s`: how long a driver may be missing after a start until it is taken out of the
    CSINode.
    """

    names: tuple[str, ...]
    root_dir: Path
    csi_addresses: tuple[str, ...] = ()
    capacity: Mapping[str, str] = field(default_factory=lambda: dict(DEFAULT_CAPACITY))
    node_ip: str = "127.0.0.1"
    lease_duration_s: int = 40
    renew_interval_s: float = 10.0
    status_update_s: float = 10.0
    status_report_s: float = 300.0
    attach_error_grace_s: float = ATTACH_ERROR_GRACE_S
    confined_grace_s: float = 10.0
    driver_start_grace_s: float = 30.0
    csi_timeout_s: float = 30.0
    poll_sockets_s: float = 0.5
    gates: Gates = field(default_factory=Gates)

    def address(self, template: str, node: str) -> str:
        return template.replace("{node}", node)

    def folder(self, node: str) -> Path:
        return self.root_dir / node
