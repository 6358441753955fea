"""`tonnage controllers`: what kube-controller-manager does for storage and workloads, until it is told to stop."""

from __future__ import annotations

import asyncio
import random
import secrets
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from tonnage.cli.flags.access_flags import access_options
from tonnage.cli.flags.election_flags import (
    ElectionFlags,
    checked_times,
    leader_elect_option,
    lease_place_options,
    lease_time_options,
)
from tonnage.cli.flags.go_flags import GoCommand, switch
from tonnage.cli.flags.metric_flags import metric_options
from tonnage.cli.flags.secure_endpoint import EndpointFlags, checked, secure_endpoint
from tonnage.cli.flags.serving_flags import serving_options
from tonnage.cli.options import DURATION, feature_gates, logging_options, start_logging
from tonnage.cli.output import say
from tonnage.cli.running import connection_of, kubeconfig_option, run_until_signalled, say_ready
from tonnage.clock import SystemClock
from tonnage.controllers import PROGRAM
from tonnage.gates import Gates

if TYPE_CHECKING:
    from tonnage.controllers.registry import ControllerManagerConfiguration


class ProgramFlags(EndpointFlags, ElectionFlags):
    """Flags that every program with an endpoint and a lease has."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Leader election's, in seconds, and which lease it is about."""

    lease_duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0
    lease: str = f"kube-system/{PROGRAM}"


@dataclass(frozen=True, slots=True)
class ControllersOptions:
    """How the program runs; what the controllers do stands in `ControllerManagerConfiguration`."""

    kubeconfig: Path | None
    controllers: tuple[str, ...]
    csi_addresses: tuple[str, ...]
    election: LeaseTimes | None
    timeout_s: float
    profiling: bool
    endpoint: EndpointFlags


@click.command(cls=GoCommand)
@kubeconfig_option
@click.option(
    "--controllers",
    "wanted",
    default="*",
    show_default=True,
    metavar="*,-NAME",
    help="Which run: * is all, NAME this one, -NAME all but this one.",
)
@click.option(
    "--csi-address",
    "csi_addresses",
    multiple=True,
    metavar="unix:///…",
    help="The socket of a CSI driver whose volumes are attached from here; may be repeated.",
)
@click.option(
    "--timeout", type=DURATION, default="15s", show_default=True, help="How long one call to a driver may take."
)
@click.option(
    "--node-monitor-period", type=DURATION, default="5s", show_default=True, help="How often nodes are looked at."
)
@click.option(
    "--node-monitor-grace-period",
    type=DURATION,
    default="50s",
    show_default=True,
    help="How long a node may be silent before it counts as lost.",
)
@click.option(
    "--node-startup-grace-period",
    type=DURATION,
    default="1m0s",
    show_default=True,
    help="The same for a node that has never posted its status.",
)
@click.option(
    "--node-eviction-rate",
    type=click.FloatRange(min=0),
    default=0.1,
    show_default=True,
    help="Lost nodes a second whose pods are turned out, in a zone that is healthy.",
)
@click.option(
    "--secondary-node-eviction-rate",
    type=click.FloatRange(min=0),
    default=0.01,
    show_default=True,
    help="The same in a zone that is not; none where the zone is small.",
)
@click.option(
    "--large-cluster-size-threshold",
    type=click.IntRange(min=0),
    default=50,
    show_default=True,
    help="A zone with more nodes is not small.",
)
@click.option(
    "--unhealthy-zone-threshold",
    type=click.FloatRange(0, 1),
    default=0.55,
    show_default=True,
    help="The part of a zone's nodes, three at least, that makes it unhealthy when they are lost.",
)
@click.option(
    "--terminated-pod-gc-threshold",
    type=int,
    default=12500,
    show_default=True,
    help="Pods that have ended and may stay; 0 keeps all.",
)
@click.option(
    "--pod-gc-quarantine",
    type=DURATION,
    default="40s",
    show_default=True,
    help="How long a node must be missing before its pods are deleted (ours: fixed elsewhere).",
)
@click.option(
    "--pvclaimbinder-sync-period",
    type=DURATION,
    default="15s",
    show_default=True,
    help="How often claims and volumes are looked at when nothing changes.",
)
@click.option(
    "--attach-detach-reconcile-sync-period",
    type=DURATION,
    default="1m0s",
    show_default=True,
    help="How often attachments are compared with what is really attached.",
)
@switch("--disable-attach-detach-reconcile-sync", help="Never compare them on a period.")
@switch(
    "--disable-force-detach-on-timeout",
    help="Leave volumes of a lost node attached until it is declared out of service.",
)
@leader_elect_option(default=False, help="Act only while holding the lease.")
@lease_time_options
@lease_place_options(PROGRAM)
@serving_options(port=10257)
@access_options
@metric_options
@switch("--profiling", default=True, help="Serve /debug/pprof/: stacks, for whoever may read it.")
@feature_gates
@logging_options
def controllers(
    kubeconfig_file: Path | None,
    wanted: str,
    csi_addresses: tuple[str, ...],
    timeout: float,
    node_monitor_period: float,
    node_monitor_grace_period: float,
    node_startup_grace_period: float,
    node_eviction_rate: float,
    secondary_node_eviction_rate: float,
    large_cluster_size_threshold: int,
    unhealthy_zone_threshold: float,
    terminated_pod_gc_threshold: int,
    pod_gc_quarantine: float,
    pvclaimbinder_sync_period: float,
    attach_detach_reconcile_sync_period: float,
    disable_attach_detach_reconcile_sync: bool,
    disable_force_detach_on_timeout: bool,
    profiling: bool,
    gates: Gates,
    logging_format: str,
    verbosity: int,
    **flags: Unpack[ProgramFlags],
) -> None:
    """Bind claims, attach volumes, run workloads, watch over nodes, and clear away what is left over.

    Flags have kube-controller-manager's names and defaults, but for --leader-elect: one copy runs here, and after a
    crash it need not wait for its own lease. Prints "ready" once it follows the cluster; SIGTERM and Ctrl-C stop it.
    """
    from tonnage.behaviour.nodes.node_lifecycle_plan import EvictionRates
    from tonnage.controllers.nodes.node_lifecycle import NodeLifecycleConfiguration
    from tonnage.controllers.registry import ControllerManagerConfiguration, UnknownController, enabled_controllers

    start_logging(logging_format, verbosity)
    checked(flags)
    for warning in gates.warnings:
        say("warning", warning)
    names = tuple(word.strip() for word in wanted.split(",") if word.strip())
    try:
        enabled_controllers(names)
    except UnknownController as exc:
        raise click.BadParameter(f"{exc.message}; {exc.hint}", param_hint="--controllers") from exc
    configuration = ControllerManagerConfiguration(
        node_lifecycle=NodeLifecycleConfiguration(
            node_monitor_period_s=node_monitor_period,
            node_monitor_grace_period_s=node_monitor_grace_period,
            node_startup_grace_period_s=node_startup_grace_period,
            rates=EvictionRates(
                node_eviction_rate=node_eviction_rate,
                secondary_node_eviction_rate=secondary_node_eviction_rate,
                large_cluster_size_threshold=large_cluster_size_threshold,
                unhealthy_zone_threshold=unhealthy_zone_threshold,
            ),
        ),
        terminated_pod_gc_threshold=terminated_pod_gc_threshold,
        pod_gc_quarantine_s=pod_gc_quarantine,
        pvclaimbinder_sync_period_s=pvclaimbinder_sync_period,
        attach_detach_reconcile_sync_period_s=_every(
            disable_attach_detach_reconcile_sync, attach_detach_reconcile_sync_period
        ),
        force_detach_on_timeout=not disable_force_detach_on_timeout,
        gates=gates,
    )
    options = ControllersOptions(kubeconfig_file, names, csi_addresses, _election_of(flags), timeout, profiling, flags)
    asyncio.run(run(configuration, options))


def _every(is_off: bool, period_s: float) -> float:
    return 0.0 if is_off else period_s


def _election_of(flags: ElectionFlags) -> LeaseTimes | None:
    """What leader election is told; None without one. Raises UsageError."""
    if not flags["leader_elect"]:
        return None
    default = LeaseTimes()
    times = LeaseTimes(
        flags["leader_elect_lease_duration"] or default.lease_duration_s,
        flags["leader_elect_renew_deadline"] or default.renew_deadline_s,
        flags["leader_elect_retry_period"] or default.retry_period_s,
        f"{flags['leader_elect_resource_namespace'] or 'kube-system'}/{flags['leader_elect_resource_name'] or PROGRAM}",
    )
    checked_times(
        lease_duration_s=times.lease_duration_s,
        renew_deadline_s=times.renew_deadline_s,
        retry_period_s=times.retry_period_s,
    )
    return times


async def run(configuration: ControllerManagerConfiguration, options: ControllersOptions) -> None:
    """Run until SIGTERM or Ctrl-C, or until the lease is lost."""
    from tonnage.client.clients import Clients, lease_timeout_s
    from tonnage.client.leader import LeaderElector, new_identity
    from tonnage.client.leadership import Leadership
    from tonnage.client.metrics import RestClientMetrics, show_leadership
    from tonnage.controllers.program import ControllerManager
    from tonnage.csi.client import CsiClient
    from tonnage.csi.metrics import sidecar_calls
    from tonnage.metrics import new_registry
    from tonnage.serving import profiling

    clock, rng, registry = SystemClock(), random.Random(secrets.randbits(64)), new_registry()
    identity = new_identity()
    times = options.election or LeaseTimes()
    leadership = Leadership(
        identity, clock=clock, lease_duration_s=times.lease_duration_s, renew_deadline_s=times.renew_deadline_s
    )
    guard = leadership if options.election is not None else None
    async with AsyncExitStack() as stack:
        connection = connection_of(options.kubeconfig)
        clients = await stack.enter_async_context(
            Clients.connect(
                connection,
                clock=clock,
                user_agent=PROGRAM,
                on_request=RestClientMetrics(registry).of(connection.cluster.server),
                guard=guard,
                lease_timeout_s=lease_timeout_s(leadership.renew_deadline_s),
            )
        )
        calls = sidecar_calls(registry)
        drivers = [
            await stack.enter_async_context(
                CsiClient(
                    address,
                    clock=clock,
                    rng=rng,
                    timeout_s=options.timeout_s,
                    on_call=calls,
                    before_change=guard.check if guard is not None else None,
                )
            )
            for address in options.csi_addresses
        ]
        manager = await stack.enter_async_context(
            ControllerManager(
                clients.work,
                replace(configuration, drivers=tuple(drivers), root_ca_pem=connection.cluster.ca_pem),
                clock=clock,
                rng=rng,
                registry=registry,
                controllers=options.controllers,
                identity=identity,
                leadership=guard,
                on_synced=say_ready,
                telling=clients.telling,
            )
        )
        elector = LeaderElector(
            clients.leases, times.lease, identity, leadership=leadership, retry_period_s=times.retry_period_s
        )
        show_leadership(registry, lambda: () if guard is None else (elector,))
        await stack.enter_async_context(
            secure_endpoint(
                options.endpoint,
                connection,
                registry=registry,
                is_healthy=lambda: elector.is_healthy() and manager.is_healthy,
                is_ready=lambda: manager.is_synced,
                pages=profiling.pages(clock) if options.profiling else None,
                clock=clock,
                rng=rng,
                user_agent=PROGRAM,
            )
        )
        await run_until_signalled(elector.run(manager.run) if guard is not None else manager.run())
