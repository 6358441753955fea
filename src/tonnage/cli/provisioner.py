"""`tonnage provisioner`: create volumes and publish capacity for one CSI driver, until stopped.

Its flags are external-provisioner's. `--feature-gates` accepts our gates and external-provisioner's own.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from tonnage.cli.flags.flag_table import flag_table
from tonnage.cli.flags.go_flags import GoCommand
from tonnage.cli.output import Flags, from_flags, gates_option, logging_options, say_all
from tonnage.cli.running import endpoint_of, kubeconfig_option, run_until_signalled, say_ready, sidecar, sidecar_options
from tonnage.gates import GateError, Gates

if TYPE_CHECKING:
    from tonnage.provisioner.capacity.controller import CapacitySettings
    from tonnage.provisioner.context import ProvisionerOptions

_OWN_GATES: Final = {
    "Topology": True,
    "VolumeAttributesClass": True,
    "ReleaseLeaderElectionOnExit": True,
    "CrossNamespaceVolumeDataSource": False,
}
"""Gates that only external-provisioner has, with our defaults."""
_SERVICE_ACCOUNT_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True, slots=True)
class ProvisionerGates:
    ours: Gates
    own: dict[str, bool]


def parse_gates(text: str) -> ProvisionerGates:
    """Parse `A=true,B=false`. Raises GateError for unknown gates and unsupported values."""
    own = dict(_OWN_GATES)
    rest: list[str] = []
    for pair in (each.strip() for each in text.split(",") if each.strip()):
        name, equals, said = pair.partition("=")
        if name not in _OWN_GATES or not equals:
            rest.append(pair)
            continue
        try:
            own[name] = click.BOOL.convert(said, None, None)
        except click.BadParameter as exc:
            hint = f"write {name}=true or {name}=false"
            raise GateError(f"invalid value of {name}={said}", gate=name, hint=hint) from exc
        if name == "CrossNamespaceVolumeDataSource" and own[name]:
            raise GateError(f"{name} is not supported: data sources are in the claim's own namespace", gate=name)
    return ProvisionerGates(Gates.parse(",".join(rest)), own)


@click.command(cls=GoCommand)
@kubeconfig_option
@flag_table("""
    --csi-address TEXT=/run/csi/socket  Address of the CSI driver's socket.
    --timeout DURATION=10s  Timeout of one call to the driver: create or delete a volume, ask for capacity.
    --volume-name-prefix TEXT=pvc  Prefix of the names of new volumes.
    --volume-name-uuid-length INT[-1..]=-1  How many characters of the claim's uid go into a volume's name; -1 is all.
    --worker-threads INT[1..]=100  How many volumes to create or delete at a time.
    --cloning-protection-threads INT[1..]=1  How many claims that are being cloned to handle at a time.
    --retry-interval-start DURATION=1s  Pause after the first failure; it doubles with each further one, up to
        --retry-interval-max.
    --retry-interval-max DURATION=5m  Longest pause after a failure.
    --strict-topology SWITCH=false  Pass only the selected node's topology to CreateVolume.
    --immediate-topology SWITCH=true  Pass the topology of all nodes to CreateVolume when no node was selected.
    --extra-create-metadata SWITCH=false  Pass the names of claim and volume to CreateVolume.
    --default-fstype TEXT=  File system of volumes whose class names none.
    --controller-publish-readonly SWITCH=false  Make volumes read-only when their claim has ReadOnlyMany as its only
        access mode.
    --prevent-volume-mode-conversion SWITCH=true  Refuse to restore a snapshot with another volume mode, unless the
        snapshot allows it.
    --enable-expansion SWITCH=true  Expand volumes too, as external-resizer does. (Tonnage only; not in
        external-provisioner)
    --enable-capacity SWITCH=true  Publish CSIStorageCapacity objects (external-provisioner's default is false).
    --capacity-poll-interval DURATION=1m  How often to ask the driver for its capacity.
    --capacity-for-immediate-binding SWITCH=false  Publish capacity also for classes with volumeBindingMode Immediate.
    --capacity-ownerref-level INT[-1..]=1  Owner of capacity objects: 0 the pod $POD_NAME, 1 its controller, 2 the
        controller of that; -1, or without $POD_NAME, none.
    --capacity-namespace TEXT=kube-system $NAMESPACE  Namespace of capacity objects. (Tonnage only;
        external-provisioner has just the variable)
    --capacity-threads INT[1..]=1  How many capacity objects to update at a time.
    --kube-api-capacity-qps FLOAT[0.0..]=1.0  Most capacity objects to write a second; 0 is no limit.
    --kube-api-capacity-burst INT[1..]=5  Most capacity objects to write at once.
    --node-deployment SWITCH=false  Run one provisioner on each node, for the volumes of that node.
    --node-name TEXT= $NODE_NAME  Name of this node, with --node-deployment.
    --node-deployment-immediate-binding SWITCH=true  With --node-deployment: compete for claims for which no node was
        selected.
    --node-deployment-base-delay DURATION=20s  Wait before competing for a claim; it doubles with each attempt.
    --node-deployment-max-delay DURATION=60s  Longest wait before competing for a claim.
    --leader-election SWITCH=false  Work only while holding the lease, so that several copies can run.
    --leader-election-namespace TEXT=  Namespace of the lease. [default: the pod's own namespace]
""")
@sidecar_options("leader-election", retry_period="5s", qps=0.0, burst=10, note=" external-provisioner's default is 5.")
@click.option("--metrics-address", default="", metavar="HOST:PORT", help="Older name of --http-endpoint.")
@gates_option(parse_gates, help="Features to turn on or off.")
@logging_options
def provisioner(**flags: Any) -> None:
    """Runs beside any CSI driver and against any Kubernetes API server, with external-provisioner's flags. Prints
    "ready" once the driver has answered and the cluster has been read; SIGTERM and Ctrl-C stop it.
    """
    say_all("warning", flags["gates"].ours.warnings)
    asyncio.run(_run(flags))


def options_of(flags: Flags) -> ProvisionerOptions:
    from tonnage.provisioner.context import NodeDeployment, ProvisionerOptions

    own, deployment = flags["gates"].own, None
    if flags["node_deployment"]:
        if not flags["node_name"]:
            raise click.UsageError("--node-deployment needs the node's name: set NODE_NAME or --node-name")
        deployment = NodeDeployment(
            node_name=flags["node_name"],
            immediate_binding=flags["node_deployment_immediate_binding"],
            base_delay_s=flags["node_deployment_base_delay_s"],
            max_delay_s=flags["node_deployment_max_delay_s"],
        )
    return from_flags(
        ProvisionerOptions,
        flags,
        retry_start_s=flags["retry_interval_start_s"],
        retry_max_s=flags["retry_interval_max_s"],
        expands=flags["enable_expansion"],
        topology=own["Topology"],
        volume_attributes_class=own["VolumeAttributesClass"],
        node_deployment=deployment,
    )


def capacity_of(flags: Flags) -> CapacitySettings | None:
    """The capacity settings of the flags; None when capacity is not published."""
    from tonnage.provisioner.capacity.controller import CapacitySettings

    if not flags["enable_capacity"]:
        return None
    return CapacitySettings(
        namespace=flags["capacity_namespace"],
        with_pools=flags["gates"].ours.CSIStorageCapacityV2,
        for_immediate_binding=flags["capacity_for_immediate_binding"],
        poll_interval_s=flags["capacity_poll_interval_s"],
        threads=flags["capacity_threads"],
        first_retry_s=flags["retry_interval_start_s"],
        max_retry_s=flags["retry_interval_max_s"],
        qps=flags["kube_api_capacity_qps"],
        burst=flags["kube_api_capacity_burst"],
    )


def lease_of(driver_name: str, namespace: str) -> str:
    """The lease for which a driver's provisioners compete."""
    from tonnage.provisioner.context import lease_name

    return f"{namespace or _own_namespace()}/{lease_name(driver_name)}"


def _own_namespace() -> str:
    if told := os.environ.get("POD_NAMESPACE") or os.environ.get("NAMESPACE"):
        return told
    try:
        return _SERVICE_ACCOUNT_NAMESPACE.read_text().strip() or "default"
    except OSError:
        return "default"


async def _run(flags: Flags) -> None:
    from tonnage.provisioner.metrics import ProvisionerMetrics
    from tonnage.provisioner.program import PROGRAM, Provisioner

    endpoint = endpoint_of(flags["http_endpoint"], flags["metrics_address"])
    options, capacity = options_of(flags), capacity_of(flags)
    release = flags["gates"].own["ReleaseLeaderElectionOnExit"]
    async with sidecar(
        PROGRAM, flags, "leader_election", is_elected=flags["leader_election"], release_on_cancel=release
    ) as running:
        metrics = ProvisionerMetrics(running.runtime.registry)
        driver = await running.driver(flags["csi_address"], flags["timeout_s"], metrics.calls)
        program = Provisioner(
            running.runtime,
            driver,
            options,
            metrics=metrics,
            capacity=capacity,
            pod_name=os.environ.get("POD_NAME", ""),
            owner_level=flags["capacity_ownerref_level"],
        )
        await running.serve(endpoint, is_ready=lambda: program.is_synced)

        async def work() -> None:
            async with program:
                await program.wait_synced()
                say_ready()
                lease = lease_of(program.driver_info.name, flags["leader_election_namespace"])
                await running.led(program.run, lease)

        await run_until_signalled(work())
