"""The flags of `tonnage provisioner`, typed, and what they say: options, capacity, lease, endpoint of metrics.

`--feature-gates` knows our gates, and the few that external-provisioner alone has.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict

import click

from tonnage.gates import GateError, Gates

if TYPE_CHECKING:
    from tonnage.provisioner.capacity.controller import CapacitySettings
    from tonnage.provisioner.options import ProvisionerOptions


_OWN_GATES: Final = {
    "Topology": True,
    "VolumeAttributesClass": True,
    "ReleaseLeaderElectionOnExit": True,
    "CrossNamespaceVolumeDataSource": False,
}
"""Gates that external-provisioner has and Kubernetes has not, as they are here when nobody sets them."""


@dataclass(frozen=True, slots=True)
class ProvisionerGates:
    """The gates of --feature-gates: ours, and those of external-provisioner alone."""

    ours: Gates
    own: dict[str, bool]


def parse_gates(text: str) -> ProvisionerGates:
    """`A=true,B=false`. Raises GateError for a gate that is unknown, or cannot be had."""
    own = dict(_OWN_GATES)
    rest: list[str] = []
    for pair in (each.strip() for each in text.split(",") if each.strip()):
        name, equals, said = pair.partition("=")
        if name not in _OWN_GATES or not equals:
            rest.append(pair)
            continue
        own[name] = _switched(name, said)
        if name == "CrossNamespaceVolumeDataSource" and own[name]:
            raise GateError(f"{name} is not supported: data sources are in the claim's own namespace", gate=name)
    return ProvisionerGates(Gates.parse(",".join(rest)), own)


def _switched(name: str, said: str) -> bool:
    try:
        return click.BOOL.convert(said, None, None)
    except click.BadParameter as exc:
        raise GateError(
            f"invalid value of {name}={said}", gate=name, hint=f"write {name}=true or {name}=false"
        ) from exc


_SERVICE_ACCOUNT_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class ProvisionerFlags(TypedDict):
    """Every flag by its name, as click hands them over; durations are in seconds."""

    kubeconfig_file: Path | None
    csi_address: str
    timeout: float
    volume_name_prefix: str
    volume_name_uuid_length: int
    worker_threads: int
    cloning_protection_threads: int
    retry_interval_start: float
    retry_interval_max: float
    strict_topology: bool
    immediate_topology: bool
    extra_create_metadata: bool
    default_fstype: str
    controller_publish_readonly: bool
    prevent_volume_mode_conversion: bool
    enable_expansion: bool
    enable_capacity: bool
    capacity_poll_interval: float
    capacity_for_immediate_binding: bool
    capacity_ownerref_level: int
    capacity_namespace: str
    capacity_threads: int
    kube_api_capacity_qps: float
    kube_api_capacity_burst: int
    node_deployment: bool
    node_name: str
    node_deployment_immediate_binding: bool
    node_deployment_base_delay: float
    node_deployment_max_delay: float
    leader_election: bool
    leader_election_namespace: str
    leader_election_lease_duration: float
    leader_election_renew_deadline: float
    leader_election_retry_period: float
    kube_api_qps: float
    kube_api_burst: int
    http_endpoint: str
    metrics_address: str
    gates: ProvisionerGates
    logging_format: str
    verbosity: int


def options_of(flags: ProvisionerFlags) -> ProvisionerOptions:
    """What the flags say about volumes. Raises UsageError."""
    from tonnage.provisioner.options import NodeDeployment, ProvisionerOptions

    own = flags["gates"].own
    deployment = None
    if flags["node_deployment"]:
        if not flags["node_name"]:
            raise click.UsageError("--node-deployment needs the node's name: set NODE_NAME or --node-name")
        deployment = NodeDeployment(
            node_name=flags["node_name"],
            immediate_binding=flags["node_deployment_immediate_binding"],
            base_delay_s=flags["node_deployment_base_delay"],
            max_delay_s=flags["node_deployment_max_delay"],
        )
    return ProvisionerOptions(
        volume_name_prefix=flags["volume_name_prefix"],
        volume_name_uuid_length=flags["volume_name_uuid_length"],
        strict_topology=flags["strict_topology"],
        immediate_topology=flags["immediate_topology"],
        extra_create_metadata=flags["extra_create_metadata"],
        default_fstype=flags["default_fstype"],
        controller_publish_readonly=flags["controller_publish_readonly"],
        prevent_volume_mode_conversion=flags["prevent_volume_mode_conversion"],
        worker_threads=flags["worker_threads"],
        cloning_protection_threads=flags["cloning_protection_threads"],
        retry_start_s=flags["retry_interval_start"],
        retry_max_s=flags["retry_interval_max"],
        expands=flags["enable_expansion"],
        topology=own["Topology"],
        volume_attributes_class=own["VolumeAttributesClass"],
        node_deployment=deployment,
    )


def capacity_of(flags: ProvisionerFlags) -> CapacitySettings | None:
    """What the flags say about capacity; None when it is not published."""
    from tonnage.provisioner.capacity.controller import CapacitySettings

    if not flags["enable_capacity"]:
        return None
    return CapacitySettings(
        namespace=flags["capacity_namespace"],
        with_pools=flags["gates"].ours.CSIStorageCapacityV2,
        for_immediate_binding=flags["capacity_for_immediate_binding"],
        poll_interval_s=flags["capacity_poll_interval"],
        threads=flags["capacity_threads"],
        first_retry_s=flags["retry_interval_start"],
        max_retry_s=flags["retry_interval_max"],
        qps=flags["kube_api_capacity_qps"],
        burst=flags["kube_api_capacity_burst"],
    )


def lease_of(driver_name: str, namespace: str) -> str:
    """The lease that copies of a driver's provisioner meet at, named as upstream's sidecars name it."""
    name = re.sub("[^a-zA-Z0-9-]", "-", driver_name)
    return f"{namespace or _own_namespace()}/{name}{'X' if name.endswith('-') else ''}"


def endpoint_of(http_endpoint: str, metrics_address: str) -> tuple[str, int] | None:
    """Host and port to serve at; None for nowhere. Raises UsageError."""
    if http_endpoint and metrics_address:
        raise click.UsageError("only one of --metrics-address and --http-endpoint can be set")
    told = http_endpoint or metrics_address
    if not told:
        return None
    host, _, port = told.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise click.UsageError(f'"{told}" is no address to listen on; write it like ":8080" or "127.0.0.1:8080"')
    return host.strip("[]") or "0.0.0.0", int(port)


def _own_namespace() -> str:
    """The pod's namespace, as upstream finds it."""
    if told := os.environ.get("POD_NAMESPACE") or os.environ.get("NAMESPACE"):
        return told
    try:
        return _SERVICE_ACCOUNT_NAMESPACE.read_text().strip() or "default"
    except OSError:
        return "default"
