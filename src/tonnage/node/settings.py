"""The settings of the nodes of one process."""

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
"""The kubelet's name in events and field managers: people search for this word."""
KUBELET_VERSION: Final = f"v{KUBERNETES_VERSION}+tonnage"
ATTACH_ERROR_GRACE_S: Final = 15.0
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}


def architecture() -> str:
    """This machine's architecture, as Go and Kubernetes spell it."""
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """In `csi_addresses`, `{node}` becomes the node's name; `root_dir` has a folder per node.

    `attach_error_grace_s`: how long attaching must fail for lack of slots before the pod is failed; upstream waits 2
    min 3 s. `confined_grace_s`: how long a volume may be confined to other nodes (KEP-5381) before the pod is failed.
    `driver_start_grace_s`: how long a driver may be missing after a start before it is removed from the CSINode.
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

    def folder(self, node: str) -> Path:
        return self.root_dir / node
