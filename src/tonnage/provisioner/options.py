"""The options of a provisioner: external-provisioner's flags, with its names and defaults."""

from __future__ import annotations

import re
from dataclasses import dataclass


def lease_name(driver_name: str) -> str:
    """The name of the lease for which a driver's provisioners compete, as upstream's sidecars have it."""
    name = re.sub("[^a-zA-Z0-9-]", "-", driver_name)
    return f"{name}X" if name.endswith("-") else name


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDeployment:
    """One provisioner per node, beside its driver. It serves the claims whose selected node is this one.

    For claims of immediate binding the provisioners compete (`immediate_binding`): after a random part of
    `base_delay_s`, later of up to `max_delay_s`.
    """

    node_name: str
    immediate_binding: bool = True
    base_delay_s: float = 20.0
    max_delay_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisionerOptions:
    volume_name_prefix: str = "pvc"
    volume_name_uuid_length: int = -1
    """How much of the claim's uid, without dashes, goes into a volume's name; -1 is all of it, with dashes."""
    strict_topology: bool = False
    immediate_topology: bool = True
    extra_create_metadata: bool = False
    default_fstype: str = ""
    controller_publish_readonly: bool = False
    prevent_volume_mode_conversion: bool = True
    worker_threads: int = 100
    cloning_protection_threads: int = 1
    retry_start_s: float = 1.0
    retry_max_s: float = 300.0
    node_may_return_s: float = 60.0
    """How long a claim's node may be gone before another is chosen, if a volume may have been created on it."""
    expands: bool = True
    """Whether it does external-resizer's work, too."""
    topology: bool = True
    """The gate Topology."""
    volume_attributes_class: bool = True
    """The gate VolumeAttributesClass."""
    node_deployment: NodeDeployment | None = None
