"""`tonnage controllers`: run kube-controller-manager's part for storage and workloads until it is stopped."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from tonnage.cli.flags.endpoint_flags import check_endpoint, endpoint_options
from tonnage.cli.flags.flag_table import flag_table
from tonnage.cli.flags.go_flags import Election, GoCommand, check_times, lease_place_options, lease_time_options
from tonnage.cli.output import Flags, feature_gates, from_flags, logging_options, say_all
from tonnage.cli.running import connected, connection_of, kubeconfig_option, run_until_signalled, say_ready
from tonnage.client.leadership import LeaseTimes
from tonnage.controllers import PROGRAM

if TYPE_CHECKING:
    from tonnage.controllers.controller_context import ControllerManagerConfiguration


@click.command(cls=GoCommand)
@kubeconfig_option
@flag_table("""
    --controllers as wanted TEXT=* <*,-NAME>  Controllers to run: * is all, NAME turns one on, -NAME turns one off.
    --csi-address as csi_addresses TEXT... <unix:///…>  Socket of a CSI driver whose volumes this program attaches; may
        be repeated.
    --timeout DURATION=15s  How long one call to a driver may take.
    --node-monitor-period DURATION=5s  How often to check nodes.
    --node-monitor-grace-period DURATION=50s  How long a node may be silent before it is marked as lost.
    --node-startup-grace-period DURATION=1m0s  How long a node that has never posted its status may be silent.
    --node-eviction-rate FLOAT[0..]=0.1  Lost nodes a second from which pods are evicted, in a healthy zone.
    --secondary-node-eviction-rate FLOAT[0..]=0.01  Lost nodes a second from which pods are evicted, in an unhealthy
        zone; 0 in a small zone.
    --large-cluster-size-threshold INT[0..]=50  A zone with at most this many nodes is small.
    --unhealthy-zone-threshold FLOAT[0..1]=0.55  Fraction of a zone's nodes (at least three) that must be lost for the
        zone to be unhealthy.
    --terminated-pod-gc-threshold INT=12500  How many ended pods to keep; 0 keeps all.
    --pod-gc-quarantine DURATION=40s  How long a node must be missing before its pods are deleted. (Tonnage only; fixed
        in kube-controller-manager)
    --pvclaimbinder-sync-period DURATION=15s  How often to check claims and volumes when nothing changes.
    --attach-detach-reconcile-sync-period DURATION=1m0s  How often to compare VolumeAttachments with what is really
        attached.
    --disable-attach-detach-reconcile-sync SWITCH=false  Do not compare VolumeAttachments with what is really attached.
    --disable-force-detach-on-timeout SWITCH=false  Leave volumes of a lost node attached until it is declared out of
        service.
    --leader-elect SWITCH=false  Work only while holding the lease, so that several copies can run.
""")
@lease_time_options
@lease_place_options(PROGRAM)
@endpoint_options(port=10257)
@flag_table("--profiling SWITCH=true  Serve stacks and profiles at /debug/pprof/ to users who may read that path.")
@feature_gates
@logging_options
def controllers(wanted: str, **flags: Any) -> None:
    """Flags have kube-controller-manager's names and defaults, except that --leader-elect is off by default: one copy
    runs, and after a crash it does not wait for its own lease. Prints "ready" once it follows the cluster; SIGTERM and
    Ctrl-C stop it.
    """
    from tonnage.behaviour.nodes.node_lifecycle_plan import EvictionRates
    from tonnage.controllers.controller_context import ControllerManagerConfiguration
    from tonnage.controllers.program import UnknownController, enabled_controllers

    check_endpoint(flags)
    say_all("warning", flags["gates"].warnings)
    names = tuple(word.strip() for word in wanted.split(",") if word.strip())
    try:
        enabled_controllers(names)
    except UnknownController as exc:
        raise click.BadParameter(f"{exc.message}; {exc.hint}", param_hint="--controllers") from exc
    if flags["disable_attach_detach_reconcile_sync"]:
        flags["attach_detach_reconcile_sync_period_s"] = 0.0
    configuration = from_flags(
        ControllerManagerConfiguration,
        flags,
        rates=from_flags(EvictionRates, flags),
        force_detach_on_timeout=not flags["disable_force_detach_on_timeout"],
    )
    asyncio.run(run(configuration, names, _election_of(flags), flags))


def _election_of(flags: Flags) -> Election:
    names = ("lease_duration", "renew_deadline", "retry_period")
    given = {f"{name}_s": time_s for name in names if (time_s := flags[f"leader_elect_{name}"])}
    found = Election(flags["leader_elect"], LeaseTimes(**given))
    if found.is_on:
        check_times(found.times)
    return found


async def run(
    configuration: ControllerManagerConfiguration, names: tuple[str, ...], election: Election, flags: Flags
) -> None:
    """Run until SIGTERM or Ctrl-C, or until the lease is lost."""
    from tonnage.controllers.program import ControllerManager
    from tonnage.csi.metrics import sidecar_calls

    namespace, name = flags["leader_elect_resource_namespace"], flags["leader_elect_resource_name"]
    connection = connection_of(flags["kubeconfig_file"])
    async with connected(PROGRAM, connection, election) as running:
        calls = sidecar_calls(running.runtime.registry)
        drivers = [await running.driver(address, flags["timeout_s"], calls) for address in flags["csi_addresses"]]
        manager = await running.enter(
            ControllerManager(
                running.runtime,
                replace(configuration, drivers=tuple(drivers), root_ca_pem=connection.cluster.ca_pem),
                controllers=names,
                on_synced=say_ready,
            )
        )
        await running.serve_securely(
            flags,
            is_healthy=lambda: manager.is_healthy,
            is_ready=lambda: manager.is_synced,
            shows_profiles=flags["profiling"],
        )
        await run_until_signalled(running.led(manager.run, f"{namespace or 'kube-system'}/{name or PROGRAM}"))
