"""`tonnage controllers`: what kube-controller-manager does for storage and workloads, until it is told to stop."""

from __future__ import annotations

import asyncio
import random
import secrets
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import click

from tonnage.cli.durations import DURATION
from tonnage.cli.options import feature_gates, logging_options, start_logging
from tonnage.cli.output import echo, say
from tonnage.cli.running import connection_of, kubeconfig_option, run_until_signalled, say_ready
from tonnage.cli.serving import cert_dir_option, own_tls
from tonnage.client.clients import Clients, lease_timeout_s
from tonnage.client.leader import LeaderElector, new_identity
from tonnage.client.leadership import Leadership
from tonnage.clock import SystemClock
from tonnage.controllers.nodes.node_lifecycle import NodeLifecycleConfiguration
from tonnage.controllers.nodes.zones import EvictionRates
from tonnage.controllers.program import PROGRAM, ControllerManager
from tonnage.controllers.registry import ControllerManagerConfiguration, UnknownController, enabled_controllers
from tonnage.csi.client import CsiClient
from tonnage.csi.metrics import sidecar_calls
from tonnage.gates import Gates
from tonnage.health import served
from tonnage.metrics import new_registry

_LEASE = f"kube-system/{PROGRAM}"


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Leader election's, in seconds."""

    lease_duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0


@dataclass(frozen=True, slots=True)
class Options:
    """How the program runs; what the controllers do stands in `ControllerManagerConfiguration`."""

    kubeconfig: Path | None
    controllers: tuple[str, ...]
    csi_addresses: tuple[str, ...]
    election: LeaseTimes | None
    host: str
    port: int
    cert_dir: Path | None
    timeout_s: float


@click.command()
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
@click.option(
    "--disable-attach-detach-reconcile-sync", "no_attach_sync", is_flag=True, help="Never compare them on a period."
)
@click.option(
    "--disable-force-detach-on-timeout",
    "no_force_detach",
    is_flag=True,
    help="Leave volumes of a lost node attached until it is declared out of service.",
)
@click.option("--leader-elect/--no-leader-elect", default=False, help="Act only while holding the lease.")
@click.option(
    "--leader-elect-lease-duration", type=DURATION, default="15s", show_default=True, help="How long it lasts."
)
@click.option(
    "--leader-elect-renew-deadline", type=DURATION, default="10s", show_default=True, help="When a leader gives up."
)
@click.option(
    "--leader-elect-retry-period", type=DURATION, default="2s", show_default=True, help="How often it is tried."
)
@click.option("--bind-address", default="127.0.0.1", show_default=True, help="Where health and metrics are served.")
@cert_dir_option
@click.option("--secure-port", type=click.IntRange(0, 65535), default=10257, show_default=True, help="0 serves none.")
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
    no_attach_sync: bool,
    no_force_detach: bool,
    leader_elect: bool,
    leader_elect_lease_duration: float,
    leader_elect_renew_deadline: float,
    leader_elect_retry_period: float,
    bind_address: str,
    cert_dir: Path | None,
    secure_port: int,
    gates: Gates,
    logging_format: str,
    verbosity: int,
) -> None:
    """Bind claims, attach volumes, run workloads, watch over nodes, and clear away what is left over.

    Flags have kube-controller-manager's names and defaults, but for --leader-elect: one copy runs here, and after a
    crash it need not wait for its own lease. Prints "ready" once it follows the cluster; SIGTERM and Ctrl-C stop it.
    """
    start_logging(logging_format, verbosity)
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
        attach_detach_reconcile_sync_period_s=0.0 if no_attach_sync else attach_detach_reconcile_sync_period,
        force_detach_on_timeout=not no_force_detach,
        gates=gates,
    )
    times = LeaseTimes(leader_elect_lease_duration, leader_elect_renew_deadline, leader_elect_retry_period)
    election = times if leader_elect else None
    options = Options(kubeconfig_file, names, csi_addresses, election, bind_address, secure_port, cert_dir, timeout)
    asyncio.run(run(configuration, options))


async def run(configuration: ControllerManagerConfiguration, options: Options) -> None:
    """Run until SIGTERM or Ctrl-C, or until the lease is lost."""
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
            clients.leases, _LEASE, identity, leadership=leadership, retry_period_s=times.retry_period_s
        )
        if options.port:
            tls = stack.enter_context(own_tls(options.cert_dir, options.host))
            address = await stack.enter_async_context(
                served(
                    host=options.host,
                    port=options.port,
                    tls=tls,
                    registry=registry,
                    is_healthy=lambda: elector.is_healthy() and manager.is_healthy,
                    is_ready=lambda: manager.is_synced,
                )
            )
            echo(f"serving health and metrics at {address}", err=True)
        await run_until_signalled(elector.run(manager.run) if guard is not None else manager.run())
